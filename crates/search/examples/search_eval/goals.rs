//! The goals, and whether they are met.

use super::measure::{Figures, mean};
use super::sets::EvalSet;
use super::speed::Speed;
use std::fmt::Write as _;
use std::time::Duration;

/// One line for each goal.
pub fn judge(
    sets: &[EvalSet],
    ours: &[Figures],
    (spellings, first): (usize, usize),
    speeds: &[Speed],
    with_encoder: bool,
) -> String {
    let mut text = String::new();
    let mut line = |goal: &str, met: bool, found: String| {
        let _ = writeln!(text, "{:7} {goal}: {found}", if met { "met" } else { "missed" });
    };
    let mean = mean(ours);
    let at_five =
        |name: &str| sets.iter().zip(ours).find(|(set, _)| set.name == name).map(|(_, f)| f.recall[2]);
    let (goal, least) = if with_encoder { ("S8", 0.80) } else { ("S1", 0.78) };
    line(
        &format!("{goal} mean recall@5 >= {least}"),
        mean.recall[2] >= least,
        format!("{:.3}", mean.recall[2]),
    );
    for (set, least) in [("livemcp-agent", 0.93), ("real", 0.73)] {
        if let Some(found) = at_five(set) {
            line(&format!("S2 {set} recall@5 >= {least}"), found >= least, format!("{found:.3}"));
        }
    }
    line("S3 mean recall@1 >= 0.50", mean.recall[0] >= 0.5, format!("{:.3}", mean.recall[0]));
    line("S4 exact names first: all", first == spellings, format!("{first} of {spellings}"));
    for speed in speeds {
        let (name, median, build) = match speed.tools {
            ..=5_000 => ("S7", Duration::from_micros(500), Duration::from_millis(300)),
            _ => ("row 15", Duration::from_millis(2), Duration::from_secs(1)),
        };
        let met = speed.median <= median && speed.slow <= Duration::from_millis(2) && speed.build <= build;
        line(&format!("{name} p50 <= {median:?}, p99 <= 2ms, index <= {build:?}"), met, speed.to_string());
    }
    text
}
