//! Effects of the tools of real servers: which ones plan mode would let run by name alone.
//!
//! The catalogues are not part of this repository. If they are absent, the test prints a note and ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use toolbooth_core::effects::effect;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{ServerEntry, SideEffects, Transport};

struct Listed {
    server: String,
    name: String,
    definition: RawJson,
}

fn catalogues() -> Option<Vec<Listed>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/catalogues/real");
    let mut listed = Vec::new();
    for file in std::fs::read_dir(folder).ok()? {
        let Ok(text) = std::fs::read(file.ok()?.path()) else { continue };
        let Ok(catalogue) = RawJson::parse(text) else { continue };
        let server = catalogue.member("server")?.string()?.into_owned();
        for definition in catalogue.member("tools")?.elements().ok()? {
            let name = definition.member("name")?.string()?.into_owned();
            listed.push(Listed { server: server.clone(), name, definition });
        }
    }
    Some(listed)
}

fn entry(name: &str) -> ServerEntry {
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "_-.".contains(*c)).take(64).collect();
    let name: ServerName = name.parse().expect("a name");
    let command = SecretText::plain("true");
    let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
    ServerEntry::with_defaults(name, transport)
}

fn says(tool: &Listed, hint: &str) -> Option<bool> {
    let value = tool.definition.at(&["annotations", hint])?;
    value.as_str().parse().ok()
}

#[test]
fn no_declared_write_passes_as_a_read() {
    let Some(tools) = catalogues() else {
        println!("skipped: the catalogues of real servers are not available");
        return;
    };
    let (mut reads, mut needless, mut passed) = (0, Vec::new(), Vec::new());
    for tool in &tools {
        let found = effect(&entry(&tool.server), SideEffects::Network, &tool.name, &tool.definition);
        let destructive = says(tool, "destructiveHint") == Some(true);
        match says(tool, "readOnlyHint") {
            Some(true) => {
                reads += 1;
                if found.rung.writes() {
                    needless.push(format!("{} {} {found:?}", tool.server, tool.name));
                }
            }
            Some(false) if !found.rung.writes() => {
                passed.push(format!("{} {} (destructive: {destructive})", tool.server, tool.name));
            }
            None if destructive && !found.rung.writes() => {
                passed.push(format!("{} {} (destructive: true)", tool.server, tool.name));
            }
            _ => {}
        }
    }
    println!("{} tools, {reads} declared reads, {} queued needlessly by name", tools.len(), needless.len());
    for line in &needless {
        println!("  needless: {line}");
    }
    for line in &passed {
        println!("  passed: {line}");
    }
    assert!(passed.is_empty(), "{} writes pass for reads", passed.len());
}
