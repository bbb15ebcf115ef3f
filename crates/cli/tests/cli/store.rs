//! `toolbooth store`: copies of the store to a file and back, and to another store.

use crate::world::World;
use expect_test::expect;
use serde_json::Value;

fn read(world: &World, line: &str) -> Value {
    let output = world.run(line);
    let errors = || String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {}", errors()))
}

#[test]
fn a_store_is_backed_up_restored_and_migrated() {
    let world = World::new(&[("work/a.csv", "a,b\n1,2\n")]);
    assert!(world.run("files put a.csv --json").status.success());
    let saved = read(&world, "store backup saved --json");
    assert_eq!(saved["tables"]["files"], 1, "{saved}");
    assert!(saved["keys"].as_u64() > Some(0), "{saved}");

    let restored = read(&world, "store restore saved --to sqlite:copy.db --json");
    assert_eq!(restored["tables"], saved["tables"]);
    assert_eq!(restored["verified_audit_rows"], saved["tables"]["audit"]);
    let moved = read(&world, "store migrate --from sqlite:copy.db --to sqlite:other.db --json");
    assert_eq!(moved["tables"], saved["tables"]);
    // Again, as after an interruption.
    assert_eq!(read(&world, "store migrate --from sqlite:copy.db --to sqlite:other.db --json"), moved);
    let copied = read(&world, "files ls --json --set store.url=sqlite:other.db");
    assert_eq!(copied["files"][0]["name"], "a.csv", "{copied}");
    let screen = world.screen("store restore saved --to sqlite:third.db");
    assert!(screen.starts_with("TABLE") && screen.contains("the audit of"), "{screen}");
}

#[test]
fn a_copy_that_would_be_wrong_is_refused() {
    let world = World::new(&[
        ("work/a.csv", "a,b\n1,2\n"),
        ("work/torn", "{\"toolbooth\":\"store\",\"format\":1}\n"),
    ]);
    assert!(world.run("files put a.csv --json").status.success());
    assert!(world.run("store backup saved").status.success());
    world.check(
        "store restore saved",
        expect![[r#"
            --- on standard error
            error[store.not-empty]: the destination is not empty: it has 1 rows in `files`

            hint: copy to an empty database, or continue an earlier copy of the same source
            --- exit 1
        "#]],
    );
    world.check(
        "store restore torn --to sqlite:new.db",
        expect![[r#"
            --- on standard error
            error[store.backup-damaged]: torn is not a complete backup: its end is missing

            hint: use another backup
            --- exit 1
        "#]],
    );
    world.check(
        "store migrate --to memory:",
        expect![[r#"
            --- on standard error
            error[store.memory]: a store in memory cannot be copied

            hint: use `sqlite:PATH` or `postgres://…`
            --- exit 1
        "#]],
    );
    world.check(
        "store backup new --from postgres://ann:hunter2@127.0.0.1:1/x",
        expect![[r#"
            --- on standard error
            error[store.unreachable]: postgres://127.0.0.1:PORT/x cannot be used: it does not
              answer

            hint: check `store.url`, and that PostgreSQL runs and lets this user in; the
                  gateway reconnects automatically
            --- exit 1
        "#]],
    );
}
