//! Errors name the problem, its place and the fix.

use crate::world::World;
use expect_test::expect;

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let world = World::with_server();
    world.check(
        "tools show sh_prob",
        expect![[r#"
        --- on standard error
        error[tool.unknown]: there is no tool `sh_prob`

        hint: did you mean `sh_probe`?
        --- exit 1
    "#]],
    );
    world.check(
        "tools show prob",
        expect![[r#"
        --- on standard error
        error[tool.unknown]: there is no tool `prob`

        hint: did you mean `sh_probe`?
        --- exit 1
    "#]],
    );
    world.check(
        "tools show nothing_like_it",
        expect![[r#"
        --- on standard error
        error[tool.unknown]: there is no tool `nothing_like_it`

        hint: `toolbooth tools list` shows the tools you may use
        --- exit 1
    "#]],
    );
    // Words of the REST API are not tools.
    for word in ["search", "lint"] {
        let output = world.run(&format!("call {word}"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("error[tool.unknown]: there is no tool `{word}`");
        assert!(text.starts_with(&expected) && output.status.code() == Some(1), "{text}");
    }
    world.check(
        "tools list --server hs",
        expect![[r#"
        --- on standard error
        error[server.unknown]: there is no server `hs`

        hint: did you mean `sh`?
        --- exit 1
    "#]],
    );
    world.check(
        "tools list --q nothing_like_it",
        expect![[r#"
        No tool matches.
    "#]],
    );
    world.check(
        "servers show shh",
        expect![[r#"
        --- on standard error
        error[server.unknown]: there is no server `shh`

        hint: did you mean `sh`?
        --- exit 1
    "#]],
    );
    world.check(
        "servers logs other",
        expect![[r#"
        --- on standard error
        error[server.unknown]: there is no server `other`

        hint: known: sh
        --- exit 1
    "#]],
    );
    world.check(
        "servers restart sh",
        expect![[r#"
        --- on standard error
        error[gateway.not-running]: no gateway is running here

        hint: `toolbooth start` starts one; --url names a remote one
        --- exit 5
    "#]],
    );
    world.check(
        "console",
        expect![[r#"
        --- on standard error
        error[gateway.not-running]: no gateway is running here

        hint: `toolbooth start` starts one; --url names a remote one
        --- exit 5
    "#]],
    );
    world.check(
        "reload",
        expect![[r#"
        --- on standard error
        error[gateway.not-running]: no gateway is running here

        hint: `toolbooth start` starts one; --url names a remote one
        --- exit 5
    "#]],
    );
    world.check(
        "call sh_probe m=1",
        expect![[r#"
        --- on standard error
        error[usage.argument]: `sh_probe` takes no argument `m`

        hint: did you mean `n`?
        --- exit 2
    "#]],
    );
    world.check(
        "call sh_probe n=many",
        expect![[r#"
            --- on standard error
            error[usage.argument]: `n` of `sh_probe` must be a whole number, not `many`

            hint: `toolbooth tools show sh_probe` lists the arguments
            --- exit 2
        "#]],
    );
    world.check(
        "call sh_probe size=huge",
        expect![[r#"
            --- on standard error
            error[usage.argument]: `size` of `sh_probe` must be one of small|large, not
              `huge`

            hint: `toolbooth tools show sh_probe` lists the arguments
            --- exit 2
        "#]],
    );
    world.check(
        "call sh_probe n=1 n=2",
        expect![[r#"
        --- on standard error
        error[usage.argument]: `n` is given twice
        --- exit 2
    "#]],
    );
    world.check(
        "call sh_probe n",
        expect![[r#"
        --- on standard error
        error[usage.argument]: `n` is not KEY=VALUE

        hint: arguments are written as name=value, or together as --args '{…}'
        --- exit 2
    "#]],
    );
    world.check(
        "call sh_probe --args '{\"n\": 1,, \"tags\": []}'",
        expect![[r#"
        --- on standard error
        error[usage.args]: --args is not valid JSON: key must be a string
         --> --args:1:9
          |
        1 | {"n": 1,, "tags": []}
          |         ^
        hint: put the object into '…', so that the shell keeps the quotes
        --- exit 2
    "#]],
    );
    world.check(
        "call sh_probe --args '[1, 2]'",
        expect![[r#"
            --- on standard error
            error[usage.args]: the arguments must be a JSON object, but --args is a list

            hint: for example --args '{"text": "hello"}'
            --- exit 2
        "#]],
    );
    world.check(
        "call sh_probe --args @gone.json",
        expect![[r#"
        --- on standard error
        error[usage.args]: `gone.json` cannot be read: it does not exist
        --- exit 2
    "#]],
    );
    world.check(
        "call sh_probe n=1 --args {}",
        expect![[r#"
        --- on standard error
        error: the argument '[KEY=VALUE]...' cannot be used with '--args <JSON|@FILE|->'

        Usage: toolbooth call <TOOL> <KEY=VALUE>...

        For more information, try '--help'.
        --- exit 2
    "#]],
    );
    world.check(
        "explain nope",
        expect![[r#"
        --- on standard error
        error[usage.code]: there is no fault code `nope`

        hint: `toolbooth explain` lists all
        --- exit 2
    "#]],
    );
    world.check(
        "explain server.comand-not-found",
        expect![[r#"
        --- on standard error
        error[usage.code]: there is no fault code `server.comand-not-found`

        hint: did you mean `server.command-not-found`?
        --- exit 2
    "#]],
    );
    world.check(
        "config explain exposure.mod",
        expect![[r#"
        --- on standard error
        error[config.unknown-key]: `exposure.mod`: there is no such setting

        hint: did you mean `exposure.mode`?
        --- exit 2
    "#]],
    );
    world.check(
        "config explain servers.hs.command",
        expect![[r#"
            --- on standard error
            error[config.unknown-key]: `servers.hs.command`: there is no server with that
              name

            hint: did you mean `sh`?
            --- exit 2
        "#]],
    );
    world.check(
        "config import gone.json",
        expect![[r#"
        --- on standard error
        error[config.no-file]: the file does not exist
         --> ~/work/gone.json
        --- exit 1
    "#]],
    );
    world.check(
        "config import cursor --apply",
        expect![[r#"
            --- on standard error
            error[import.nothing-found]: no configuration file of cursor was found

            hint: looked for `~/.cursor/mcp.json`, `~/work/.cursor/mcp.json`; specify a file
                  instead
            --- exit 1
        "#]],
    );
    world.check(
        "config import --undo",
        expect![[r#"
        --- on standard error
        error[import.nothing-to-undo]: there is no import to undo
        --- exit 1
    "#]],
    );
    world.check(
        "trust nowhere",
        expect![[r#"
        --- on standard error
        error[trust.no-path]: `~/work/nowhere` does not exist

        hint: name a project folder or one of its files
        --- exit 2
    "#]],
    );
    world.check(
        "connect emacs",
        expect![[r#"
        --- on standard error
        error: invalid value 'emacs' for '<CLIENT>'
          [possible values: claude-desktop, claude-code, cursor, vscode, codex, gemini, windsurf, zed, opencode, cline, roo, copilot, continue, goose, lm-studio, amazon-q, kiro, warp, jetbrains, qwen]

        For more information, try '--help'.
        --- exit 2
    "#]],
    );
    world.check(
        "serve --set listen",
        expect![[r#"
        --- on standard error
        error[usage.set]: `--set listen` is not KEY=VALUE

        hint: for example --set naming.style=tool
        --- exit 2
    "#]],
    );
    world.check("serve --listen everywhere", expect![[r#"
        --- on standard error
        error[config.wrong-value]: `listen`: expected an address such as `127.0.0.1:PORT`, `localhost:8665`, or a port
         --> `listen` on the command line
        --- exit 2
    "#]]);
    world.check(
        "servers --config gone.json",
        expect![[r#"
        --- on standard error
        error[config.no-file]: the configuration file does not exist
         --> ~/work/gone.json
        --- exit 2
    "#]],
    );
    world.check(
        "servers --url http://127.0.0.1:1",
        expect![[r#"
        --- on standard error
        error[gateway.unreachable]: the gateway at http://127.0.0.1:PORT cannot be
          reached: connection refused

        hint: check that it is running; without --url and TOOLBOOTH_URL the local one is
              used
        --- exit 5
    "#]],
    );
    world.check(
        "servers --url nonsense://",
        expect![[r#"
        --- on standard error
        error[usage.url]: `nonsense://` is not a valid gateway URL

        hint: use the form http://HOST:PORT
        --- exit 2
    "#]],
    );
}

#[test]
fn a_syntax_error_in_an_arguments_file_is_shown_with_its_line() {
    let world = World::with_server();
    world.write("work/args.json", "{\n  \"n\": 1\n  \"flag\": true\n}\n");
    world.check(
        "call sh_probe --args @args.json",
        expect![[r#"
        --- on standard error
        error[usage.args]: args.json is not valid JSON: expected `,` or `}`
         --> args.json:3:3
          |
        3 |   "flag": true
          |   ^
        --- exit 2
    "#]],
    );
}

#[test]
fn a_port_in_use_is_named() {
    let world = World::new(&[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.check(
        &format!("serve --listen {}", taken.local_addr().unwrap()),
        expect![[r#"
            --- on standard error
            error[listen.in-use]: 127.0.0.1:PORT is already in use

            hint: `toolbooth status` shows whether it is your gateway; the setting `listen`
                  chooses another port, or --listen for one run
            --- exit 1
        "#]],
    );
}

#[test]
fn an_answer_that_is_not_from_a_gateway_is_an_error() {
    let world = World::new(&[]);
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", stranger.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in stranger.incoming().take(1) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope");
        }
    });
    world.check(
        &format!("servers --url {url}"),
        expect![[r#"
            --- on standard error
            error[gateway.stranger]: the answer is not from a Toolbooth gateway (status
              404)

            hint: check --url and TOOLBOOTH_URL
            --- exit 5
        "#]],
    );
}

#[test]
fn a_job_and_a_skill_with_a_tool_of_a_bundled_server_have_the_same_hint() {
    let world = World::with_server();
    let plan = r#"[{"id": "hash", "tool": "demo_hash", "arguments": {"text": "a"}}]"#;
    world.write("work/job.json", &format!(r#"{{"name": "hash-report", "summary": "x", "plan": {plan}}}"#));
    world.write(
        ".config/toolbooth/skills/print/SKILL.md",
        &format!(
            "---\nname: print\ndescription: Hashes. Use it for hashes.\nplan: {plan}\n---\n\nHash it.\n"
        ),
    );
    let hint = "`bundled = \"demo\"`";
    let created = world.screen("jobs create job.json");
    assert!(created.starts_with("Created hash-report"), "{created}");
    assert!(created.contains("warning: there is no tool `demo_hash`"), "{created}");
    for line in ["jobs run hash-report", "skills check print"] {
        let screen = world.screen(line);
        assert!(screen.contains(hint) && screen.ends_with("--- exit 1\n"), "{line}: {screen}");
    }
    assert!(created.contains(hint), "{created}");
    // A tool that is there causes no warning, although its server has never been connected.
    let known = r#"{"name": "probe", "summary": "x", "plan": [{"id": "a", "tool": "sh_probe", "arguments": {"n": 1}}]}"#;
    world.write("work/known.json", known);
    let created = world.screen("jobs create known.json");
    assert!(!created.contains("warning"), "{created}");
}

#[test]
fn a_tool_of_a_bundled_server_that_does_not_run_has_a_hint() {
    let world = World::with_server();
    world.check(
        "call demo_echo text=hi",
        expect![[r#"
            --- on standard error
            error[tool.unknown]: there is no tool `demo_echo`

            hint: the bundled server `demo` runs by default only if no servers are
                  configured; to keep it, add `[servers.demo]` with `bundled = "demo"` to
                  toolbooth.toml
            --- exit 1
        "#]],
    );
}
