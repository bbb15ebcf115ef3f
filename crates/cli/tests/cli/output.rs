//! A command that cannot write its output fails.

use crate::world::{World, words};
use std::fs::OpenOptions;

// audit: output to a full device exits 0.
#[test]
fn output_to_a_full_device_is_a_failure() {
    let world = World::with_server();
    for line in [
        "tools list",
        "tools list --json",
        "call sh_probe n=1",
        "servers",
        "config check",
        "explain call.timeout",
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = world.command(&words(line)).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("error[output.failed]"), "{line}: {said}");
    }
    // A closed pipe is not an error.
    let mut command = std::process::Command::new("sh");
    let tool = world.command(&words("tools list"));
    command.args(["-c", "\"$0\" tools list | true"]).arg(tool.get_program());
    command
        .current_dir(world.path("work"))
        .env_clear()
        .env("HOME", world.path(""))
        .env("PATH", "/usr/bin:/bin");
    let output = command.output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("output.failed"));
}
