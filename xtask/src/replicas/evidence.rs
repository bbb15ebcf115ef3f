//! What is left of a load: the audit log of the gateways, the file that their servers wrote, held calls and dead letters.

use super::caller::CallReply;
use super::cluster::ReplicaCluster;
use super::load::{CallKind, LoadOutcome};
use super::report::ReplicaReport;
use anyhow::{Context, Result};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

/// The longest wait until the calls of killed gateways have ended: their lease, and the runs of approved calls.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(45);

/// The contradictions between the answers that clients received and the stored records.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contradictions {
    /// Acknowledged calls without a row in the audit log, or with another outcome.
    lost: Vec<String>,
    /// The same of reads. If the database is down for more than some seconds, results of reads are given without a row,
    /// which the gateway counts.
    unrecorded_reads: Vec<String>,
    /// Calls with several rows.
    recorded_twice: Vec<String>,
    /// Writes that happened several times.
    written_twice: Vec<String>,
    /// Writes that happened although the audit log does not know them, or that did not happen although they were
    /// acknowledged.
    unexplained: Vec<String>,
    /// Acknowledged approvals whose call has not ended.
    approvals: Vec<String>,
    /// Acknowledged dead letters that do not exist.
    letters: Vec<String>,
}

/// Waits until the interrupted calls have ended, and adds the findings to the report. `counted` is the number of reads
/// that the gateways could not record.
pub fn check(
    cluster: &ReplicaCluster<'_>,
    outcome: &LoadOutcome,
    counted: usize,
    report: &mut ReplicaReport,
) -> Result<()> {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    let mut reads;
    let found = loop {
        let mut found = compare(outcome, &recorded(cluster)?, &cluster.written()?);
        reads = found.unrecorded_reads.len();
        if reads <= counted {
            found.unrecorded_reads.clear();
        }
        found.approvals = unfinished_approvals(cluster, outcome)?;
        found.letters = missing_letters(cluster, outcome)?;
        if found == Contradictions::default() || Instant::now() > deadline {
            break found;
        }
        thread::sleep(Duration::from_secs(2));
    };
    report.none_of("acknowledged calls missing in the audit log", &found.lost);
    let seen = format!("{reads}; the gateways reported {counted} while PostgreSQL was down");
    report.check("reads missing in the audit log", seen, reads <= counted);
    report.none_of("calls recorded twice", &found.recorded_twice);
    report.none_of("writes that happened twice", &found.written_twice);
    report.none_of("writes without explanation", &found.unexplained);
    report.none_of("acknowledged approvals lost", &found.approvals);
    report.none_of("acknowledged dead letters lost", &found.letters);
    let verified = cluster.admin(0).order("/audit/verify", &json!({}))?;
    report.check("the chain of the audit log", verified.to_string(), verified["first_bad"].is_null());
    Ok(())
}

/// The outcomes of the rows of each call, by the hash of its arguments: the row of an interrupted call has no more.
fn recorded(cluster: &ReplicaCluster<'_>) -> Result<BTreeMap<String, Vec<String>>> {
    let admin = cluster.admin(0);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut before = String::new();
    loop {
        let page = admin.get(&format!("/audit?kind=call&limit=1000{before}"))?;
        for row in page["rows"].as_array().with_context(|| page.to_string())? {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            found.entry(text("arguments_sha256")).or_default().push(text("outcome"));
        }
        match page["next_before"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => return Ok(found),
        }
    }
}

/// The hash of arguments in the audit log.
fn hash(arguments: &str) -> String {
    Sha256::digest(arguments).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares the answers that clients received with the rows and the entries of each call.
fn compare(
    outcome: &LoadOutcome,
    recorded: &BTreeMap<String, Vec<String>>,
    written: &BTreeMap<String, usize>,
) -> Contradictions {
    let mut found = Contradictions::default();
    for note in &outcome.notes {
        let rows = recorded.get(&hash(&note.arguments)).map(Vec::as_slice).unwrap_or_default();
        let entries = written.get(&note.text).copied().unwrap_or(0);
        let seen = || {
            format!(
                "{} ({:?}, {:?}) has the rows {rows:?} and {entries} entries",
                note.text, note.kind, note.end
            )
        };
        let is_done = note.end == CallReply::Done;
        if is_done && !rows.iter().any(|row| row == "done") {
            let list =
                if note.kind == CallKind::Read { &mut found.unrecorded_reads } else { &mut found.lost };
            list.push(seen());
        }
        // A call that waits for approval while its gateway stops is answered as held, and recorded again when it runs. The
        // calls of a replica that is suspended for longer than its lease are recorded as unknown by another one, and with
        // their outcome when it goes on.
        // The rows are newest first.
        let ends: Vec<&str> = rows.iter().map(String::as_str).filter(|row| *row != "held").collect();
        if !matches!(ends[..], [] | [_]) && !matches!(ends[..], [end, "unknown"] if end != "unknown") {
            found.recorded_twice.push(seen());
        }
        if entries > 1 {
            found.written_twice.push(seen());
        }
        let writes = matches!(note.kind, CallKind::Write | CallKind::Held);
        let is_missing = is_done && entries == 0;
        let is_unknown = entries > 0 && rows.is_empty();
        if writes && (is_missing || is_unknown) {
            found.unexplained.push(seen());
        }
    }
    found
}

fn unfinished_approvals(cluster: &ReplicaCluster<'_>, outcome: &LoadOutcome) -> Result<Vec<String>> {
    let admin = cluster.admin(1);
    let mut unfinished = Vec::new();
    for id in &outcome.approved {
        let held = admin.get(&format!("/approvals/{id}"))?;
        if !matches!(held["state"].as_str(), Some("done" | "failed")) {
            unfinished.push(format!("{id} is {}", held["state"]));
        }
    }
    Ok(unfinished)
}

fn missing_letters(cluster: &ReplicaCluster<'_>, outcome: &LoadOutcome) -> Result<Vec<String>> {
    let admin = cluster.admin(2);
    let mut missing = Vec::new();
    for id in outcome.notes.iter().filter_map(|note| note.letter.as_ref()) {
        let letter = admin.get(&format!("/dead-letters/{id}"))?;
        if letter["id"] != *id.as_str() {
            missing.push(format!("{id}: {letter}"));
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::super::load::CallNote;
    use super::*;

    #[test]
    fn contradictions_between_clients_rows_and_entries_are_found() {
        // The call's end, the outcomes of its rows, its entries, and the list where it is expected.
        let cases: [(CallKind, CallReply, &[&str], usize, &str); 13] = [
            (CallKind::Write, CallReply::Done, &["done"], 1, ""),
            (CallKind::Write, CallReply::Unanswered, &["unknown"], 1, ""),
            (CallKind::Write, CallReply::Unanswered, &[], 0, ""),
            (CallKind::Read, CallReply::Done, &[], 0, "unrecorded reads"),
            (CallKind::Late, CallReply::Done, &["unknown"], 0, "lost"),
            (CallKind::Read, CallReply::Done, &["done", "done"], 0, "recorded twice"),
            (CallKind::Late, CallReply::Explained("call.timeout".into()), &["timeout", "unknown"], 0, ""),
            (CallKind::Write, CallReply::Unanswered, &["unknown", "unknown"], 1, "recorded twice"),
            (CallKind::Write, CallReply::Done, &["unknown", "done"], 1, "recorded twice"),
            (CallKind::Held, CallReply::Done, &["done"], 2, "written twice"),
            (CallKind::Held, CallReply::Explained("status 202".into()), &["held", "done"], 1, ""),
            (CallKind::Write, CallReply::Unanswered, &[], 1, "unexplained"),
            (CallKind::Write, CallReply::Done, &["done"], 0, "unexplained"),
        ];
        for (kind, end, rows, entries, expected) in cases {
            let note = CallNote { text: "w".into(), arguments: "{}".into(), kind, end, letter: None };
            let outcome = LoadOutcome { notes: vec![note], ..LoadOutcome::default() };
            let rows = rows.iter().map(|row| (*row).to_owned()).collect();
            let found = compare(
                &outcome,
                &BTreeMap::from([(hash("{}"), rows)]),
                &BTreeMap::from([("w".to_owned(), entries)]),
            );
            let lists = [
                ("lost", &found.lost),
                ("unrecorded reads", &found.unrecorded_reads),
                ("recorded twice", &found.recorded_twice),
                ("written twice", &found.written_twice),
                ("unexplained", &found.unexplained),
            ];
            let filled: Vec<_> =
                lists.iter().filter(|(_, list)| !list.is_empty()).map(|(name, _)| *name).collect();
            assert_eq!(filled.join(","), expected, "{:?}", outcome.notes);
        }
    }
}
