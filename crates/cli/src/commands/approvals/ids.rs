//! Completes ids that are given by a unique part of their beginning or end.

use crate::exit::Exit;
use crate::failure::{CommandFailure, FaultReport};
use crate::gateway_handle::GatewayHandle;
use crate::remote_gateway::segment;
use serde_json::Value;

/// The shortest accepted part of an id.
const MIN_PART: usize = 6;
/// The maximum number of pages that are searched.
const MAX_PAGES: usize = 20;

/// The kind of object that an id belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdKind {
    /// Held calls.
    Approvals,
    /// Plans.
    Plans,
    /// Consents.
    Consents,
    /// Dead letters.
    DeadLetters,
    /// Records of calls.
    Calls,
    /// Calls that have not ended.
    RunningCalls,
}

impl IdKind {
    fn member(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Plans => "plans",
            Self::Consents => "consents",
            Self::DeadLetters => "dead_letters",
            Self::Calls | Self::RunningCalls => "calls",
        }
    }

    fn unknown(self, text: &str) -> CommandFailure {
        let (code, noun, list) = match self {
            Self::Approvals => ("approval.unknown", "held call", "toolbooth approvals list --all"),
            Self::Plans => ("plan.unknown", "plan", "toolbooth plan list"),
            Self::Consents => ("consent.unknown", "consent", "toolbooth approvals consents"),
            Self::DeadLetters => ("dead-letter.unknown", "dead letter", "toolbooth dead-letters list --all"),
            Self::Calls => ("call.unknown", "record of a call", "toolbooth calls list"),
            Self::RunningCalls => ("call.unknown", "running call", "toolbooth calls running"),
        };
        let message = format!("there is no {noun} `{text}`");
        let hint = Some(format!("`{list}` shows those you may see"));
        let fault = FaultReport { code: code.to_owned(), blame: "caller".to_owned(), message, hint };
        CommandFailure::new(Exit::Failed, fault)
    }
}

/// Finds the full id for a part of it.
pub async fn id(gateway: &GatewayHandle, kind: IdKind, text: &str) -> Result<String, CommandFailure> {
    let text = text.to_ascii_lowercase();
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Err(kind.unknown(&text));
    }
    if text.len() == 36 {
        return Ok(text);
    }
    if text.len() < MIN_PART {
        let message = format!("`{text}` is too short for an id");
        let hint = format!("give at least {MIN_PART} characters of its beginning or its end");
        return Err(CommandFailure::misuse("usage.id", message, Some(&hint)));
    }
    let mut matching = Vec::new();
    let mut before: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let path = match (kind, &before) {
            (IdKind::Approvals, Some(before)) => format!("/approvals?limit=1000&before={before}"),
            (IdKind::Approvals, None) => "/approvals?limit=1000".to_owned(),
            (IdKind::DeadLetters, Some(before)) => format!("/dead-letters?limit=1000&cursor={before}"),
            (IdKind::DeadLetters, None) => "/dead-letters?limit=1000".to_owned(),
            (IdKind::Calls, Some(before)) => format!("/calls?limit=200&before={before}"),
            (IdKind::Calls, None) => "/calls?limit=200".to_owned(),
            (IdKind::RunningCalls, _) => "/calls/running".to_owned(),
            (other, _) => format!("/{}", other.member()),
        };
        let page = gateway.get(&path).await?;
        let ids = page[kind.member()].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str());
        matching.extend(ids.filter(|id| fits(id, &text)).map(str::to_owned));
        let next = page["next_before"].as_str().or(page["next_cursor"].as_str());
        // Pages of calls are counted in audit rows.
        let number = page["next_before"].as_u64().map(|row| row.to_string());
        before = next.map(str::to_owned).or(number);
        if before.is_none() {
            break;
        }
    }
    only_one(matching, &text)?.ok_or_else(|| kind.unknown(&text))
}

/// The only id that matches; `None` if none does.
fn only_one(mut matching: Vec<String>, text: &str) -> Result<Option<String>, CommandFailure> {
    // A call that was held has more than one row.
    matching.sort();
    matching.dedup();
    match matching.as_slice() {
        [] | [_] => Ok(matching.pop()),
        several => {
            let message = format!("`{text}` matches {} ids", several.len());
            let shown = several.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
            Err(CommandFailure::misuse(
                "usage.id",
                message,
                Some(&format!("give more characters of one of {shown}")),
            ))
        }
    }
}

/// Finds the full id of a run for a part of it. `work` is the path of the job or skill. A text that fits no run is returned
/// as it is, and the gateway answers that it has no such run.
pub async fn run_id(gateway: &GatewayHandle, work: &str, text: &str) -> Result<String, CommandFailure> {
    let text = text.to_ascii_lowercase();
    let is_part = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !is_part || text.len() < MIN_PART || text.len() >= 36 {
        return Ok(text);
    }
    let mut matching = Vec::new();
    let mut cursor = String::new();
    for _ in 0..MAX_PAGES {
        let page = gateway.get(&format!("{work}/runs?limit=200{cursor}")).await?;
        let ids = page["runs"].as_array().into_iter().flatten().filter_map(|run| run["id"].as_str());
        matching.extend(ids.filter(|id| fits(id, &text)).map(str::to_owned));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", segment(next)),
            None => break,
        }
    }
    Ok(only_one(matching, &text)?.unwrap_or(text))
}

/// The newest record of a call that was held with this id, or with an id that has this part.
pub async fn call_of_held(gateway: &GatewayHandle, text: &str) -> Result<Option<String>, CommandFailure> {
    let text = text.to_ascii_lowercase();
    if text.len() < MIN_PART {
        return Ok(None);
    }
    let mut before = String::new();
    for _ in 0..MAX_PAGES {
        let page = gateway.get(&format!("/calls?limit=200{before}")).await?;
        let mut calls = page["calls"].as_array().into_iter().flatten();
        let found = calls.find(|call| call["held"].as_str().is_some_and(|held| fits(held, &text)));
        if let Some(id) = found.and_then(|call| call["id"].as_str()) {
            return Ok(Some(id.to_owned()));
        }
        match page["next_before"].as_u64() {
            Some(row) => before = format!("&before={row}"),
            None => break,
        }
    }
    Ok(None)
}

fn fits(id: &str, text: &str) -> bool {
    // Lists show the last part of an id, so its beginning is accepted as well.
    let shown = id.rsplit('-').next().unwrap_or(id);
    id.starts_with(text) || id.ends_with(text) || shown.starts_with(text)
}

/// The end of an id, which identifies it: ids of the same day begin alike.
pub fn short(id: &Value) -> &str {
    let id = id.as_str().unwrap_or_default();
    id.rsplit('-').next().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn an_id_is_found_by_either_end_and_by_the_beginning_of_the_shown_part() {
        let id = "01a1ef93-699f-71f6-8e3a-3348071b5974";
        for part in ["01a1ef93", "1b5974", "334807", "3348071b5974"] {
            assert!(fits(id, part), "{part}");
        }
        assert!(!fits(id, "71f6-8e"));
    }
}
