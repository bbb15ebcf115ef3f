//! Admission over the tools of real servers: none of them may be lost for a sloppy schema.
//!
//! The catalogues are other people's texts and are not part of this repository: where they are absent,
//! this says so and ends. `TOOLBOOTH_CATALOGUES` names another folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use toolbooth_core::catalog::{Discovery, Naming, ServerCatalog, admit};
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::schema::Coverage;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{Inject, ServerEntry, Transport};

/// Tools that may be set aside, by server and name, each for a reason that its comment gives.
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
    // The folder may be that of the files, or the one above it.
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

fn entry(name: &str, inject: Inject) -> Arc<ServerEntry> {
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "_-.".contains(*c)).take(64).collect();
    let name: ServerName = name.parse().expect("a name");
    let command = SecretText::plain("true");
    let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
    let mut entry = ServerEntry::with_defaults(name, transport);
    entry.inject = inject;
    Arc::new(entry)
}

fn admitted(listed: &Listed, inject: Inject) -> ServerCatalog {
    let found = Discovery { tools: listed.tools.clone(), ..Discovery::default() };
    admit(&entry(&listed.server, inject), &found, &Naming::default(), &|_| false)
}

#[test]
fn no_real_tool_is_lost() {
    let Some(catalogues) = catalogues() else {
        println!("skipped: the catalogues of real servers are not here");
        return;
    };
    let (mut total, mut lost) = (0, Vec::new());
    for listed in &catalogues {
        total += listed.tools.len();
        for inject in [Inject::contract(), Inject::nothing()] {
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

/// Arguments that leave a schema something to say, whatever it says.
const TRIED: [&str; 3] = ["{}", r#"{"query":7,"items":[{}],"a":{"b":null}}"#, r#"{"id":"","name":[[]]}"#];

#[test]
fn every_real_schema_can_be_asked() {
    let Some(catalogues) = catalogues() else {
        println!("skipped: the catalogues of real servers are not here");
        return;
    };
    let (mut whole, mut rest) = (0, Vec::new());
    for listed in &catalogues {
        let catalog = admitted(listed, Inject::nothing());
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
