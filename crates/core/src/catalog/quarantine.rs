//! Quarantine: holds tools whose definition contains invisible characters.
//!
//! People judge a tool by what they see, a model by what it reads. If the two differ, the tool is not offered, and only
//! administrators can see that it exists, until one of them releases it. A release applies to one definition: a
//! changed definition is checked again.
//!
//! Quarantined tools are stored beside the other tools of their server, and are not in any list or index. After a
//! release the keeper admits the server again.

use super::candidate::{AdmissionContext, SetAside, ToolCandidate, write_tools};
use super::spelling;
use super::tool::Tool;
use crate::json::{Member, ObjectWriter, RawJson};
use crate::lint::{HiddenCharacter, find_hidden, visible};
use crate::server::ServerEntry;
use std::sync::Arc;

/// A tool in quarantine.
#[derive(Debug, Clone)]
pub struct Quarantined {
    /// The tool as it would be offered.
    pub tool: Arc<Tool>,
    /// What was found in its definition.
    pub why: HiddenCharacter,
}

impl PartialEq for Quarantined {
    fn eq(&self, other: &Self) -> bool {
        self.tool.name == other.tool.name
            && self.tool.definition == other.tool.definition
            && self.why == other.why
    }
}

impl Quarantined {
    /// Whether a name refers to it: the name it would be offered under, its own name, or its canonical id, each also
    /// with hidden characters escaped.
    pub fn has_name(&self, name: &str) -> bool {
        let tool = &self.tool;
        let canonical = tool.canonical();
        *tool.exposed == *name
            || spelling::any_qualified(tool.server.name.as_str(), &tool.name, |form| form == name)
            || [&*tool.name, canonical.as_str()].iter().any(|own| *own == name || visible(own) == name)
    }
}

/// Moves suspicious candidates into quarantine, and records the reason.
pub(super) fn quarantine(
    entry: &Arc<ServerEntry>,
    candidates: &mut Vec<ToolCandidate<'_>>,
    by: AdmissionContext<'_>,
    set_aside: &mut Vec<SetAside>,
) -> Vec<Quarantined> {
    let mut held_back = Vec::new();
    // The gateway's own tools need no check.
    if entry.is_own() {
        return held_back;
    }
    candidates.retain(|candidate| {
        let Some(why) = suspicion(candidate) else { return true };
        let exposed = by.naming.expose_tool(entry.name.as_str(), &candidate.own);
        let (tools, _) = write_tools(entry, vec![candidate.clone()], vec![exposed]);
        let Some(tool) = tools.into_iter().next() else { return true };
        if (by.released)(&tool) {
            return true;
        }
        set_aside.push(SetAside {
            kind: "quarantine",
            name: visible(&candidate.own).into_owned(),
            reason: why.to_string(),
        });
        held_back.push(Quarantined { tool, why });
        false
    });
    held_back
}

/// Hidden characters in the part of a definition that clients see.
fn suspicion(candidate: &ToolCandidate<'_>) -> Option<HiddenCharacter> {
    // Nearly always there are none, and the public definition does not have to be built.
    find_hidden(candidate.source.as_str())?;
    find_hidden(public(&candidate.members).as_str())
}

fn public(members: &[Member]) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(1024);
    for Member { key, value } in members {
        writer.raw(key, value);
    }
    writer.finish()
}
