//! Files that other users could have written, and files that are not configuration.

use crate::token_users::run;
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, binaries};

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn serve_refuses(home: &Home, code: &str) {
    for words in [["serve", "--listen", "127.0.0.1:0"].as_slice(), &["config", "show"]] {
        let output = run(home, words, None);
        assert_eq!(output.status.code(), Some(2), "{code}: {}", said(&output));
        assert!(said(&output).contains(code), "{code}: {}", said(&output));
    }
}

/// A file that any user may write names commands that run with the gateway's rights.
#[test]
fn configuration_writable_by_others_is_refused() {
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    set_mode(&home.config(), 0o666);
    serve_refuses(&home, "config.world-writable");
    set_mode(&home.config(), 0o644);
    assert!(run(&home, &["config", "show"], None).status.success());

    // A link into a world-writable folder.
    let open = home.path("open");
    std::fs::create_dir(&open).unwrap();
    set_mode(&open, 0o1777);
    let real = open.join("toolbooth.json");
    std::fs::rename(home.config(), &real).unwrap();
    symlink(&real, home.config()).unwrap();
    serve_refuses(&home, "config.loose-folder");
    std::fs::remove_file(home.config()).unwrap();
    std::fs::rename(&real, home.config()).unwrap();

    // Only the superuser can change the owner of a file.
    if std::os::unix::fs::chown(home.config(), Some(12_345), None).is_ok() {
        serve_refuses(&home, "config.foreign-owner");
    }
}

/// The same for files that a configuration names: variables become parts of commands, manifests send data elsewhere.
#[test]
fn files_named_by_a_configuration_are_checked_too() {
    let home = Home::with_settings(json!({ "env_file": "vars.env" }), &[("good", hostile(&["echo"]))]);
    let (variables, manifest) = (home.path("vars.env"), home.path("tools/mine.json"));
    std::fs::create_dir(home.path("tools")).unwrap();
    std::fs::write(&variables, "A=1\n").unwrap();
    std::fs::write(
        &manifest,
        json!({ "name": "good_ok", "description": "Says that all is well." }).to_string(),
    )
    .unwrap();
    assert_eq!(run(&home, &["config", "check"], None).status.code(), Some(0));
    for file in [&variables, &manifest] {
        set_mode(file, 0o666);
        let output = run(&home, &["config", "check"], None);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("config.world-writable"), "{}", said(&output));
        set_mode(file, 0o644);
    }
}

/// `--config /etc/shadow` printed its first line.
#[test]
fn errors_do_not_quote_files_that_are_not_configurations() {
    let home = Home::new(&[]);
    for text in ["root:$6$hunter2:19000:0:99999:7:::\n", "\"hunter2\"\n", "\u{0}hunter2\n"] {
        let shadow = home.path("shadow");
        std::fs::write(&shadow, text).unwrap();
        let link = home.path("link.json");
        symlink(&shadow, &link).unwrap();
        for path in [&shadow, &link] {
            let mut command = Command::new(binaries::toolbooth());
            let command = command.args(["config", "check"]).arg(path).env_clear().env("HOME", home.path(""));
            let output = command.output().unwrap();
            let reply = said(&output);
            assert!(!output.status.success() && reply.contains("1:"), "{reply}");
            assert!(!reply.contains("hunter2") && !reply.contains("root"), "{reply}");
        }
        std::fs::remove_file(&link).unwrap();
    }
}

/// A placeholder was accepted as the proxy's secret.
#[test]
fn weak_proxy_secret_is_refused() {
    for secret in ["changeme", "secret", "short", "changeme-changeme-changeme", "aaaaaaaaaaaaaaaaaaaa"] {
        let settings = json!({ "auth": { "mode": "header", "header": { "secret": secret } } });
        let home = Home::with_settings(settings, &[]);
        let output = run(&home, &["serve", "--listen", "127.0.0.1:0"], None);
        assert_eq!(output.status.code(), Some(2), "{secret}: {}", said(&output));
        assert!(said(&output).contains("config.weak-key"), "{secret}: {}", said(&output));
    }
}

/// `forward_headers` must not forward credentials for this gateway.
#[test]
fn credentials_of_callers_cannot_be_forwarded() {
    for header in ["X-Proxy-Secret", "x-user-email", "Cookie", "Authorization"] {
        let entry = json!({ "url": "http://127.0.0.1:1/mcp", "forward_headers": { header: "X-Copy" } });
        let home = Home::new(&[("nosy", entry)]);
        let output = run(&home, &["config", "check"], None);
        assert_eq!(output.status.code(), Some(1), "{header}: {}", said(&output));
        assert!(said(&output).contains("config.bad-header"), "{header}: {}", said(&output));
    }
}

/// A trusted `cwd` that is a link could later point to another folder.
#[tokio::test]
async fn trusted_folder_with_a_changed_link_needs_trust_again() {
    let home = Home::new(&[]);
    let project = home.path("project");
    for folder in ["inside", "outside"] {
        std::fs::create_dir_all(project.join(folder)).unwrap();
    }
    symlink(project.join("inside"), project.join("work")).unwrap();
    let entry = json!({ "command": binaries::hostile(), "args": ["echo"], "cwd": "work" });
    std::fs::write(project.join(".mcp.json"), json!({ "mcpServers": { "p": entry } }).to_string()).unwrap();
    let command = |words: &[&str]| {
        let mut command = Command::new(binaries::toolbooth());
        command.args(words).arg("--data-dir").arg(home.data());
        command.env_clear().current_dir(&project).env("HOME", home.path(""));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    };
    assert!(command(&["trust", "--yes"]).output().unwrap().status.success());
    let gateway = Gateway::start(command(&["serve"]), &home.path("gateway.log")).await;
    gateway.connected(&["p"]).await;
    drop(gateway);
    std::fs::remove_file(project.join("work")).unwrap();
    symlink(project.join("outside"), project.join("work")).unwrap();
    let gateway = Gateway::start(command(&["serve"]), &home.path("gateway.log")).await;
    gateway.wait_for_state("p", "needs_trust").await;
}
