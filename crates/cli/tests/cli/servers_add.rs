//! `toolbooth servers add`, `remove`, `enable` and `disable` without a gateway.

use crate::world::World;
use expect_test::expect;

#[test]
fn servers_are_added_to_the_users_file() {
    let world = World::new(&[]);
    world.check(
        "servers add sh --env TOKEN --env MODE=fast -- /bin/sh server.sh",
        expect![[r#"
            Added the server sh to ~/.config/toolbooth/toolbooth.toml.
              note: server `sh`: the variable `TOKEN` is not set; until then it is not used
              note: the bundled servers are offered only while no server is configured
            No gateway is running; `toolbooth start` starts one.
        "#]],
    );
    world.check(
        "servers add https://mcp.tracker.example/mcp --header Authorization=secret",
        expect![[r#"
            Added the server tracker to ~/.config/toolbooth/toolbooth.toml.
              note: the value of Authorization is in the file; `${VARIABLE}` would refer to
                    a variable
            No gateway is running; `toolbooth start` starts one.
        "#]],
    );
    expect![[r#"
        [servers.sh]
        command = "/bin/sh"
        args = ["server.sh"]

        [servers.sh.env]
        MODE = "fast"
        TOKEN = "${TOKEN}"

        [servers.tracker]
        url = "https://mcp.tracker.example/mcp"

        [servers.tracker.headers]
        Authorization = "secret"
    "#]]
    .assert_eq(&world.read(".config/toolbooth/toolbooth.toml"));
    world.check(
        "servers add sh -- /bin/sh",
        expect![[r#"
            --- on standard error
            error[servers.exists]: there is already a server `sh`:
              ~/.config/toolbooth/toolbooth.toml:1:10 (user)

            hint: choose another name, or run `toolbooth servers remove sh` first
            --- exit 2
        "#]],
    );
    world.check(
        "servers disable sh",
        expect![[r#"
            The server sh is disabled in ~/.config/toolbooth/toolbooth.toml.
            No gateway is running; `toolbooth start` starts one.
        "#]],
    );
    world.check(
        "servers remove tracker",
        expect![[r#"
            The server tracker is removed in ~/.config/toolbooth/toolbooth.toml.
            No gateway is running; `toolbooth start` starts one.
        "#]],
    );
    world.check(
        "call sh_probe n=1",
        expect![[r#"
            --- on standard error
            error[tool.unknown]: there is no tool `sh_probe`

            hint: the server `sh` is disabled; `toolbooth servers enable sh` enables it
            --- exit 1
        "#]],
    );
    expect![[r#"
        [servers.sh]
        command = "/bin/sh"
        args = ["server.sh"]
        enabled = false

        [servers.sh.env]
        MODE = "fast"
        TOKEN = "${TOKEN}"
    "#]]
    .assert_eq(&world.read(".config/toolbooth/toolbooth.toml"));
    world.check(
        "servers enable shh",
        expect![[r#"
            --- on standard error
            error[server.unknown]: no server `shh` is configured

            hint: did you mean `sh`?
            --- exit 2
        "#]],
    );
}

#[test]
fn a_relative_path_is_written_with_its_folder() {
    let world = World::new(&[("work/notes.sh", "SERVER\n")]);
    world.check(
        "servers add notes -- /bin/sh notes.sh",
        expect![[r#"
            Added the server notes to ~/.config/toolbooth/toolbooth.toml.
              note: `notes.sh` is a path in ~/work, so the server will run there (`cwd`)
              note: the bundled servers are offered only while no server is configured
            No gateway is running; `toolbooth start` starts one.
        "#]],
    );
    let written = world.short(&world.read(".config/toolbooth/toolbooth.toml"));
    expect![[r#"
        [servers.notes]
        command = "/bin/sh"
        args = ["notes.sh"]
        cwd = "~/work"
    "#]]
    .assert_eq(&written);
    // The file of a project is used in its folder.
    assert!(world.run("servers add mine --project -- /bin/sh notes.sh").status.success());
    assert!(!world.read("work/.mcp.json").contains("cwd"));
    let chosen = world.screen("servers add other --dry-run --cwd .. -- /bin/sh notes.sh");
    assert!(chosen.contains("\"cwd\"") && !chosen.contains("note:"), "{chosen}");
}

#[test]
fn the_bundled_servers_are_offered_again_after_the_last_one_was_removed() {
    let file = ".config/toolbooth/toolbooth.toml";
    let world = World::new(&[(file, "# all mine\n[servers.sh]\ncommand = \"/bin/sh\"\n")]);
    world.check(
        "servers remove sh",
        expect![[r#"
            The server sh is removed in ~/.config/toolbooth/toolbooth.toml.
            It was the last one, so the bundled servers are offered again.
            No gateway is running; `toolbooth start` starts one.
        "#]],
    );
    assert_eq!(world.read(file), "# all mine\n");
    assert!(world.screen("servers").contains("demo-server demo"));
    let screen = world.screen("servers remove demo");
    assert!(screen.contains("`demo` is a bundled server") && screen.ends_with("--- exit 2\n"), "{screen}");
    // Other clients read this file, and need its map.
    world.write("work/.mcp.json", r#"{"mcpServers": {"sh": {"command": "/bin/sh"}}}"#);
    let screen = world.screen("servers remove sh");
    assert!(screen.contains("turns the bundled ones off"), "{screen}");
    assert_eq!(world.read("work/.mcp.json"), r#"{"mcpServers": {}}"#);
}

#[test]
fn a_dry_run_writes_nothing() {
    let world = World::new(&[]);
    world.check(
        "servers add notes --dry-run -- npx -y @example/notes",
        expect![[r#"
            This would be added to ~/.config/toolbooth/toolbooth.toml:

            notes
              {
                "command": "npx",
                "args": [
                  "-y",
                  "@example/notes"
                ]
              }
        "#]],
    );
    assert!(!world.path(".config/toolbooth").exists());
}

#[test]
fn a_command_without_its_separator_gets_the_right_command_line() {
    let world = World::new(&[]);
    for (line, expected) in [
        ("servers add files npx -y some-server", "toolbooth servers add files -- npx -y …\n"),
        ("servers add notes python3 notes.py", "toolbooth servers add notes -- python3 notes.py\n"),
    ] {
        let screen = world.screen(line);
        assert!(screen.contains(&format!("tip: write `--` before the command: {expected}")), "{screen}");
        assert!(!screen.contains("'-- -y'") && screen.ends_with("--- exit 2\n"), "{screen}");
    }
}

#[test]
fn arguments_that_do_not_fit_together_are_explained() {
    let world = World::new(&[]);
    for line in [
        "servers add notes",
        "servers add openapi",
        "servers add a/b/c",
        "servers add x https://a.example -- y",
        "servers add npx -- -y some-server",
        "servers add ftp://x.example/",
        "servers add x ftp://x.example/",
    ] {
        let screen = world.screen(line);
        assert!(
            screen.contains("error[usage.servers-add]") && screen.ends_with("--- exit 2\n"),
            "{line}: {screen}"
        );
    }
}

#[test]
fn an_openapi_document_becomes_a_manifest_of_the_user() {
    let document = "openapi: 3.0.0\ninfo: {title: Pet Shop, version: '1'}\nservers: [{url: 'https://pets.example/v1'}]\n\
        paths:\n  /pets:\n    get: {operationId: listPets}\n    post:\n      requestBody:\n        required: true\n        content: {multipart/form-data: {}}\n\
        security: [{token: []}]\ncomponents: {securitySchemes: {token: {type: http, scheme: bearer}}}\n";
    let local = document.replace("https://pets.example", "http://169.254.169.254");
    let world = World::new(&[("work/pets.yaml", document), ("work/local.yaml", local.as_str())]);
    let refused = world.screen("servers add openapi local.yaml --yes");
    assert!(refused.contains("error[openapi.local-server]") && refused.contains("--base-url"), "{refused}");
    let unasked = world.screen("servers add openapi pets.yaml");
    assert!(unasked.contains("error[servers.not-confirmed]"), "{unasked}");
    assert!(unasked.contains("https://pets.example/v1") && unasked.contains("PET_SHOP_TOKEN"), "{unasked}");
    assert!(!world.path(".config/toolbooth").exists());
    world.check(
        "servers add openapi pets.yaml --yes",
        expect![[r#"
            Wrote ~/.config/toolbooth/tools/pet-shop.openapi.json: 1 tool of Pet Shop at https://pets.example/v1.
              note: the requests use the variable PET_SHOP_TOKEN (the token). It is not set now.
              left out: POST /pets: its request body is not JSON (multipart/form-data)
            No gateway is running; `toolbooth start` starts one.
        "#]],
    );
    let listed = world.screen("manifest list");
    assert!(listed.contains("pet-shop_listPets"), "{listed}");
    let checked = world.screen("manifest check ../.config/toolbooth/tools/pet-shop.openapi.json");
    assert!(!checked.contains("error["), "{checked}");
    let removed = world.screen("servers remove pet-shop");
    assert!(removed.starts_with("Removed the tools of pet-shop"), "{removed}");
    let file = ".config/toolbooth/toolbooth.toml";
    assert_eq!(world.read(file), "# Settings of Toolbooth.\n", "the list was written by the first command");
    // The user turned the bundled servers off, so the list stays.
    world.write(file, "# mine\n[servers]\n");
    world.screen("servers add openapi pets.yaml --yes");
    let removed = world.screen("servers remove pet-shop");
    assert!(removed.contains("turns the bundled ones off"), "{removed}");
    assert_eq!(world.read(file), "# mine\n[servers]\n");
}

#[test]
fn a_file_in_yaml_is_changed_and_keeps_its_comments() {
    let path = ".config/toolbooth/toolbooth.yaml";
    let before = "# mine\nnaming: {style: tool} # short\n\nservers:\n  # the first\n  sh:\n    command: /bin/sh # keep\n    args: [SERVER]\n\n# the end\n";
    let world = World::new(&[(path, before)]);
    let before = world.read(path);
    assert!(world.run("servers add two -- /bin/sh x.sh").status.success());
    let added = world.read(path);
    assert!(added.contains("\n  two:\n    command: /bin/sh\n"), "{added}");
    for line in before.lines() {
        assert!(added.contains(line), "{line}: {added}");
    }
    assert!(world.run("servers disable sh").status.success());
    assert!(world.read(path).contains("    command: /bin/sh # keep\n"), "{}", world.read(path));
    assert!(world.read(path).contains("    enabled: false\n"), "{}", world.read(path));
    assert!(world.run("servers enable sh").status.success());
    assert!(world.run("servers remove two").status.success());
    assert_eq!(world.read(path), before.replace("\n\n# the end", "\n    enabled: true\n\n# the end"));
}
