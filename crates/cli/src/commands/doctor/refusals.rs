//! Checks of `toolbooth doctor` about credentials that the running gateway refused recently.

use super::{DoctorReport, Status};
use crate::gateway_handle::GatewayHandle;
use crate::render::{self, line, moment, wall_ms};
use serde_json::Value;

/// The rows of the audit log that are read.
const MAX_ROWS: usize = 100;
/// How far back refusals are reported.
const RECENT_MS: i64 = 24 * 3600 * 1000;

/// Reports how many credentials were refused, and the latest. That is not a problem of the gateway: every gateway on a
/// network gets some.
pub(super) async fn check(report: &mut DoctorReport, gateway: &GatewayHandle) {
    let Ok(answer) = gateway.get(&format!("/audit?kind=refusal&limit={MAX_ROWS}")).await else { return };
    if let Some(message) = summary(&answer, wall_ms()) {
        report.note("auth", Status::Ok, message, None);
    }
}

/// The refused credentials in a page of the audit log, newest first; `None` if there are none.
fn summary(answer: &Value, now_ms: i64) -> Option<String> {
    let rows = answer["rows"].as_array()?;
    let refused: Vec<&Value> = rows
        .iter()
        .filter(|row| row["code"].as_str().is_some_and(|code| code.starts_with("auth.")))
        .filter(|row| row["at_ms"].as_i64().is_some_and(|at_ms| at_ms > now_ms.saturating_sub(RECENT_MS)))
        .collect();
    let latest = refused.first()?;
    let count: u64 = refused.iter().map(|row| row["detail"]["count"].as_u64().unwrap_or(1)).sum();
    let at_least = if rows.len() >= MAX_ROWS { "at least " } else { "" };
    let text = |key: &str| line(latest["detail"][key].as_str().unwrap_or_default());
    let at = moment(latest["at_ms"].as_i64().unwrap_or_default());
    Some(format!(
        "{at_least}{} in the last 24 hours; the latest at {at}, from {}: {} (`toolbooth audit --kind refusal` lists them)",
        render::count(usize::try_from(count).unwrap_or(usize::MAX), "refused credential"),
        text("source"),
        text("attempt"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn recent_refusals_are_counted() {
        let row = |at_ms: i64, code: &str, count: u64| {
            let detail = json!({ "source": "10.0.0.7", "attempt": "POST /mcp (the token has expired)", "count": count });
            json!({ "at_ms": at_ms, "code": code, "detail": detail })
        };
        let now = 2 * RECENT_MS;
        let rows = [
            row(now - 1000, "request.bad-origin", 1),
            row(now - 2000, "auth.refused", 4),
            row(now - 3000, "auth.too-many-attempts", 2),
            row(now - RECENT_MS, "auth.refused", 100),
        ];
        let found = summary(&json!({ "rows": rows }), now);
        assert_eq!(
            found.as_deref(),
            Some(
                "6 refused credentials in the last 24 hours; the latest at 1970-01-02 23:59:58Z, from 10.0.0.7: \
                 POST /mcp (the token has expired) (`toolbooth audit --kind refusal` lists them)"
            )
        );
        assert_eq!(summary(&json!({ "rows": [] }), now), None);
        assert_eq!(summary(&json!({}), now), None);
    }
}
