//! `toolbooth calls running` and `toolbooth calls cancel`: calls that have not ended.

use super::approvals::{IdKind, id, short};
use super::print_entries;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Table, TableCell, Tone, ago};
use serde_json::Value;

/// Lists the calls that have not ended.
pub async fn list(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    let answer = gateway.get("/calls/running").await?;
    print_entries(global, &answer, "calls", "No calls are running.\n", table);
    Ok(Exit::Ok)
}

/// Cancels a call, by its id or by that of its held call.
pub async fn cancel(gateway: &GatewayHandle, global: &GlobalOptions, text: &str) -> CommandResult {
    let id = open_id(gateway, text).await?;
    let cancelled = read(&gateway.post("cancelling", &format!("/calls/{id}/cancel"), None).await?)?;
    if global.json {
        render::print_json(&cancelled);
    } else if cancelled["state"] == "cancelled" {
        render::print("Cancelled. The call waited for approval and was not run.\n");
    } else {
        render::print("Cancelled. Its server is asked to stop, but may have done its work already.\n");
    }
    Ok(Exit::Ok)
}

/// Finds the id of a call that has not ended: of the call, of its held call, or of its record.
async fn open_id(gateway: &GatewayHandle, text: &str) -> Result<String, CommandFailure> {
    for kind in [IdKind::RunningCalls, IdKind::Approvals] {
        match id(gateway, kind, text).await {
            Err(failure) if failure.fault.code.ends_with(".unknown") => {}
            found => return found,
        }
    }
    id(gateway, IdKind::Calls, text).await
}

fn table(calls: &[Value]) -> String {
    let mut table = Table::new(&["ID", "TIME", "TOOL", "USER", "CLIENT", "STATE"]);
    for call in calls {
        let text = |key: &str| call[key].as_str().unwrap_or_default();
        let state = match text("state") {
            "held" => TableCell::toned(&format!("held as {}", short(&call["held"])), Tone::Warn),
            "asks" => TableCell::toned("asks", Tone::Warn),
            state => state.into(),
        };
        table.row([
            TableCell::toned(short(&call["id"]), Tone::Strong),
            ago(call["at_ms"].as_i64().unwrap_or(0)).into(),
            text("tool").into(),
            text("user").into(),
            text("client").into(),
            state,
        ]);
    }
    table.draw(Paint::stdout())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_that_waits_for_approval_is_shown_with_its_held_call() {
        let held = json!({ "id": "0199-aa11bb", "tool": "mail_send", "user": "ann", "at_ms": 0, "state": "held",
            "held": "0199-cc22dd" });
        let running = json!({ "id": "0199-ee33ff", "tool": "slow", "user": "ann", "at_ms": 0, "state": "running",
            "client": "editor" });
        let shown = table(&[held, running]);
        for part in ["aa11bb", "mail_send", "held as cc22dd", "running", "editor"] {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
    }
}
