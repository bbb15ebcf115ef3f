//! `toolbooth plan`: queues calls that change something, to review them and run them in order.

use super::approvals::{IdKind, id, short, shown_arguments, shown_state};
use super::{on_gateway, print_entries};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult, FaultReport};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, ago, line};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Arguments of `toolbooth plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
While plan mode is on, read-only calls run, and all other calls become steps.
For example:
  toolbooth plan on
  toolbooth plan show
  toolbooth plan approve 1-3")]
pub struct PlanArguments {
    #[command(subcommand)]
    action: Option<PlanAction>,
    /// Only calls of this session; --persona restricts to a persona.
    #[arg(long, global = true, value_name = "NAME")]
    session: Option<String>,
}

#[derive(Debug, Subcommand)]
enum PlanAction {
    /// Turn plan mode on.
    On,
    /// Turn plan mode off; pending steps stay pending.
    Off,
    /// Show a plan's steps (the default).
    Show {
        /// Id of the plan; your current plan by default.
        id: Option<String>,
    },
    /// List plans.
    List,
    /// Run steps in order, until one fails.
    Approve {
        /// A number, a range such as 2-4, or all.
        #[arg(value_name = "N|A-B|all")]
        steps: String,
        /// Id of the plan; your current plan by default.
        #[arg(long, value_name = "ID")]
        plan: Option<String>,
    },
    /// Reject steps.
    Reject {
        /// A number, a range such as 2-4, or all.
        #[arg(value_name = "N|A-B|all", default_value = "all")]
        steps: String,
        /// Reason.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Id of the plan; your current plan by default.
        #[arg(long, value_name = "ID")]
        plan: Option<String>,
    },
}

/// The persona and session of a plan.
struct PlanSelector {
    persona: Option<String>,
    session: Option<String>,
}

/// Runs `toolbooth plan`.
pub fn run(global: &GlobalOptions, arguments: PlanArguments) -> CommandResult {
    // The persona selects the plan here, not the view of the caller.
    let plain = GlobalOptions { persona: None, ..global.clone() };
    on_gateway(GatewayHandle::open_persistent(&plain), async |gateway| {
        within(gateway, global, arguments).await
    })
}

/// Runs the command on an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: PlanArguments,
) -> CommandResult {
    let selector = PlanSelector { persona: global.persona.clone(), session: arguments.session };
    match arguments.action.unwrap_or(PlanAction::Show { id: None }) {
        PlanAction::On => on(gateway, global, &selector).await,
        PlanAction::Off => off(gateway, global, &selector).await,
        PlanAction::Show { id } => show(gateway, global, &selector, id.as_deref()).await,
        PlanAction::List => list(gateway, global).await,
        PlanAction::Approve { steps, plan } => {
            approve(gateway, global, &selector, &steps, plan.as_deref()).await
        }
        PlanAction::Reject { steps, reason, plan } => {
            let body = json!({ "steps": steps, "reason": reason });
            reject(gateway, global, &selector, body, plan.as_deref()).await
        }
    }
}

/// The user, persona and session of a plan, in words.
fn scope_of(plan: &Value) -> String {
    let user = plan["user"].as_str().map(line).unwrap_or_default();
    let part = |key: &str| plan[key].as_str().map(|name| format!(" {key} {}", line(name)));
    let parts: Vec<String> = [part("persona"), part("session")].into_iter().flatten().collect();
    format!("{user}{}", if parts.is_empty() { String::new() } else { format!(",{}", parts.join(",")) })
}

async fn on(gateway: &GatewayHandle, global: &GlobalOptions, selector: &PlanSelector) -> CommandResult {
    let body = json!({ "persona": selector.persona, "session": selector.session });
    let plan = read(&gateway.post("turning plan mode on", "/plans", Some(body.to_string().into())).await?)?;
    if global.json {
        render::print_json(&plan);
    } else {
        render::print(&format!(
            "Plan mode is on for {}: calls that change something become steps of plan {}.\n",
            scope_of(&plan),
            short(&plan["id"])
        ));
    }
    Ok(Exit::Ok)
}

async fn off(gateway: &GatewayHandle, global: &GlobalOptions, selector: &PlanSelector) -> CommandResult {
    let parts = [("persona", &selector.persona), ("session", &selector.session)];
    let parts =
        parts.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", segment(value.as_ref()?))));
    let query = parts.collect::<Vec<_>>().join("&");
    let closed = gateway.delete(&format!("/plans{}{query}", if query.is_empty() { "" } else { "?" })).await?;
    if global.json {
        render::print_json(&closed);
        return Ok(Exit::Ok);
    }
    match closed["plans"].as_array().map(Vec::as_slice).unwrap_or_default() {
        [] => render::print("Plan mode was not on.\n"),
        plans => {
            let ids: Vec<&str> = plans.iter().map(|plan| short(&plan["id"])).collect();
            render::print(&format!(
                "Plan mode is off. Pending steps of plan {} stay pending.\n",
                ids.join(", ")
            ));
        }
    }
    Ok(Exit::Ok)
}

async fn list(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    let answer = gateway.get("/plans").await?;
    print_entries(global, &answer, "plans", "There are no plans. `toolbooth plan on` opens one.\n", table);
    Ok(Exit::Ok)
}

/// A table of plans.
fn table(plans: &[Value]) -> String {
    let mut table = Table::new(&["ID", "STATE", "OPENED", "FOR"]);
    for plan in plans {
        let state = match plan["state"].as_str() {
            Some("open") => TableCell::toned("open", Tone::Good),
            other => TableCell::toned(other.unwrap_or_default(), Tone::Dim),
        };
        table.row([
            TableCell::toned(short(&plan["id"]), Tone::Strong),
            state,
            ago(plan["created_ms"].as_i64().unwrap_or(0)).into(),
            scope_of(plan).into(),
        ]);
    }
    table.draw(Paint::stdout())
}

/// Selects a plan: the named one, or the caller's open one, or their newest.
async fn pick(
    gateway: &GatewayHandle,
    selector: &PlanSelector,
    named: Option<&str>,
) -> Result<String, CommandFailure> {
    if let Some(text) = named {
        return id(gateway, IdKind::Plans, text).await;
    }
    let me = gateway.get("/me").await?;
    let answer = gateway.get("/plans").await?;
    let fits =
        |wanted: &Option<String>, found: &Value| wanted.is_none() || wanted.as_deref() == found.as_str();
    let mine: Vec<&Value> = answer["plans"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|plan| plan["user"] == me["user"])
        .filter(|plan| fits(&selector.persona, &plan["persona"]) && fits(&selector.session, &plan["session"]))
        .collect();
    let open = mine.iter().find(|plan| plan["state"] == "open").or(mine.first());
    let id = open.and_then(|plan| plan["id"].as_str()).map(str::to_owned);
    id.ok_or_else(|| {
        CommandFailure::failed(FaultReport {
            code: "plan.unknown".to_owned(),
            blame: "caller".to_owned(),
            message: "you have no plan".to_owned(),
            hint: Some("`toolbooth plan on` opens one".to_owned()),
        })
    })
}

async fn show(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    selector: &PlanSelector,
    named: Option<&str>,
) -> CommandResult {
    let id = pick(gateway, selector, named).await?;
    let body = gateway.fetch(&format!("/plans/{id}")).await?;
    if global.json {
        render::print_raw_json(&String::from_utf8_lossy(&body));
        return Ok(Exit::Ok);
    }
    render::print(&draw(&read(&body)?));
    Ok(Exit::Ok)
}

/// Draws a plan in the style of a diff.
fn draw(plan: &Value) -> String {
    let paint = Paint::stdout();
    let head = format!(
        "Plan {} of {}, {}\n",
        paint.tone(Tone::Strong, short(&plan["id"])),
        scope_of(plan),
        plan["state"].as_str().map(line).unwrap_or_default()
    );
    let steps = plan["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    if steps.is_empty() {
        return head + "\nIt has no steps yet.\n";
    }
    let mut table = Table::new(&["", "STEP", "TOOL", "EFFECT", "STATE", "ARGUMENTS"]).numbers(1);
    for step in steps {
        let text = |key: &str| step[key].as_str().unwrap_or_default();
        let (sign, tone) = match text("state") {
            "pending" => ("+", Tone::Good),
            "approved" => ("~", Tone::Warn),
            "done" => ("=", Tone::Dim),
            "failed" => ("!", Tone::Bad),
            _ => ("-", Tone::Bad),
        };
        let effect = match text("side_effect") {
            strong @ ("destructive" | "system") => TableCell::toned(strong, Tone::Bad),
            other => other.into(),
        };
        table.row([
            TableCell::toned(sign, tone),
            step["plan"]["step"].as_u64().unwrap_or(0).to_string().into(),
            text("name").into(),
            effect,
            shown_state(text("state")),
            shown_arguments(step).into(),
        ]);
    }
    format!("{head}\n{}", table.draw(paint))
}

async fn approve(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    selector: &PlanSelector,
    steps: &str,
    named: Option<&str>,
) -> CommandResult {
    let id = pick(gateway, selector, named).await?;
    if matches!(gateway, GatewayHandle::Embedded(_)) {
        let plan = gateway.get(&format!("/plans/{id}")).await?;
        let waiting = plan["steps"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|step| matches!(step["state"].as_str(), Some("pending" | "approved")));
        let servers: BTreeSet<&str> = waiting.filter_map(|step| step["server"].as_str()).collect();
        for server in servers {
            gateway.connect(ServerSelection::One(server)).await;
        }
    }
    let body = json!({ "steps": steps }).to_string();
    let path = format!("/plans/{id}/approve");
    report(&read(&gateway.post("running the plan", &path, Some(body.into())).await?)?, global)
}

async fn reject(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    selector: &PlanSelector,
    body: Value,
    named: Option<&str>,
) -> CommandResult {
    let id = pick(gateway, selector, named).await?;
    let path = format!("/plans/{id}/reject");
    report(&read(&gateway.post("rejecting", &path, Some(body.to_string().into())).await?)?, global)
}

fn report(answer: &Value, global: &GlobalOptions) -> CommandResult {
    let steps = answer["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let failed = steps.iter().any(|step| step["state"] == "failed");
    if global.json {
        render::print_json(answer);
    } else {
        let mut table = Table::new(&["STEP", "TOOL", "STATE", ""]).numbers(0).wrapping();
        for step in steps {
            let text = |key: &str| step[key].as_str().unwrap_or_default();
            let number = step["step"].as_u64().unwrap_or(0).to_string();
            table.row([
                number.into(),
                text("tool").into(),
                shown_state(text("state")),
                text("problem").into(),
            ]);
        }
        render::print(&table.draw(Paint::stdout()));
        if failed {
            render::complain("The plan stopped at the step that failed; pending steps stay pending.\n");
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Ok })
}
