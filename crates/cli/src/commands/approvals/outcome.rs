//! What became of a held call, once somebody has answered: waited for, and passed on like any result.

use crate::exit::Exit;
use crate::failure::{Failure, Trouble};
use crate::progress::while_waiting;
use crate::reach::Reach;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::time::Instant;

/// How often is looked at first; later less often.
const FIRST_LOOK: Duration = Duration::from_millis(30);
/// How often is looked at in the long run.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// A held call, as far as its end is concerned.
#[derive(Debug, Deserialize)]
pub struct Ended<'a> {
    id: String,
    name: String,
    /// Where it stands.
    pub state: String,
    decided_by: Option<String>,
    decision_note: Option<String>,
    /// What it waits for, though it was approved.
    waiting_for: Option<String>,
    /// What it ran with, where an answer changed that.
    #[serde(borrow)]
    pub edited: Option<&'a RawValue>,
    #[serde(borrow)]
    outcome: Option<Outcome<'a>>,
}

#[derive(Debug, Deserialize)]
struct Outcome<'a> {
    kind: String,
    code: Option<String>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// Waits until a held call is over, or until a while has passed; the call as it is then.
pub async fn settled(reach: &Reach, id: &str, at_most: Option<Duration>) -> Result<Bytes, Failure> {
    let path = format!("/approvals/{id}");
    let until = at_most.map(|time| Instant::now() + time);
    while_waiting("waiting for the call to end", async {
        let mut pause = FIRST_LOOK;
        loop {
            let body = reach.fetch(&path).await?;
            let held = read(&body)?;
            let waits = matches!(held.state.as_str(), "pending" | "approved") && held.waiting_for.is_none();
            if !waits || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(body);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    })
    .await
}

/// Reads a held call.
pub fn read(body: &Bytes) -> Result<Ended<'_>, Failure> {
    serde_json::from_slice(body)
        .map_err(|_| Failure::misuse("gateway.stranger", "what answered there is no Toolbooth gateway", None))
}

impl<'a> Ended<'a> {
    /// The held call that this one led to: a tool behind the called one asks on its own.
    pub fn next(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Next {
            held: String,
        }
        let outcome = self.outcome.as_ref().filter(|outcome| outcome.code.as_deref() == Some("call.held"))?;
        let next: Next = serde_json::from_str(outcome.result?.get()).ok()?;
        Some(next.held)
    }

    /// The result of a call that ran; nothing where it was too long to keep.
    pub fn result(&self) -> Result<Option<&'a RawValue>, Failure> {
        let fault = |exit, code: &str, message: String, hint: Option<String>| {
            let (code, blame) = (code.to_owned(), "caller".to_owned());
            Failure::new(exit, Trouble { code, blame, message, hint })
        };
        let (name, id) = (&self.name, &self.id);
        match (self.state.as_str(), &self.outcome) {
            ("rejected", _) => {
                let by = self.decided_by.as_deref().unwrap_or("somebody");
                let message = match self.decision_note.as_deref().filter(|note| !note.is_empty()) {
                    Some(reason) => format!("rejected by {by}: {reason}"),
                    None => format!("rejected by {by}"),
                };
                Err(fault(Exit::Refused, "call.rejected", message, None))
            }
            ("expired", _) => {
                let message = format!("nobody answered for `{name}` in time");
                Err(fault(
                    Exit::Refused,
                    "call.approval-timeout",
                    message,
                    Some("make the call again".into()),
                ))
            }
            ("approved", _) if self.waiting_for.is_some() => {
                let message = self.waiting_for.clone().unwrap_or_default();
                let hint =
                    format!("it runs by itself; `toolbooth approvals show {id}` shows what becomes of it");
                Err(fault(Exit::Held, "call.deferred", message, Some(hint)))
            }
            ("pending" | "approved", _) => {
                let hint = format!("`toolbooth approvals show {id}` shows what becomes of it");
                Err(fault(Exit::Held, "call.held", format!("`{name}` is not over yet"), Some(hint)))
            }
            (_, Some(outcome)) => match (outcome.kind.as_str(), outcome.code.as_deref(), outcome.result) {
                (_, Some("call.held"), _) => {
                    let message = format!("`{name}` was asked about again and waits");
                    let hint = match self.next() {
                        Some(next) => format!("`toolbooth approvals show {next}` shows the question"),
                        None => "`toolbooth approvals list` shows the question".to_owned(),
                    };
                    let hint = Some(hint);
                    Err(fault(Exit::Held, "call.held", message, hint))
                }
                (_, _, Some(result)) => Ok(Some(result)),
                ("done", ..) => Ok(None),
                ("unknown", ..) => {
                    let message = format!("nobody knows whether `{name}` ran: the gateway ended meanwhile");
                    let hint = Some("look at what it was to change before you call it again".into());
                    Err(fault(Exit::Failed, "call.outcome-unknown", message, hint))
                }
                (_, Some(code), _) if code.contains('.') => {
                    let exit = if code == "call.rights-gone" || code == "call.refused" {
                        Exit::Refused
                    } else {
                        Exit::Failed
                    };
                    let hint = Some(format!("`toolbooth explain {code}` tells more"));
                    Err(fault(exit, code, format!("`{name}` was approved, but failed"), hint))
                }
                (kind, code, _) => {
                    let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
                    let message = format!("`{name}` was approved, but ended as {kind}{code}");
                    Err(fault(Exit::Failed, "call.server-error", message, None))
                }
            },
            (_, None) => Ok(None),
        }
    }
}
