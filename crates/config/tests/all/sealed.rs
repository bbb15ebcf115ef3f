//! Sealed values of environment files, and the order of the files.

use crate::world::World;
use std::path::PathBuf;
use std::sync::Arc;
use toolbooth_config::import::{ImportError, ImportFrom, plan};
use toolbooth_config::{SEALED_PREFIX, ValueSealer};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::server::Transport;

/// A sealer whose key is a word: a sealed value is the word, the name, and the value backwards.
struct WordSealer(&'static str);

impl WordSealer {
    fn problem(&self) -> Problem {
        Problem {
            code: "secret.unopened",
            blame: Blame::Gateway,
            message: format!("not sealed with {}", self.0),
            hint: Some("store it again".into()),
        }
    }
}

impl ValueSealer for WordSealer {
    fn seal(&self, name: &str, value: &str) -> Result<String, Problem> {
        match self.0 {
            "lost" => Err(self.problem()),
            word => Ok(format!("{SEALED_PREFIX}{word}.{name}.{}", value.chars().rev().collect::<String>())),
        }
    }

    fn open(&self, name: &str, sealed: &str) -> Result<String, Problem> {
        let value = sealed.strip_prefix(&format!("{SEALED_PREFIX}{}.{name}.", self.0));
        value.map(|value| value.chars().rev().collect()).ok_or_else(|| self.problem())
    }
}

fn world(files: &[(&str, &str)], key: &'static str) -> World {
    let mut world = World::new(files);
    world.sources.sealer = Some(Arc::new(WordSealer(key)));
    world
}

const SERVER: &str =
    r#"{"servers": {"a": {"command": "x", "env": {"TOKEN": "${TOKEN}"}}, "b": {"command": "y"}}}"#;

/// The variable `TOKEN` of the server `a`; the state of the server if it has no value.
fn token(world: &World) -> String {
    let loaded = world.load().unwrap();
    let state = &loaded.server("a").unwrap().state;
    match state.entry().map(|entry| entry.transport.clone()) {
        Some(Transport::Stdio { env, .. }) => env["TOKEN"].expose().to_owned(),
        _ => state.as_str().to_owned(),
    }
}

#[test]
fn the_first_place_with_a_variable_wins() {
    let places = [
        ("work/given.env", "TOKEN=given"),
        ("user/named.env", "TOKEN=named"),
        ("user/secrets.env", "TOKEN=sealed:v1:key.TOKEN.derots"),
        ("user/imported.env", "TOKEN=\"imported\""),
    ];
    let others = [
        ("user/mcp.json", SERVER),
        ("user/toolbooth.toml", "env_file = \"named.env\""),
        ("user/imported.json", r#"{"env_file": "imported.env", "servers": {}}"#),
    ];
    let mut world = world(&[places.as_slice(), &others].concat(), "key").env(&[("TOKEN", "environment")]);
    world.sources.env_file = Some(PathBuf::from("given.env"));
    assert_eq!(token(&world), "environment");
    world.sources.env.clear();
    for (place, expected) in [
        ("work/given.env", "given"),
        ("user/named.env", "named"),
        ("user/secrets.env", "stored"),
        ("user/imported.env", "imported"),
    ] {
        assert_eq!(token(&world), expected, "{place}");
        world.write(place, "");
    }
    assert_eq!(token(&world), "config_error");
    assert!(world.load().unwrap().files.contains(&world.path("user/secrets.env")), "it is watched");
}

#[test]
fn the_file_of_secrets_is_watched_before_it_exists() {
    let world = World::new(&[]);
    let loaded = world.load().unwrap();
    assert!(loaded.files.contains(&world.path("user/secrets.env")) && loaded.findings.is_empty());
}

#[test]
fn a_value_that_cannot_be_opened_counts_as_not_set() {
    let cases = ["sealed:v1:other.TOKEN.x", "sealed:v1:key.OTHER.x", "sealed:v1:", "sealed:v2:key.TOKEN.x"];
    for value in cases {
        let files = [
            ("user/mcp.json", SERVER),
            ("user/secrets.env", &format!("TOKEN={value}\n")),
            // Neither this value nor a default replaces it.
            ("user/imported.env", "TOKEN=old\n"),
            ("user/imported.json", r#"{"servers": {"c": {"command": "z", "args": ["${TOKEN:-none}"]}}}"#),
        ];
        let world = world(&files, "key");
        let loaded = world.load().unwrap();
        assert_eq!(token(&world), "config_error", "{value}");
        assert_eq!(loaded.server("b").unwrap().state.as_str(), "ready");
        assert_eq!(loaded.server("c").unwrap().state.as_str(), "config_error");
        assert!(loaded.variables.is_unopened("TOKEN"));
        let report = world.report();
        assert!(
            report.contains(
                "error[secret.unopened]: the sealed value of `TOKEN` could not be opened: not sealed with key"
            ),
            "{report}"
        );
        assert!(report.contains("--> user/toolbooth/secrets.env") && report.contains("hint: store it again"));
        assert!(
            report.contains("`TOKEN` is not set, because its sealed value could not be opened"),
            "{report}"
        );
    }
}

#[test]
fn a_value_that_is_overridden_is_not_opened() {
    let files = [("user/mcp.json", SERVER), ("user/secrets.env", "TOKEN=sealed:v1:other.TOKEN.x")];
    let world = world(&files, "key").env(&[("TOKEN", "environment")]);
    assert!(world.load().unwrap().findings.is_empty());
    assert_eq!(token(&world), "environment");
}

#[test]
fn without_a_sealer_sealed_values_are_not_used() {
    let world = World::new(&[("user/mcp.json", SERVER), ("user/secrets.env", "TOKEN=sealed:v1:key.TOKEN.x")]);
    assert_eq!(token(&world), "config_error");
    assert!(world.report().contains("error[secret.no-key]"), "{}", world.report());
}

#[test]
fn a_sealed_setting_that_cannot_be_opened_stops_the_load() {
    let mut world =
        world(&[("work/given.env", "TOOLBOOTH_AUTH_MODE=sealed:v1:other.TOOLBOOTH_AUTH_MODE.x")], "key");
    world.sources.env_file = Some(PathBuf::from("given.env"));
    let failure = world.load().unwrap_err();
    assert_eq!(failure.findings[0].code, "secret.unopened");
}

#[test]
fn an_import_seals_the_secrets_that_it_moves() {
    let cursor = r#"{"mcpServers": {"gh": {"command": "gh", "env": {"GH_TOKEN": "hunter2"}}}}"#;
    let mut world =
        world(&[("home/.cursor/mcp.json", cursor), ("user/imported.env", "# mine\nOLD=\"plain\"\n")], "key");
    let from: ImportFrom = "cursor".parse().unwrap();
    plan(&world.sources, &from).unwrap().apply().unwrap();
    let text = std::fs::read_to_string(world.path("user/imported.env")).unwrap();
    let expected = "# mine\nOLD=sealed:v1:key.OLD.nialp\nGH_TOKEN=sealed:v1:key.GH_TOKEN.2retnuh\n";
    assert_eq!(text, expected);
    let loaded = world.load().unwrap();
    assert!(loaded.findings.is_empty(), "{}", world.report());
    assert_eq!(loaded.variables.get("GH_TOKEN"), Some("hunter2"));
    let again = plan(&world.sources, &from).unwrap();
    assert_eq!(again.skipped[0].reason, "is already configured", "the sealed secret is the same");
    // With another secret of this name, the variable gets a number.
    world.write("user/secrets.env", "GH_TOKEN=mine\n");
    world.sources.sealer = Some(Arc::new(WordSealer("another")));
    let other = plan(&world.sources, &from).unwrap();
    assert_eq!(other.servers[0].moved[0].variable, "GH_TOKEN_2");
}

#[test]
fn an_import_that_cannot_seal_writes_nothing() {
    let cursor = r#"{"mcpServers": {"gh": {"command": "gh", "env": {"GH_TOKEN": "hunter2"}}}}"#;
    let world = world(&[("home/.cursor/mcp.json", cursor)], "lost");
    let refused = plan(&world.sources, &"cursor".parse().unwrap()).unwrap().apply().unwrap_err();
    assert!(matches!(&refused, ImportError::NotSealed(_)), "{refused}");
    for file in ["imported.env", "imported.json", "imported.undo.json"] {
        assert!(!world.path(&format!("user/{file}")).exists(), "{file}");
    }
}

#[test]
fn servers_are_found_by_the_variables_of_their_entries() {
    let world = World::new(&[("user/mcp.json", SERVER)]).env(&[("TOKEN", "x")]);
    let servers = world.load().unwrap().servers_by_variable();
    let named: Vec<String> = servers["TOKEN"].iter().map(ToString::to_string).collect();
    assert_eq!((servers.len(), named), (1, vec!["a".to_owned()]));
}
