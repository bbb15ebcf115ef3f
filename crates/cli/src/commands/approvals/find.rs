//! Ids as people type them: whole, or so much of either end that only one fits.

use crate::exit::Exit;
use crate::failure::{Failure, Trouble};
use crate::reach::Reach;
use serde_json::Value;

/// The fewest characters that stand for an id.
const FEWEST: usize = 6;
/// The most pages of held calls that are looked through.
const MOST_PAGES: usize = 20;

/// What an id is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Held calls.
    Approvals,
    /// Plans.
    Plans,
    /// Consents.
    Consents,
    /// Dead letters.
    DeadLetters,
}

impl Among {
    fn member(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Plans => "plans",
            Self::Consents => "consents",
            Self::DeadLetters => "dead_letters",
        }
    }

    fn unknown(self, text: &str) -> Failure {
        let (code, noun, list) = match self {
            Self::Approvals => ("approval.unknown", "held call", "toolbooth approvals list --all"),
            Self::Plans => ("plan.unknown", "plan", "toolbooth plan list"),
            Self::Consents => ("consent.unknown", "consent", "toolbooth approvals consents"),
            Self::DeadLetters => ("dead-letter.unknown", "dead letter", "toolbooth dead-letters list --all"),
        };
        let message = format!("there is no {noun} `{text}`");
        let hint = Some(format!("`{list}` shows those you may see"));
        let trouble = Trouble { code: code.to_owned(), blame: "caller".to_owned(), message, hint };
        Failure::new(Exit::Failed, trouble)
    }
}

/// The whole id that a text stands for.
pub async fn id(reach: &Reach, among: Among, text: &str) -> Result<String, Failure> {
    let text = text.to_ascii_lowercase();
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Err(among.unknown(&text));
    }
    if text.len() == 36 {
        return Ok(text);
    }
    if text.len() < FEWEST {
        let message = format!("`{text}` is too short for an id");
        let hint = format!("give at least {FEWEST} characters of its beginning or its end");
        return Err(Failure::misuse("usage.id", message, Some(&hint)));
    }
    let mut matching = Vec::new();
    let mut before: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let path = match (among, &before) {
            (Among::Approvals, Some(before)) => format!("/approvals?limit=1000&before={before}"),
            (Among::Approvals, None) => "/approvals?limit=1000".to_owned(),
            (Among::DeadLetters, Some(before)) => format!("/dead-letters?limit=1000&cursor={before}"),
            (Among::DeadLetters, None) => "/dead-letters?limit=1000".to_owned(),
            (other, _) => format!("/{}", other.member()),
        };
        let page = reach.get(&path).await?;
        let ids = page[among.member()].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str());
        matching.extend(ids.filter(|id| fits(id, &text)).map(str::to_owned));
        let next = page["next_before"].as_str().or(page["next_cursor"].as_str());
        before = next.map(str::to_owned);
        if before.is_none() {
            break;
        }
    }
    match matching.as_slice() {
        [] => Err(among.unknown(&text)),
        [one] => Ok(one.clone()),
        several => {
            let message = format!("`{text}` stands for {} ids", several.len());
            let shown = several.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
            Err(Failure::misuse("usage.id", message, Some(&format!("give more of one of {shown}"))))
        }
    }
}

fn fits(id: &str, text: &str) -> bool {
    id.starts_with(text) || id.ends_with(text)
}

/// The end of an id, by which people tell it from others: ids of the same day begin alike.
pub fn short(id: &Value) -> &str {
    let id = id.as_str().unwrap_or_default();
    id.rsplit('-').next().unwrap_or(id)
}
