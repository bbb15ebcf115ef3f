//! `cargo xtask interop`: other people's clients and servers, through the real gateway.
//!
//! Clients take a tour (`interop/clients/tour.py`) through a gateway with our fixture behind it, once as a server of
//! the older revisions and once of the newest; servers that nobody here wrote stand behind another gateway
//! and have to give right answers. Nothing of theirs may be left running afterwards.

mod approvals;
mod authors;
mod clients;
mod guide;
mod inspector;
mod openapi;
mod process;
mod report;
mod script;
mod servers;
mod stage;

use crate::setup::Setup;
use anyhow::{Result, bail};
use report::Report;
use stage::Stage;
use std::path::Path;

type Part = fn(&Setup, &Stage, &mut Report) -> Result<()>;

const PARTS: [(&str, Part); 9] = [
    ("clients", clients::tour),
    ("approvals", approvals::ask),
    ("inspector", inspector::inspect),
    ("openapi", openapi::fuzz),
    ("alone", clients::alone),
    ("servers", servers::visit),
    ("examples", authors::examples),
    ("guide", guide::follow),
    ("seeds", authors::seeds),
];

/// Runs the parts of these names, or all.
pub fn run(root: &Path, names: impl Iterator<Item = String>) -> Result<()> {
    let names: Vec<String> = names.collect();
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        let known: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
        bail!("`{unknown}` is no part of it; known: {}", known.join(", "));
    }
    let setup = Setup::install(root)?;
    stage::build(root)?;
    let mut report = Report::default();
    for (name, part) in PARTS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("\n-- {name} --");
        // A part that cannot be set up is one failure more, and no reason to leave out the others.
        let outcome = Stage::new(root, name).and_then(|stage| part(&setup, &stage, &mut report));
        if let Err(error) = outcome {
            report.failed(name, &format!("{error:#}"));
        }
    }
    report.conclude()
}
