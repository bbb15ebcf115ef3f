//! Admission of the tools of real servers: none may be lost because of a sloppy schema.
//!
//! The catalogues are not part of this repository. If they are absent, the test prints a note and ends.
//! `TOOLBOOTH_CATALOGUES` names another folder.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use toolbooth_core::catalog::{Discovery, Naming, ServerCatalog, admit};
use toolbooth_core::json::RawJson;
use toolbooth_core::lint::{FindingCode, LintSubject, PASS_MARK, Siblings, examine};
use toolbooth_core::names::ServerName;
use toolbooth_core::schema::Coverage;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{InjectionSettings, ServerEntry, Transport};

/// Tools that may be set aside, by server and name, each with the reason in a comment.
const EXPECTED_ASIDE: &[(&str, &str)] = &[];

struct Listed {
    server: String,
    tools: Vec<RawJson>,
}

fn catalogues() -> Option<Vec<Listed>> {
    let folder = std::env::var_os("TOOLBOOTH_CATALOGUES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/catalogues/real"),
        PathBuf::from,
    );
    // The folder may contain the files directly, or in `real`.
    let folder = Some(folder.join("real")).filter(|real| real.is_dir()).unwrap_or(folder);
    let mut listed = Vec::new();
    for file in std::fs::read_dir(folder).ok()? {
        let path = file.ok()?.path();
        let catalogue = RawJson::parse(std::fs::read(&path).ok()?).expect("a catalogue is JSON");
        let server = path.file_stem()?.to_string_lossy().into_owned();
        listed.push(Listed { server, tools: catalogue.member("tools")?.elements().ok()? });
    }
    Some(listed)
}

fn entry(name: &str, inject: InjectionSettings) -> Arc<ServerEntry> {
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "_-.".contains(*c)).take(64).collect();
    let name: ServerName = name.parse().expect("a name");
    let command = SecretText::plain("true");
    let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
    let mut entry = ServerEntry::with_defaults(name, transport);
    entry.inject = inject;
    Arc::new(entry)
}

fn admitted(listed: &Listed, inject: InjectionSettings) -> ServerCatalog {
    let found = Discovery { tools: listed.tools.clone(), ..Discovery::default() };
    admit(&entry(&listed.server, inject), &found, &Naming::default(), &|_| false)
}

#[test]
fn no_real_tool_is_lost() {
    let Some(catalogues) = catalogues() else {
        println!("skipped: the catalogues of real servers are not available");
        return;
    };
    let (mut total, mut lost) = (0, Vec::new());
    for listed in &catalogues {
        total += listed.tools.len();
        for inject in [InjectionSettings::all(), InjectionSettings::none()] {
            let catalog = admitted(listed, inject);
            for aside in &catalog.set_aside {
                println!("  {} {} `{}`: {}", listed.server, aside.kind, aside.name, aside.reason);
                let expected = EXPECTED_ASIDE.contains(&(&*listed.server, &*aside.name));
                if aside.kind == "tool" && !expected {
                    lost.push(format!("{} {}: {}", listed.server, aside.name, aside.reason));
                }
            }
        }
    }
    println!("{total} tools, {} lost", lost.len());
    assert!(lost.is_empty(), "{lost:#?}");
}

/// Arguments that violate most schemas.
const TRIED: [&str; 3] = ["{}", r#"{"query":7,"items":[{}],"a":{"b":null}}"#, r#"{"id":"","name":[[]]}"#];

#[test]
fn every_real_schema_can_be_checked() {
    let Some(catalogues) = catalogues() else {
        println!("skipped: the catalogues of real servers are not available");
        return;
    };
    let (mut whole, mut rest) = (0, Vec::new());
    for listed in &catalogues {
        let catalog = admitted(listed, InjectionSettings::none());
        for (tool, source) in catalog.tools.iter().map(|tool| (tool, source_of(listed, &tool.name))) {
            assert_eq!(tool.input_schema().as_str(), source.as_str(), "`{}` is listed as it came", tool.name);
            let schema = tool.public_schema();
            for arguments in TRIED {
                schema.objections(&RawJson::parse(arguments).expect("JSON"));
            }
            let noted =
                catalog.set_aside.iter().find(|aside| aside.kind == "schema" && *aside.name == *tool.name);
            match schema.coverage() {
                Coverage::Whole => whole += 1,
                other => {
                    rest.push(format!("{} {}: {other}", listed.server, tool.name));
                    assert_eq!(noted.map(|aside| &aside.reason), Some(&other.to_string()), "{}", tool.name);
                }
            }
        }
    }
    println!("{whole} schemas are checked whole, {} in part or not at all", rest.len());
    for line in &rest {
        println!("  {line}");
    }
}

fn source_of(listed: &Listed, name: &str) -> RawJson {
    let named = |tool: &&RawJson| tool.member("name").and_then(|own| own.string().map(|own| own == name));
    let tool = listed.tools.iter().find(|tool| named(tool) == Some(true)).expect("listed");
    tool.member("inputSchema").expect("a schema")
}

/// Real servers pass by a good margin, and none is quarantined.
#[test]
fn real_tools_are_scored_and_none_is_quarantined() {
    let Some(catalogues) = catalogues() else {
        println!("skipped: the catalogues of real servers are not available");
        return;
    };
    let start = std::time::Instant::now();
    let (mut scores, mut failing, mut odd) = (Vec::new(), 0, BTreeMap::<&str, usize>::new());
    for listed in &catalogues {
        let catalog = admitted(listed, InjectionSettings::none());
        assert!(catalog.quarantined.is_empty(), "{}: {:?}", listed.server, catalog.quarantined);
        let mut siblings = Siblings::default();
        for tool in &catalog.tools {
            siblings.add(&listed.server, &tool.name, &tool.description().unwrap_or_default());
        }
        for tool in &catalog.tools {
            let subject = LintSubject { server: Some(&listed.server), ..tool.lint_subject() };
            let score = examine(&subject).beside(&subject, &siblings);
            failing += usize::from(!score.passes(PASS_MARK));
            for finding in &score.findings {
                *odd.entry(finding.code.as_str()).or_default() += 1;
                if finding.code == FindingCode::AddressesModel {
                    println!("  {} {}: {}", listed.server, tool.name, finding.message);
                }
            }
            scores.push(score.points);
        }
    }
    scores.sort_unstable();
    let at = |share: usize| scores[(scores.len() - 1) * share / 100];
    println!("{} tools in {:?}: {failing} do not pass", scores.len(), start.elapsed());
    println!("least {}, p5 {}, p25 {}, median {}, p75 {}", at(0), at(5), at(25), at(50), at(75));
    println!("{odd:#?}");
    assert!(failing * 100 < scores.len(), "{failing} of {} do not pass", scores.len());
}
