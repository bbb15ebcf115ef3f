//! `cargo xtask bench`: measures the cost of a call through the gateway, compared with no gateway and with nginx.
//!
//! All cells run interleaved, round after round, so that a load peak of the machine affects every side. The ratios
//! of the medians are compared with the goals. See `bench/README.md`.

mod cells;
mod depth;
mod goals;
pub mod profile;
mod registry;
mod route;
mod stage;
mod starts;

use anyhow::{Context, Result, bail, ensure};
use cells::{BenchCell, CELLS, Samples};
use depth::Depth;
use goals::{BuildKind, GoalVerdict};
use route::BenchRoute;
use stage::{BenchPrograms, BenchStage};
use std::{collections::BTreeSet, path::Path, path::PathBuf, time::Duration};

const USAGE: &str = "usage: cargo xtask bench [--rows 1,2,...] [--rounds N] [--quick] [--full] [--dist] [--report-only] \
                     [--toolbooth PROGRAM] [--built FOLDER]";

/// The rows of the table of goals that this task measures.
const ROWS: [u8; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16];

/// The effect of a missed goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnMiss {
    Fail,
    Report,
}

#[derive(Debug, PartialEq, Eq)]
struct BenchPlan {
    rows: BTreeSet<u8>,
    rounds: usize,
    /// The duration of one measurement of a cell.
    length: Duration,
    on_miss: OnMiss,
    depth: Depth,
    kind: BuildKind,
    toolbooth: Option<PathBuf>,
    built: Option<PathBuf>,
}

fn plan(arguments: impl IntoIterator<Item = String>) -> Result<BenchPlan> {
    let mut plan = BenchPlan {
        rows: ROWS.into(),
        // Many short rounds: disturbances of a machine last for seconds, and a median needs several quiet rounds.
        rounds: 15,
        length: Duration::from_millis(500),
        on_miss: OnMiss::Fail,
        depth: Depth::Lean,
        kind: BuildKind::Release,
        toolbooth: None,
        built: None,
    };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("`{argument}` needs a value\n{USAGE}"));
        match argument.as_str() {
            "--rows" => plan.rows = rows(&value()?)?,
            "--rounds" => {
                plan.rounds = value()?.parse().context("`--rounds` needs a number")?;
                ensure!((1..=100).contains(&plan.rounds), "`--rounds` takes 1 to 100");
            }
            "--quick" => (plan.rounds, plan.length) = (2, Duration::from_millis(400)),
            "--full" => plan.depth = Depth::Full,
            "--dist" => plan.kind = BuildKind::Dist,
            "--report-only" => plan.on_miss = OnMiss::Report,
            "--toolbooth" => plan.toolbooth = Some(PathBuf::from(value()?)),
            "--built" => plan.built = Some(PathBuf::from(value()?)),
            other => bail!("unknown argument `{other}`\n{USAGE}"),
        }
    }
    Ok(plan)
}

fn rows(text: &str) -> Result<BTreeSet<u8>> {
    let row = |text: &str| match text.trim().parse() {
        Ok(row) if ROWS.contains(&row) => Ok(row),
        _ => bail!("`{text}` is not a row; the rows are {ROWS:?}"),
    };
    text.split(',').map(row).collect()
}

/// Measures the selected rows; a missed goal is an error.
pub fn run(root: &Path, arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let mut plan = plan(arguments)?;
    if plan.kind == BuildKind::Dist && plan.toolbooth.is_none() {
        plan.toolbooth = Some(crate::dist::program(root)?);
    }
    let programs = match &plan.built {
        Some(folder) => BenchPrograms::find(folder, plan.toolbooth.as_deref())?,
        None => BenchPrograms::build(root, plan.toolbooth.as_deref())?,
    };
    if programs.nginx.is_none() {
        println!(
            "note: nginx is not installed (Debian's package nginx-light), so its columns and ratios are omitted"
        );
    }
    let mut samples = Samples::create(&root.join("bench/results"))?;
    measure(&plan, &programs, &mut samples)?;
    let findings = goals::judge(&plan.rows, plan.depth, plan.kind, &samples);
    println!("\n{}", goals::table(&findings));
    println!("\nSamples: {}", samples.path().display());
    let missed: Vec<_> = findings.iter().filter(|finding| finding.verdict == GoalVerdict::Missed).collect();
    let met = findings.iter().filter(|finding| finding.verdict == GoalVerdict::Met).count();
    println!("{met} goals met, {} missed", missed.len());
    if !missed.is_empty() && plan.on_miss == OnMiss::Fail {
        bail!("{} goals were missed (with `--report-only` this is not an error)", missed.len());
    }
    Ok(())
}

fn measure(plan: &BenchPlan, programs: &BenchPrograms, samples: &mut Samples) -> Result<()> {
    let cells: Vec<&BenchCell> =
        CELLS.iter().filter(|cell| cell.rows.iter().any(|row| plan.rows.contains(row))).collect();
    let stage = BenchStage::new(programs, plan.depth)?;
    let sizes: BTreeSet<usize> = cells.iter().map(|cell| cell.tools).collect();
    let mut stacks = Vec::new();
    for tools in sizes {
        let stack = stage.start_stack(tools).with_context(|| format!("the stack with {tools} tools"))?;
        samples.add(0, &format!("memory-idle-{tools}"), BenchRoute::Toolbooth, stack.memory());
        stacks.push(stack);
    }
    let cached = if plan.rows.contains(&12) { Some(starts::CachedGateway::fill(&stage)?) } else { None };
    let registry = if plan.rows.contains(&16) { Some(registry::Registry::start(&stage)?) } else { None };
    for round in 1..=plan.rounds {
        println!("round {round} of {}", plan.rounds);
        for cell in &cells {
            let Some(stack) = stacks.iter().find(|stack| stack.tools == cell.tools) else { continue };
            for via in [BenchRoute::Direct, BenchRoute::Nginx, BenchRoute::Toolbooth] {
                if cell.is_measured(via) && stack.has(via) {
                    samples.add(round, cell.name, via, cell.measure(stack, via, plan.length));
                }
            }
        }
        if plan.rows.contains(&11) {
            starts::many_servers(&stage, round, samples);
        }
        if let Some(cached) = &cached {
            samples.add(round, "cached-start", BenchRoute::Toolbooth, cached.start(&stage));
        }
        if let Some(registry) = &registry {
            registry.measure(round, samples);
        }
    }
    for stack in &stacks {
        samples.add(
            plan.rounds,
            &format!("memory-after-{}", stack.tools),
            BenchRoute::Toolbooth,
            stack.memory(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_make_a_plan() -> Result<()> {
        let chosen = plan(words("--quick --rows 1,14 --report-only --toolbooth /x"))?;
        assert_eq!(chosen.rows, BTreeSet::from([1, 14]));
        assert_eq!((chosen.rounds, chosen.on_miss), (2, OnMiss::Report));
        assert_eq!(chosen.toolbooth, Some(PathBuf::from("/x")));
        let all = plan(words(""))?;
        assert_eq!((all.rounds, all.rows.len(), all.on_miss), (15, ROWS.len(), OnMiss::Fail));
        Ok(())
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for arguments in ["--rows 10", "--rows x", "--rounds 0", "--rounds", "--fast"] {
            assert!(plan(words(arguments)).is_err(), "{arguments}");
        }
    }

    #[test]
    fn every_row_has_a_measurement() {
        let without_cell = [11, 12, 16];
        for row in ROWS {
            assert!(
                without_cell.contains(&row) || CELLS.iter().any(|cell| cell.rows.contains(&row)),
                "{row}"
            );
        }
    }
}
