//! `examples/replicas`: its configuration starts a gateway, and its manifests name paths, metrics and times that exist.

use crate::token_users::{bearer, read};
use ::http::Method;
use std::path::Path;
use std::process::Command;
use toolbooth_testkit::world::{Gateway, Home, binaries};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/replicas").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts between a marker and the next delimiter.
fn after<'a>(text: &'a str, marker: &str) -> Vec<&'a str> {
    text.split(marker).skip(1).filter_map(|rest| rest.split([',', ' ', '\n', '}']).next()).collect()
}

/// The number after a marker.
fn number(text: &str, marker: &str) -> u64 {
    let found = after(text, marker);
    found.first().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {marker} in {text}"))
}

#[tokio::test]
async fn the_example_of_replicas_fits_the_gateway() {
    let home = Home::new(&[]);
    let command = |words: &[&str]| {
        let mut command = Command::new(binaries::toolbooth());
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/replicas/toolbooth.toml");
        command.args(words).arg("--config").arg(config).arg("--data-dir").arg(home.data());
        command.env_clear().current_dir(home.path("")).env("HOME", home.path(""));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // The pod's address, as probes send it.
        command.env("POD_IP", "10.1.2.3");
        command.env("DATABASE_URL", format!("sqlite:{}", home.path("replica.db").display()));
        command
    };
    let checked = command(&["config", "check"]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let words = ["tokens", "create", "--user", "cleo", "--groups", "admin", "--json"];
    let made = read(&command(&words).output().unwrap());
    let mut gateway = Gateway::start(command(&["serve"]), &home.path("gateway.log")).await;
    gateway.headers = bearer(made["token"].as_str().unwrap_or_else(|| panic!("no token in {made}")));
    gateway.connected(&["demo", "records"]).await;

    let deployment = file("kubernetes/deployment.yaml");
    let probes = after(&deployment, "path: ");
    assert_eq!(probes, ["/health", "/health", "/ready"]);
    for path in probes {
        let reply = gateway.http().send(Method::GET, path, &[("host", "10.1.2.3:8665")], "").await;
        assert_eq!(reply.status, 200, "{path}");
    }
    let metrics = gateway.http().send(Method::GET, "/metrics", &[], "").await.bytes().await;
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let scaled = file("kubernetes/autoscaler.yaml");
    let metric = after(&scaled, "metric: { name: ")[0];
    assert!(metrics.contains(&format!("\n{metric} ")), "there is no {metric}");

    // The time to end the servers is ten seconds.
    let drain = number(&file("toolbooth.toml"), "drain_seconds = ");
    assert_eq!(number(&file("kubernetes/config.yaml"), "drain_seconds = "), drain);
    let stop = number(&deployment, "sleep: { seconds: ");
    let grace = number(&deployment, "terminationGracePeriodSeconds: ");
    assert!(grace >= stop + drain + 10, "{grace} s for {stop} s, {drain} s and the servers");
}
