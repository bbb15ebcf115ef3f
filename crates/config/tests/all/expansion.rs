//! Expansion of `${NAME}` and its variants.

use crate::world::World;
use std::collections::BTreeMap;
use toolbooth_config::expand::{Variables, expand, references};

fn variables() -> Variables {
    let pairs = [("A", "one"), ("B", "two"), ("EMPTY", ""), ("NESTED", "${A}")];
    Variables::new(
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<BTreeMap<_, _>>(),
    )
}

#[test]
fn strings_are_expanded_once() {
    let cases = [
        ("${A}", "one"),
        ("pre-${A}-post", "pre-one-post"),
        ("${A}${B}", "onetwo"),
        ("${env:A}", "one"),
        ("${A:-x}", "one"),
        ("${UNSET:-x}", "x"),
        ("${env:UNSET:-x}", "x"),
        ("${UNSET:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-x}", "x"),
        ("${NESTED}", "${A}"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$$A", "$$A"),
        ("$A", "$A"),
        ("^a$", "^a$"),
        ("100$", "100$"),
        ("no variables", "no variables"),
        ("${UNSET:-http://x:1/}", "http://x:1/"),
        ("é${A}é", "éoneé"),
    ];
    for (template, expected) in cases {
        let value = expand(template, &variables()).unwrap().unwrap_or_else(|| template.to_owned());
        assert_eq!(value, expected, "{template}");
    }
}

#[test]
fn invalid_references_are_errors() {
    let cases = [
        ("${UNSET}", "the variable `UNSET` is not set"),
        ("${A", "`${` has no closing `}`"),
        ("${}", "`${}` does not name a variable"),
        ("${1A}", "`${1A}` does not name a variable"),
        ("${a b}", "`${a b}` does not name a variable"),
        ("${input:key}", "`${input:key}` does not name a variable"),
        ("${UNSET:-${A}}", "`${UNSET:-${A}` does not name a variable"),
    ];
    for (template, expected) in cases {
        assert_eq!(expand(template, &variables()).unwrap_err().to_string(), expected, "{template}");
    }
}

#[test]
fn the_length_of_an_expansion_is_limited() {
    let long = Variables::new([("A".to_owned(), "x".repeat(100_000))].into());
    assert_eq!(
        expand(&"${A}".repeat(20), &long).unwrap_err().to_string(),
        "the text is longer than 1 MiB after expansion"
    );
}

#[test]
fn references_lists_variable_names() {
    assert_eq!(references("a${B}c${env:D:-x}$${E}"), ["B", "D"]);
}

#[test]
fn all_string_fields_are_expanded_and_secrets_are_not_printed() {
    let world = World::config(
        "work/mcp.json",
        r#"{"servers": {
            "a": {"command": "${CMD}", "args": ["--key=${KEY}"], "env": {"T": "${KEY}"}, "groups": ["${TEAM}"]},
            "b": {"url": "https://${HOST}/mcp?k=${KEY}", "headers": {"Authorization": "Bearer ${KEY}"}}
        }}"#,
    )
    .env(&[("CMD", "run"), ("KEY", "hunter2"), ("TEAM", "staff"), ("HOST", "h.example")]);
    let loaded = world.load().unwrap();
    let a = loaded.server("a").unwrap().state.entry().unwrap();
    assert_eq!(a.groups, ["staff"]);
    let toolbooth_core::server::Transport::Stdio { command, args, .. } = &a.transport else { panic!() };
    assert_eq!((command.expose(), args[0].expose()), ("run", "--key=hunter2"));
    let printed = format!("{loaded:?} {:?}", world.sources);
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[test]
fn literal_secrets_are_not_printed() {
    let world = World::config(
        "work/toolbooth.yaml",
        "files: {key: hunter2hunter2hunter2hunter2hunter2}\nllm: {api_key: hunter2}\nstore: {url: 'memory:'}\n\
         telemetry: {headers: {X-Key: hunter2}}\nevents: {webhooks: [https://h/hunter2, {url: https://h/hunter2}]}\nservers:\n  a: {command: x, args: [--token, hunter2], env: {API_KEY: hunter2}}\n  \
         b: {url: 'https://h/?token=hunter2', auth_token: hunter2, headers: {Authorization: Bearer hunter2}}\n",
    );
    let loaded = world.load().unwrap();
    assert_eq!(loaded.servers.len(), 2);
    let shown = [toolbooth_config::ShowMode::Written, toolbooth_config::ShowMode::Resolved]
        .map(|view| toolbooth_config::show(&loaded, view).to_string());
    let printed = format!("{loaded:?} {shown:?}");
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[test]
fn child_processes_inherit_only_listed_variables() {
    let world = World::config("work/a.json", "{}").env(&[
        ("PATH", "/bin"),
        ("LC_ALL", "C"),
        ("LC_TIME", "C"),
        ("SECRET", "hunter2"),
        ("LANGUAGE", "en"),
    ]);
    let base = world.load().unwrap().base_environment();
    assert_eq!(base.names().collect::<Vec<_>>(), ["LC_ALL", "LC_TIME", "PATH"]);
}

#[test]
fn the_environment_takes_precedence_over_env_files() {
    let text =
        r#"{"env_file": "own.env", "servers": {"a": {"command": "x", "args": ["${A}", "${B}", "${C}"]}}}"#;
    let mut world = World::config("work/mcp.json", text).env(&[("A", "process")]);
    world.write("work/named.env", "A=named\nexport B=\"na\\\"med\" # note\n");
    world.write("work/own.env", "A=own\nB=own\nC='o$wn'\n");
    world.sources.env_file = Some("named.env".into());
    let loaded = world.load().unwrap();
    let entry = loaded.server("a").unwrap().state.entry().unwrap().clone();
    let toolbooth_core::server::Transport::Stdio { args, .. } = &entry.transport else { panic!() };
    let values: Vec<&str> = args.iter().map(|arg| arg.expose()).collect();
    assert_eq!(values, ["process", "na\"med", "o$wn"]);
    assert!(loaded.files.contains(&world.path("work/own.env")));
}
