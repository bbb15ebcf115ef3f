//! A fresh machine: every command works without a configuration.

use crate::world::{World, json};
use expect_test::expect;

#[test]
fn commands_work_without_a_configuration() {
    let world = World::new(&[]);
    world.check(
        "",
        expect![[r#"
            Toolbooth: one endpoint for every tool of your agents.

              toolbooth up                      set up the gateway and all your clients
              toolbooth start                   run the gateway (stop, status)
              toolbooth connect claude-code     connect a client (or cursor, vscode, …)
              toolbooth servers                 show the state of your servers (add, remove)
              toolbooth tools list              list their tools
              toolbooth call demo_hash text=hi  call a tool
              toolbooth shell                   run these commands interactively
              toolbooth doctor                  find problems and suggest fixes

            Servers are defined in .mcp.json here, or in ~/.config/toolbooth/toolbooth.toml.
            `toolbooth config import` imports your clients' servers. More: toolbooth --help
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
            identity_override_attempt      100      59  Tries to act as another user, and t…
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
            ok    gateway  not running; 127.0.0.1:PORT is available
            ok    store    can be opened (in ~/.local/share/toolbooth)
            ok    server   demo: connected, 5 tools
            ok    server   files: connected, 2 tools
            ok    server   identity: connected, 3 tools
            ok    server   planner: connected, 1 tool

            No problems found.
        "#]],
    );
    world.check(
        "config check",
        expect![[r#"
        No configuration file was found: the bundled servers and the defaults apply.
    "#]],
    );
    world.check(
        "config import",
        expect![[r#"
            No other client has servers here (looked for claude-desktop, claude-code,
              cursor, vscode, codex, gemini, windsurf, zed, opencode, cline, roo, copilot,
              continue, goose, lm-studio, amazon-q, kiro, warp, jetbrains, qwen).
        "#]],
    );
    world.check(
        "trust",
        expect![[r#"
        There is nothing to trust in ~/work.
    "#]],
    );
    world.check(
        "explain server.command-not-found",
        expect![[r#"
        server.command-not-found

        The program of a server was not found.

        Install it, or give its full path in `command`. The gateway searches its own
        PATH, which may differ from that of your shell.
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
              up            Import the servers of your clients and connect the clients
              serve         Run the gateway
              start         Run the gateway in the background
              stop          Stop the gateway, after its running calls
              status        Show the running gateway, its servers, and what clients see
              service       Start the gateway at login (systemd or launchd)
              console       Open the web console of the running gateway
              stdio         Serve MCP over standard input and output via a shared gateway
              shell         Run commands interactively, with history and completion
              chat          Ask a language model that can call the tools
              connect       Add the gateway to a client's configuration, with a backup
              servers       List, show, add, remove, connect and restart servers
              secrets       Store, list and remove the secrets of servers, sealed
              tools         List, search, score and compare tools, and show token costs
              call          Call a tool
              calls         List finished calls and show their attempts, timings and files
              approvals     List, approve and reject held calls
              plan          Queue calls as a plan, review them and run them in order
              skills        List, show, check and run skills
              jobs          List, schedule, run and cancel jobs
              tasks         List tasks and change their states
              dead-letters  List, replay and drop calls that failed permanently
              files         Upload, list, download and remove files
              events        Show recent events, or follow new ones
              audit         Show and verify the audit log of calls and decisions
              store         Copy the store to another database, to a file and back
              exposure      Explain which tools a client is shown, and why
              config        Check, show, explain or import configuration
              manifest      Check tool manifests, list their entries, print their schema
              reload        Reload the configuration of the running gateway
              tokens        Create, list and revoke tokens of this gateway
              login         Store the token of a remote gateway for all commands
              trust         Trust the servers and settings of a project folder
              doctor        Find problems and suggest fixes
              upgrade       Show how to upgrade this program
              explain       Explain a fault code
              completions   Print completions for a shell
              man           Print manual pages

            Options:
                  --config <FILE>   Configuration file; may repeat, later files win
                  --json            Print JSON for programs
                  --url <URL>       URL of a running gateway; its token is TOOLBOOTH_TOKEN
                  --persona <NAME>  Persona: a named, restricted view of the tools
              -h, --help            Print help
              -V, --version         Print version

            More options of every command:
              --config-dir DIR         Folder with mcp.json, toolbooth.* and llmconfig.yml
              --config-overrides DIR   Folder whose files override those of --config-dir
              --mcp-config FILE        File that defines servers
              --llm-config FILE        File that configures the language model
              --rag-sources-config F   Accepted from Atlas UI, and not used
              --env-file FILE          File of environment variables, loaded first
              --data-dir DIR           Folder for the gateway's state
              --no-project             Ignore the files of the current folder
              --set KEY=VALUE          Override a setting (naming.style=tool); may repeat
              --token TOKEN            Token for --url (TOOLBOOTH_TOKEN is safer)

            Environment variables for these options: TOOLBOOTH_CONFIG, _CONFIG_DIR,
            _CONFIG_OVERRIDES, _MCP_CONFIG, _LLM_CONFIG, _PERSONA, _JSON and _URL.
            TOOLBOOTH_NAMING_STYLE sets `naming.style`, and so on for every setting.

            Exit codes: 0 ok, 1 failed, 2 usage or configuration error, 3 refused,
            4 held, 5 gateway unreachable.
        "#]],
    );
    world.check(
        "servers -h",
        expect![[r#"
            List, show, add, remove, connect and restart servers

            Usage: toolbooth servers [OPTIONS]
                   toolbooth servers <COMMAND>

            Commands:
              list        List all servers (the default)
              show        Show one server
              add         Add a server by its command, its URL or its name in a registry, or
                          an OpenAPI service
              remove      Remove a server from the configuration
              enable      Enable a disabled server
              disable     Disable a server, but keep its entry
              connect     Connect a server now
              disconnect  Disconnect a server until it is connected again
              restart     Disconnect a server and connect it again
              logs        Show the last lines a server wrote to standard error
              login       Sign in to a server whose `auth` is `oauth`, in a browser
              logout      Delete the stored sign-in to a server
              key         Give a server your own key, if its users give their own

            Options:
                  --config <FILE>   Configuration file; may repeat, later files win
                  --json            Print JSON for programs
                  --url <URL>       URL of a running gateway; its token is TOOLBOOTH_TOKEN
                  --persona <NAME>  Persona: a named, restricted view of the tools
              -h, --help            Print help
        "#]],
    );
    world.check(
        "call -h",
        expect![[r#"
            Call a tool

            Usage: toolbooth call [OPTIONS] [TOOL] [KEY=VALUE]...

            Arguments:
              [TOOL]          Name of the tool, as `toolbooth tools list` shows it
              [KEY=VALUE]...  Arguments; the tool's schema sets their types

            Options:
                  --args <JSON|@FILE|->  Arguments as JSON, @FILE, or - for standard input
                  --session <NAME>       Session of the call, for remembered approvals and
                                         plans of a session
              -y, --yes                  Approve the call yourself, without a prompt, if it
                                         needs your approval
                  --timeout <TIME>       Deadline of the call, such as 500ms, 5s or 2m,
                                         instead of the tool's own
                  --answer <KEY=VALUE>   Answer a question of the tool's server; repeat it
                                         for each field
                  --batch <FILE>         Make the calls in a file, one after the other: one
                                         {"tool", "arguments"} on each line, or a list; -
                                         for standard input
                  --config <FILE>        Configuration file; may repeat, later files win
                  --json                 Print JSON for programs
                  --url <URL>            URL of a running gateway; its token is
                                         TOOLBOOTH_TOKEN
                  --persona <NAME>       Persona: a named, restricted view of the tools
              -h, --help                 Print help

            For example:
              toolbooth call demo_echo text='hello there'
              toolbooth call demo_slow --args '{"milliseconds": 200}'
              jq -n '{text: "hi"}' | toolbooth call demo_echo --args -
              toolbooth call --batch calls.jsonl
        "#]],
    );
}

/// The keys of a tool in the summary view and in the full view.
const TOOL: &str = "name id server tool description token_cost side_effects effect default_timeout allow_parallel \
     requires_consent requires_approval idempotency_key capabilities auth_scopes credentials_configured quality";
const FULL: &str = "name id server tool description token_cost side_effects effect default_timeout allow_parallel \
     requires_consent requires_approval idempotency_key capabilities auth_scopes credentials_configured \
     providers parameters definition quality";

#[test]
fn json_output_has_stable_keys() {
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
        ("connect cursor --dry-run --json", "", "client file entry lists changed written"),
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
