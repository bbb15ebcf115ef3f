//! `toolbooth audit`: lists and verifies the audit log.

use super::{on_gateway, print_entries};
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, line, moment};
use clap::{Args, Subcommand};
use serde_json::Value;

/// Arguments of `toolbooth audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArguments {
    #[command(subcommand)]
    action: Option<AuditAction>,
    #[command(flatten)]
    filter: AuditListArguments,
}

#[derive(Debug, Subcommand)]
enum AuditAction {
    /// List audit records, newest first (the default).
    List(AuditListArguments),
    /// Verify the hash chain of all records; exits with 1 if a record was changed.
    Verify,
}

#[derive(Debug, Clone, Args)]
struct AuditListArguments {
    /// Only records of this user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only records of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only records of this kind: call, decision, plan, consent and so on.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Maximum number of records.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

/// Runs `toolbooth audit`.
pub fn run(global: &GlobalOptions, arguments: AuditArguments) -> CommandResult {
    on_gateway(GatewayHandle::open_persistent(global), async |gateway| {
        match arguments.action.unwrap_or(AuditAction::List(arguments.filter)) {
            AuditAction::List(filter) => list(gateway, global, &filter).await,
            AuditAction::Verify => verify(gateway, global).await,
        }
    })
}

async fn list(gateway: &GatewayHandle, global: &GlobalOptions, filter: &AuditListArguments) -> CommandResult {
    let mut path = format!("/audit?limit={}", filter.limit.unwrap_or(50));
    for (key, value) in [("user", &filter.user), ("tool", &filter.tool), ("kind", &filter.kind)] {
        if let Some(value) = value {
            path.push_str(&format!("&{key}={}", segment(value)));
        }
    }
    let answer = gateway.get(&path).await?;
    print_entries(global, &answer, "rows", "The audit log has no records.\n", table);
    Ok(Exit::Ok)
}

/// A table of audit rows.
fn table(rows: &[Value]) -> String {
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
    table.draw(Paint::stdout())
}

fn outcome(word: &str, code: &str) -> TableCell {
    let text = if code.is_empty() { word.to_owned() } else { format!("{word}, {code}") };
    match word {
        "done" | "approved" => TableCell::toned(&text, Tone::Good),
        "failed" | "tool_error" | "timeout" | "rejected" => TableCell::toned(&text, Tone::Bad),
        "unknown" => TableCell::toned(&text, Tone::Warn),
        _ => text.into(),
    }
}

async fn verify(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    let report = read(&gateway.post("verifying the audit log", "/audit/verify", None).await?)?;
    let bad = &report["first_bad"];
    if global.json {
        render::print_json(&report);
    } else {
        render::print(&describe(&report));
    }
    Ok(if bad.is_null() { Exit::Ok } else { Exit::Failed })
}

fn describe(report: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let head = format!(
        "The last valid row is {}, its hash is {}.\n",
        number(&report["head"]["seq"]),
        report["head"]["hash"].as_str().map(line).unwrap_or_default()
    );
    let purged = match number(&report["purged_to"]) {
        0 => String::new(),
        row => format!("Rows up to {row} were purged and cannot be verified.\n"),
    };
    let bad = &report["first_bad"];
    if bad.is_null() {
        let rows = usize::try_from(number(&report["rows"])).unwrap_or(usize::MAX);
        return format!("The audit log is intact: {} verified.\n{purged}{head}", render::count(rows, "row"));
    }
    let why = bad["why"].as_str().map(line).unwrap_or_default();
    format!("The audit log is broken at row {}: {why}.\n{purged}{head}", number(&bad["seq"]))
}
