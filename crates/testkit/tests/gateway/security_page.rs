//! `docs/reference/security-tests.md`: every threat and fault with its tests, every REST route with who may call it.
//!
//! The page is generated from `security_tests.toml` and from the OpenAPI document of the running gateway. These tests
//! fail if a threat has no test, if a named test does not exist, or if the page is out of date. `cargo xtask docs` writes the page again.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toolbooth_testkit::world::{Gateway, Home};

const INDEX: &str = include_str!("security_tests.toml");
/// Set by `cargo xtask docs`: the page is written instead of compared.
const WRITE: &str = "TOOLBOOTH_WRITE_DOCS";
/// The sections of the page: the first letter of the ids, and the heading.
const SECTIONS: [(char, &str); 5] =
    [('T', "Threats"), ('F', "Faults"), ('A', "Attacks"), ('H', "Serious faults"), ('M', "Other faults")];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecurityIndex {
    entry: Vec<SecurityEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecurityEntry {
    id: String,
    title: String,
    #[serde(default)]
    defence: String,
    #[serde(default)]
    tests: Vec<String>,
    undefended: Option<String>,
}

fn index() -> Vec<SecurityEntry> {
    toml::from_str::<SecurityIndex>(INDEX).expect("the index is valid").entry
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_path_buf()
}

/// Whether a file has a test function of this name.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().collect();
    lines.iter().enumerate().any(|(number, line)| {
        let line = line.trim_start();
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        let named =
            function.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('));
        // Attributes and comments may be between `#[test]` and the function.
        let above = lines[..number].iter().rev().map(|line| line.trim());
        let mut marks = above.take_while(|line| !line.is_empty() && !line.ends_with(['}', ';', '{']));
        let mut is_marked =
            || marks.any(|mark| mark.starts_with("#[test]") || mark.starts_with("#[tokio::test"));
        named && (is_marked() || is_property(&lines[..number]))
    })
}

/// Whether the lines before a function open a block of `proptest!`.
fn is_property(before: &[&str]) -> bool {
    let marks = before.iter().rev().map(|line| line.trim());
    let mut marks =
        marks.take_while(|line| line.starts_with("#[") || line.starts_with("//") || line.is_empty());
    marks.any(|mark| mark == "#[test]") && before.iter().any(|line| line.contains("proptest!"))
}

#[test]
fn every_threat_and_fault_has_an_existing_test() {
    let entries = index();
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let threats = (1..=50).map(|number| format!("T{number:02}"));
    let expected: Vec<String> = threats.chain((1..=32).map(|number| format!("F{number:02}"))).collect();
    for id in &expected {
        assert_eq!(ids.iter().filter(|found| *found == id).count(), 1, "{id} must be in the index once");
    }
    let mut problems = Vec::new();
    for entry in &entries {
        if !SECTIONS.iter().any(|(letter, _)| entry.id.starts_with(*letter)) {
            problems.push(format!("{}: the page has no section for it", entry.id));
        }
        match &entry.undefended {
            Some(reason) if entry.tests.is_empty() && !reason.is_empty() => {}
            Some(_) => {
                problems.push(format!("{}: give tests, or a reason why there is no defence", entry.id))
            }
            None if entry.tests.is_empty() => problems.push(format!("{}: no test", entry.id)),
            None => {}
        }
        for test in &entry.tests {
            let (file, name) = test.split_once("::").expect("FILE::TEST");
            let source = std::fs::read_to_string(repository().join(file)).unwrap_or_default();
            if !has_test(&source, name) {
                problems.push(format!("{}: there is no test {test}", entry.id));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// One operation: method, path and who may call it.
type Operations = BTreeMap<(String, String), String>;

async fn operations(gateway: &Gateway) -> Operations {
    let document = gateway.http().get_json("/openapi.json").await;
    let mut operations = Operations::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let access = operation["x-toolbooth-access"].as_str().expect("who may call it");
            operations.insert((path.clone(), method.to_uppercase()), access.to_owned());
        }
    }
    operations
}

fn render(operations: &Operations) -> String {
    let mut page = String::from(
        "# Security tests\n\n\
         <!-- Generated by `cargo xtask docs` from crates/testkit/tests/gateway/security_tests.toml. Do not edit. -->\n\n\
         Every threat and fault that the gateway was designed against, with its tests. \
         `cargo xtask test` fails if one has neither a test nor a reason, or if a named test does not exist. \
         `SECURITY.md` of the repository lists the trust assumptions and the threats that are not defended.\n",
    );
    for (letter, title) in SECTIONS {
        let entries: Vec<SecurityEntry> =
            index().into_iter().filter(|entry| entry.id.starts_with(letter)).collect();
        if entries.is_empty() {
            continue;
        }
        let _ = write!(page, "\n## {title}\n\n| id | what | answer | tests |\n|---|---|---|---|\n");
        for SecurityEntry { id, title, defence, tests, undefended } in entries {
            let answer = undefended.map_or(defence, |reason| format!("**Not defended.** {reason}"));
            let tests: Vec<String> = tests.iter().map(|test| format!("`{}`", short(test))).collect();
            let _ = writeln!(page, "| {id} | {title} | {answer} | {} |", tests.join(", "));
        }
    }
    page.push_str(
        "\nA test is named by the end of its file's path and its function: `spoofing::a_test` is in the file `spoofing.rs`.\n\n\
         ## REST routes and who may call them\n\n\
         From the route table, which also enforces access; \
         `routes::every_route_admits_exactly_the_roles_in_the_table` tests every route in every role. \
         \"caller\" is any identified caller; groups, personas and ownership further restrict what a caller sees and \
         may do.\n\n| method | path | who |\n|---|---|---|\n",
    );
    for ((path, method), access) in operations {
        let _ = writeln!(page, "| {method} | `{path}` | {access} |");
    }
    page
}

/// The short name of a test: `crates/core/src/call/tests.rs::name` is `core::call::name`.
fn short(test: &str) -> String {
    let (file, name) = test.split_once("::").unwrap_or((test, ""));
    let file = file.trim_start_matches("crates/").trim_end_matches(".rs");
    let parts: Vec<&str> = file
        .split('/')
        .filter(|part| !matches!(*part, "src" | "tests" | "testkit" | "gateway" | "mod"))
        .collect();
    format!("{}::{name}", parts.join("::"))
}

#[tokio::test]
async fn security_test_page_is_up_to_date() {
    let home = Home::new(&[]);
    let gateway = home.start().await;
    let expected = render(&operations(&gateway).await);
    let place = repository().join("docs/reference/security-tests.md");
    if std::env::var_os(WRITE).is_some() {
        std::fs::create_dir_all(repository().join("docs/reference")).expect("the folder is created");
        std::fs::write(&place, &expected).expect("the page is written");
        return;
    }
    let found = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(found == expected, "{} is out of date: run `cargo xtask docs`", place.display());
}
