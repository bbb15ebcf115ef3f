//! Completes ids that are given by a unique part of their beginning or end.

use crate::exit::Exit;
use crate::failure::{CommandFailure, FaultReport};
use crate::gateway_handle::GatewayHandle;
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
}

impl IdKind {
    fn member(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Plans => "plans",
            Self::Consents => "consents",
            Self::DeadLetters => "dead_letters",
            Self::Calls => "calls",
        }
    }

    fn unknown(self, text: &str) -> CommandFailure {
        let (code, noun, list) = match self {
            Self::Approvals => ("approval.unknown", "held call", "toolbooth approvals list --all"),
            Self::Plans => ("plan.unknown", "plan", "toolbooth plan list"),
            Self::Consents => ("consent.unknown", "consent", "toolbooth approvals consents"),
            Self::DeadLetters => ("dead-letter.unknown", "dead letter", "toolbooth dead-letters list --all"),
            Self::Calls => ("call.unknown", "record of a call", "toolbooth calls list"),
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
    // A call that was held has more than one row.
    matching.sort();
    matching.dedup();
    match matching.as_slice() {
        [] => Err(kind.unknown(&text)),
        [one] => Ok(one.clone()),
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

fn fits(id: &str, text: &str) -> bool {
    id.starts_with(text) || id.ends_with(text)
}

/// The end of an id, which identifies it: ids of the same day begin alike.
pub fn short(id: &Value) -> &str {
    let id = id.as_str().unwrap_or_default();
    id.rsplit('-').next().unwrap_or(id)
}
