use crate::world::World;
use expect_test::expect;

#[test]
fn a_project_file_and_a_user_file_are_found() {
    let world = World::new(&[
        ("user/toolbooth.toml", "listen = 9000\n[servers.fs]\ncommand = \"npx\"\nargs = [\"-y\", \"fs\"]\n"),
        ("work/.mcp.json", r#"{"mcpServers": {"mail": {"url": "https://mail.example/mcp"}}}"#),
    ]);
    let loaded = world.load().unwrap();
    assert_eq!(loaded.settings.listen.0.port(), 9000);
    expect![[r#"
        fs ready Stdio { command: "npx", args: ["-y", "fs"], cwd: None, env: {} }
        mail needs_trust
    "#]]
    .assert_eq(&world.servers());
    expect![""].assert_eq(&world.report());
}
