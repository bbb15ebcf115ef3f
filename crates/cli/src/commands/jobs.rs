//! `toolbooth jobs`: lists, changes, schedules, runs and cancels jobs, and shows their history.

use super::approvals::run_id;
use super::job_views::{page, run_page, run_table, table};
use super::{bundled_hint, on_gateway, print_entries, warn_if_not_running};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Tone, line, moment};
use bytes::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a command that waits looks at the run.
const POLL: Duration = Duration::from_millis(200);
/// The maximum number of further pages of a list.
const MAX_PAGES: usize = 50;
/// The maximum size of a definition.
const MAX_DEFINITION: u64 = 1 << 20;

/// Arguments of `toolbooth jobs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Jobs run as the user who scheduled or created them, while a gateway is running.
For example:
  toolbooth jobs
  toolbooth jobs schedule DailyBriefing
  toolbooth jobs next DailyBriefing --count 3
  toolbooth jobs edit DailyBriefing changes.json
  toolbooth jobs run DailyBriefing --arguments '{\"subject\": \"tides\"}'")]
pub struct JobsArguments {
    #[command(subcommand)]
    action: Option<JobsAction>,
}

#[derive(Debug, Subcommand)]
enum JobsAction {
    /// List jobs (the default).
    List(JobListArguments),
    /// Show a job: what it needs, its schedule and its last runs.
    Show { name: String },
    /// Create a job from a JSON file, or from standard input with -.
    Create { file: PathBuf },
    /// Change a job: the fields in a JSON file, or in standard input with -, replace its own.
    Edit(WorkEditArguments),
    /// Delete a job that was created with `create`, and its runs.
    Delete { name: String },
    /// Schedule a job: it runs when it is due.
    Schedule { name: String },
    /// Run a job now, and wait for it.
    Run(JobRunArguments),
    /// Pause the schedule of a job.
    Pause { name: String },
    /// Resume the schedule of a job.
    Resume { name: String },
    /// Cancel a job: its run and its schedule.
    Cancel { name: String },
    /// List the runs of a job, or show one of them: its steps, results and criteria.
    History {
        name: String,
        /// Id of the run, or 6 or more characters of its beginning or its end.
        #[arg(conflicts_with = "limit")]
        run: Option<String>,
        /// Maximum number of runs.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: Option<u32>,
    },
    /// Show the next times of a job.
    Next {
        name: String,
        /// Number of times.
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        count: u32,
    },
    /// Continue a held run: repeat its interrupted steps, or skip them.
    Decide {
        name: String,
        /// Id of the run, or 6 or more characters of its beginning or its end.
        run: String,
        decision: RunDecision,
    },
    /// Record whether a run meets an acceptance criterion.
    Confirm {
        name: String,
        /// Id of the run, or 6 or more characters of its beginning or its end.
        run: String,
        /// Number of the criterion, from 0, as `jobs show` lists it.
        criterion: u32,
        answer: CriterionAnswer,
    },
}

impl JobsArguments {
    /// Whether a definition comes from standard input.
    pub fn reads_input(&self) -> bool {
        match &self.action {
            Some(JobsAction::Create { file }) | Some(JobsAction::Edit(WorkEditArguments { file, .. })) => {
                file.as_os_str() == "-"
            }
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CriterionAnswer {
    /// The run meets it.
    Met,
    /// The run does not meet it, so it fails.
    Unmet,
}

/// Arguments of `edit`.
#[derive(Debug, Clone, Args)]
pub struct WorkEditArguments {
    /// Name of the job, or id of the task.
    pub name: String,
    /// JSON object with the changed fields; null removes an optional one.
    pub file: PathBuf,
    /// Refuse the change if it was changed after this time (its `updated_at`).
    #[arg(long, value_name = "MS")]
    pub expected: Option<i64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RunDecision {
    /// Call the tools again.
    Repeat,
    /// Go on without the steps.
    Skip,
}

#[derive(Debug, Clone, Default, Args)]
struct JobListArguments {
    /// List jobs in these states, separated by commas.
    #[arg(long, value_name = "STATES")]
    status: Option<String>,
    /// List jobs of this user.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
}

#[derive(Debug, Clone, Args)]
struct JobRunArguments {
    name: String,
    /// Values for the steps, as a JSON object.
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Run it even if it has ended before.
    #[arg(long)]
    again: bool,
    /// Do not wait for the end of the run.
    #[arg(long)]
    no_wait: bool,
}

/// Runs `toolbooth jobs`.
pub fn run(global: &GlobalOptions, arguments: JobsArguments) -> CommandResult {
    on_gateway(GatewayHandle::open_persistent(global), async |gateway| {
        within(gateway, global, arguments).await
    })
}

/// Runs the command on an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: JobsArguments,
) -> CommandResult {
    match arguments.action.unwrap_or(JobsAction::List(JobListArguments::default())) {
        JobsAction::List(filter) => list(gateway, global, &filter).await,
        JobsAction::Show { name } => show(gateway, global, &name).await,
        JobsAction::Create { file } => create(gateway, global, &file).await,
        JobsAction::Edit(edit) => {
            let path = format!("/jobs/{}", segment(&edit.name));
            let job = read(&gateway.patch("changing the job", &path, edit.body()?).await?)?;
            print_job(global, &job, "Changed");
            Ok(Exit::Ok)
        }
        JobsAction::Delete { name } => {
            let job = gateway.delete(&format!("/jobs/{}", segment(&name))).await?;
            match global.json {
                true => render::print_json(&job),
                false => render::print(&format!("Deleted {}.\n", line(&name))),
            }
            Ok(Exit::Ok)
        }
        JobsAction::Schedule { name } => {
            let body = json!({ "target_status": "scheduled" });
            let exit = change(gateway, global, &name, "transition", Some(body)).await?;
            warn_if_not_running(gateway, "the job does not run");
            Ok(exit)
        }
        JobsAction::Run(arguments) => start(gateway, global, &arguments).await,
        JobsAction::Pause { name } => change(gateway, global, &name, "schedule/pause", None).await,
        JobsAction::Resume { name } => {
            let exit = change(gateway, global, &name, "schedule/resume", None).await?;
            warn_if_not_running(gateway, "the job does not run");
            Ok(exit)
        }
        JobsAction::Cancel { name } => {
            change(gateway, global, &name, "transition", Some(json!({ "target_status": "cancelled" }))).await
        }
        JobsAction::History { name, run: None, limit } => history(gateway, global, &name, limit).await,
        JobsAction::History { name, run: Some(run), .. } => {
            let path = run_path(gateway, &name, &run).await?;
            print_run(global, &gateway.get(&path).await?);
            Ok(Exit::Ok)
        }
        JobsAction::Next { name, count } => next(gateway, global, &name, count).await,
        JobsAction::Decide { name, run, decision } => decide(gateway, global, &name, &run, decision).await,
        JobsAction::Confirm { name, run, criterion, answer } => {
            let path = run_path(gateway, &name, &run).await? + "/criteria";
            let met = matches!(answer, CriterionAnswer::Met);
            let body = json!({ "criterion": criterion, "met": met }).to_string();
            let run = read(&gateway.post("answering", &path, Some(body.into())).await?)?;
            print_run(global, &run);
            Ok(Exit::Ok)
        }
    }
}

async fn list(gateway: &GatewayHandle, global: &GlobalOptions, filter: &JobListArguments) -> CommandResult {
    let mut path = "/jobs?limit=500".to_owned();
    for (key, value) in [("status", &filter.status), ("owner", &filter.owner)] {
        if let Some(value) = value {
            path.push_str(&format!("&{key}={}", segment(value)));
        }
    }
    let answer = all_pages(gateway, &path, "jobs").await?;
    print_entries(global, &answer, "jobs", "There are no jobs.\n", table);
    Ok(Exit::Ok)
}

/// Reads the pages of a list as one.
pub(super) async fn all_pages(
    gateway: &GatewayHandle,
    path: &str,
    key: &str,
) -> Result<Value, CommandFailure> {
    let mut all = gateway.get(path).await?;
    for _ in 0..MAX_PAGES {
        let Some(cursor) = all["next_cursor"].as_str() else { break };
        let mut next = gateway.get(&format!("{path}&cursor={}", segment(cursor))).await?;
        let more = next[key].as_array_mut().map(std::mem::take).unwrap_or_default();
        if let Some(entries) = all[key].as_array_mut() {
            entries.extend(more);
            all["count"] = all[key].as_array().map_or(0, Vec::len).into();
        }
        all["next_cursor"] = next["next_cursor"].take();
    }
    Ok(all)
}

async fn show(gateway: &GatewayHandle, global: &GlobalOptions, name: &str) -> CommandResult {
    let job = gateway.get(&format!("/jobs/{}?include=schedule,runs", segment(name))).await?;
    match global.json {
        true => render::print_json(&job),
        false => render::print(&page(&job)),
    }
    Ok(Exit::Ok)
}

async fn create(gateway: &GatewayHandle, global: &GlobalOptions, file: &Path) -> CommandResult {
    let text = read_definition(file)?;
    let job: Value = read(&gateway.post("creating the job", "/jobs", Some(text.into())).await?)?;
    print_job(global, &job, "Created");
    if !global.json {
        warn_of_missing_tools(gateway, job).await;
    }
    Ok(Exit::Ok)
}

/// Warns of tools that a new job needs and that are not there.
async fn warn_of_missing_tools(gateway: &GatewayHandle, mut job: Value) {
    let missing = |job: &Value| -> Vec<String> {
        let reasons = job["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str);
        reasons.filter(|reason| bundled_hint::names_missing_tool(reason)).map(str::to_owned).collect()
    };
    let mut found = missing(&job);
    if !found.is_empty() && matches!(gateway, GatewayHandle::Embedded(_)) {
        // A server that was never connected has not listed its tools yet.
        gateway.connect(ServerSelection::All).await;
        let path = format!("/jobs/{}", segment(job["name"].as_str().unwrap_or_default()));
        job = gateway.get(&path).await.unwrap_or(job);
        found = missing(&job);
    }
    let word = Paint::stderr().tone(Tone::Warn, "warning");
    for reason in &found {
        render::complain(&format!("{word}: {}\n", line(reason)));
    }
    if let Some(hint) = bundled_hint::of_sentence(gateway, &found.join("; ")).await {
        render::complain(&format!("hint: {}\n", render::wrap(&hint, 6)));
    }
}

impl WorkEditArguments {
    /// The body of the change.
    pub(super) fn body(&self) -> Result<Bytes, CommandFailure> {
        let text = read_definition(&self.file)?;
        let Some(expected) = self.expected else { return Ok(text.into()) };
        let mut changes: Map<String, Value> = serde_json::from_str(&text).map_err(|error| {
            let message = format!("{} is not a JSON object: {error}", render::path(&self.file));
            let hint = "write an object with the changed fields, such as {\"summary\": \"Mails the report\"}";
            CommandFailure::misuse("job.bad-file", message, Some(hint))
        })?;
        changes.insert("expected_updated_at".into(), expected.into());
        Ok(Value::Object(changes).to_string().into())
    }
}

/// Reads a file, or standard input for `-`.
pub(super) fn read_definition(file: &Path) -> Result<String, CommandFailure> {
    let mut text = String::new();
    let done = match file == Path::new("-") {
        true => std::io::stdin().lock().take(MAX_DEFINITION).read_to_string(&mut text),
        false => {
            std::fs::File::open(file).and_then(|file| file.take(MAX_DEFINITION).read_to_string(&mut text))
        }
    };
    done.map_err(|error| {
        let shown = render::path(file);
        let hint = "give the path of a JSON file, or - for standard input";
        CommandFailure::misuse("job.bad-file", format!("{shown} cannot be read: {error}"), Some(hint))
    })?;
    Ok(text)
}

fn print_job(global: &GlobalOptions, job: &Value, act: &str) {
    if global.json {
        return render::print_json(job);
    }
    let name = job["name"].as_str().map(line).unwrap_or_default();
    let status = job["status"].as_str().map(line).unwrap_or_default();
    let next = match job["next_run_at"].as_i64() {
        Some(at) => format!(" It is due at {}.", moment(at)),
        None => String::new(),
    };
    render::print(&format!("{act} {name}: it is {status}.{next}\n"));
}

async fn change(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    name: &str,
    act: &str,
    body: Option<Value>,
) -> CommandResult {
    let path = format!("/jobs/{}/{act}", segment(name));
    let body = body.map(|body| body.to_string().into());
    let job = read(&gateway.post("changing the job", &path, body).await?)?;
    print_job(global, &job, if job["paused"] == true { "Paused" } else { "Changed" });
    Ok(Exit::Ok)
}

/// The path of a run that is given by its id or a part of it.
async fn run_path(gateway: &GatewayHandle, name: &str, run: &str) -> Result<String, CommandFailure> {
    let job = format!("/jobs/{}", segment(name));
    let run = run_id(gateway, &job, run).await?;
    Ok(format!("{job}/runs/{}", segment(&run)))
}

async fn start(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: &JobRunArguments,
) -> CommandResult {
    let values: Map<String, Value> = match &arguments.arguments {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            CommandFailure::misuse(
                "job.bad-arguments",
                format!("--arguments is not a JSON object: {error}"),
                Some("quote it for the shell: --arguments '{\"subject\": \"tides\"}'"),
            )
        })?,
    };
    gateway.connect(ServerSelection::All).await;
    let name = segment(&arguments.name);
    let act = if arguments.again { "rerun" } else { "run" };
    let body = json!({ "arguments": values }).to_string();
    let path = format!("/jobs/{name}/{act}");
    let mut run = match gateway.post("running the job", &path, Some(body.into())).await {
        Ok(body) => read(&body)?,
        Err(failure) => {
            return Err(match bundled_hint::of_sentence(gateway, &failure.fault.message).await {
                Some(hint) => failure.hint(hint),
                None => failure,
            });
        }
    };
    let id = run["id"].as_str().unwrap_or_default().to_owned();
    while !arguments.no_wait && matches!(run["status"].as_str(), Some("pending" | "running")) {
        tokio::time::sleep(POLL).await;
        run = gateway.get(&format!("/jobs/{name}/runs/{}", segment(&id))).await?;
    }
    print_run(global, &run);
    if matches!(run["status"].as_str(), Some("pending" | "running" | "waiting")) {
        warn_if_not_running(gateway, "the run does not continue");
    }
    Ok(match run["status"].as_str() {
        Some("waiting" | "held") => Exit::Held,
        Some("failed" | "cancelled") => Exit::Failed,
        _ => Exit::Ok,
    })
}

fn print_run(global: &GlobalOptions, run: &Value) {
    if global.json {
        return render::print_json(run);
    }
    render::print(&run_page(run));
    if let Some(message) = run["error"]["message"].as_str() {
        render::complain(&format!("{}\n", line(message)));
    }
    if let Some(hint) = run["error"]["hint"].as_str() {
        render::complain(&format!("hint: {}\n", line(hint)));
    }
}

async fn history(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    name: &str,
    limit: Option<u32>,
) -> CommandResult {
    let path = format!("/jobs/{}/runs?limit={}", segment(name), limit.unwrap_or(50));
    let answer = gateway.get(&path).await?;
    print_entries(global, &answer, "runs", "The job has not run yet.\n", run_table);
    Ok(Exit::Ok)
}

async fn next(gateway: &GatewayHandle, global: &GlobalOptions, name: &str, count: u32) -> CommandResult {
    let job = gateway.get(&format!("/jobs/{}?include=schedule&count={count}", segment(name))).await?;
    let schedule = &job["schedule"];
    if global.json {
        render::print_json(schedule);
        return Ok(Exit::Ok);
    }
    let times = schedule["upcoming"].as_array().map(Vec::as_slice).unwrap_or_default();
    if times.is_empty() {
        render::print("The job has no further times.\n");
    }
    let in_zone = schedule["timezone"].is_string();
    for (number, at) in times.iter().enumerate() {
        let utc = moment(at.as_i64().unwrap_or(0));
        match schedule["upcoming_local"][number].as_str().filter(|_| in_zone) {
            Some(local) => render::print(&format!("{} ({utc})\n", line(local))),
            None => render::print(&format!("{utc}\n")),
        }
    }
    if !times.is_empty() && job["status"] != "scheduled" && job["status"] != "running" {
        // A cancelled job has a final state, which only `resume` leaves.
        let action = if job["status"] == "cancelled" { "resume" } else { "schedule" };
        render::complain(&format!("The job is not scheduled: `toolbooth jobs {action} NAME` does that.\n"));
    }
    Ok(Exit::Ok)
}

async fn decide(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    name: &str,
    run: &str,
    decision: RunDecision,
) -> CommandResult {
    let word = match decision {
        RunDecision::Repeat => "repeat",
        RunDecision::Skip => "skip",
    };
    let path = run_path(gateway, name, run).await? + "/decide";
    let body = json!({ "interrupted": word }).to_string();
    let run = read(&gateway.post("continuing the run", &path, Some(body.into())).await?)?;
    print_run(global, &run);
    Ok(Exit::Ok)
}
