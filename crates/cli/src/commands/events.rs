//! `toolbooth events`: what happened, and what happens.

use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::reach::Reach;
use crate::remote::segment;
use crate::render::{self, Paint, Tone, line, moment};
use axum::body::Body;
use clap::Args;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use toolbooth_wire::sse::Decoder;

/// The longest event that is read.
const LONGEST: usize = 64 << 10;
/// How long a stream may be silent: the gateway says more often that it lives.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the first pause before coming back is; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest of them.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Which events.
#[derive(Debug, Clone, Args)]
pub struct EventsArguments {
    /// Print what happens from now on, as it happens.
    #[arg(long, short)]
    follow: bool,
    /// Only of these types, such as tool.result or server.*; may repeat and hold commas.
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Vec<String>,
    /// Only what came after the event of this id.
    #[arg(long, value_name = "ID")]
    since: Option<String>,
    /// At most this many of the latest.
    #[arg(long, value_name = "N", conflicts_with = "follow", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

/// Runs `toolbooth events`.
pub fn run(global: &Global, what: &EventsArguments) -> Outcome {
    in_runtime(async {
        match what.follow {
            true => follow(global, what).await,
            false => within(&Reach::demand(global).await?, global, what).await,
        }
    })
}

/// What the last `limit` events were.
pub fn latest(limit: u32) -> EventsArguments {
    EventsArguments { follow: false, types: Vec::new(), since: None, limit: Some(limit) }
}

fn query(what: &EventsArguments, since: Option<&str>) -> String {
    let mut query = format!("types={}", segment(&what.types.join(",")));
    if let Some(id) = since {
        query.push_str(&format!("&last_event_id={}", segment(id)));
    }
    query
}

/// Shows what happened lately at a gateway that is open already.
pub async fn within(reach: &Reach, global: &Global, what: &EventsArguments) -> Outcome {
    let query = query(what, what.since.as_deref());
    let answer = reach.get(&format!("/events/recent?limit={}&{query}", what.limit.unwrap_or(50))).await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let events = answer["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    if events.is_empty() {
        render::print("Nothing has happened that you may hear of.\n");
    }
    for event in events {
        render::print(&told(event, Paint::stdout()));
    }
    Ok(Exit::Ok)
}

/// Follows until somebody stops it. A gateway that was there before is waited for.
async fn follow(global: &Global, what: &EventsArguments) -> Outcome {
    let mut last = what.since.clone();
    let mut opened = false;
    let mut pause = FIRST_PAUSE;
    loop {
        match listen(global, what, &mut last).await {
            Ok(Heard::Enough) => return Ok(Exit::Ok),
            Ok(Heard::End) => pause = FIRST_PAUSE,
            Err(failure) if !opened || !may_come_back(&failure) => return Err(failure),
            Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
        if !opened || pause == FIRST_PAUSE {
            render::complain("The stream of events ended; waiting for the gateway.\n");
        }
        opened = true;
        sleep(pause).await;
    }
}

/// Whether a failure may pass: a gateway that is away comes back, one that does not know us goes on not to.
fn may_come_back(failure: &Failure) -> bool {
    let code = failure.trouble.code.as_str();
    let passing = ["gateway.unreachable", "gateway.not-running", "events.too-many-streams"];
    passing.contains(&code)
}

/// Why a stream is over.
enum Heard {
    /// Whoever reads has seen enough.
    Enough,
    /// It ended, or stood still.
    End,
}

async fn listen(
    global: &Global,
    what: &EventsArguments,
    last: &mut Option<String>,
) -> Result<Heard, Failure> {
    let reach = Reach::demand(global).await?;
    let path = format!("/events?{}", query(what, last.as_deref()));
    let mut body = reach.stream(Method::GET, &path, None, Body::empty()).await?.into_body();
    let mut decoder = Decoder::new(LONGEST);
    loop {
        let Ok(Some(Ok(frame))) = timeout(SILENCE, body.frame()).await else { return Ok(Heard::End) };
        let Some(data) = frame.data_ref() else { continue };
        decoder.push(data);
        loop {
            let Ok(event) = decoder.next_event() else { return Ok(Heard::End) };
            *last = decoder.last_id().map(str::to_owned).or(last.take());
            let Some(event) = event else { break };
            let Ok(read) = serde_json::from_slice::<Value>(&event.data) else { continue };
            let text = match global.json {
                true => format!("{}\n", String::from_utf8_lossy(&event.data)),
                false => told(&read, Paint::stdout()),
            };
            let mut out = std::io::stdout().lock();
            if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                render::lost_output(&error);
                return Ok(Heard::Enough);
            }
        }
    }
}

/// An event on one line: when, what, who, which tool, how it ended, and the rest.
fn told(event: &Value, paint: Paint) -> String {
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
            told(&event, Paint::Never),
            "1970-01-01 00:00:00Z  tool.result          ann  mail.se\\u{1b}[2Jnd  failed  12.3 ms  call.timeout  \
             message=two lines  n=3\n"
        );
    }
}
