//! Files that stop making sense: what people read then.

use crate::world::World;
use expect_test::expect;

#[test]
fn json_slips_are_pointed_at() {
    let cases = [
        ("{\"servers\": {\n  \"a\": {\"command\": \"x\"}\n  \"b\": {}\n}}", "a missing comma"),
        ("{\"servers\": {\n  \"a\": {\"command\": 'x'}\n}}", "single quotes"),
        ("{\"servers\": {\n  \"a\": {\"command\": \"x\"}\n", "a missing brace"),
        ("{\"servers\": {\n  \"a\": {\"command\": \"C:\\Users\\x\"}\n}}", "a bare backslash"),
        ("{\"servers\": {\n  a: {}\n}}", "a bare key"),
        ("{\"servers\": {\n  \"a\": {\"enabled\": True}\n}}", "a Python word"),
        ("{\"servers\": {\n  \"a\": {\"args\": [\"x\",, \"y\"]}\n}}", "two commas"),
        ("{\"servers\": {\n  \"a\": \"unclosed\n}}", "an open text"),
        ("{} {}", "two values"),
        ("/* open", "an open comment"),
        ("{\"a\": 01}", "a bad number"),
    ];
    let mut all = String::new();
    for (text, what) in cases {
        all.push_str(&format!("--- {what}\n{}", World::config("work/mcp.json", text).report()));
    }
    expect![[r#"
        --- a missing comma
        error[config.syntax]: this is not JSON: a comma is missing after this value
         --> work/mcp.json:2:24
          |
        2 |   "a": {"command": "x"}
          |                        ^
        --- single quotes
        error[config.syntax]: this is not JSON: a value cannot start with `'`
         --> work/mcp.json:2:20
          |
        2 |   "a": {"command": 'x'}
          |                    ^
        hint: write texts in double quotes
        --- a missing brace
        error[config.syntax]: this is not JSON: the text ends before the `{` of line 1 is closed
         --> work/mcp.json:2:23
          |
        2 |   "a": {"command": "x"}
          |                       ^
        hint: add the missing `}`
        --- a bare backslash
        error[config.syntax]: this is not JSON: unknown escape
         --> work/mcp.json:2:23
          |
        2 |   "a": {"command": "C:\Users\x"}
          |                       ^^
        hint: write a backslash as `\\`, as in `C:\\Users`
        --- a bare key
        error[config.syntax]: this is not JSON: expected a key in double quotes, or `}`
         --> work/mcp.json:2:3
          |
        2 |   a: {}
          |   ^
        --- a Python word
        error[config.syntax]: this is not JSON: expected a value, found `True`
         --> work/mcp.json:2:20
          |
        2 |   "a": {"enabled": True}
          |                    ^^^^
        hint: write true, false or null in small letters
        --- two commas
        error[config.syntax]: this is not JSON: expected a value, found `,`
         --> work/mcp.json:2:22
          |
        2 |   "a": {"args": ["x",, "y"]}
          |                      ^
        hint: one comma too many?
        --- an open text
        error[config.syntax]: this is not JSON: this text has no closing quote
         --> work/mcp.json:2:8
          |
        2 |   "a": "unclosed
          |        ^
        --- two values
        error[config.syntax]: this is not JSON: there is more text after the end of the value
         --> work/mcp.json:1:4
          |
        1 | {} {}
          |    ^
        --- an open comment
        error[config.syntax]: this is not JSON: this comment has no end
         --> work/mcp.json:1:1
          |
        1 | /* open
          | ^
        hint: close it with `*/`
        --- a bad number
        error[config.syntax]: this is not JSON: `01` is not a number
         --> work/mcp.json:1:7
          |
        1 | {"a": 01}
          |       ^^
    "#]]
    .assert_eq(&all);
}

#[test]
fn toml_and_yaml_slips_are_pointed_at_too() {
    let cases = [
        ("work/toolbooth.toml", "listen = 9000\n[servers.fs\ncommand = \"x\"\n"),
        ("work/toolbooth.toml", "listen = 9000\nlisten = 9001\n"),
        ("work/toolbooth.yaml", "listen: 9000\nservers:\n  fs: [\n"),
        ("work/toolbooth.yaml", "servers:\n\tfs: {}\n"),
        ("work/toolbooth.yaml", "listen: 1\n---\nlisten: 2\n"),
    ];
    let mut all = String::new();
    for (name, text) in cases {
        all.push_str(&World::config(name, text).report());
    }
    expect![[r#"
        error[config.syntax]: this is not TOML: unclosed table, expected `]`
         --> work/toolbooth.toml:2:12
          |
        2 | [servers.fs
          |            ^
        error[config.syntax]: this is not TOML: duplicate key
         --> work/toolbooth.toml:2:1
          |
        2 | listen = 9001
          | ^^^^^^
        error[config.syntax]: this is not YAML: while parsing a node, did not find expected node content
         --> work/toolbooth.yaml:3:7
          |
        3 |   fs: [
          |       ^
        error[config.syntax]: this is not YAML: tabs disallowed within this context (block indentation)
         --> work/toolbooth.yaml:2:2
          |
        2 |  fs: {}
          |  ^
        error[config.syntax]: this is not YAML: only one document may stand in a file
         --> work/toolbooth.yaml:3:1
          |
        3 | listen: 2
          | ^
    "#]]
    .assert_eq(&all);
}
