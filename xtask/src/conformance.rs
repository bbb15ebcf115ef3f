//! `cargo xtask conformance`: runs the official suite against the gateway, in every pair of eras.
//!
//! Server mode runs the suite as a client of `toolbooth serve`, whose only server is the fixture. Client mode
//! runs the suite's mock servers against `toolbooth conformance-client`. `--direct` tests the fixture without the
//! gateway. See `conformance/README.md`.

mod baseline;
mod stage;
mod suite;

use crate::node::NodeTools;
use anyhow::{Result, bail};
use baseline::{Baseline, RunExtent};
use serde_json::json;
use stage::{BuildScope, ConformancePrograms, ConformanceStage};
use std::path::{Path, PathBuf};
use suite::{Scenario, Suite, SuiteRevision};

const USAGE: &str = "usage: cargo xtask conformance [--pair modern-modern|legacy-legacy|legacy-modern|modern-legacy|all] \
                     [--stdio] [--client] [--direct] [--scenario NAME] [--built FOLDER]";

/// How the gateway reaches the fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FixtureTransport {
    Http,
    Stdio,
}

/// One run of the suite: the subject of the test and the revision of the requirements.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SuiteRun {
    /// A client of this revision through the gateway to a server of this era.
    Pair { client: SuiteRevision, server: &'static str, over: FixtureTransport },
    /// A client of this revision connected directly to the fixture of this era.
    Direct { client: SuiteRevision, server: &'static str },
    /// The gateway's own client against the suite's servers.
    Client { revision: SuiteRevision },
}

impl SuiteRun {
    /// Its name in tables and in the list of expected failures.
    fn name(&self) -> String {
        match self {
            Self::Pair { client, server, over: FixtureTransport::Http } => {
                format!("{}-{server}", client.era())
            }
            Self::Pair { client, server, over: FixtureTransport::Stdio } => {
                format!("{}-{server}-stdio", client.era())
            }
            Self::Direct { client, server: "both" } => format!("direct-both-{}", client.date()),
            Self::Direct { server, .. } => format!("direct-{server}"),
            Self::Client { revision } => format!("client-{}", revision.date()),
        }
    }
}

fn pairs() -> Vec<SuiteRun> {
    use SuiteRevision::{Legacy, Modern};
    [(Modern, "modern"), (Legacy, "legacy"), (Legacy, "modern"), (Modern, "legacy")]
        .map(|(client, server)| SuiteRun::Pair { client, server, over: FixtureTransport::Http })
        .to_vec()
}

fn clients() -> Vec<SuiteRun> {
    [SuiteRevision::Modern, SuiteRevision::Legacy].map(|revision| SuiteRun::Client { revision }).to_vec()
}

fn directs() -> Vec<SuiteRun> {
    use SuiteRevision::{Legacy, Modern};
    [(Modern, "modern"), (Legacy, "legacy"), (Modern, "both"), (Legacy, "both")]
        .map(|(client, server)| SuiteRun::Direct { client, server })
        .to_vec()
}

struct Selection {
    runs: Vec<SuiteRun>,
    scenario: Option<String>,
    built: Option<PathBuf>,
}

fn select(arguments: impl IntoIterator<Item = String>) -> Result<Selection> {
    let mut runs = Vec::new();
    let (mut scenario, mut built, mut over) = (None, None, FixtureTransport::Http);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--pair" => match arguments.next().as_deref() {
                Some("all") => runs.extend(pairs()),
                Some(name) => match pairs().into_iter().find(|pair| pair.name() == name) {
                    Some(pair) => runs.push(pair),
                    None => bail!("`{name}` is not a pair of eras\n{USAGE}"),
                },
                None => bail!("`--pair` needs a value\n{USAGE}"),
            },
            "--client" => runs.extend(clients()),
            "--direct" => runs.extend(directs()),
            "--scenario" => match arguments.next() {
                Some(name) => scenario = Some(name),
                None => bail!("`--scenario` needs a value\n{USAGE}"),
            },
            "--stdio" => over = FixtureTransport::Stdio,
            "--built" => match arguments.next() {
                Some(folder) => built = Some(PathBuf::from(folder)),
                None => bail!("`--built` needs a folder\n{USAGE}"),
            },
            other => bail!("unknown argument `{other}`\n{USAGE}"),
        }
    }
    if runs.is_empty() {
        runs = [pairs(), clients()].concat();
    }
    for run in &mut runs {
        if let SuiteRun::Pair { over: run_over, .. } = run {
            *run_over = over;
        }
    }
    Ok(Selection { runs, scenario, built })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// Does the selected runs; an unexpected failure and an outdated expectation are errors.
pub fn run(arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let Selection { runs, scenario, built } = select(arguments)?;
    let root = root();
    let baseline = Baseline::read(&root.join("conformance/expected-failures.yml"))?;
    let suite = Suite::new(NodeTools::install(&root)?);
    let direct = runs.iter().all(|run| matches!(run, SuiteRun::Direct { .. }));
    let scope = if direct { BuildScope::Fixture } else { BuildScope::FixtureAndGateway };
    let programs = match built {
        Some(folder) => ConformancePrograms::find(&root, &folder),
        None => ConformancePrograms::build(&root, scope)?,
    };
    let extent = if scenario.is_none() { RunExtent::Everything } else { RunExtent::OneScenario };
    let (mut passed, mut failed, mut complaints) = (0, 0, Vec::new());
    for run in runs {
        println!("\n== {} ==", run.name());
        let stage = ConformanceStage::new(&programs, &run.name())?;
        let mut scenarios = play(&suite, &stage, &run, scenario.as_deref())?;
        print_table(&scenarios);
        if extent == RunExtent::Everything {
            repeat_unexpected(&suite, &programs, &baseline, &run, &mut scenarios)?;
        }
        for scenario in scenarios.iter().filter(|scenario| scenario.is_scored()) {
            if scenario.failures.is_empty() { passed += 1 } else { failed += 1 }
        }
        complaints.extend(baseline.judge(&run.name(), &scenarios, extent));
    }
    println!();
    for complaint in &complaints {
        println!("{complaint}");
    }
    let verdict = if complaints.is_empty() { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed");
    if !complaints.is_empty() {
        bail!("the conformance suite found {} unexpected results", complaints.len());
    }
    Ok(())
}

/// Runs every scenario with an unexpected failure again, alone and with new processes: some checks wait 1.5 s for
/// a notice that comes only after a write to a disk. The second result counts, and the output shows both.
fn repeat_unexpected(
    suite: &Suite,
    programs: &ConformancePrograms,
    baseline: &Baseline,
    run: &SuiteRun,
    scenarios: &mut [Scenario],
) -> Result<()> {
    for scenario in scenarios.iter_mut() {
        let first = std::slice::from_ref(&*scenario);
        if baseline.judge(&run.name(), first, RunExtent::OneScenario).is_empty() {
            continue;
        }
        println!("repeated:");
        let stage = ConformanceStage::new(programs, &format!("{}-repeated", run.name()))?;
        if let Some(second) = play(suite, &stage, run, Some(&scenario.name))?.pop() {
            print_table(std::slice::from_ref(&second));
            *scenario = second;
        }
    }
    Ok(())
}

fn play(
    suite: &Suite,
    stage: &ConformanceStage<'_>,
    run: &SuiteRun,
    only: Option<&str>,
) -> Result<Vec<Scenario>> {
    match run {
        SuiteRun::Pair { client, server, over: FixtureTransport::Http } => {
            let fixture = stage.start_fixture(server)?;
            let gateway = stage.start_gateway(&json!({ "url": fixture.url, "share": "all" }))?;
            suite.test_server(&gateway.url, *client, stage.folder(), only)
        }
        SuiteRun::Pair { client, server, over: FixtureTransport::Stdio } => {
            let gateway = stage.start_gateway(&stage.fixture_command(server))?;
            suite.test_server(&gateway.url, *client, stage.folder(), only)
        }
        SuiteRun::Direct { client, server } => {
            let fixture = stage.start_fixture(server)?;
            suite.test_server(&fixture.url, *client, stage.folder(), only)
        }
        SuiteRun::Client { revision } => {
            suite.test_client(&stage.client_command()?, *revision, stage.folder(), only)
        }
    }
}

fn print_table(scenarios: &[Scenario]) {
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    for scenario in scenarios {
        let verdict = match (scenario.failures.is_empty(), scenario.is_scored()) {
            (true, _) => "ok",
            (false, true) => "FAILED",
            (false, false) => "fails",
        };
        let remark =
            scenario.unscored.as_ref().map(|reason| format!("  not scored: {reason}")).unwrap_or_default();
        let checks = scenario.passed + scenario.failures.len();
        println!("{verdict:<6}  {:<width$}  {:>2}/{checks:<2}{remark}", scenario.name, scenario.passed);
        for failure in &scenario.failures {
            println!("        {} ({}): {}", failure.check, failure.status, failure.message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_select_the_runs() {
        let cases: [(&[&str], &[&str]); 6] = [
            (&["--pair", "legacy-modern"], &["legacy-modern"]),
            (&["--stdio", "--pair", "legacy-modern"], &["legacy-modern-stdio"]),
            (&["--pair", "all"], &["modern-modern", "legacy-legacy", "legacy-modern", "modern-legacy"]),
            (&["--client"], &["client-2026-07-28", "client-2025-11-25"]),
            (
                &["--direct"],
                &["direct-modern", "direct-legacy", "direct-both-2026-07-28", "direct-both-2025-11-25"],
            ),
            (
                &[],
                &[
                    "modern-modern",
                    "legacy-legacy",
                    "legacy-modern",
                    "modern-legacy",
                    "client-2026-07-28",
                    "client-2025-11-25",
                ],
            ),
        ];
        for (arguments, expected) in cases {
            let selection =
                select(arguments.iter().map(|argument| (*argument).to_owned())).expect("they are valid");
            let names: Vec<String> = selection.runs.iter().map(SuiteRun::name).collect();
            assert_eq!(names, expected, "{arguments:?}");
        }
        assert!(select(["--pair".to_owned(), "old-new".to_owned()]).is_err());
    }
}
