//! Parsing any file ends with a tree or an error.

use crate::world::World;
use proptest::prelude::*;
use std::path::Path;
use toolbooth_config::parse::{self, Syntax, parse_as};
use toolbooth_config::render;
use toolbooth_config::texts::SourceTexts;

fn read(bytes: &[u8], syntax: Syntax) -> Result<serde_json::Value, String> {
    let mut texts = SourceTexts::default();
    parse_as(&mut texts, Path::new("f.json"), bytes, syntax)
        .map(|node| node.shown())
        .map_err(|finding| render(&finding))
}

const ALL: [Syntax; 3] = [Syntax::Json, Syntax::Toml, Syntax::Yaml];

const WHOLE: &str = r#"{"listen": 9000, "exposure": {"mode": "full", "clients": {"x": "search"}}, "retry": {"base": "1s"},
"policy": {"rules": [{"effect": "ask", "tools": {"side_effects": ["write"]}, "arguments": {"/a": "b"}}]},
"servers": {"a": {"command": ["x", "y"], "env": {"A": "${B:-c}"}, "tools": {"allow": ["*"]}, "inject": {"files": ["f"]}},
"b": {"url": "http://h/sse", "auth": {"type": "bearer", "token": "t"}, "groups": ["g"]}}}"#;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for syntax in ALL {
            let _ = read(&bytes, syntax);
        }
        let _ = parse::dotenv::parse(&mut SourceTexts::default(), Path::new("f"), &bytes);
    }

    #[test]
    fn arbitrary_punctuation_never_panics(text in "[\\[\\]{}\",:'#=$&*<!|>%@`~\\-+.eE0-9a-z \n\t\r/\\\\é]{0,80}") {
        for syntax in ALL {
            let _ = read(text.as_bytes(), syntax);
        }
        let variables = toolbooth_config::expand::Variables::default();
        let _ = toolbooth_config::expand::expand(&text, &variables);
        let _ = toolbooth_config::expand::references(&text);
    }

    #[test]
    fn plain_json_reads_as_itself(text in "[a-z\"\\\\é\u{1F600}\n]{0,20}", number in any::<i64>(), float in -1e9f64..1e9) {
        let value = serde_json::json!({ "text": text, "list": [number, float, null, true], "map": { "k": text } });
        let written = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(read(&written, Syntax::Json).unwrap(), value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_with_any_edit_loads_or_reports_an_error(at in 0usize..400, cut in 0usize..6, put in "[\\[\\]{}\",:0-9a-z$]{0,4}") {
        let mut text = WHOLE.to_owned();
        let at = at.min(text.len());
        text.replace_range(at..(at + cut).min(text.len()), &put);
        let world = World::config("work/toolbooth.json", &text);
        match world.load() {
            Ok(loaded) => {
                let _ = toolbooth_config::show(&loaded, toolbooth_config::ShowMode::Resolved);
                let _ = toolbooth_config::explain(&loaded, "servers.a.env");
            }
            Err(failure) => prop_assert!(failure.findings.iter().any(|finding| finding.is_error())),
        }
        let _ = world.report();
    }
}

#[test]
fn depth_and_size_are_limited() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(read(deep.as_bytes(), Syntax::Json).unwrap_err().contains("deeper than 64"));
    }
    assert!(read("[".repeat(100_000).as_bytes(), Syntax::Yaml).is_err());
    assert!(read("- ".repeat(100_000).as_bytes(), Syntax::Yaml).is_err());
    assert!(
        read(format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000)).as_bytes(), Syntax::Toml)
            .is_err()
    );
    assert!(read(format!("{}a = 1", "a.".repeat(100_000)).as_bytes(), Syntax::Toml).is_err());
    let large = vec![b' '; parse::MAX_BYTES + 1];
    assert!(read(&large, Syntax::Json).unwrap_err().contains("more than 4 MiB"));
}

#[test]
fn exponential_yaml_aliases_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    assert!(read(text.as_bytes(), Syntax::Yaml).unwrap_err().contains("more than 200000 values"));
}

#[test]
fn yaml_scalars_follow_version_1_2() {
    let value = read(
        b"a: no\nb: true\nc: ~\nd: 0x1F\ne: 1.50\nf: '1'\ng: 012\nh: 1e3\ni: .inf\nj: 2026-01-01\nk: -7\n",
        Syntax::Yaml,
    );
    expect_test::expect![[r#"{"a":"no","b":true,"c":null,"d":31,"e":1.5,"f":"1","g":12,"h":1000.0,"i":".inf","j":"2026-01-01","k":-7}"#]].assert_eq(&value.unwrap().to_string());
}

#[test]
fn empty_files_are_empty_maps() {
    for (text, syntax) in [
        ("", Syntax::Json),
        ("// c\n", Syntax::Json),
        ("", Syntax::Toml),
        ("# c\n", Syntax::Yaml),
        ("\u{feff}{}", Syntax::Json),
    ] {
        assert_eq!(read(text.as_bytes(), syntax).unwrap(), serde_json::json!({}), "{text:?}");
    }
}

#[test]
fn escape_sequences_follow_json() {
    let value = read(br#"{"a": "\u00e9\ud83d\ude00\n\/\\\"\t"}"#, Syntax::Json).unwrap();
    assert_eq!(value["a"], "é😀\n/\\\"\t");
    for bad in [
        r#"{"a": "\ud83d"}"#,
        r#"{"a": "\ud83dx"}"#,
        r#"{"a": "\u12"}"#,
        r#"{"a": "\x"}"#,
        r#"{"a": "\udc00"}"#,
    ] {
        assert!(read(bad.as_bytes(), Syntax::Json).is_err(), "{bad}");
    }
}
