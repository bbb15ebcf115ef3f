//! Tables and pages of jobs, and of the runs of jobs and skills.

use crate::render::{self, Paint, Table, TableCell, Tone, ago, line, moment};
use serde_json::Value;

/// The maximum number of lines that are shown of the results of one step.
const MAX_RESULT_LINES: usize = 20;
/// The maximum length of such a line, in characters.
const MAX_LINE_LENGTH: usize = 200;

fn state_cell(job: &Value) -> TableCell {
    if let Some(open) = job["open_criteria"].as_u64().filter(|open| *open > 0) {
        let status = job["status"].as_str().unwrap_or_default();
        return TableCell::toned(&format!("{status}, {open} to confirm"), Tone::Warn);
    }
    match (job["status"].as_str().unwrap_or_default(), job["paused"] == true) {
        (_, true) => TableCell::toned("paused", Tone::Warn),
        (word @ ("running" | "succeeded"), _) => TableCell::toned(word, Tone::Good),
        ("failed", _) => TableCell::toned("failed", Tone::Bad),
        (word, _) => word.into(),
    }
}

/// A table of jobs.
pub(super) fn table(jobs: &[Value]) -> String {
    let mut table = Table::new(&["JOB", "STATUS", "NEXT RUN", "OWNER", "RUNS", "READY", "SUMMARY"]);
    for job in jobs {
        let text = |key: &str| job[key].as_str().unwrap_or_default();
        let next = job["next_run_at"].as_i64().map(moment).unwrap_or_default();
        let runs = job["health"]["job"]["runs"].as_u64().unwrap_or(0);
        let ready = match job["ready"] == true {
            true => TableCell::from("yes"),
            false => TableCell::toned("no", Tone::Warn),
        };
        table.row([
            TableCell::toned(text("name"), Tone::Strong),
            state_cell(job),
            next.into(),
            text("owner").into(),
            runs.to_string().into(),
            ready,
            text("summary").into(),
        ]);
    }
    table.draw(Paint::stdout())
}

/// The page of one job.
pub(super) fn page(job: &Value) -> String {
    let paint = Paint::stdout();
    let text = |key: &str| job[key].as_str().map(line).unwrap_or_default();
    let list = |key: &str| {
        let names = job[key].as_array().map(Vec::as_slice).unwrap_or_default();
        names.iter().filter_map(Value::as_str).map(line).collect::<Vec<_>>().join(", ")
    };
    let mut out = format!("{}\n\n{}\n\n", paint.tone(Tone::Strong, &text("name")), text("summary"));
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            out.push_str(&format!("  {:<14}{value}\n", paint.tone(Tone::Dim, name)));
        }
    };
    row("status", text("status"));
    row("owner", text("owner"));
    row("personas", list("personas"));
    row("skills", list("required_skills"));
    row("tools", list("required_tools"));
    row("capabilities", list("capability_requirements"));
    row("recurrence", recurrence(&job["recurrence"]));
    row("time zone", job["schedule"]["timezone"].as_str().map(line).unwrap_or_default());
    row("next run", next_run(job));
    let health = &job["health"]["job"];
    if let (Some(runs), Some(rate)) = (health["runs"].as_u64(), health["success_rate"].as_f64()) {
        row("health", format!("{:.0} % of {} succeeded", rate * 100.0, render::count(runs as usize, "run")));
    }
    for reason in job["reasons"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let reason = line(reason.as_str().unwrap_or_default());
        out.push_str(&format!("\n{}\n", paint.tone(Tone::Warn, &format!("Not ready: {reason}."))));
    }
    for step in list_of(&job["plan"]) {
        let text = |key: &str| step[key].as_str().map(line).unwrap_or_default();
        out.push_str(&format!("\n  step {}: {}", text("id"), text("tool")));
    }
    for node in list_of(&job["task_graph"]) {
        out.push_str(&format!("\n  task {}", node["task"].as_str().map(line).unwrap_or_default()));
    }
    if !list_of(&job["plan"]).is_empty() || !list_of(&job["task_graph"]).is_empty() {
        out.push('\n');
    }
    let runs = list_of(&job["runs"]);
    if !runs.is_empty() {
        out.push_str(&format!("\n{}", run_table(runs)));
    }
    if let Some(run) = runs.first().filter(|run| run["open_criteria"].as_u64() > Some(0)) {
        let id = run["id"].as_str().map(line).unwrap_or_default();
        let name = line(job["name"].as_str().unwrap_or_default());
        out.push_str(&format!("\nThe latest run waits for a person's answer:\n{}", criteria(run)));
        out.push_str(&format!("Answer with `toolbooth jobs confirm {name} {id} NUMBER met` or `unmet`.\n"));
    }
    out
}

/// When a job is due, such as `0 7 * * 1-5` or `weekly, every 2`.
fn recurrence(recurrence: &Value) -> String {
    let text = |key: &str| recurrence[key].as_str().map(line);
    let rule = match (text("cron"), text("frequency"), recurrence["interval"].as_u64()) {
        (Some(pattern), ..) => format!("cron {pattern}"),
        (None, Some(frequency), None | Some(1)) => frequency,
        (None, Some(frequency), Some(interval)) => format!("{frequency}, every {interval}"),
        (None, None, _) => return String::new(),
    };
    let from = text("start_date").map(|date| format!(" from {date}")).unwrap_or_default();
    let until = text("end_date").map(|date| format!(" until {date}")).unwrap_or_default();
    format!("{rule}{from}{until}")
}

/// The next time of a job, in UTC and in the time zone of its recurrence.
fn next_run(job: &Value) -> String {
    let Some(at) = job["next_run_at"].as_i64() else { return String::new() };
    let schedule = &job["schedule"];
    match (schedule["next_run_local"].as_str(), schedule["timezone"].is_string()) {
        (Some(local), true) => format!("{} ({})", line(local), moment(at)),
        _ => moment(at),
    }
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// One line for each criterion of a run, with its number.
fn criteria(run: &Value) -> String {
    let mut out = String::new();
    for (number, criterion) in list_of(&run["criteria"]).iter().enumerate() {
        let state = match criterion["met"].as_bool() {
            Some(true) => "met",
            Some(false) => "not met",
            None => "open",
        };
        let by = criterion["by"].as_str().map(|by| format!(" (by {})", line(by))).unwrap_or_default();
        let sentence = criterion["criterion"].as_str().map(line).unwrap_or_default();
        out.push_str(&format!("  criterion {number}: {state}{by}  {sentence}\n"));
    }
    out
}

/// The page of one run of a job or skill: its steps in order with their results, tasks and criteria.
pub(super) fn run_page(run: &Value) -> String {
    let text = |key: &str| run[key].as_str().map(line).unwrap_or_default();
    let name = if run["skill"].is_string() { text("skill") } else { text("job") };
    let status = text("status");
    let verb = if matches!(status.as_str(), "succeeded" | "failed") { "has" } else { "is" };
    let mut out = format!("Run {} of {name} {verb} {status}.\n", text("id"));
    // A skill has one part.
    out.push_str(&steps(&run["steps"]));
    for part in list_of(&run["parts"]) {
        out.push_str(&steps(&part["steps"]));
        if let Some(task) = part["task"].as_str() {
            let id = part["id"].as_str().map(line).unwrap_or_default();
            out.push_str(&format!("  task  {id}  {}\n", line(task)));
        }
    }
    out + &criteria(run)
}

/// One line for each step, followed by its results.
fn steps(steps: &Value) -> String {
    let mut out = String::new();
    for step in list_of(steps) {
        let text = |key: &str| step[key].as_str().map(line).unwrap_or_default();
        let why = step["error"]["message"].as_str().map(|why| format!(": {}", line(why))).unwrap_or_default();
        let held = match (text("status").as_str(), text("held")) {
            ("held", held) => {
                format!(": waits for approval as {held}; `toolbooth approvals approve {held}` approves it")
            }
            _ => String::new(),
        };
        out.push_str(&format!("  {}  {}  {}{why}{held}\n", text("status"), text("id"), text("tool")));
        out.push_str(&results(&step["results"]));
    }
    out
}

/// The beginning of a step's results. Each line is indented, so that a result cannot imitate a line of this program.
fn results(results: &Value) -> String {
    let text = match results {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let text = render::plain(&text);
    let mut lines = text.lines();
    let mut out = String::new();
    for one in lines.by_ref().take(MAX_RESULT_LINES) {
        let shown: String = one.chars().take(MAX_LINE_LENGTH).collect();
        let cut = if shown.len() < one.len() { "…" } else { "" };
        out.push_str(&format!("      {shown}{cut}\n"));
    }
    match lines.count() {
        0 => out,
        more => format!("{out}      … {} more; --json shows all\n", render::count(more, "line")),
    }
}

/// A table of runs.
pub(super) fn run_table(runs: &[Value]) -> String {
    let mut table = Table::new(&["RUN", "STATUS", "TRIGGER", "STARTED", "MS", "CRITERIA", "ERROR"]);
    for run in runs {
        let text = |key: &str| run[key].as_str().unwrap_or_default();
        let tone = match text("status") {
            "succeeded" => Tone::Good,
            "failed" | "missed" => Tone::Bad,
            "held" | "waiting" => Tone::Warn,
            _ => Tone::Dim,
        };
        table.row([
            text("id").into(),
            TableCell::toned(text("status"), tone),
            text("trigger").into(),
            ago(run["created_at"].as_i64().unwrap_or(0)).into(),
            run["duration_ms"].as_u64().map(|ms| ms.to_string()).unwrap_or_default().into(),
            match run["open_criteria"].as_u64() {
                None | Some(0) => TableCell::from(""),
                Some(open) => TableCell::toned(&format!("{open} open"), Tone::Warn),
            },
            run["error"]["message"].as_str().unwrap_or_default().into(),
        ]);
    }
    table.draw(Paint::stdout())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_of_a_run_shows_the_results_of_its_steps() {
        let steps = json!([
            {"id": "read", "tool": "demo_read", "status": "succeeded", "results": {"pages": 3}},
            {"id": "long", "tool": "demo_read", "status": "succeeded", "results": "line\n".repeat(30)},
            {"id": "write", "tool": "demo_write", "status": "cancelled", "held": "0199"},
        ]);
        let runs = [
            json!({"id": "1", "skill": "brief", "status": "cancelled", "steps": steps}),
            json!({"id": "1", "job": "brief", "status": "cancelled", "parts": [{"id": "plan", "steps": steps}]}),
        ];
        for run in runs {
            let shown = run_page(&run);
            for part in ["Run 1 of brief is cancelled.", "      {\n", "        \"pages\": 3\n", "10 lines"] {
                assert!(shown.contains(part), "{part} is missing in\n{shown}");
            }
            assert!(shown.contains("  cancelled  write  demo_write\n"), "{shown}");
            assert!(!shown.contains("waits for approval"), "{shown}");
        }
    }

    #[test]
    fn the_page_of_a_job_shows_its_pattern_and_the_time_of_its_zone() {
        let job = json!({
            "name": "brief", "status": "scheduled", "next_run_at": 0,
            "recurrence": {"cron": "0 1 * * *", "timezone": "Europe/Berlin"},
            "schedule": {"timezone": "Europe/Berlin", "next_run_local": "1970-01-01 01:00 +01:00"},
        });
        let shown = page(&job);
        for part in ["cron 0 1 * * *", "Europe/Berlin", "1970-01-01 01:00 +01:00 (1970-01-01 00:00:00Z)"] {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
        assert_eq!(recurrence(&json!({"frequency": "weekly", "interval": 2})), "weekly, every 2");
        assert_eq!(recurrence(&Value::Null), "");
    }
}
