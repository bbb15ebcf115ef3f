//! `toolbooth secrets`: stored secrets, the key that seals them, and the servers that get them.

use crate::world::{World, json, mode, words};
use expect_test::expect;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SECRET: &str = "hunter2-and-more";
const SECRETS: &str = ".config/toolbooth/secrets.env";
const KEY: &str = ".local/share/toolbooth/secrets.key";
const RECORD: &str = ".local/share/toolbooth/secrets.key.json";

/// A home with the server `keyed`, which writes the value of its variable `SH_TOKEN` into the file `seen`.
fn home() -> World {
    let world = World::new(&[]);
    let script = format!("printf %s \"$SH_TOKEN\" > {}; exec /bin/sh SERVER", world.path("seen").display());
    let entry = serde_json::json!({ "mcpServers": {
        "keyed": { "command": "/bin/sh", "args": ["-c", script], "env": { "SH_TOKEN": "${SH_TOKEN}" } },
        "plain": { "command": "/bin/sh", "args": ["SERVER"] },
    }});
    world.write(".config/toolbooth/mcp.json", &entry.to_string());
    world
}

fn set(world: &World, name: &str, value: &str) -> Output {
    let output = world.run_with(&format!("secrets set {name}"), value);
    assert_not_shown(&output);
    output
}

fn assert_not_shown(output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(text);
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// The state of a server, by a command that starts it.
fn state_of(world: &World, server: &str) -> String {
    let output = world.run("servers --json");
    assert_not_shown(&output);
    let servers = json(&output);
    let servers = servers["servers"].as_array().unwrap();
    let server = servers.iter().find(|one| one["name"] == server).unwrap();
    server["state"].as_str().unwrap().to_owned()
}

/// The code of a failed command.
fn code_of(world: &World, line: &str, input: &str) -> String {
    let output = world.run_with(&format!("{line} --json"), input);
    assert!(!output.status.success());
    assert_not_shown(&output);
    json(&output)["error"]["code"].as_str().unwrap().to_owned()
}

/// The files below a folder that contain the secret in plain text.
fn files_with_secret(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files_with_secret(&path, found);
        } else if fs::read(&path).unwrap_or_default().windows(7).any(|part| part == b"hunter2") {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_secret_is_stored_sealed_and_its_server_gets_it() {
    let world = home();
    world.check(
        "secrets",
        expect![[r#"
            No secrets are stored. `toolbooth secrets set NAME` stores one.
        "#]],
    );
    assert_eq!(state_of(&world, "keyed"), "config_error");
    expect![[r#"
        Stored SH_TOKEN in ~/.config/toolbooth/secrets.env.
        Used by keyed.
        --- on standard error
        note: the key of your stored secrets is in ~/.local/share/toolbooth/secrets.key:
              no keyring was found
    "#]]
    .assert_eq(&world.shown(&set(&world, "SH_TOKEN", &format!("{SECRET}\n"))));
    let first = world.read(SECRETS);
    assert!(first.starts_with("SH_TOKEN=sealed:v1:"), "{first}");
    for file in [SECRETS, KEY, RECORD] {
        assert_eq!(mode(&world.path(file)), 0o600, "{file}");
    }
    expect![[r#"
        Stored SH_TOKEN in ~/.config/toolbooth/secrets.env.
        Used by keyed.
    "#]]
    .assert_eq(&world.shown(&set(&world, "SH_TOKEN", SECRET)));
    assert_ne!(world.read(SECRETS), first, "each sealed value has a nonce of its own");
    world.write(SECRETS, &format!("{}# by hand\nOTHER=x\n", world.read(SECRETS)));
    world.check(
        "secrets list",
        expect![[r#"
            NAME      STATE   SERVERS  FILE
            OTHER     plain            ~/.config/toolbooth/secrets.env
            SH_TOKEN  sealed  keyed    ~/.config/toolbooth/secrets.env

            Their key is in ~/.local/share/toolbooth/secrets.key.
        "#]],
    );
    let listed = json(&world.run("secrets --json"));
    assert_eq!(listed["key"]["place"], "file");
    assert_eq!(listed["secrets"][1]["servers"], serde_json::json!(["keyed"]));
    assert_eq!(state_of(&world, "keyed"), "connected");
    assert_eq!(world.read("seen"), SECRET);
    let mut found = Vec::new();
    files_with_secret(&world.path(""), &mut found);
    assert_eq!(found, ["seen"], "only the server has written it");
    world.check(
        "secrets remove SH_TOKEN",
        expect![[r#"
            Removed SH_TOKEN from ~/.config/toolbooth/secrets.env.
            Still used by keyed.
        "#]],
    );
    assert_eq!(world.read(SECRETS), "# by hand\nOTHER=x\n");
    world.check(
        "secrets remove OTHR",
        expect![[r#"
            --- on standard error
            error[secret.unknown]: the secret `OTHR` is not stored

            hint: did you mean `OTHER`?
            --- exit 1
        "#]],
    );
    assert_eq!(state_of(&world, "keyed"), "config_error");
}

#[test]
fn only_names_of_variables_and_usable_values_are_stored() {
    let world = home();
    let long = "x".repeat((64 << 10) + 1);
    let cases = [
        ("2FA", "x", "usage.secret-name"),
        ("A-B", "x", "usage.secret-name"),
        ("SH_TOKEN=hunter2", "x", "usage.secret-name"),
        ("SH_TOKEN", "", "usage.no-secret"),
        ("SH_TOKEN", "\n", "usage.no-secret"),
        ("SH_TOKEN", "a\0b", "secret.bad-value"),
        ("SH_TOKEN", &long, "secret.bad-value"),
    ];
    for (name, value, code) in cases {
        assert_eq!(code_of(&world, &format!("secrets set {name}"), value), code, "{name} {}", value.len());
    }
    assert!(!world.path(SECRETS).exists() && !world.path(KEY).exists());
    let several = "-----BEGIN KEY-----\n\"quoted\" $x # \\ \t\n-----END KEY-----";
    assert!(set(&world, "SH_TOKEN", &format!("{several}\n")).status.success());
    assert_eq!(state_of(&world, "keyed"), "connected");
    assert_eq!(world.read("seen"), several);
}

#[test]
fn a_sealed_value_opens_only_under_its_name_and_with_its_key() {
    let world = home();
    set(&world, "OTHER", SECRET);
    let sealed = world.read(SECRETS);
    world.write(SECRETS, &sealed.replace("OTHER=", "SH_TOKEN="));
    assert_eq!(state_of(&world, "keyed"), "config_error");
    assert_eq!(state_of(&world, "plain"), "connected", "other servers are not affected");
    let check = world.screen("config check");
    assert!(
        check.contains("error[secret.unopened]: the sealed value of `SH_TOKEN` could not be opened"),
        "{check}"
    );
    assert!(
        world.screen("secrets").contains("SH_TOKEN  cannot be opened  keyed"),
        "{}",
        world.screen("secrets")
    );
    // A lower file does not replace it.
    world.write(".config/toolbooth/imported.json", "{\"servers\": {}}");
    world.write(".config/toolbooth/imported.env", "SH_TOKEN=old\n");
    assert_eq!(state_of(&world, "keyed"), "config_error");
    assert!(!world.path("seen").exists());

    // Another key.
    world.write(SECRETS, &sealed);
    world.write(KEY, &format!("toolbooth secrets key 1\n{}\n", "ab".repeat(32)));
    assert_eq!(code_of(&world, "secrets set SH_TOKEN", SECRET), "secret.other-key");
    // Without the record, the key is used, and does not open the value.
    fs::remove_file(world.path(RECORD)).unwrap();
    assert!(world.screen("config check").contains("error[secret.unopened]"));
    // A file that others may read.
    fs::set_permissions(world.path(KEY), PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(code_of(&world, "secrets set SH_TOKEN", SECRET), "secret.key-file");
}

#[test]
fn a_lost_key_is_not_replaced() {
    let world = home();
    set(&world, "SH_TOKEN", SECRET);
    let key = world.read(KEY);
    fs::remove_file(world.path(KEY)).unwrap();
    assert_eq!(code_of(&world, "secrets set SH_TOKEN", SECRET), "secret.key-lost");
    assert_eq!(code_of(&world, "secrets move --to file", ""), "secret.key-lost");
    assert_eq!(state_of(&world, "keyed"), "config_error");
    assert!(world.screen("config check").contains("error[secret.key-lost]"));
    fs::remove_file(world.path(RECORD)).unwrap();
    assert_eq!(code_of(&world, "secrets set SH_TOKEN", SECRET), "secret.no-key");
    assert!(!world.path(KEY).exists());
    // The way that the hint names.
    assert!(world.run("secrets remove SH_TOKEN").status.success());
    assert!(set(&world, "SH_TOKEN", SECRET).status.success());
    assert_ne!(world.read(KEY), key);
    assert_eq!(state_of(&world, "keyed"), "connected");
}

#[test]
fn commands_at_the_same_time_make_one_key_and_keep_each_others_secrets() {
    let world = home();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let world = &world;
            scope.spawn(move || assert!(set(world, &format!("S{number}"), SECRET).status.success()));
        }
    });
    let listed = json(&world.run("secrets --json"));
    let secrets = listed["secrets"].as_array().unwrap();
    assert_eq!(secrets.len(), 8, "{listed}");
    assert!(secrets.iter().all(|secret| secret["unopened"] == false), "{listed}");
}

#[test]
fn the_environment_wins_over_a_stored_secret() {
    let world = home();
    let mut command = world.command(&words("secrets set SH_TOKEN"));
    let file = world.path("value");
    fs::write(&file, SECRET).unwrap();
    command.env("SH_TOKEN", "other").stdin(fs::File::open(&file).unwrap());
    let output = command.output().unwrap();
    assert_not_shown(&output);
    let shown = world.shown(&output);
    assert!(shown.contains("warning: this value is not used: `SH_TOKEN` has another value"), "{shown}");
    let servers = world.command(&words("servers")).env("SH_TOKEN", "other").output().unwrap();
    assert!(servers.status.success());
    assert_eq!(world.read("seen"), "other");
}

#[test]
fn imported_secrets_are_sealed_and_reach_the_server() {
    let world = World::new(&[]);
    let script = format!("printf %s \"$SH_TOKEN\" > {}; exec /bin/sh SERVER", world.path("seen").display());
    let entry = serde_json::json!({ "mcpServers": {
        "keyed": { "command": "/bin/sh", "args": ["-c", script], "env": { "SH_TOKEN": SECRET } },
    }});
    world.write(".cursor/mcp.json", &entry.to_string());
    let imported = world.run("config import cursor --apply");
    assert!(imported.status.success(), "{}", world.shown(&imported));
    assert_not_shown(&imported);
    let text = world.read(".config/toolbooth/imported.env");
    assert!(text.starts_with("SH_TOKEN=sealed:v1:") && !text.contains("hunter2"), "{text}");
    assert_eq!(state_of(&world, "keyed"), "connected");
    assert_eq!(world.read("seen"), SECRET);
    // A stored secret of the same name wins; removing it removes both.
    set(&world, "SH_TOKEN", "newer");
    assert_eq!(state_of(&world, "keyed"), "connected");
    assert_eq!(world.read("seen"), "newer");
    let removed = world.screen("secrets remove SH_TOKEN");
    assert!(removed.contains("secrets.env and ~/.config/toolbooth/imported.env"), "{removed}");
    assert_eq!(state_of(&world, "keyed"), "config_error");
}

#[test]
fn a_running_gateway_uses_a_new_secret_at_once_and_does_not_log_it() {
    let world = home();
    assert!(world.run("start").status.success());
    let state = || state_of(&world, "keyed");
    assert_eq!(state(), "config_error");
    set(&world, "SH_TOKEN", SECRET);
    wait_until("the server starts with the secret", || state() == "connected");
    assert_eq!(world.read("seen"), SECRET);
    set(&world, "SH_TOKEN", "hunter2-newer");
    wait_until("the server restarts with the new secret", || world.read("seen") == "hunter2-newer");
    assert!(world.run("secrets remove SH_TOKEN").status.success());
    wait_until("the server has no secret", || state() == "config_error");
    assert!(world.run("stop").status.success());
    world.assert_nothing_runs();
    let mut found = Vec::new();
    files_with_secret(&world.path(""), &mut found);
    assert_eq!(found, ["seen"]);
}

#[test]
fn nothing_is_stored_that_could_be_lost_or_not_read_again() {
    let world = home();
    set(&world, "SH_TOKEN", SECRET);
    let before = world.read(SECRETS);
    // Another program changes the files.
    let folder = fs::File::open(world.path(".config/toolbooth")).unwrap();
    folder.lock().unwrap();
    assert_eq!(code_of(&world, "secrets set OTHER", SECRET), "secret.busy");
    assert_eq!(code_of(&world, "secrets remove SH_TOKEN", ""), "secret.busy");
    drop(folder);
    assert_eq!(world.read(SECRETS), before);
    // A file that is full, read-only, a link to nothing, or a pipe.
    world.write(SECRETS, &format!("{before}#{}\n", "x".repeat((4 << 20) - before.len() - 20)));
    assert_eq!(code_of(&world, "secrets set OTHER", SECRET), "secret.file");
    assert_eq!(state_of(&world, "keyed"), "connected");
    fs::set_permissions(world.path(SECRETS), PermissionsExt::from_mode(0o400)).unwrap();
    assert_eq!(code_of(&world, "secrets remove SH_TOKEN", ""), "secret.file");
    fs::remove_file(world.path(SECRETS)).unwrap();
    std::os::unix::fs::symlink(world.path("nowhere"), world.path(SECRETS)).unwrap();
    assert_eq!(code_of(&world, "secrets set OTHER", SECRET), "secret.file");
    for file in [SECRETS, KEY, RECORD] {
        let _ = fs::remove_file(world.path(file));
        assert!(Command::new("mkfifo").arg(world.path(file)).status().unwrap().success());
        let code = code_of(&world, "secrets set OTHER", SECRET);
        assert!(["secret.file", "secret.key-file"].contains(&code.as_str()), "{file}: {code}");
        world.screen("config check");
    }
}

#[test]
fn a_stored_value_that_is_not_used_is_reported_with_the_reason() {
    let world = home();
    set(&world, "OTHER", SECRET);
    fs::set_permissions(world.path(SECRETS), PermissionsExt::from_mode(0o666)).unwrap();
    let shown = world.short(&world.shown(&set(&world, "SH_TOKEN", SECRET)));
    assert!(shown.contains("this value is not used: this configuration file is world-writable"), "{shown}");
    fs::set_permissions(world.path(SECRETS), PermissionsExt::from_mode(0o600)).unwrap();
    world.write(".config/toolbooth/toolbooth.toml", "[llm]\napi_key = \"${LLM_KEY}\"\n");
    let shown = world.shown(&set(&world, "LLM_KEY", SECRET));
    assert!(shown.contains("Used by the settings."), "{shown}");
}

#[test]
fn a_new_key_is_not_made_while_a_file_of_the_settings_has_sealed_values() {
    let world = home();
    world.write("work/mine.env", "OTHER=sealed:v1:abcd\n");
    world.write(
        ".config/toolbooth/toolbooth.toml",
        &format!("env_file = {:?}\n", world.path("work/mine.env")),
    );
    assert_eq!(code_of(&world, "secrets set SH_TOKEN", SECRET), "secret.no-key");
    assert!(!world.path(KEY).exists() && !world.path(SECRETS).exists());
}

#[test]
fn messages_show_a_variable_and_not_its_value() {
    let world = home();
    set(&world, "SH_TOKEN", SECRET);
    let server = serde_json::json!({ "mcpServers": { "odd": { "command": "x", "type": "${SH_TOKEN}" } } });
    world.write(".config/toolbooth/mcp.json", &server.to_string());
    let check = world.run("config check");
    assert_not_shown(&check);
    let shown = world.shown(&check);
    assert!(shown.contains("`${SH_TOKEN}` is not a valid value"), "{shown}");
}

#[test]
fn a_repaired_key_is_used_at_once() {
    let world = home();
    set(&world, "SH_TOKEN", SECRET);
    fs::set_permissions(world.path(KEY), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(world.run("start").status.success());
    assert_eq!(state_of(&world, "keyed"), "config_error");
    fs::set_permissions(world.path(KEY), PermissionsExt::from_mode(0o600)).unwrap();
    assert!(world.run("reload").status.success());
    wait_until("the server starts with the secret", || state_of(&world, "keyed") == "connected");
    assert!(world.run("stop").status.success());
}

/// Whether the programs of a keyring are installed. In CI they must be.
fn has_keyring() -> bool {
    let programs = ["dbus-run-session", "gnome-keyring-daemon", "secret-tool"];
    let missing: Vec<&str> =
        programs.into_iter().filter(|program| !Path::new("/usr/bin").join(program).exists()).collect();
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(missing.is_empty() || !in_ci, "install {missing:?}; `cargo xtask setup` does so");
    if !missing.is_empty() {
        println!("notice: the keyring is not tested, because {missing:?} are not installed");
    }
    missing.is_empty()
}

/// Runs a script in a session whose keyring is unlocked. The keyring is stored in the home.
fn in_session(world: &World, script: &str) -> Output {
    let unlock = "printf password | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1";
    in_locked_session(world, &format!("{unlock}\n{script}"))
}

/// Runs a script in a session. `toolbooth` is the program, and `secret-tool` records its arguments.
fn in_locked_session(world: &World, script: &str) -> Output {
    world.write(
        "bin/secret-tool",
        &format!(
            "#!/bin/sh\necho \"$@\" >> {}\nexec /usr/bin/secret-tool \"$@\"\n",
            world.path("arguments").display()
        ),
    );
    fs::set_permissions(world.path("bin/secret-tool"), PermissionsExt::from_mode(0o755)).unwrap();
    let runtime = world.path("run");
    fs::create_dir_all(&runtime).unwrap();
    fs::set_permissions(&runtime, PermissionsExt::from_mode(0o700)).unwrap();
    let script = format!("toolbooth() {{ {} \"$@\"; }}\n{script}", env!("CARGO_BIN_EXE_toolbooth"));
    let mut command = Command::new("/usr/bin/dbus-run-session");
    command.args(["--", "/bin/sh", "-c", &script]).current_dir(world.path("work")).env_clear();
    command.env("HOME", world.path("")).env("XDG_RUNTIME_DIR", runtime).env("LANG", "C.UTF-8");
    command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
    command.env("TOOLBOOTH_LISTEN", "127.0.0.1:0").env("COLUMNS", "80");
    output_of_session(world, command)
}

/// The output of a session, whose processes end with it. A keyring that the bus has started may go on after its bus: it
/// would keep a pipe open, so the output goes to files.
fn output_of_session(world: &World, mut session: Command) -> Output {
    let (stdout, stderr) = (world.path("session.out"), world.path("session.err"));
    session.stdin(Stdio::null()).process_group(0);
    session.stdout(fs::File::create(&stdout).unwrap()).stderr(fs::File::create(&stderr).unwrap());
    let mut session = session.spawn().unwrap();
    let group = Pid::from_raw(session.id().cast_signed());
    let started = Instant::now();
    let status = loop {
        match session.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if started.elapsed() > Duration::from_secs(120) => break None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let _ = killpg(group, Signal::SIGKILL);
    let (stdout, stderr) = (fs::read(stdout).unwrap(), fs::read(stderr).unwrap());
    let Some(status) = status else {
        panic!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))
    };
    Output { status, stdout, stderr }
}

/// The output of a script, which must not contain the secret.
fn text_of(output: &Output) -> String {
    assert_not_shown(output);
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// How many keys the keyring has.
fn keys_in_keyring(world: &World) -> usize {
    let items = in_session(world, "/usr/bin/secret-tool search --all application toolbooth 2>&1");
    String::from_utf8_lossy(&items.stdout).matches("label = Toolbooth").count()
}

/// A home with a stored secret, whose key is in the keyring.
fn home_with_keyring() -> World {
    let world = home();
    world.write("value", SECRET);
    let stored =
        text_of(&in_session(&world, "toolbooth secrets set SH_TOKEN < ../value && toolbooth secrets"));
    assert!(stored.contains("note: the key of your stored secrets is in the keyring"), "{stored}");
    assert!(stored.contains("Their key is in the keyring."), "{stored}");
    assert!(!world.path(KEY).exists());
    assert_eq!(keys_in_keyring(&world), 1);
    world
}

#[test]
fn the_key_in_the_keyring_is_used_only_where_the_keyring_answers() {
    if !has_keyring() {
        return;
    }
    let world = home_with_keyring();
    let servers = in_session(&world, "toolbooth servers");
    assert_eq!(world.read("seen"), SECRET, "{}", text_of(&servers));
    // Without the session nothing is opened, and no other key is made.
    fs::remove_file(world.path("seen")).unwrap();
    assert_eq!(state_of(&world, "keyed"), "config_error");
    assert!(world.screen("config check").contains("error[secret.keyring]"));
    assert_eq!(code_of(&world, "secrets set OTHER", SECRET), "secret.keyring");
    assert_eq!(code_of(&world, "secrets move --to file", ""), "secret.keyring");
    let locked = text_of(&in_locked_session(&world, "toolbooth config check"));
    assert!(locked.contains("error[secret.keyring]") && locked.contains("it is locked"), "{locked}");
    let lost = "/usr/bin/secret-tool clear application toolbooth; toolbooth config check; \
                toolbooth secrets set SH_TOKEN < ../value";
    let lost = text_of(&in_session(&world, lost));
    assert_eq!(lost.matches("error[secret.key-lost]").count(), 2, "{lost}");
    assert!(!world.path(KEY).exists() && !world.path("seen").exists());
}

#[test]
fn the_key_moves_from_the_keyring_to_a_file_and_back() {
    if !has_keyring() {
        return;
    }
    let world = home_with_keyring();
    let moved = "toolbooth secrets move --to file; toolbooth secrets move --to file";
    let moved = world.short(&text_of(&in_session(&world, moved)));
    assert!(moved.contains("The key was moved to ~/.local/share/toolbooth/secrets.key."), "{moved}");
    assert!(moved.contains("The key is already in ~/.local/share/toolbooth/secrets.key."), "{moved}");
    assert_eq!(mode(&world.path(KEY)), 0o600);
    assert_eq!(keys_in_keyring(&world), 0);
    assert_eq!(state_of(&world, "keyed"), "connected");
    assert_eq!(code_of(&world, "secrets move --to keyring", ""), "secret.keyring");
    assert_eq!(state_of(&world, "keyed"), "connected", "the key is still in the file");

    let key = world.read(KEY);
    let moved = text_of(&in_session(&world, "toolbooth secrets move --to keyring"));
    assert!(moved.contains("The key was moved to the keyring."), "{moved}");
    assert!(!world.path(KEY).exists());
    assert_eq!(keys_in_keyring(&world), 1);
    // A move that was interrupted before it removed the file.
    world.write(KEY, &key);
    fs::set_permissions(world.path(KEY), PermissionsExt::from_mode(0o600)).unwrap();
    text_of(&in_session(&world, "toolbooth secrets move --to keyring"));
    assert!(!world.path(KEY).exists());
    fs::remove_file(world.path("seen")).unwrap();
    in_session(&world, "toolbooth servers");
    assert_eq!(world.read("seen"), SECRET);

    let arguments = world.read("arguments");
    assert!(arguments.contains("store --label"), "{arguments}");
    let hex = key.lines().nth(1).unwrap();
    assert!(!arguments.contains(hex) && !arguments.contains("hunter2"), "{arguments}");
}
