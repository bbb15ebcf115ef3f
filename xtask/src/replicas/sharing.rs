//! What is done on one replica and must hold on the others: lists, tokens, approvals, questions, due jobs.

use super::caller::ReplicaCaller;
use super::cluster::ReplicaCluster;
use super::faults::within;
use super::http::ReplicaUser;
use super::report::ReplicaReport;
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};

/// How long a change may take to reach the other replicas.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How far in the future a job is due: enough to kill all replicas before.
const DUE_IN: Duration = Duration::from_secs(5);
/// How long a job is watched after its run: a second run would start in that time.
const WATCHED: Duration = Duration::from_secs(4);

/// The lists of tools have the same bytes on all replicas, in both eras.
pub fn lists(cluster: &ReplicaCluster<'_>, ann: &str, report: &mut ReplicaReport) -> Result<()> {
    let mut lists: [Vec<String>; 2] = Default::default();
    for address in &cluster.addresses {
        let mut caller = ReplicaCaller::new(ReplicaUser::new(*address, ann));
        lists[0].push(caller.modern("tools/list", json!({}), None, json!({}))?.body);
        lists[1].push(caller.legacy("tools/list", &json!({}))?.body);
    }
    for (era, bodies) in ["modern", "legacy"].into_iter().zip(&lists) {
        let is_equal = bodies.iter().all(|body| *body == bodies[0]) && bodies[0].contains("led_write_entry");
        let seen = format!("{} bytes on {} replicas", bodies[0].len(), bodies.len());
        report.check(&format!("tools/list is the same everywhere ({era})"), seen, is_equal);
    }
    Ok(())
}

/// A token that was created on one replica is valid on another, and is revoked there.
pub fn tokens(cluster: &ReplicaCluster<'_>, report: &mut ReplicaReport) -> Result<()> {
    let (cat, id) = cluster.token(0, "cat", &[])?;
    let is_valid = |replica: usize| {
        let user = ReplicaUser::new(cluster.addresses[replica], &cat);
        user.get("/me").is_ok_and(|me| me["user"] == "cat")
    };
    let everywhere = (0..cluster.addresses.len()).all(is_valid);
    report.check("a token of A is valid on all replicas", format!("{everywhere}"), everywhere);
    let revoked = cluster.admin(1).send("DELETE", &format!("/tokens/{id}"), "", "")?;
    let began = Instant::now();
    ensure!(revoked.status < 300, "the token was not revoked: {}", revoked.body);
    let gone = (0..cluster.addresses.len()).all(|replica| within(CHANGE_TIMEOUT, || !is_valid(replica)));
    report.check("revoked on B, it is refused on all", format!("after {:.1?}", began.elapsed()), gone);
    Ok(())
}

/// A call that waits on A is approved on B.
pub fn approvals(
    cluster: &ReplicaCluster<'_>,
    (ann, bob): (&str, &str),
    (count, limit): (usize, Duration),
    report: &mut ReplicaReport,
) -> Result<()> {
    let mut delays = Vec::new();
    for number in 0..count {
        let (asking, deciding) = (number % cluster.addresses.len(), (number + 1) % cluster.addresses.len());
        let ann = ReplicaUser::new(cluster.addresses[asking], ann);
        let bob = ReplicaUser::new(cluster.addresses[deciding], bob);
        let text = format!("approval-{number}");
        let body = json!({ "arguments": { "text": text }, "wait": 30 });
        let (answered, decided) = thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let answer = ann.order("/tools/held_write_entry/call", &body);
                answer.map(|_| Instant::now())
            });
            let decided = decide(&bob, &text);
            Ok::<_, anyhow::Error>((waiting.join().map_err(|_| anyhow!("a client panicked"))??, decided?))
        })?;
        delays.push((answered.duration_since(decided), asking, deciding));
    }
    delays.sort();
    let ((median, ..), (longest, asking, deciding)) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    let seen = format!("{count} times: median {median:.1?}");
    report.check("asked on A, approved on B, result on A", seen, median < limit);
    let late = delays.iter().filter(|(delay, ..)| *delay >= limit).count();
    let seen = format!("{longest:.1?}, asked on {asking}, approved on {deciding}; {late} over the limit");
    report.measure("  longest", seen);
    Ok(())
}

/// Approves the held call with this text; returns when the approval was sent.
fn decide(bob: &ReplicaUser, text: &str) -> Result<Instant> {
    let mut held = None;
    let is_held = within(CHANGE_TIMEOUT, || {
        let pending = bob.get("/approvals?state=pending&limit=100").unwrap_or_default();
        let mut found = pending["approvals"].as_array().into_iter().flatten();
        held = found
            .find(|call| call["arguments"]["text"] == text)
            .and_then(|call| call["id"].as_str().map(str::to_owned));
        held.is_some()
    });
    let id = held.filter(|_| is_held).with_context(|| format!("{text} is not held"))?;
    let began = Instant::now();
    bob.order(&format!("/approvals/{id}/approve"), &json!({}))?;
    Ok(began)
}

/// A modern client is asked by A and answers at B; the answer counts once, on all replicas together.
pub fn questions(
    cluster: &ReplicaCluster<'_>,
    ann: &str,
    count: usize,
    report: &mut ReplicaReport,
) -> Result<()> {
    let tool = "held_read_entries";
    let replicas = cluster.addresses.len();
    let ask = |replica: usize, params: &Value| -> Result<Value> {
        let caller = ReplicaCaller::new(ReplicaUser::new(cluster.addresses[replica % replicas], ann));
        let capabilities = json!({ "elicitation": {} });
        caller.modern("tools/call", params.clone(), Some(tool), capabilities)?.json()
    };
    let mut wrong = Vec::new();
    for number in 0..count {
        let mut params = json!({ "name": tool, "arguments": {} });
        let asked = ask(number, &params)?;
        let requests = asked["result"]["inputRequests"].as_object();
        let Some(key) = requests.and_then(|requests| requests.keys().next()) else {
            wrong.push(format!("not asked: {asked}"));
            continue;
        };
        params["requestState"] = asked["result"]["requestState"].clone();
        params["inputResponses"] =
            json!({ key: { "action": "accept", "content": { "decision": "approve" } } });
        let done = ask(number + 1, &params)?;
        if !done["result"]["content"].is_array() || done["result"]["isError"] == true {
            wrong.push(format!("not answered: {done}"));
        }
        for replica in 0..replicas {
            let again = ask(replica, &params)?;
            if again["error"]["code"] != -32602 {
                wrong.push(format!("usable again: {again}"));
            }
        }
    }
    report.none_of(&format!("asked by A, answered at B, {count} times: failures"), &wrong);
    Ok(())
}

/// A job that is due while all replicas are down runs once after their start.
pub fn due_job(cluster: &ReplicaCluster<'_>, report: &mut ReplicaReport) -> Result<()> {
    let due = SystemTime::now() + DUE_IN;
    let job = json!({
        "name": "due",
        "plan": [{ "id": "write", "tool": "led_write_entry", "arguments": { "text": "due-job" } }],
        "recurrence": { "frequency": "daily", "interval": 1, "start_date": date_time(due)? },
    });
    let admin = cluster.admin(0);
    admin.order("/jobs", &job)?;
    admin.order("/jobs/due/transition", &json!({ "target_status": "scheduled" }))?;
    let replicas = 0..cluster.addresses.len();
    replicas.clone().try_for_each(|replica| cluster.kill(replica))?;
    let was_early = SystemTime::now() < due;
    thread::sleep(DUE_IN + Duration::from_millis(500));
    ensure!(!cluster.written()?.contains_key("due-job"), "the job ran before all replicas were down");
    cluster.start_all()?;
    let began = Instant::now();
    let ran = within(Duration::from_secs(30), || {
        admin.get("/jobs/due/runs").is_ok_and(|runs| runs["runs"][0]["status"] == "succeeded")
    });
    let took = began.elapsed();
    thread::sleep(WATCHED);
    let runs = admin.get("/jobs/due/runs")?["runs"].as_array().map_or(0, Vec::len);
    let entries = cluster.written()?.get("due-job").copied().unwrap_or(0);
    let seen = format!("{runs} run, {entries} entry, {took:.1?} after the replicas were ready");
    let holds = was_early && ran && (runs, entries) == (1, 1);
    report.check("a job that was due while all were down runs once", seen, holds);
    Ok(())
}

/// A time as `2026-11-18T08:57:55Z`.
pub fn date_time(time: SystemTime) -> Result<String> {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let (days, rest) = (i64::try_from(seconds / 86_400)?, seconds % 86_400);
    // The days of the civil calendar, counted from 1 March of the year 0, so that leap days come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() -> Result<()> {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_794_992_275, "2026-11-18T08:57:55Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(date_time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?, expected);
        }
        Ok(())
    }
}
