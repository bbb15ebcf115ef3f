//! Waits for the outcome of a held call and converts it to a result or a failure.

use crate::exit::Exit;
use crate::failure::{CommandFailure, FaultReport};
use crate::gateway_handle::GatewayHandle;
use crate::progress::while_waiting;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::time::Instant;

/// The first polling interval; each is twice the one before.
const FIRST_LOOK: Duration = Duration::from_millis(30);
/// The longest polling interval.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// The status of a held call, as the gateway reports it.
#[derive(Debug, Deserialize)]
pub struct HeldCallStatus<'a> {
    id: String,
    name: String,
    /// State of the call.
    pub state: String,
    decided_by: Option<String>,
    decision_note: Option<String>,
    /// Why the approved call is deferred.
    waiting_for: Option<String>,
    /// The arguments it ran with, if the approval changed them.
    #[serde(borrow)]
    pub edited: Option<&'a RawValue>,
    #[serde(borrow)]
    outcome: Option<HeldCallOutcome<'a>>,
}

#[derive(Debug, Deserialize)]
struct HeldCallOutcome<'a> {
    kind: String,
    code: Option<String>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// Waits until a held call has ended or the time is over, and returns its current status.
pub async fn wait_for_end(
    gateway: &GatewayHandle,
    id: &str,
    at_most: Option<Duration>,
) -> Result<Bytes, CommandFailure> {
    let path = format!("/approvals/{id}");
    let until = at_most.map(|time| Instant::now() + time);
    while_waiting("waiting for the call to end", async {
        let mut pause = FIRST_LOOK;
        loop {
            let body = gateway.fetch(&path).await?;
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

/// Parses the status of a held call.
pub fn read(body: &Bytes) -> Result<HeldCallStatus<'_>, CommandFailure> {
    serde_json::from_slice(body).map_err(|_| {
        CommandFailure::misuse("gateway.stranger", "the answer is not from a Toolbooth gateway", None)
    })
}

impl<'a> HeldCallStatus<'a> {
    /// The held call that this one led to, if the tool behind the called one needs its own approval.
    pub fn next(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct HeldReference {
            held: String,
        }
        let outcome = self.outcome.as_ref().filter(|outcome| outcome.code.as_deref() == Some("call.held"))?;
        let next: HeldReference = serde_json::from_str(outcome.result?.get()).ok()?;
        Some(next.held)
    }

    /// The result of a call that ran; `None` if it was too long to store.
    pub fn result(&self) -> Result<Option<&'a RawValue>, CommandFailure> {
        let fault = |exit, code: &str, message: String, hint: Option<String>| {
            let (code, blame) = (code.to_owned(), "caller".to_owned());
            CommandFailure::new(exit, FaultReport { code, blame, message, hint })
        };
        let (name, id) = (&self.name, &self.id);
        match (self.state.as_str(), &self.outcome) {
            ("rejected", _) => {
                let by = self.decided_by.as_deref().unwrap_or("an unknown user");
                let message = match self.decision_note.as_deref().filter(|note| !note.is_empty()) {
                    Some(reason) if reason.starts_with("withdrawn: ") => reason.to_owned(),
                    Some(reason) => format!("rejected by {by}: {reason}"),
                    None => format!("rejected by {by}"),
                };
                Err(fault(Exit::Refused, "call.rejected", message, None))
            }
            ("expired", _) => {
                let message = format!("`{name}` was not approved in time");
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
                    format!("it runs automatically later; `toolbooth approvals show {id}` shows its state");
                Err(fault(Exit::Held, "call.deferred", message, Some(hint)))
            }
            ("pending" | "approved", _) => {
                let hint = format!("`toolbooth approvals show {id}` shows its state");
                Err(fault(Exit::Held, "call.held", format!("`{name}` has not ended yet"), Some(hint)))
            }
            (_, Some(outcome)) => match (outcome.kind.as_str(), outcome.code.as_deref(), outcome.result) {
                (_, Some("call.held"), _) => {
                    let message = format!("`{name}` needs another approval");
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
                    let message =
                        format!("it is unknown whether `{name}` ran: the gateway stopped during the call");
                    let hint = Some("check whether the change was made before you call it again".into());
                    Err(fault(Exit::Failed, "call.outcome-unknown", message, hint))
                }
                (_, Some(code), _) if code.contains('.') => {
                    let exit = if code == "call.rights-gone" || code == "call.refused" {
                        Exit::Refused
                    } else {
                        Exit::Failed
                    };
                    let hint = Some(format!("`toolbooth explain {code}` explains the code"));
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
