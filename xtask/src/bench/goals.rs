//! Compares medians and ratios of the samples with the goals, and prints a Markdown table.

use super::cells::Samples;
use super::depth::Depth;
use super::route::BenchRoute;
use super::starts::{DELAYS_MS, SERVERS};
use std::collections::BTreeSet;

/// The kind of build that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildKind {
    /// `cargo build --release`.
    Release,
    /// `cargo xtask dist`.
    Dist,
}

impl BuildKind {
    /// The factor by which goals for speed are wider than those of a `dist` build.
    fn slack(self) -> f64 {
        if self == Self::Release { 1.6 } else { 1.0 }
    }
}

/// Whether a goal was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalVerdict {
    /// It was met.
    Met,
    /// It was missed, or its measurement failed.
    Missed,
    /// The program to compare with is not installed.
    Omitted,
}

/// One row of the table.
#[derive(Debug)]
pub struct GoalResult {
    row: u8,
    metric: String,
    goal: String,
    /// Direct, nginx, Toolbooth.
    sides: [String; 3],
    figure: String,
    /// Whether the goal was met.
    pub verdict: GoalVerdict,
}

/// A bound on a figure.
#[derive(Debug, Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    /// The bound for a build that is slower by this factor.
    fn widened(self, factor: f64) -> Self {
        let round = |bound: f64| (bound * 100.0).round() / 100.0;
        match self {
            Self::AtMost(bound) => Self::AtMost(round(bound * factor)),
            Self::AtLeast(bound) => Self::AtLeast(round(bound / factor)),
        }
    }

    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::AtLeast(bound) => figure >= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("<= {bound}"),
            Self::AtLeast(bound) => format!(">= {bound}"),
        }
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, Copy)]
struct Side<'a> {
    cell: &'a str,
    via: BenchRoute,
}

fn side(cell: &str, via: BenchRoute) -> Side<'_> {
    Side { cell, via }
}

/// A ratio of two sides, and its goal.
struct Ratio<'a> {
    row: u8,
    metric: &'a str,
    field: &'a str,
    unit: &'a str,
    above: Side<'a>,
    below: Side<'a>,
    bound: Bound,
}

const CPU: &str = "cpu_us_per_request";

/// Compares these rows with their goals.
pub fn judge(rows: &BTreeSet<u8>, depth: Depth, kind: BuildKind, samples: &Samples) -> Vec<GoalResult> {
    let mut findings = Vec::new();
    for ratio in ratios(depth, kind) {
        findings.push(judge_ratio(&ratio, samples));
    }
    findings.extend(judge_requests(samples));
    for delay in DELAYS_MS {
        findings.push(judge_many_starts(delay, samples));
    }
    findings.push(judge_cached_start(depth, samples));
    findings.extend(judge_memory(depth, samples));
    findings.extend(judge_registry(samples));
    findings.retain(|finding| rows.contains(&finding.row));
    findings.sort_by_key(|finding| finding.row);
    findings
}

fn ratios(depth: Depth, kind: BuildKind) -> Vec<Ratio<'static>> {
    use Bound::{AtLeast, AtMost};
    let against_nginx = |row, metric, cell, bound| Ratio {
        row,
        metric,
        field: CPU,
        unit: "us",
        above: side(cell, BenchRoute::Toolbooth),
        below: side(cell, BenchRoute::Nginx),
        bound: AtMost(bound),
    };
    let mut ratios = vec![
        against_nginx(1, "echo, 16 connections: CPU x nginx", "echo-16", depth.of(2.0, 3.5)),
        against_nginx(1, "echo, 64 connections: CPU x nginx", "echo-64", depth.of(2.0, 3.5)),
        Ratio {
            row: 2,
            metric: "echo, 1 connection: p50 x direct",
            field: "p50_ms",
            unit: "ms",
            above: side("echo-1", BenchRoute::Toolbooth),
            below: side("echo-1", BenchRoute::Direct),
            bound: AtMost(depth.of(2.5, 3.5)),
        },
        Ratio {
            row: 3,
            metric: "echo, 64 connections: calls/s x nginx",
            field: "per_second",
            unit: "/s",
            above: side("echo-64", BenchRoute::Toolbooth),
            below: side("echo-64", BenchRoute::Nginx),
            bound: AtLeast(depth.of(0.7, 0.45)),
        },
        against_nginx(4, "64 KiB result: CPU x nginx", "blob-64k", depth.of(2.0, 4.0)),
        against_nginx(5, "1 MiB result: CPU x nginx", "blob-1m", depth.of(1.2, 3.0)),
        against_nginx(6, "tools/list, 50 tools: CPU x nginx", "list-50", depth.of(0.7, 1.0)),
        against_nginx(6, "tools/list, 1,000 tools: CPU x nginx", "list-1000", depth.of(0.7, 1.0)),
        against_nginx(6, "tools/list, 10,000 tools: CPU x nginx", "list-10000", depth.of(0.7, 1.0)),
        Ratio {
            row: 7,
            metric: "echo: CPU with 10,000 tools / with 50",
            field: CPU,
            unit: "us",
            above: side("echo-16-of-10000", BenchRoute::Toolbooth),
            below: side("echo-16", BenchRoute::Toolbooth),
            bound: AtMost(1.1),
        },
        Ratio {
            row: 9,
            metric: "echo: CPU in the modern era / in the legacy era",
            field: CPU,
            unit: "us",
            above: side("echo-16-modern", BenchRoute::Toolbooth),
            below: side("echo-16", BenchRoute::Toolbooth),
            bound: AtMost(1.2),
        },
    ];
    // If the gateway is compared with itself, both sides are of the same build, so the bound stays.
    for ratio in ratios.iter_mut().filter(|ratio| ratio.below.via != BenchRoute::Toolbooth) {
        ratio.bound = ratio.bound.widened(kind.slack());
    }
    ratios
}

fn judge_ratio(ratio: &Ratio<'_>, samples: &Samples) -> GoalResult {
    let median_of = |side: Side<'_>| {
        median(samples.values(side.cell, side.via, ratio.field).into_iter().map(|(_, value)| value))
    };
    let show = |side: Side<'_>| median_of(side).map_or("-".into(), |value| figure(value, ratio.unit));
    let nginx = side(ratio.above.cell, BenchRoute::Nginx);
    let direct = side(ratio.above.cell, BenchRoute::Direct);
    let own = if ratio.below.via == BenchRoute::Toolbooth {
        format!("{} / {}", show(ratio.above), show(ratio.below))
    } else {
        show(ratio.above)
    };
    // The direct route has no process in between, so it has no CPU time.
    let quotient = median_of(ratio.above).zip(median_of(ratio.below)).map(|(above, below)| above / below);
    let verdict = match quotient {
        Some(quotient) if ratio.bound.holds(quotient) => GoalVerdict::Met,
        None if ratio.below.via == BenchRoute::Nginx && median_of(ratio.above).is_some() => {
            GoalVerdict::Omitted
        }
        _ => GoalVerdict::Missed,
    };
    GoalResult {
        row: ratio.row,
        metric: ratio.metric.to_owned(),
        goal: ratio.bound.text(),
        sides: [show(direct), show(nginx), own],
        figure: quotient
            .map_or("-".into(), |quotient| format!("{quotient:.2}{}", spread(&rounds(ratio, samples)))),
        verdict,
    }
}

/// The ratio of each round.
fn rounds(ratio: &Ratio<'_>, samples: &Samples) -> Vec<f64> {
    let below = samples.values(ratio.below.cell, ratio.below.via, ratio.field);
    let above = samples.values(ratio.above.cell, ratio.above.via, ratio.field);
    let quotient = |(round, above): (usize, f64)| {
        below.iter().find(|(other, _)| *other == round).map(|(_, below)| above / below)
    };
    above.into_iter().filter_map(quotient).collect()
}

fn spread(values: &[f64]) -> String {
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    low.zip(high).map_or(String::new(), |(low, high)| format!(" ({low:.2} to {high:.2})"))
}

fn judge_requests(samples: &Samples) -> Vec<GoalResult> {
    let cases = [
        ("upstream requests per call", "echo-16", 1.0),
        ("upstream requests per call, modern era", "echo-16-modern", 1.0),
        ("upstream requests per cached list", "list-50", 0.0),
    ];
    let total = |cell: &str, via: BenchRoute, field: &str| {
        let values = samples.values(cell, via, field);
        (!values.is_empty()).then(|| values.iter().map(|(_, value)| value).sum::<f64>())
    };
    let finding = |(metric, cell, expected): (&str, &str, f64)| {
        let per_request = |via| total(cell, via, "upstream_messages").zip(total(cell, via, "requests"));
        let quotient = per_request(BenchRoute::Toolbooth).map(|(messages, requests)| messages / requests);
        let show = |via| {
            per_request(via).map_or("-".into(), |(messages, requests)| format!("{messages} / {requests}"))
        };
        GoalResult {
            row: 8,
            metric: metric.to_owned(),
            goal: format!("= {expected}"),
            sides: [BenchRoute::Direct, BenchRoute::Nginx, BenchRoute::Toolbooth].map(show),
            figure: quotient.map_or("-".into(), |quotient| format!("{quotient:.4}")),
            verdict: if quotient == Some(expected) { GoalVerdict::Met } else { GoalVerdict::Missed },
        }
    };
    cases.map(finding).into()
}

fn judge_many_starts(delay_ms: u64, samples: &Samples) -> GoalResult {
    const ALLOWED_MS: f64 = 200.0;
    let cell = format!("start-{SERVERS}-{delay_ms}");
    let time = |via| median(samples.values(&cell, via, "all_listed_ms").into_iter().map(|(_, value)| value));
    let [alone, behind] = [BenchRoute::Direct, BenchRoute::Toolbooth].map(time);
    let more = alone.zip(behind).map(|(alone, behind)| behind - alone);
    GoalResult {
        row: 11,
        metric: format!("{SERVERS} stdio servers that need {delay_ms} ms, until all are listed"),
        goal: format!("slowest server + {ALLOWED_MS} ms"),
        sides: [show_ms(alone), "-".into(), show_ms(behind)],
        figure: more.map_or("-".into(), |more| format!("{more:+.0} ms")),
        verdict: judge_bound(more, ALLOWED_MS),
    }
}

fn judge_cached_start(depth: Depth, samples: &Samples) -> GoalResult {
    let allowed_ms = depth.of(50.0, 100.0);
    let times = samples.values("cached-start", BenchRoute::Toolbooth, "all_listed_ms");
    let time = median(times.into_iter().map(|(_, value)| value));
    GoalResult {
        row: 12,
        metric: "process start to first answer from the cached catalog".into(),
        goal: format!("<= {allowed_ms} ms"),
        sides: ["-".into(), "-".into(), show_ms(time)],
        figure: show_ms(time),
        verdict: judge_bound(time, allowed_ms),
    }
}

fn judge_memory(depth: Depth, samples: &Samples) -> Vec<GoalResult> {
    let most = |cell: &str, via: BenchRoute, field: &str| {
        let values = samples.values(cell, via, field).into_iter().map(|(_, kib)| kib / 1024.0);
        values.reduce(f64::max)
    };
    let own = |cell: &str, field: &str| most(cell, BenchRoute::Toolbooth, field);
    // The larger of before and after, because serving lists may leave memory allocated.
    let many = ["memory-idle-10000", "memory-after-10000"].map(|cell| own(cell, "resident_kib"));
    let many = many.into_iter().flatten().reduce(f64::max);
    let cases = [
        (13, "RSS idle, 50 tools", own("memory-idle-50", "resident_kib"), None, depth.of(20.0, 40.0)),
        (
            13,
            "RSS under 64 connections, peak",
            own("echo-64", "peak_resident_kib"),
            most("echo-64", BenchRoute::Nginx, "peak_resident_kib"),
            depth.of(40.0, 64.0),
        ),
        (
            14,
            "RSS with 10,000 tools",
            many,
            most("list-10000", BenchRoute::Nginx, "peak_resident_kib"),
            depth.of(64.0, 120.0),
        ),
    ];
    let show = |value: Option<f64>| value.map_or("-".into(), |value| figure(value, "MiB"));
    let finding = |(row, metric, value, nginx, bound): (u8, &str, _, _, f64)| GoalResult {
        row,
        metric: metric.to_owned(),
        goal: format!("<= {bound} MiB"),
        sides: ["-".into(), show(nginx), show(value)],
        figure: show(value),
        verdict: judge_bound(value, bound),
    };
    cases.map(finding).into()
}

fn judge_registry(samples: &Samples) -> Vec<GoalResult> {
    let time = |cell: &str, field: &str| {
        median(samples.values(cell, BenchRoute::Toolbooth, field).into_iter().map(|(_, value)| value))
    };
    let cases = [
        ("`GET /tools`, first page of 10,000 tools, 5 personas, p99", time("registry-page", "p99_ms"), 5.0),
        ("complete refresh of the registry, 10,000 tools", time("registry-refresh", "refresh_ms"), 1000.0),
    ];
    let finding = |(metric, value, bound): (&str, Option<f64>, f64)| GoalResult {
        row: 16,
        metric: metric.to_owned(),
        goal: format!("<= {bound} ms"),
        sides: ["-".into(), "-".into(), show_ms(value)],
        figure: show_ms(value),
        verdict: judge_bound(value, bound),
    };
    cases.map(finding).into()
}

fn judge_bound(value: Option<f64>, bound: f64) -> GoalVerdict {
    if value.is_some_and(|value| value <= bound) { GoalVerdict::Met } else { GoalVerdict::Missed }
}

fn show_ms(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| figure(value, "ms"))
}

/// A figure with three significant digits.
fn figure(value: f64, unit: &str) -> String {
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else if value >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.digits$} {unit}")
}

/// The middle value.
fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 { Some(upper) } else { Some((values[middle - 1] + upper) / 2.0) }
}

/// The findings as a Markdown table.
pub fn table(findings: &[GoalResult]) -> String {
    let mut text = String::from(
        "| # | metric | goal | direct | nginx | Toolbooth | figure (rounds) | |\n|---|---|---|---|---|---|---|---|",
    );
    for GoalResult { row, metric, goal, sides: [direct, nginx, toolbooth], figure, verdict } in findings {
        let verdict = match verdict {
            GoalVerdict::Met => "met",
            GoalVerdict::Missed => "**MISSED**",
            GoalVerdict::Omitted => "omitted",
        };
        text.push_str(&format!(
            "\n| {row} | {metric} | {goal} | {direct} | {nginx} | {toolbooth} | {figure} | {verdict} |"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict_of(row: u8, samples: &Samples) -> Vec<GoalVerdict> {
        judge(&BTreeSet::from([row]), Depth::Lean, BuildKind::Dist, samples)
            .iter()
            .map(|finding| finding.verdict)
            .collect()
    }

    fn cpu(
        round: usize,
        via: BenchRoute,
        value: f64,
    ) -> (usize, &'static str, BenchRoute, serde_json::Value) {
        (round, "blob-64k", via, json!({ CPU: value }))
    }

    #[test]
    fn the_ratio_of_the_medians_decides() {
        let quiet = [
            cpu(1, BenchRoute::Nginx, 10.0),
            cpu(2, BenchRoute::Nginx, 11.0),
            cpu(3, BenchRoute::Nginx, 50.0),
        ];
        let fast = [
            cpu(1, BenchRoute::Toolbooth, 90.0),
            cpu(2, BenchRoute::Toolbooth, 20.0),
            cpu(3, BenchRoute::Toolbooth, 21.0),
        ];
        let slow = [
            cpu(1, BenchRoute::Toolbooth, 10.0),
            cpu(2, BenchRoute::Toolbooth, 23.0),
            cpu(3, BenchRoute::Toolbooth, 24.0),
        ];
        let samples = Samples::from_values(&[quiet.clone(), fast].concat());
        assert_eq!(verdict_of(4, &samples), [GoalVerdict::Met]);
        assert_eq!(verdict_of(4, &Samples::from_values(&[quiet, slow].concat())), [GoalVerdict::Missed]);
    }

    #[test]
    fn without_nginx_its_rows_are_omitted_and_without_toolbooth_they_are_missed() {
        assert_eq!(
            verdict_of(4, &Samples::from_values(&[cpu(1, BenchRoute::Toolbooth, 1.0)])),
            [GoalVerdict::Omitted]
        );
        assert_eq!(
            verdict_of(4, &Samples::from_values(&[cpu(1, BenchRoute::Nginx, 1.0)])),
            [GoalVerdict::Missed]
        );
    }

    #[test]
    fn requests_upstream_are_counted_exactly() {
        let count = |messages: u64| {
            let sample = |cell| {
                (1, cell, BenchRoute::Toolbooth, json!({ "requests": 1000, "upstream_messages": messages }))
            };
            Samples::from_values(&[sample("echo-16"), sample("echo-16-modern"), sample("list-50")])
        };
        assert_eq!(verdict_of(8, &count(1000)), [GoalVerdict::Met, GoalVerdict::Met, GoalVerdict::Missed]);
        assert_eq!(verdict_of(8, &count(1001)), [GoalVerdict::Missed; 3]);
        assert_eq!(verdict_of(8, &count(0)), [GoalVerdict::Missed, GoalVerdict::Missed, GoalVerdict::Met]);
    }

    #[test]
    fn the_median_is_the_middle_value() {
        let cases: [(&[f64], Option<f64>); 4] =
            [(&[], None), (&[3.0], Some(3.0)), (&[9.0, 1.0, 2.0], Some(2.0)), (&[1.0, 4.0], Some(2.5))];
        for (values, expected) in cases {
            assert_eq!(median(values.iter().copied()), expected, "{values:?}");
        }
    }

    #[test]
    fn a_table_is_markdown() {
        let samples =
            Samples::from_values(&[cpu(1, BenchRoute::Nginx, 10.0), cpu(1, BenchRoute::Toolbooth, 15.0)]);
        let table = table(&judge(&BTreeSet::from([4]), Depth::Lean, BuildKind::Dist, &samples));
        let line =
            "| 4 | 64 KiB result: CPU x nginx | <= 2 | - | 10.0 us | 15.0 us | 1.50 (1.50 to 1.50) | met |";
        assert_eq!(table.lines().last(), Some(line));
    }
}
