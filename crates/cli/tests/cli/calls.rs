//! Calls from the command line.

use crate::world::{World, json, words};
use expect_test::expect;
use std::io::Write;
use std::process::Stdio;

#[test]
fn arguments_take_the_types_of_the_schema() {
    let world = World::with_server();
    let cases = [
        ("n=7", r#"{"n":7}"#),
        ("n=7 flag=true note=null size=large", r#"{"n":7,"flag":true,"note":"null","size":"large"}"#),
        ("n=12345678901234567890123 ratio=-1.50", r#"{"n":12345678901234567890123,"ratio":-1.50}"#),
        ("n=1 tags=a tags=b", r#"{"n":1,"tags":["a","b"]}"#),
        (r#"n=1 tags=["a","b"] more={"deep":[1]}"#, r#"{"n":1,"tags":["a","b"],"more":{"deep":[1]}}"#),
        (r#"--args '{"ratio": 1.50, "n": 1}'"#, r#"{"ratio": 1.50, "n": 1}"#),
    ];
    for (arguments, expected) in cases {
        let output = world.run(&format!("call sh_probe {arguments}"));
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        assert_eq!(text, expected, "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn undeclared_arguments_cause_a_warning() {
    let world = World::with_server();
    let output = world.run(r#"call sh_probe --args '{"n": 1, "x": "y"}'"#);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"n\": 1}\n");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "warning: argument \"x\" was dropped: the tool does not declare it\n"
    );
    let output = world.run(r#"call sh_probe --args '{"n": 1.50}'"#);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.starts_with("error[call.invalid-arguments]"), "{complaint}");
    assert_eq!(output.status.code(), Some(2), "like arguments that the command itself refuses");
}

#[test]
fn arguments_can_come_from_files_and_pipes() {
    let world = World::with_server();
    world.write("work/args.json", "{\"n\": 3}");
    world.check(
        "call sh_probe --args @args.json",
        expect![[r#"
        {"n": 3}
    "#]],
    );
    let piped = world.run_with("call probe --args -", "{\"n\": 4}");
    expect![[r#"
        {"n": 4}
    "#]]
    .assert_eq(&world.shown(&piped));
}

#[test]
fn a_tool_that_fails_fails_the_command() {
    let world = World::with_server();
    world.check(
        "call sh_fail",
        expect![[r#"
        --- on standard error
        the disk is on fire
        --- exit 1
    "#]],
    );
    world.check(
        "call sh_fail --json",
        expect![[r#"
        {"result": {"content":[{"type":"text","text":"the disk is on fire"}],"isError":true}}
        --- exit 1
    "#]],
    );
}

#[test]
fn a_server_cannot_move_the_cursor() {
    let world = World::with_server();
    world.check(
        "tools list",
        expect![[r#"
            TOOL      QUALITY  TOKENS  DESCRIPTION
            sh_fail        65      17  Fails.
            sh_probe       80     107  Returns what it was given.
        "#]],
    );
    world.check(
        "tools show paint",
        expect![[r#"
            sh_paint  mcp.sh.paint

            In quarantine: hidden characters: U+001B (control) in `/description`, and 2
            more. `toolbooth tools release sh_paint` releases it.

            \u{1b}[2J\u{1b}[31mred\u{202e}

            It takes no arguments.

              side effects  network (write)
              timeout       30 s
              quality       80 of 100
              context       32 tokens
              providers     mcp:sh (priority 0)

              toolbooth call sh_paint
        "#]],
    );
    world.check(
        "tools show probe",
        expect![[r#"
            sh_probe  mcp.sh.probe

            Returns what it was given.

            ARGUMENT  TYPE                   DESCRIPTION
            n         integer      required  A whole number that is explained at such length
                                             that it cannot fit on one line.
            flag      boolean
            tags      string list
            size      small|large
            more      object
            ratio     number
            note      string

              side effects  network (write)
              timeout       30 s
              quality       80 of 100
              context       107 tokens
              providers     mcp:sh (priority 0)

              toolbooth call sh_probe n=…
        "#]],
    );
    world.check(
        "call paint",
        expect![[r#"
            --- on standard error
            error[call.unknown-tool]: Unknown tool: sh_paint

            hint: it is in quarantine (hidden characters: U+001B (control) in
                  `/description`, and 2 more); `toolbooth tools release sh_paint` releases
                  it
            --- exit 1
        "#]],
    );
    // After the release it can be called, and its output is sanitised.
    assert!(world.run("tools release sh_paint").status.success());
    world.check(
        "call paint",
        expect![[r#"
        red
        [image image/png, 6 bytes]
        [link log file:///log]
        [hologram content; --json shows it]
    "#]],
    );
    world.check(
        "servers logs sh",
        expect![[r#"
        up and \x1b[31mrunning
    "#]],
    );
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let world = World::with_server();
    let mut command = world.command(&words("explain"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", world.shown(&output));
    let _ = std::io::stdout().flush();
}

#[test]
fn no_process_outlives_a_command() {
    let world = World::with_server();
    for line in ["servers", "tools list", "call probe n=1", "doctor", "servers connect sh"] {
        assert!(world.run(line).status.success(), "{line}");
        world.assert_nothing_runs();
    }
}

#[test]
fn a_call_is_shown_by_the_end_of_its_id() {
    let world = World::with_server();
    let gateway = world.serve();
    world.run("call sh_probe n=7");
    let listed = json(&world.run("calls list --json"));
    let id = listed["calls"][0]["id"].as_str().expect("an id").to_owned();
    let end = id.rsplit('-').next().expect("a part").to_owned();
    let table = world.screen("calls");
    assert!(table.contains(&end) && !table.contains(&id), "the id fits into the terminal:\n{table}");
    for part in [id.as_str(), end.as_str(), &id[..20]] {
        assert_eq!(json(&world.run(&format!("calls show {part} --json")))["id"], id.as_str(), "{part}");
    }
    world.check(
        "calls show 00ffee00ffee",
        expect![[r#"
            --- on standard error
            error[call.unknown]: there is no record of a call `00ffee00ffee`

            hint: `toolbooth calls list` shows those you may see
            --- exit 1
        "#]],
    );
    assert!(gateway.stop());
}
