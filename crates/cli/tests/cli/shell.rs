//! Sessions of the shell as transcripts: lines that begin with `> ` are input, all others are output.
//!
//! A test runs the input lines of a transcript and compares the whole output. `UPDATE_EXPECT=1` rewrites transcripts.

use crate::world::{World, words};
use expect_test::{ExpectFile, expect, expect_file};
use regex::Regex;
use std::io::{Read, Write};
use std::process::Stdio;

/// Ids, times and durations replaced by names; the same id has the same name.
pub fn without_chance(text: &str) -> String {
    let rules = [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME"),
        (r"\b\d+ (seconds?|s) ago|\bjust now", "LATELY"),
        (r"\b\d+(\.\d+)? ms\b", "TOOK"),
        (r"p50 [\d.]+, p95 [\d.]+", "p50 TOOK, p95 TOOK"),
    ];
    let me = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
    let mut text = Regex::new(&format!(r"\b{me}\b")).unwrap().replace_all(text, "ME").into_owned();
    for (pattern, name) in rules {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    let ids = Regex::new(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-([0-9a-f]{12})\b|\b([0-9a-f]{12})\b").unwrap();
    let mut seen: Vec<String> = Vec::new();
    ids.replace_all(&text, |found: &regex::Captures<'_>| {
        let end = found.get(1).or(found.get(2)).unwrap().as_str().to_owned();
        let place = seen.iter().position(|known| *known == end).unwrap_or_else(|| {
            seen.push(end);
            seen.len() - 1
        });
        format!("ID-{}", place + 1)
    })
    .into_owned()
}

impl World {
    /// Runs a session from a pipe. Returns the output of both streams in order, and the exit code.
    pub fn session(&self, options: &str, input: &str) -> String {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = self.command(&words(&format!("shell {options}")));
        command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = command.spawn().unwrap();
        // Otherwise this process would keep the pipe open.
        drop(command);
        let mut typed = child.stdin.take().unwrap();
        let _ = typed.write_all(input.as_bytes());
        drop(typed);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(!text.contains('\u{1b}'), "no colour without a terminal: {text}");
        let text = without_chance(&self.short(&text));
        match child.wait().unwrap().code() {
            Some(0) => text,
            code => {
                format!("{text}--- exit {}\n", code.map_or("by a signal".into(), |code| code.to_string()))
            }
        }
    }

    /// Runs the input of a transcript and compares the output.
    fn play(&self, options: &str, transcript: ExpectFile) {
        let text = transcript.data();
        let typed = text.lines().filter_map(|line| line.strip_prefix("> ")).map(|line| format!("{line}\n"));
        let input: String = typed.collect();
        transcript.assert_eq(&self.session(&format!("--echo {options}"), &input));
    }
}

#[test]
fn a_first_session() {
    World::new(&[]).play("", expect_file!["transcripts/first.txt"]);
}

#[test]
fn a_session_with_mistakes() {
    World::with_server().play("--keep-going", expect_file!["transcripts/slips.txt"]);
}

#[test]
fn a_session_in_plan_mode() {
    World::new(&[]).play("", expect_file!["transcripts/plan.txt"]);
}

#[test]
fn a_session_with_a_hostile_server() {
    World::with_server().play("--keep-going", expect_file!["transcripts/hostile.txt"]);
}

#[test]
fn a_session_at_a_running_gateway() {
    let world = World::with_server();
    let _gateway = world.serve();
    world.play("", expect_file!["transcripts/running.txt"]);
}

#[test]
fn a_session_with_json_output() {
    let world = World::with_server();
    world.play("--json --keep-going", expect_file!["transcripts/json.txt"]);
}

#[test]
fn a_held_call_is_approved_by_its_id() {
    let world = World::new(&[(".config/toolbooth/toolbooth.toml", "[approval]\ndefault = \"writes\"\n")]);
    let held = world.run("call identity_create_record title=one");
    let id = String::from_utf8_lossy(&held.stdout).trim().to_owned();
    let input = format!("/approvals\n/approve {id}\n/approve {id}\n");
    expect![[r#"
        > /approvals
        ID            TOOL                    USER  STATE    SINCE    ARGUMENTS
        ID-1  identity_create_record  ME  pending  LATELY  {"title":"one"}
        > /approve ID-1
        Approved identity_create_record: it ran. `toolbooth approvals show ID-1` shows the result.
        > /approve ID-1
        error[call.already-decided]: held call ID-1
          was already approved by ME
        --- exit 1
    "#]]
    .assert_eq(&world.session("--echo", &input));
    let input = "/call identity_create_record title=two\n/call identity_whoami\n";
    expect![[r#"
        > /call identity_create_record title=two
        `identity_create_record` waits for approval as
        ID-1: `identity_create_record` is a write tool.
        It was not run. When it is approved
        (`toolbooth approvals approve ID-1`), it runs;
        `toolbooth approvals show ID-1` shows the
        result.
        ID-1
        > /call identity_whoami
        {"results":{"user":"ME","received":{"username":"ME","_atlas_user":"ME","_mcp_data":{"demo":["demo_echo","demo_flaky","demo_hash","demo_slow","demo_time"],"files":["files_make_report","files_size"],"identity":["identity_create_record","identity_override_attempt","identity_whoami"],"planner":["planner_plan_task"]}}}}
    "#]]
    .assert_eq(&world.session("--echo", input));
}

#[test]
fn the_first_failure_ends_a_script() {
    let world = World::with_server();
    let input = "/call sh_probe n=1\n/call sh_fail\n/call sh_probe n=2\n";
    expect![[r#"
        {"n":1}
        the disk is on fire
        --- exit 1
    "#]]
    .assert_eq(&world.session("", input));
    expect![[r#"
        {"n":1}
        the disk is on fire
        {"n":2}
        --- exit 1
    "#]]
    .assert_eq(&world.session("--keep-going", input));
    assert_eq!(world.session("", "/quit\n/call sh_fail\n"), "");
    assert_eq!(world.session("", "\n# nothing to do\n   \n"), "");
}

#[test]
fn a_script_with_unreadable_input_fails() {
    let world = World::with_server();
    let input = format!("/call sh_probe n=1\n/call sh_probe {}\n/call sh_probe n=2\n", "x".repeat(1 << 20));
    // A line of 1 MiB fails alone and does not end the shell.
    expect![[r#"
        {"n":1}
        error[usage.shell-cut]: the line is longer than 1 MiB and was skipped

        hint: put long arguments into a file: /call TOOL --args @FILE
        --- exit 1
    "#]]
    .assert_eq(&world.session("", &input));
    expect![[r#"
        {"n":1}
        error[usage.shell-cut]: the line is longer than 1 MiB and was skipped

        hint: put long arguments into a file: /call TOOL --args @FILE
        {"n":2}
        --- exit 1
    "#]]
    .assert_eq(&world.session("--keep-going", &input));
    let mut command = world.command(&words("shell"));
    let folder = std::fs::File::open(world.path("work")).unwrap();
    expect![[r#"
        --- on standard error
        error[usage.shell-cut]: standard input cannot be read: Is a directory (os
          error 21)
        --- exit 1
    "#]]
    .assert_eq(&world.shown(&command.stdin(folder).output().unwrap()));
}

#[test]
fn an_unwritable_output_file_fails_before_the_model_is_asked() {
    let llm = "[llm]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"small-1\"\n";
    let world = World::new(&[(".config/toolbooth/toolbooth.toml", llm)]);
    world.check(
        "chat hello -o missing/answer.txt",
        expect![[r#"
            --- on standard error
            error[usage.file]: missing/answer.txt cannot be written: No such file or
              directory (os error 2)
            --- exit 1
        "#]],
    );
    let failed = world.run("chat hello -o answer.txt");
    assert_eq!(failed.status.code(), Some(1));
    assert!(!world.path("work/answer.txt").exists(), "no empty file is left");
}

#[test]
fn tools_are_found_by_what_they_do() {
    let found = World::new(&[]).session("", "/mcp search hash\n");
    assert!(found.contains("demo_hash"), "{found}");
    let found = World::new(&[]).session("", "/mcp search the hash of a text --limit 1 --json\n");
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["hits"][0]["name"], "demo_hash", "{found}");
}

#[test]
fn nothing_is_left_behind() {
    let world = World::with_server();
    world.session("", "/call sh_probe n=1\n/mcp disconnect sh\n/call sh_probe n=1\n");
    world.assert_nothing_runs();
}
