//! Shows the progress of a running call on standard error, from the gateway's events.

use crate::failure::CommandFailure;
use crate::gateway_handle::GatewayHandle;
use crate::render;
use axum::body::Body;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;
use toolbooth_wire::sse::SseDecoder;

/// The maximum size of an event.
const MAX_EVENT_BYTES: usize = 64 << 10;
/// How long to wait for the last events of a call that has ended.
const LAST_EVENTS: Duration = Duration::from_millis(200);
/// The types of events about a call.
const TYPES: &str = "tool.call,tool.progress,tool.update,tool.retry,tool.result";

/// Posts a call and shows its progress until it ends. The call is also made without events.
pub(super) async fn post(
    gateway: &GatewayHandle,
    exposed: &str,
    path: &str,
    body: Bytes,
) -> Result<Bytes, CommandFailure> {
    let what = format!("calling {exposed}");
    let opened = gateway.stream(Method::GET, &format!("/events?types={TYPES}"), None, Body::empty()).await;
    let Ok(response) = opened else { return gateway.post(&what, path, Some(body)).await };
    let mut events = CallEvents {
        body: response.into_body(),
        decoder: SseDecoder::new(MAX_EVENT_BYTES),
        exposed,
        call: None,
        state: ProgressFeed::Open,
    };
    let mut posting = pin!(gateway.post(&what, path, Some(body)));
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut posting => break answer,
            () = events.show_next(), if events.state == ProgressFeed::Open => {}
        }
    };
    if events.call.is_some() || answer.is_ok() {
        let rest = async {
            while events.state == ProgressFeed::Open {
                events.show_next().await;
            }
        };
        // Its last reports may still be on their way.
        let _ = timeout(LAST_EVENTS, rest).await;
    }
    answer
}

/// The events of one call.
struct CallEvents<'a> {
    body: Body,
    decoder: SseDecoder,
    exposed: &'a str,
    /// The id of the call, once it was sent.
    call: Option<String>,
    state: ProgressFeed,
}

/// Whether more events of the call may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgressFeed {
    Open,
    Ended,
}

impl CallEvents<'_> {
    /// Reads one piece of the stream and shows the progress in it.
    async fn show_next(&mut self) {
        let Some(Ok(frame)) = self.body.frame().await else {
            self.state = ProgressFeed::Ended;
            return;
        };
        let Some(data) = frame.data_ref() else { return };
        self.decoder.push(data);
        while let Ok(Some(event)) = self.decoder.next_event() {
            if let Ok(event) = serde_json::from_slice::<Value>(&event.data) {
                self.show(&event);
            }
        }
    }

    fn show(&mut self, event: &Value) {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        // The first call of this tool after the request is the requested one.
        if text("type") == "tool.call" && self.call.is_none() && self.exposed.ends_with(text("tool")) {
            self.call = Some(text("call").to_owned());
        }
        if self.call.as_deref() != Some(text("call")) {
            return;
        }
        match text("type") {
            "tool.result" => self.state = ProgressFeed::Ended,
            "tool.retry" => render::complain(&format!(
                "attempt {} in {} ms: {}\n",
                event["data"]["attempt"],
                event["data"]["delay_ms"],
                render::line(text("code"))
            )),
            kind => {
                if let Some(line) = progress_line(kind, &event["data"]) {
                    render::complain(&format!("{line}\n"));
                }
            }
        }
    }
}

/// A line about the progress of a call; `None` if there is nothing to show.
fn progress_line(kind: &str, data: &Value) -> Option<String> {
    let message = data["message"].as_str().filter(|message| !message.trim().is_empty());
    let steps = match (&data["progress"], &data["total"]) {
        (Value::Number(step), Value::Number(total)) => Some(format!("{step}/{total}")),
        _ => None,
    };
    let files = data["artifacts"].as_array().map(|names| {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        names.join(", ")
    });
    match kind {
        "tool.progress" | "tool.update" => {}
        _ => return None,
    }
    let parts: Vec<String> = [steps, message.map(str::to_owned), files]
        .into_iter()
        .flatten()
        .map(|part| render::line(&part))
        .collect();
    // Bare numbers without a message say too little for a line of their own.
    (message.is_some() && !parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reports_with_a_message_become_lines() {
        let cases = [
            ("tool.progress", json!({ "progress": 2, "total": 3, "message": "step 2" }), Some("2/3 step 2")),
            ("tool.progress", json!({ "progress": 2, "message": "step 2" }), Some("step 2")),
            ("tool.progress", json!({ "progress": 2, "total": 3 }), None),
            (
                "tool.update",
                json!({ "type": "artifacts", "message": "Processing...", "artifacts": ["a.txt", "b"] }),
                Some("Processing... a.txt, b"),
            ),
            ("tool.call", json!({ "message": "x" }), None),
        ];
        for (kind, data, expected) in cases {
            assert_eq!(progress_line(kind, &data).as_deref(), expected, "{kind} {data}");
        }
    }
}
