//! `toolbooth audit`: what was called and decided, and whether the record of it is whole.

use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::reach::{Reach, read};
use crate::remote::segment;
use crate::render::{self, Cell, Paint, Table, Tone, line, moment};
use clap::{Args, Subcommand};
use serde_json::Value;

/// What of the audit.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List what happened, newest first (the default).
    List(Filter),
    /// Check every row against the one before it; exits 1 where one is not as it was written.
    Verify,
}

#[derive(Debug, Clone, Args)]
struct Filter {
    /// Only of this user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only of this kind: call, decision, plan, consent and so on.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// At most this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

/// Runs `toolbooth audit`.
pub fn run(global: &Global, what: AuditArguments) -> Outcome {
    in_runtime(async {
        let reach = Reach::open_lasting(global).await?;
        let outcome = match what.action.unwrap_or(Action::List(what.filter)) {
            Action::List(filter) => list(&reach, global, &filter).await,
            Action::Verify => verify(&reach, global).await,
        };
        reach.close().await;
        outcome
    })
}

async fn list(reach: &Reach, global: &Global, filter: &Filter) -> Outcome {
    let mut path = format!("/audit?limit={}", filter.limit.unwrap_or(50));
    for (key, value) in [("user", &filter.user), ("tool", &filter.tool), ("kind", &filter.kind)] {
        if let Some(value) = value {
            path.push_str(&format!("&{key}={}", segment(value)));
        }
    }
    let answer = reach.get(&path).await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let rows = answer["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        render::print("There is nothing in the audit.\n");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["ROW", "TIME", "KIND", "USER", "OUTCOME", "TOOL", "ARGUMENTS"]).numbers(0);
    for row in rows {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let user = match row["by"].as_str().filter(|by| *by != text("user")) {
            Some(by) => format!("{} (by {by})", text("user")),
            None => text("user").to_owned(),
        };
        let tool = match row["server"].as_str() {
            Some(server) => format!("{server}.{}", text("tool")),
            None => text("tool").to_owned(),
        };
        table.row([
            row["seq"].as_u64().unwrap_or(0).to_string().into(),
            moment(row["at_ms"].as_i64().unwrap_or(0)).into(),
            text("kind").into(),
            user.into(),
            outcome(text("outcome"), text("code")),
            tool.into(),
            text("arguments_preview").into(),
        ]);
    }
    render::print(&table.draw(Paint::stdout()));
    Ok(Exit::Ok)
}

fn outcome(word: &str, code: &str) -> Cell {
    let text = if code.is_empty() { word.to_owned() } else { format!("{word}, {code}") };
    match word {
        "done" | "approved" => Cell::toned(&text, Tone::Good),
        "failed" | "tool_error" | "timeout" | "rejected" => Cell::toned(&text, Tone::Bad),
        "unknown" => Cell::toned(&text, Tone::Warn),
        _ => text.into(),
    }
}

async fn verify(reach: &Reach, global: &Global) -> Outcome {
    let report = read(&reach.post("checking the audit", "/audit/verify", None).await?)?;
    let bad = &report["first_bad"];
    if global.json {
        render::print_json(&report);
    } else {
        render::print(&told(&report));
    }
    Ok(if bad.is_null() { Exit::Ok } else { Exit::Failed })
}

fn told(report: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let head = format!(
        "The last good row is {}, its hash {}.\n",
        number(&report["head"]["seq"]),
        report["head"]["hash"].as_str().map(line).unwrap_or_default()
    );
    let purged = match number(&report["purged_to"]) {
        0 => String::new(),
        row => format!("Rows up to {row} were purged and are not checked.\n"),
    };
    let bad = &report["first_bad"];
    if bad.is_null() {
        let rows = usize::try_from(number(&report["rows"])).unwrap_or(usize::MAX);
        return format!("The audit is whole: {} checked.\n{purged}{head}", render::count(rows, "row"));
    }
    let why = bad["why"].as_str().map(line).unwrap_or_default();
    format!("The audit is broken at row {}: {why}.\n{purged}{head}", number(&bad["seq"]))
}
