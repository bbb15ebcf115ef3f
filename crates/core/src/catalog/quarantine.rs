//! Quarantine: a tool whose definition holds characters that nobody sees is kept apart.
//!
//! People judge a tool by what they see of it, a model by what it reads. Where the two differ, nobody is offered
//! the tool, and to everybody but those who look after the gateway it does not exist, until one of them releases it.
//! A release is for one definition: another one is looked at anew.

use super::admission::{Admitting, Candidate, SetAside, write_tools};
use super::tool::Tool;
use crate::json::{Member, ObjectWriter, RawJson};
use crate::lint::{Suspect, suspect, visible};
use crate::server::ServerEntry;
use std::sync::Arc;

/// A tool that is kept apart.
#[derive(Debug, Clone)]
pub struct Quarantined {
    /// The tool as it would be offered.
    pub tool: Arc<Tool>,
    /// What was found in it.
    pub why: Suspect,
}

impl PartialEq for Quarantined {
    fn eq(&self, other: &Self) -> bool {
        self.tool.name == other.tool.name
            && self.tool.definition == other.tool.definition
            && self.why == other.why
    }
}

impl Quarantined {
    /// Whether it goes by a name: the one it would be offered under, its server's own, or its canonical id, each
    /// also with what is hidden spelled out.
    pub fn goes_by(&self, name: &str) -> bool {
        let tool = &self.tool;
        let canonical = tool.canonical();
        *tool.exposed == *name
            || [&*tool.name, canonical.as_str()].iter().any(|own| *own == name || visible(own) == name)
    }
}

/// Takes out of the candidates those that are to be kept apart, and notes why.
pub(super) fn hold_back(
    entry: &Arc<ServerEntry>,
    candidates: &mut Vec<Candidate<'_>>,
    by: Admitting<'_>,
    set_aside: &mut Vec<SetAside>,
) -> Vec<Quarantined> {
    let mut held_back = Vec::new();
    // What the gateway itself offers needs no look.
    if entry.is_own() {
        return held_back;
    }
    candidates.retain(|candidate| {
        let Some(why) = suspicion(candidate) else { return true };
        let exposed = by.naming.expose(entry.name.as_str(), &candidate.own);
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

/// What is hidden in that part of a definition that clients see.
fn suspicion(candidate: &Candidate<'_>) -> Option<Suspect> {
    // Almost always nothing, and then nothing has to be written.
    suspect(candidate.source.as_str())?;
    suspect(public(&candidate.members).as_str())
}

fn public(members: &[Member]) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(1024);
    for Member { key, value } in members {
        writer.raw(key, value);
    }
    writer.finish()
}
