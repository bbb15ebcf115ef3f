//! `toolbooth plan`: calls that change something are queued, read as a whole, and run in order.

use super::approvals::{Among, id, short, shown_arguments, shown_state};
use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Trouble};
use crate::own::Wanted;
use crate::reach::{Reach, read};
use crate::remote::segment;
use crate::render::{self, Cell, Paint, Table, Tone, ago, line};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What about plans.
#[derive(Debug, Args)]
#[command(after_help = "\
While plan mode is on, calls that only read run, and all others become steps.
For example:
  toolbooth plan on
  toolbooth plan show
  toolbooth plan approve 1-3")]
pub struct PlanArguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only calls of this session; --persona narrows likewise.
    #[arg(long, global = true, value_name = "NAME")]
    session: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Switch plan mode on.
    On,
    /// Switch plan mode off; steps that wait, wait on.
    Off,
    /// Show a plan's steps (the default).
    Show {
        /// The plan; the one that takes your calls unless you say.
        id: Option<String>,
    },
    /// List plans.
    List,
    /// Run steps in order, up to the first that fails.
    Approve {
        /// A number, a range such as 2-4, or all.
        #[arg(value_name = "N|A-B|all")]
        steps: String,
        /// The plan; the one that takes your calls unless you say.
        #[arg(long, value_name = "ID")]
        plan: Option<String>,
    },
    /// Reject steps.
    Reject {
        /// A number, a range such as 2-4, or all.
        #[arg(value_name = "N|A-B|all", default_value = "all")]
        steps: String,
        /// Why.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// The plan; the one that takes your calls unless you say.
        #[arg(long, value_name = "ID")]
        plan: Option<String>,
    },
}

/// Whose calls are meant.
struct Scope {
    persona: Option<String>,
    session: Option<String>,
}

/// Runs `toolbooth plan`.
pub fn run(global: &Global, what: PlanArguments) -> Outcome {
    in_runtime(async {
        // The persona is the plan's here, not the one to look through.
        let reach = Reach::open_lasting(&Global { persona: None, ..global.clone() }).await?;
        let outcome = within(&reach, global, what).await;
        reach.close().await;
        outcome
    })
}

/// The same at a gateway that is open already.
pub async fn within(reach: &Reach, global: &Global, what: PlanArguments) -> Outcome {
    let scope = Scope { persona: global.persona.clone(), session: what.session };
    match what.action.unwrap_or(Action::Show { id: None }) {
        Action::On => on(reach, global, &scope).await,
        Action::Off => off(reach, global, &scope).await,
        Action::Show { id } => show(reach, global, &scope, id.as_deref()).await,
        Action::List => list(reach, global).await,
        Action::Approve { steps, plan } => approve(reach, global, &scope, &steps, plan.as_deref()).await,
        Action::Reject { steps, reason, plan } => {
            let body = json!({ "steps": steps, "reason": reason });
            reject(reach, global, &scope, body, plan.as_deref()).await
        }
    }
}

/// Whose calls a plan takes, in words.
fn scope_of(plan: &Value) -> String {
    let user = plan["user"].as_str().map(line).unwrap_or_default();
    let part = |key: &str| plan[key].as_str().map(|name| format!(" {key} {}", line(name)));
    let parts: Vec<String> = [part("persona"), part("session")].into_iter().flatten().collect();
    format!("{user}{}", if parts.is_empty() { String::new() } else { format!(",{}", parts.join(",")) })
}

async fn on(reach: &Reach, global: &Global, scope: &Scope) -> Outcome {
    let body = json!({ "persona": scope.persona, "session": scope.session });
    let plan = read(&reach.post("switching plan mode on", "/plans", Some(body.to_string().into())).await?)?;
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

async fn off(reach: &Reach, global: &Global, scope: &Scope) -> Outcome {
    let parts = [("persona", &scope.persona), ("session", &scope.session)];
    let parts =
        parts.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", segment(value.as_ref()?))));
    let query = parts.collect::<Vec<_>>().join("&");
    let closed = reach.delete(&format!("/plans{}{query}", if query.is_empty() { "" } else { "?" })).await?;
    if global.json {
        render::print_json(&closed);
        return Ok(Exit::Ok);
    }
    match closed["plans"].as_array().map(Vec::as_slice).unwrap_or_default() {
        [] => render::print("Plan mode was not on.\n"),
        plans => {
            let ids: Vec<&str> = plans.iter().map(|plan| short(&plan["id"])).collect();
            render::print(&format!("Plan mode is off. Steps of plan {} wait on.\n", ids.join(", ")));
        }
    }
    Ok(Exit::Ok)
}

async fn list(reach: &Reach, global: &Global) -> Outcome {
    let answer = reach.get("/plans").await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let plans = answer["plans"].as_array().map(Vec::as_slice).unwrap_or_default();
    if plans.is_empty() {
        render::print("There are no plans. `toolbooth plan on` opens one.\n");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["ID", "STATE", "OPENED", "FOR"]);
    for plan in plans {
        let state = match plan["state"].as_str() {
            Some("open") => Cell::toned("open", Tone::Good),
            other => Cell::toned(other.unwrap_or_default(), Tone::Dim),
        };
        table.row([
            Cell::toned(short(&plan["id"]), Tone::Strong),
            state,
            ago(plan["created_ms"].as_i64().unwrap_or(0)).into(),
            scope_of(plan).into(),
        ]);
    }
    render::print(&table.draw(Paint::stdout()));
    Ok(Exit::Ok)
}

/// The plan that is meant: the one named, else the caller's open one, else their newest.
async fn pick(reach: &Reach, scope: &Scope, named: Option<&str>) -> Result<String, Failure> {
    if let Some(text) = named {
        return id(reach, Among::Plans, text).await;
    }
    let me = reach.get("/me").await?;
    let answer = reach.get("/plans").await?;
    let fits =
        |wanted: &Option<String>, found: &Value| wanted.is_none() || wanted.as_deref() == found.as_str();
    let mine: Vec<&Value> = answer["plans"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|plan| plan["user"] == me["user"])
        .filter(|plan| fits(&scope.persona, &plan["persona"]) && fits(&scope.session, &plan["session"]))
        .collect();
    let open = mine.iter().find(|plan| plan["state"] == "open").or(mine.first());
    let id = open.and_then(|plan| plan["id"].as_str()).map(str::to_owned);
    id.ok_or_else(|| {
        Failure::failed(Trouble {
            code: "plan.unknown".to_owned(),
            blame: "caller".to_owned(),
            message: "you have no plan".to_owned(),
            hint: Some("`toolbooth plan on` opens one".to_owned()),
        })
    })
}

async fn show(reach: &Reach, global: &Global, scope: &Scope, named: Option<&str>) -> Outcome {
    let id = pick(reach, scope, named).await?;
    let body = reach.fetch(&format!("/plans/{id}")).await?;
    if global.json {
        render::print_raw_json(&String::from_utf8_lossy(&body));
        return Ok(Exit::Ok);
    }
    render::print(&draw(&read(&body)?));
    Ok(Exit::Ok)
}

/// A plan like the difference it would make.
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
            strong @ ("destructive" | "system") => Cell::toned(strong, Tone::Bad),
            other => other.into(),
        };
        table.row([
            Cell::toned(sign, tone),
            step["plan"]["step"].as_u64().unwrap_or(0).to_string().into(),
            text("name").into(),
            effect,
            shown_state(text("state")),
            shown_arguments(step).into(),
        ]);
    }
    format!("{head}\n{}", table.draw(paint))
}

async fn approve(reach: &Reach, global: &Global, scope: &Scope, steps: &str, named: Option<&str>) -> Outcome {
    let id = pick(reach, scope, named).await?;
    if matches!(reach, Reach::Own(_)) {
        let plan = reach.get(&format!("/plans/{id}")).await?;
        let waiting = plan["steps"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|step| matches!(step["state"].as_str(), Some("pending" | "approved")));
        let servers: BTreeSet<&str> = waiting.filter_map(|step| step["server"].as_str()).collect();
        for server in servers {
            reach.connect(Wanted::One(server)).await;
        }
    }
    let body = json!({ "steps": steps }).to_string();
    let path = format!("/plans/{id}/approve");
    report(&read(&reach.post("running the plan", &path, Some(body.into())).await?)?, global)
}

async fn reject(reach: &Reach, global: &Global, scope: &Scope, body: Value, named: Option<&str>) -> Outcome {
    let id = pick(reach, scope, named).await?;
    let path = format!("/plans/{id}/reject");
    report(&read(&reach.post("rejecting", &path, Some(body.to_string().into())).await?)?, global)
}

fn report(answer: &Value, global: &Global) -> Outcome {
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
            render::complain("It stopped at the step that failed; the rest waits on.\n");
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Ok })
}
