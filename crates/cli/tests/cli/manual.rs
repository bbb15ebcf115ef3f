//! Manual pages.

use crate::world::World;
use expect_test::expect;

#[test]
fn every_command_has_a_page() {
    let world = World::new(&[]);
    let page = String::from_utf8(world.run("man call").stdout).unwrap();
    assert!(page.contains(".TH toolbooth-call 1") && page.contains("KEY=VALUE"), "{page}");
    let written = world.run("man --dir pages");
    assert!(written.status.success());
    for name in ["toolbooth", "toolbooth-shell", "toolbooth-servers-connect", "toolbooth-chat"] {
        assert!(world.read(&format!("work/pages/{name}.1")).contains(".SH SYNOPSIS"), "{name}");
    }
    assert!(!world.path("work/pages/toolbooth-demo-server.1").exists(), "hidden commands have no page");
    world.check(
        "man cal",
        expect![[r#"
            --- on standard error
            error[usage.command]: there is no command `cal`

            hint: did you mean `call`?
            --- exit 2
        "#]],
    );
}
