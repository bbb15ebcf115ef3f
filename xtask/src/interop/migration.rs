//! The examples for users of other systems: a gateway runs in a copy of each folder of `examples/`, and
//! `interop/seeds` checks their features end to end.

use super::{
    report::InteropReport,
    script::Script,
    stage::{InteropStage, program},
};
use crate::setup::Setup;
use anyhow::Result;
use std::process::Command;

const EXAMPLES: [&str; 3] = ["atlas-ui", "attocode", "atlas"];

/// Runs the checks of every example. A check in `interop/seeds/known-gaps.toml` must fail, every other one must pass.
pub fn check_examples(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    for example in EXAMPLES {
        let mut command = Command::new(setup.second.python());
        command
            .arg(stage.script("seeds/run.py"))
            .arg(example)
            .env("SEEDS_BINARY", program("toolbooth")?)
            .env("SEEDS_SETUP", stage.root.join(".setup"))
            .env("SEEDS_NODE", &setup.node.node)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        stage.isolate(&mut command);
        let log = stage.file(&format!("{example}.log"));
        Script { name: "migration".to_owned(), command, log }.run(report);
    }
    Ok(())
}
