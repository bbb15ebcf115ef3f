//! Names and labels of tool manifests: duplicates, names of other tools, and labels that policies depend on.

use crate::world::World;
use expect_test::expect;
use toolbooth_config::expand::Variables;
use toolbooth_config::manifest::{check, check_all};
use toolbooth_config::render;

/// The codes reported for one file, and how many of its entries are usable.
fn codes(text: &str) -> (Vec<&'static str>, usize) {
    let world = World::new(&[("work/m.json", text)]);
    let checked = check(&world.path("work/m.json"), &Variables::default());
    (checked.findings.iter().map(|finding| finding.code).collect(), checked.entries.len())
}

/// Policies depend on labels, so `"NONE "` and null are not read as labels.
#[test]
fn labels_are_spelled_exactly() {
    for value in
        [r#""NONE ""#, "null", r#""None""#, r#""Read-External-Service""#, r#"" none""#, r#""""#, "0", "[]"]
    {
        for field in ["side_effects", "safety_level"] {
            let (codes, usable) = codes(&format!(r#"{{"name": "x", "{field}": {value}}}"#));
            assert_eq!((codes, usable), (vec!["manifest.bad-entry"], 0), "{field} {value}");
        }
    }
    for text in [r#"{"name": "x", "side_effects": "none"}"#, r#"{"name": "x", "safety_level": "high"}"#] {
        assert_eq!(codes(text), (vec![], 1), "{text}");
    }
}

#[test]
fn no_entry_takes_or_imitates_a_built_in_name() {
    for name in ["mcp_tool_search", "artifact_read", "MCP-Tool-Call", "mcp.tool.list", "mсp_tool_call"] {
        for rest in ["", r#", "providers": [{"name": "openai"}]"#] {
            let (codes, usable) = codes(&format!(r#"{{"name": "{name}"{rest}}}"#));
            assert_eq!((codes, usable), (vec!["manifest.bad-entry"], 0), "{name}");
        }
    }
    assert_eq!(codes(r#"{"name": "tool_search"}"#), (vec![], 1));
}

#[test]
fn a_second_entry_for_one_tool_is_reported() {
    let wrap = |name: &str| {
        format!(
            r#"{{"name": "{name}", "providers": [{{"name": "mcp", "config": {{"server": "web", "tool": "find"}}}}]}}"#
        )
    };
    let cases = [
        (r#"[{"name": "x"}, {"name": "x"}]"#.to_owned(), 1),
        (format!("[{}, {}]", wrap("look"), wrap("seek")), 1),
        (format!(r#"[{}, {{"name": "web_find"}}]"#, wrap("look")), 1),
        (format!(r#"[{{"name": "mcp.web.find"}}, {}]"#, wrap("look")), 1),
        (r#"[{"name": "x"}, {"name": "y"}]"#.to_owned(), 2),
    ];
    for (text, usable) in cases {
        let expected = if usable == 1 { vec!["manifest.duplicate"] } else { vec![] };
        assert_eq!(codes(&text), (expected, usable), "{text}");
    }
    // Several files are checked together; the entries of a persona have their own scope.
    let one = r#"{"name": "x"}"#;
    let world = World::new(&[
        ("work/tools/a.json", one),
        ("work/tools/b.json", one),
        ("work/personas/Atlas/tools/a.json", one),
    ]);
    let paths = ["tools/a.json", "tools/b.json", "personas/Atlas/tools/a.json"]
        .map(|file| world.path(&format!("work/{file}")));
    let checked = check_all(&paths, &Variables::default());
    assert_eq!((checked.entries.len(), checked.set_aside), (2, 1));
    expect![[r#"
        error[manifest.duplicate]: tool `x` is defined twice; the first definition is at work/tools/a.json:1:1
         --> work/tools/b.json:1:1
        hint: rename or remove one
    "#]]
    .assert_eq(&world.short(&checked.findings.iter().map(render).collect::<String>()));
}

/// Examples: look-alike letters, and `side_effects: none` on `delete_everything`.
#[test]
fn deceptive_names_and_labels_are_reported() {
    let cases = [
        (r#"{"name": "pаy"}"#, vec!["manifest.lookalike-name"]), // Cyrillic а
        (r#"{"name": "größe"}"#, vec![]),
        (r#"{"name": "delete_everything", "side_effects": "none"}"#, vec!["manifest.label-below-name"]),
        (
            r#"{"name": "send_mail", "side_effects": "read_external_service"}"#,
            vec!["manifest.label-below-name"],
        ),
        (r#"{"name": "delete_everything", "side_effects": "system"}"#, vec![]),
        (r#"{"name": "delete_everything"}"#, vec![]),
    ];
    for (text, expected) in cases {
        assert_eq!(codes(text), (expected, 1), "{text}");
    }
    // The same label in the overrides of a server entry.
    let config = r#"{"servers": {"s": {"command": "x", "tools": {"overrides": {"drop_table": {"side_effects": "none"}}}}}}"#;
    let world = World::new(&[("user/toolbooth.json", config)]);
    let loaded = world.load().unwrap();
    let codes: Vec<_> = loaded.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["manifest.label-below-name"]);
}

/// With other providers, an entry named `mcp.server.tool` would replace that tool.
#[test]
fn an_entry_named_like_a_servers_tool_must_provide_that_tool() {
    let http = r#"{"name": "http", "config": {"url": "https://h/"}}"#;
    let own = r#"{"name": "mcp", "config": {"server": "web", "tool": "find.all"}}"#;
    let other = r#"{"name": "mcp", "config": {"server": "web", "tool": "other"}}"#;
    let cases = [
        (format!("[{http}]"), 0),
        (format!("[{other}]"), 0),
        (format!("[{own}, {http}]"), 1),
        (format!("[{own}]"), 1),
        ("[]".to_owned(), 1),
    ];
    for (providers, usable) in cases {
        let text = format!(r#"{{"name": "mcp.web.find.all", "providers": {providers}}}"#);
        let expected = if usable == 0 { vec!["manifest.bad-entry"] } else { vec![] };
        assert_eq!(codes(&text), (expected, usable), "{text}");
    }
}
