//! `toolbooth events`: shows recent events and follows new ones.

use super::in_runtime;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Tone, line, moment};
use axum::body::Body;
use clap::Args;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use toolbooth_wire::sse::SseDecoder;

/// The maximum size of an event.
const MAX_EVENT_BYTES: usize = 64 << 10;
/// The idle timeout of a stream; the gateway sends keep-alives more often.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The first pause before a reconnect; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause before a reconnect.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Arguments of `toolbooth events`.
#[derive(Debug, Clone, Args)]
pub struct EventsArguments {
    /// Print new events as they happen.
    #[arg(long, short)]
    follow: bool,
    /// Only events of these types, such as tool.result or server.*; separate with commas or repeat.
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// Only events after the one with this id.
    #[arg(long, value_name = "ID")]
    since: Option<String>,
    /// Maximum number of events.
    #[arg(long, value_name = "N", conflicts_with = "follow", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

/// Runs `toolbooth events`.
pub fn run(global: &GlobalOptions, arguments: &EventsArguments) -> CommandResult {
    in_runtime(async {
        match arguments.follow {
            true => follow(global, arguments).await,
            false => within(&GatewayHandle::require_running(global).await?, global, arguments).await,
        }
    })
}

/// Arguments for the last `limit` events.
pub fn latest(limit: u32) -> EventsArguments {
    EventsArguments { follow: false, types: Vec::new(), since: None, limit: Some(limit) }
}

fn query(arguments: &EventsArguments, since: Option<&str>) -> String {
    let mut query = format!("types={}", segment(&arguments.types.join(",")));
    if let Some(id) = since {
        query.push_str(&format!("&last_event_id={}", segment(id)));
    }
    query
}

/// Shows recent events of an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: &EventsArguments,
) -> CommandResult {
    let query = query(arguments, arguments.since.as_deref());
    let answer =
        gateway.get(&format!("/events/recent?limit={}&{query}", arguments.limit.unwrap_or(50))).await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let events = answer["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    if events.is_empty() {
        render::print("There are no events that you may see.\n");
    }
    for event in events {
        render::print(&draw(event, Paint::stdout()));
    }
    Ok(Exit::Ok)
}

/// Follows events until interrupted. Reconnects to a gateway that was reachable before.
async fn follow(global: &GlobalOptions, arguments: &EventsArguments) -> CommandResult {
    let mut last = arguments.since.clone();
    let mut opened = false;
    let mut pause = FIRST_PAUSE;
    loop {
        match listen(global, arguments, &mut last).await {
            Ok(EventStreamEnd::OutputClosed) => return Ok(Exit::Ok),
            Ok(EventStreamEnd::Disconnected) => pause = FIRST_PAUSE,
            Err(failure) if !opened || !is_temporary(&failure) => return Err(failure),
            Err(_) => pause = (pause * 2).min(MAX_PAUSE),
        }
        if !opened || pause == FIRST_PAUSE {
            render::complain("The event stream ended; waiting for the gateway.\n");
        }
        opened = true;
        sleep(pause).await;
    }
}

/// Whether a failure may be temporary: a gateway may restart, but refused credentials stay refused.
fn is_temporary(failure: &CommandFailure) -> bool {
    let code = failure.fault.code.as_str();
    let temporary = ["gateway.unreachable", "gateway.not-running", "events.too-many-streams"];
    temporary.contains(&code)
}

/// The reason why a stream ended.
enum EventStreamEnd {
    /// Standard output is closed.
    OutputClosed,
    /// The stream ended or was idle for too long.
    Disconnected,
}

async fn listen(
    global: &GlobalOptions,
    arguments: &EventsArguments,
    last: &mut Option<String>,
) -> Result<EventStreamEnd, CommandFailure> {
    let gateway = GatewayHandle::require_running(global).await?;
    let path = format!("/events?{}", query(arguments, last.as_deref()));
    let mut body = gateway.stream(Method::GET, &path, None, Body::empty()).await?.into_body();
    let mut decoder = SseDecoder::new(MAX_EVENT_BYTES);
    loop {
        let Ok(Some(Ok(frame))) = timeout(IDLE_TIMEOUT, body.frame()).await else {
            return Ok(EventStreamEnd::Disconnected);
        };
        let Some(data) = frame.data_ref() else { continue };
        decoder.push(data);
        loop {
            let Ok(event) = decoder.next_event() else { return Ok(EventStreamEnd::Disconnected) };
            *last = decoder.last_id().map(str::to_owned).or(last.take());
            let Some(event) = event else { break };
            let Ok(read) = serde_json::from_slice::<Value>(&event.data) else { continue };
            let text = match global.json {
                true => format!("{}\n", String::from_utf8_lossy(&event.data)),
                false => draw(&read, Paint::stdout()),
            };
            let mut out = std::io::stdout().lock();
            if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                render::lost_output(&error);
                return Ok(EventStreamEnd::OutputClosed);
            }
        }
    }
}

/// Draws an event on one line: time, type, user, tool, outcome and the other fields.
fn draw(event: &Value, paint: Paint) -> String {
    let text = |key: &str| event[key].as_str().map(line);
    let mut parts = Vec::new();
    parts.extend(event["at_ms"].as_i64().map(moment));
    parts.push(format!("{:<19}", text("type").unwrap_or_default()));
    parts.extend(text("user"));
    parts.extend(match (text("server"), text("tool")) {
        (Some(server), Some(tool)) => Some(format!("{server}.{tool}")),
        (server, tool) => server.or(tool),
    });
    parts.extend(text("outcome").map(|outcome| {
        let tone = match outcome.as_str() {
            "done" => Tone::Good,
            "held" | "cancelled" => Tone::Warn,
            _ => Tone::Bad,
        };
        paint.tone(tone, &outcome)
    }));
    parts.extend(event["duration_ms"].as_f64().map(|ms| format!("{ms:.1} ms")));
    parts.extend(text("code").map(|code| paint.tone(Tone::Bad, &code)));
    parts.extend(text("reason"));
    for (key, value) in event["data"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), line);
        parts.push(format!("{}={value}", line(key)));
    }
    parts.extend(text("call").map(|call| format!("({call})")));
    format!("{}\n", parts.join("  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_one_harmless_line() {
        let event = json!({ "id": "0000001f-1", "type": "tool.result", "at_ms": 0, "user": "ann", "server": "mail",
            "tool": "se\u{1b}[2Jnd", "outcome": "failed", "duration_ms": 12.34, "code": "call.timeout",
            "data": { "message": "two\nlines", "n": 3 } });
        assert_eq!(
            draw(&event, Paint::Never),
            "1970-01-01 00:00:00Z  tool.result          ann  mail.se\\u{1b}[2Jnd  failed  12.3 ms  call.timeout  \
             message=two lines  n=3\n"
        );
    }
}
