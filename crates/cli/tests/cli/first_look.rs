//! A fresh machine: nothing is configured, and everything answers.

use crate::world::{World, json};
use expect_test::expect;

#[test]
fn nothing_is_needed_to_look_around() {
    let world = World::new(&[]);
    world.check(
        "",
        expect![[r#"
            Toolbooth: one endpoint for every tool of your agents.

              toolbooth serve                   run the gateway
              toolbooth connect claude-code     let a client use it (or cursor, vscode, …)
              toolbooth servers                 how your servers do
              toolbooth tools list              what they offer
              toolbooth call demo_hash text=hi  call a tool
              toolbooth shell                   all of that, line by line
              toolbooth doctor                  find out what is wrong

            Servers come from .mcp.json here, or from ~/.config/toolbooth/toolbooth.toml.
            `toolbooth config import` takes them over from other clients. More: toolbooth --help
        "#]],
    );
    world.check(
        "servers",
        expect![[r#"
            SERVER    STATE      TOOLS  TRANSPORT  WHERE
            demo      connected      5  bundled    toolbooth demo-server demo
            files     connected      2  bundled    toolbooth demo-server files
            identity  connected      3  bundled    toolbooth demo-server identity
            planner   connected      1  bundled    toolbooth demo-server planner

            No servers are configured yet, so the bundled ones are shown.
        "#]],
    );
    world.check(
        "tools list",
        expect![[r#"
            TOOL                       QUALITY  TOKENS  DESCRIPTION
            demo_echo                      100      45  Returns the text it was given, unch…
            demo_flaky                     100      34  Fails on every other call; shows ho…
            demo_hash                      100      49  Computes the SHA-256 of a text, in …
            demo_slow                      100      61  Waits for some milliseconds before …
            demo_time                      100      37  Tells the current time in UTC, as s…
            files_make_report              100      89  Makes a small report: a page to loo…
            files_size                     100      63  Reads a file of your session and te…
            identity_create_record         100      58  Makes a record that belongs to you,…
            identity_override_attempt      100      59  Tries to act as somebody else, and …
            identity_whoami                100      39  Tells who the gateway says you are,…
            planner_plan_task              100     213  Plans a task with the tools you may…
        "#]],
    );
    world.check(
        "tools list --q time --limit 1",
        expect![[r#"
            TOOL       QUALITY  TOKENS  DESCRIPTION
            demo_time      100      37  Tells the current time in UTC, as seconds since 197…
        "#]],
    );
    world.check(
        "tools show demo_slow",
        expect![[r#"
            demo_slow  mcp.demo.slow

            Waits for some milliseconds before it answers; shows deadlines at work.

            ARGUMENT      TYPE               DESCRIPTION
            milliseconds  integer  required  How long to wait.

              side effects  network (read)
              timeout       30 s
              flags         requires_consent
              quality       100 of 100
              context       61 tokens
              providers     mcp:demo (priority 0)

              toolbooth call demo_slow milliseconds=…
        "#]],
    );
    world.check(
        "tools show demo_time",
        expect![[r#"
            demo_time  mcp.demo.time

            Tells the current time in UTC, as seconds since 1970.

            It takes no arguments.

              side effects  network (read)
              timeout       30 s
              flags         requires_consent
              quality       100 of 100
              context       37 tokens
              providers     mcp:demo (priority 0)

              toolbooth call demo_time
        "#]],
    );
    world.check(
        "servers show demo",
        expect![[r#"
            demo: connected
              about      Small tools to try the gateway with.
              transport  bundled
              where      toolbooth demo-server demo
              speaks     MCP 2026-07-28
              offers     5 tools
        "#]],
    );
    world.check(
        "call demo_hash text=hello",
        expect![[r#"
        2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
    "#]],
    );
    world.check(
        "doctor",
        expect![[r#"
            ok    config   no file found: bundled servers and defaults apply
            ok    gateway  not running; 127.0.0.1:PORT is free for it
            ok    store    opens (state is kept in ~/.local/share/toolbooth)
            ok    server   demo: connected, 5 tools
            ok    server   files: connected, 2 tools
            ok    server   identity: connected, 3 tools
            ok    server   planner: connected, 1 tool

            All is well.
        "#]],
    );
    world.check(
        "config check",
        expect![[r#"
        No configuration file was found: the bundled servers and every default apply.
    "#]],
    );
    world.check("config import", expect![[r#"
        No other client keeps servers here (looked for claude-desktop, claude-code, cursor, vscode, codex, goose).
    "#]]);
    world.check(
        "trust",
        expect![[r#"
        Nothing waits for trust in ~/work.
    "#]],
    );
    world.check(
        "explain server.command-not-found",
        expect![[r#"
        server.command-not-found

        The program of a server was not found.

        Install it, or give its full path in `command`. It is looked for in the PATH of
        the gateway, which may differ from your shell's.
    "#]],
    );
}

#[test]
fn help_is_short() {
    let world = World::new(&[]);
    world.check(
        "--help",
        expect![[r#"
            One endpoint for every tool of your agents

            Usage: toolbooth [OPTIONS] <COMMAND>

            Commands:
              serve         Run the gateway
              stdio         Speak MCP on standard input and output, through a shared gateway
              shell         Type commands one after another, with history and completion
              chat          Ask a language model, which may use the tools
              connect       Let a client use the gateway: writes its configuration, with a
                            backup
              servers       List servers, look at one, connect, disconnect or restart it
              tools         List, search, score, weigh and compare tools
              call          Call a tool
              approvals     Answer for calls that wait for a person
              plan          Queue calls, read them, and run them in order
              dead-letters  Calls that failed for good: look at them, make them again, or
                            give them up
              files         Upload files, list, fetch and remove them
              events        Show what happened lately, or follow what happens
              audit         Show and check the record of calls and decisions
              exposure      Say what a client is shown of the tools, and why
              config        Check, show, explain or import configuration
              manifest      Check tool manifests, list what they say, print their schema
              reload        Make the running gateway read its configuration again
              tokens        Make, list and take back tokens of this gateway
              login         Keep the token of a gateway elsewhere for all commands
              trust         Let the servers of a project folder run
              doctor        Find out what is wrong, and how to put it right
              explain       Explain a fault code
              completions   Print completions for a shell
              man           Print manual pages

            Options:
                  --config <FILE>   A configuration file; may repeat, later ones win
                  --json            Print JSON for programs
                  --url <URL>       A running gateway to talk to; TOOLBOOTH_TOKEN is its
                                    token
                  --persona <NAME>  A persona: a named, narrower view of the tools
              -h, --help            Print help
              -V, --version         Print version

            More options of every command:
              --config-dir DIR         A folder with mcp.json, toolbooth.* and llmconfig.yml
              --config-overrides DIR   A folder laid over --config-dir
              --mcp-config FILE        A file of servers
              --llm-config FILE        A file about the language model
              --env-file FILE          Variables, loaded first
              --data-dir DIR           Where state is kept
              --no-project             Leave the files of this folder out
              --set KEY=VALUE          One setting, such as naming.style=tool; may repeat
              --token TOKEN            The token for --url; others can see it there,
              TOOLBOOTH_TOKEN they cannot

            Variables do the same: TOOLBOOTH_CONFIG, _CONFIG_DIR, _CONFIG_OVERRIDES,
            _MCP_CONFIG, _LLM_CONFIG, _PERSONA, _JSON and _URL; and TOOLBOOTH_NAMING_STYLE
            sets `naming.style`, as with every setting.

            Exit codes: 0 ok, 1 failed, 2 usage or configuration, 3 refused, 4 held, 5
            gateway unreachable.
        "#]],
    );
    world.check(
        "servers -h",
        expect![[r#"
            List servers, look at one, connect, disconnect or restart it

            Usage: toolbooth servers [OPTIONS]
                   toolbooth servers <COMMAND>

            Commands:
              list        List all servers (the default)
              show        Show one server
              connect     Connect a server now
              disconnect  Disconnect a server until somebody asks for it
              restart     Disconnect a server and connect it anew
              logs        Show the last lines a server wrote to its standard error
              login       Sign in to a server whose `auth` is `oauth`, in a browser
              logout      Forget the sign-in to a server

            Options:
                  --config <FILE>   A configuration file; may repeat, later ones win
                  --json            Print JSON for programs
                  --url <URL>       A running gateway to talk to; TOOLBOOTH_TOKEN is its
                                    token
                  --persona <NAME>  A persona: a named, narrower view of the tools
              -h, --help            Print help
        "#]],
    );
    world.check(
        "call -h",
        expect![[r#"
            Call a tool

            Usage: toolbooth call [OPTIONS] <TOOL> [KEY=VALUE]...

            Arguments:
              <TOOL>          The tool, by the name `toolbooth tools list` shows
              [KEY=VALUE]...  Its arguments; numbers, booleans, lists and objects by the
                              tool's own schema

            Options:
                  --args <JSON|@FILE|->  Its arguments as a JSON object: the text itself,
                                         @FILE, or - for standard input
                  --session <NAME>       The session it belongs to: what is remembered for a
                                         session, and plans of one, go by it
              -y, --yes                  Approve it yourself where a person is asked,
                                         without being asked here
                  --config <FILE>        A configuration file; may repeat, later ones win
                  --json                 Print JSON for programs
                  --url <URL>            A running gateway to talk to; TOOLBOOTH_TOKEN is
                                         its token
                  --persona <NAME>       A persona: a named, narrower view of the tools
              -h, --help                 Print help

            For example:
              toolbooth call demo_echo text='hello there'
              toolbooth call demo_slow --args '{"milliseconds": 200}'
              jq -n '{text: "hi"}' | toolbooth call demo_echo --args -
        "#]],
    );
}

/// What every view of a tool has, and a full one.
const TOOL: &str = "name id server tool description token_cost side_effects effect default_timeout allow_parallel \
     requires_consent requires_approval idempotency_key capabilities auth_scopes credentials_configured quality";
const FULL: &str = "name id server tool description token_cost side_effects effect default_timeout allow_parallel \
     requires_consent requires_approval idempotency_key capabilities auth_scopes credentials_configured \
     providers parameters definition quality";

#[test]
fn programs_get_json_of_a_stable_shape() {
    let world = World::new(&[]);
    let keys = |line: &str, at: &str| -> String {
        let answer = json(&world.run(line));
        let found = answer.pointer(at).unwrap_or_else(|| panic!("{line}: {answer}"));
        found.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let cases = [
        ("servers --json", "", "revision servers"),
        (
            "servers --json",
            "/servers/0",
            "name state transport target era revision tools prompts resources description",
        ),
        (
            "servers show demo --json",
            "",
            "name state transport target era revision tools prompts resources description",
        ),
        ("servers logs demo --json", "", "name total lines"),
        ("tools --json", "", "revision tools next_cursor"),
        ("tools list --json", "/tools/0", TOOL),
        ("tools show demo_echo --json", "", FULL),
        ("call demo_echo text=x --json", "/result", "content isError"),
        ("doctor --json", "", "ok checks"),
        ("doctor --json", "/checks/0", "area status message fix"),
        ("config check --json", "", "errors warnings findings files servers needs_trust"),
        ("config explain listen --json", "", "key value origin over notes"),
        ("config import --json", "", "clients"),
        ("connect cursor --dry-run --json", "", "client file entry changed written"),
        ("trust --json", "", "trusted reloaded"),
        ("explain call.timeout --json", "", "code text"),
        ("tools show nothing --json", "/error", "code blame message hint"),
        ("reload --json", "/error", "code blame message hint"),
        ("call demo_echo --args {} --json --url http://127.0.0.1:1", "/error", "code blame message hint"),
    ];
    for (line, at, expected) in cases {
        assert_eq!(keys(line, at), expected, "{line}");
    }
}

#[test]
fn every_shell_gets_completions() {
    let world = World::new(&[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = world.run(&format!("completions {shell}"));
        assert!(output.status.success() && output.stdout.len() > 1000, "{shell}");
    }
}
