//! `toolbooth tasks`: lists and changes tasks, and moves them to other states.

use super::jobs::{WorkEditArguments, all_pages, read_definition};
use super::{on_gateway, print_entries};
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, line};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `toolbooth tasks`.
#[derive(Debug, Args)]
#[command(after_help = "\
A task goes from draft to ready, in_progress, review and done; it can be cancelled before.
For example:
  toolbooth tasks list --status ready
  toolbooth tasks move CollectSources ready")]
pub struct TasksArguments {
    #[command(subcommand)]
    action: Option<TasksAction>,
}

#[derive(Debug, Subcommand)]
enum TasksAction {
    /// List tasks (the default).
    List(TaskListArguments),
    /// Show a task.
    Show { id: String },
    /// Create a task from a JSON file, or from standard input with -.
    Create { file: PathBuf },
    /// Change a task: the fields in a JSON file, or in standard input with -, replace its own.
    Edit(WorkEditArguments),
    /// Delete a task that was created with `create`.
    Delete { id: String },
    /// Change the state of a task.
    Move {
        id: String,
        /// ready, in_progress, review, done or cancelled.
        status: String,
    },
}

impl TasksArguments {
    /// Whether a definition comes from standard input.
    pub fn reads_input(&self) -> bool {
        match &self.action {
            Some(TasksAction::Create { file }) | Some(TasksAction::Edit(WorkEditArguments { file, .. })) => {
                file.as_os_str() == "-"
            }
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
struct TaskListArguments {
    /// List tasks in these states, separated by commas.
    #[arg(long, value_name = "STATES")]
    status: Option<String>,
    /// List tasks with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
}

/// Runs `toolbooth tasks`.
pub fn run(global: &GlobalOptions, arguments: TasksArguments) -> CommandResult {
    on_gateway(GatewayHandle::open_persistent(global), async |gateway| {
        within(gateway, global, arguments).await
    })
}

/// Runs the command on an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: TasksArguments,
) -> CommandResult {
    match arguments.action.unwrap_or(TasksAction::List(TaskListArguments::default())) {
        TasksAction::List(filter) => {
            let mut path = "/tasks?limit=500".to_owned();
            for (key, value) in [("status", &filter.status), ("tag", &filter.tag)] {
                if let Some(value) = value {
                    path.push_str(&format!("&{key}={}", segment(value)));
                }
            }
            let answer = all_pages(gateway, &path, "tasks").await?;
            print_entries(global, &answer, "tasks", "There are no tasks.\n", table);
        }
        TasksAction::Show { id } => {
            let task = gateway.get(&format!("/tasks/{}", segment(&id))).await?;
            match global.json {
                true => render::print_json(&task),
                false => render::print(&page(&task)),
            }
        }
        TasksAction::Create { file } => {
            let text = read_definition(&file)?;
            let task = read(&gateway.post("creating the task", "/tasks", Some(text.into())).await?)?;
            print_task(global, &task);
        }
        TasksAction::Edit(edit) => {
            let path = format!("/tasks/{}", segment(&edit.name));
            let task = read(&gateway.patch("changing the task", &path, edit.body()?).await?)?;
            print_task(global, &task);
        }
        TasksAction::Delete { id } => {
            let task = gateway.delete(&format!("/tasks/{}", segment(&id))).await?;
            match global.json {
                true => render::print_json(&task),
                false => render::print(&format!("Deleted {}.\n", line(&id))),
            }
        }
        TasksAction::Move { id, status } => {
            let body = json!({ "target_status": status }).to_string();
            let path = format!("/tasks/{}/transition", segment(&id));
            let task = read(&gateway.post("changing the task", &path, Some(body.into())).await?)?;
            print_task(global, &task);
        }
    }
    Ok(Exit::Ok)
}

fn print_task(global: &GlobalOptions, task: &Value) {
    if global.json {
        return render::print_json(task);
    }
    let text = |key: &str| task[key].as_str().map(line).unwrap_or_default();
    render::print(&format!("Task {} ({}) is {}.\n", text("name"), text("id"), text("status")));
}

/// A table of tasks.
fn table(tasks: &[Value]) -> String {
    let mut table = Table::new(&["ID", "TASK", "STATUS", "PRIORITY", "OWNER", "SUMMARY"]);
    for task in tasks {
        let text = |key: &str| task[key].as_str().unwrap_or_default();
        table.row([
            TableCell::toned(text("id"), Tone::Strong),
            text("name").into(),
            text("status").into(),
            text("priority").into(),
            text("owner").into(),
            text("summary").into(),
        ]);
    }
    table.draw(Paint::stdout())
}

/// The sentences of all criteria.
fn criteria(task: &Value) -> String {
    let all = task["acceptance_criteria"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sentences = all.iter().filter_map(|one| one.as_str().or_else(|| one["criterion"].as_str())).map(line);
    sentences.collect::<Vec<_>>().join(", ")
}

/// The page of one task.
fn page(task: &Value) -> String {
    let paint = Paint::stdout();
    let text = |key: &str| task[key].as_str().map(line).unwrap_or_default();
    let list = |key: &str| {
        let names = task[key].as_array().map(Vec::as_slice).unwrap_or_default();
        names.iter().filter_map(Value::as_str).map(line).collect::<Vec<_>>().join(", ")
    };
    let mut out = format!("{}\n\n{}\n\n", paint.tone(Tone::Strong, &text("name")), text("summary"));
    for (name, value) in [
        ("id", text("id")),
        ("status", text("status")),
        ("owner", text("owner")),
        ("persona", text("persona")),
        ("priority", text("priority")),
        ("tags", list("tags")),
        ("depends on", list("depends_on")),
        ("skills", list("required_skills")),
        ("tools", list("required_tools")),
        ("criteria", criteria(task)),
        ("run", text("run")),
    ] {
        if !value.is_empty() {
            out.push_str(&format!("  {:<12}{value}\n", paint.tone(Tone::Dim, name)));
        }
    }
    out
}
