//! `cargo xtask interop`: tests third-party clients and servers with the real gateway.
//!
//! Clients run a fixed list of checks (`interop/clients/tour.py`) through a gateway with the fixture as its server, once
//! in a legacy revision and once in the modern one. Third-party servers run behind another gateway and must give
//! correct answers. None of their processes may remain afterwards.

mod approvals;
mod authors;
mod clients;
mod guide;
mod inspector;
mod many_servers;
mod migration;
mod openapi;
pub mod process;
mod published;
mod report;
mod script;
mod servers;
mod stage;

pub use process::memory_kib;
pub use stage::BUILT;

use crate::setup::Setup;
use anyhow::{Result, bail};
use report::InteropReport;
use stage::InteropStage;
use std::path::Path;

type InteropPart = fn(&Setup, &InteropStage, &mut InteropReport) -> Result<()>;

/// The longest first: `cargo xtask test` runs two of them at a time.
const PARTS: [(&str, InteropPart); 11] = [
    ("migration", migration::check_examples),
    ("openapi", openapi::fuzz),
    ("clients", clients::tour),
    ("servers", servers::call_tools),
    ("many-servers", many_servers::call_each),
    ("inspector", inspector::inspect),
    ("seeds", authors::seeds),
    ("guide", guide::follow),
    ("approvals", approvals::ask),
    ("alone", clients::alone),
    ("examples", authors::examples),
];

/// The names of all parts, the longest first.
pub fn part_names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(name, _)| *name)
}

/// Runs the parts with these names, or all.
pub fn run(root: &Path, names: impl Iterator<Item = String>) -> Result<()> {
    let names: Vec<String> = names.collect();
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        let known: Vec<&str> = part_names().collect();
        bail!("unknown part `{unknown}`; known: {}", known.join(", "));
    }
    let setup = Setup::install(root)?;
    stage::build(root)?;
    let mut report = InteropReport::default();
    for (name, part) in PARTS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("\n-- {name} --");
        // A part that cannot be set up counts as one failure; the other parts still run.
        let outcome = InteropStage::new(root, name).and_then(|stage| part(&setup, &stage, &mut report));
        if let Err(error) = outcome {
            report.failed(name, &format!("{error:#}"));
        }
    }
    report.conclude()
}
