//! `toolbooth files` without a running gateway: files persist between commands.

use crate::world::World;
use expect_test::expect;
use serde_json::Value;

fn read(world: &World, line: &str) -> Value {
    let output = world.run(line);
    let errors = || String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {}", errors()))
}

#[test]
fn files_are_uploaded_listed_downloaded_and_removed() {
    let world = World::new(&[("work/a.csv", "a,b\n1,2\n")]);
    world.check(
        "files",
        expect![[r#"
            There are no files. `toolbooth files put FILE` uploads one.
        "#]],
    );
    let put = read(&world, "files put a.csv --description table --json");
    assert_eq!(
        (&put["files"][0]["name"], &put["files"][0]["description"]),
        (&"a.csv".into(), &"table".into())
    );
    assert_eq!(read(&world, "files put a.csv --json")["files"][0]["version"], 2);
    let input = world.run_with("files put - --name ../of/input.txt --session s1 --json", "typed");
    let input: Value = serde_json::from_slice(&input.stdout).unwrap();
    assert_eq!(
        (&input["files"][0]["name"], &input["files"][0]["session"]),
        (&"input.txt".into(), &"s1".into())
    );
    assert_eq!(read(&world, "files ls --json")["files"].as_array().unwrap().len(), 3);
    let table = world.screen("files ls a.csv");
    assert!(table.starts_with("NAME") && table.contains("text/csv") && table.lines().count() == 3, "{table}");
    let content = world.run("files get a.csv -o -");
    assert_eq!(String::from_utf8_lossy(&content.stdout), "a,b\n1,2\n");
    world.check(
        "files get input.txt --session s1",
        expect![[r#"
            input.txt (5 B)
        "#]],
    );
    assert_eq!(world.read("work/input.txt"), "typed");
    world.check(
        "files rm a.csv",
        expect![[r#"
            Removed a.csv (2 versions).
        "#]],
    );
}

#[test]
fn errors_of_files_are_explained() {
    let world = World::new(&[("work/a.csv", "x"), ("work/b.csv", "x")]);
    world.run("files put a.csv");
    world.run("files put b.csv --session s1");
    for (line, words, code) in [
        ("files get a.csv", "error[usage.file]: a.csv already exists", 1),
        ("files get nope", "error[file.unknown]: there is no file `nope`", 1),
        ("files get b.csv -o x", "--session s1", 1),
        ("files rm 01a1de93-0a4b-73f3-b494-d0636a86ce78", "error[file.unknown]", 1),
        ("files put missing.csv", "error[usage.file]: missing.csv cannot be read", 1),
        ("files put .", "error[usage.file]", 1),
        ("files put -", "error[usage.name]", 2),
        ("files put a.csv b.csv --name c.csv", "error[usage.name]", 2),
        ("files put a.csv --set files.max_upload_bytes=0", "error[file.too-large]", 1),
        ("files ls --url http://127.0.0.1:1", "error[gateway.unreachable]", 5),
    ] {
        let output = world.run(line);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(words), "{line}: {errors}");
        assert_eq!(output.status.code(), Some(code), "{line}: {errors}");
    }
}
