//! Events over REST: a stream that can be taken up again, and the latest as a list.

use super::Rest;
use super::asked::bad_query;
use super::problem::ProblemDocument;
use super::who::{By, Who};
use crate::identify::Knock;
use crate::mcp::Door;
use crate::peer::Via;
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until, timeout};
use toolbooth_core::caller::Caller;
use toolbooth_core::event::{EventId, Kinds};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_engine::events::{Follower, Heard, Since};
use toolbooth_wire::sse::{KEEP_ALIVE, write_event};
use utoipa::ToSchema;

/// How long a stream goes on without a look at whether its caller may still listen.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How many of the latest events are given where nobody says how many.
const USUAL: usize = 100;
/// The most of them.
const MOST: usize = 1_000;
/// The most types one request may name.
const MAX_TYPES: usize = 64;

/// What is asked for.
#[derive(Debug)]
struct Wanted {
    kinds: Kinds,
    since: Option<EventId>,
    limit: usize,
}

impl Wanted {
    /// Reads `types` (may repeat, and hold commas), `last_event_id` and `limit`. The header of a stream that comes
    /// back is younger than its address.
    fn read(query: Option<&str>, headers: &HeaderMap) -> Result<Self, ProblemDocument> {
        let mut types: Vec<String> = Vec::new();
        let mut since = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let mut limit = USUAL;
        for (key, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*key {
                "types" => types.extend(value.split(',').map(str::to_owned)),
                "last_event_id" => since = since.or_else(|| Some(value.into_owned())),
                "limit" => match value.parse() {
                    Ok(number @ 1..=MOST) => limit = number,
                    _ => return Err(bad_query(format!("`limit` is a number from 1 to {MOST}")).into()),
                },
                key => {
                    let key: String = key.chars().take(64).collect();
                    let known = "`types`, `last_event_id` and `limit` are known";
                    return Err(bad_query(format!("unknown field `{key}`: {known}")).into());
                }
            }
        }
        if types.len() > MAX_TYPES {
            return Err(bad_query(format!("at most {MAX_TYPES} types can be named")).into());
        }
        let kinds = Kinds::of(types.iter().map(String::as_str)).map_err(|fault| Problem::of(&fault))?;
        let since = since.filter(|id| !id.is_empty()).map(|id| id.parse()).transpose();
        let since = since.map_err(|fault: toolbooth_core::event::NoEventId| Problem {
            code: "events.bad-id",
            blame: Blame::Caller,
            message: fault.to_string(),
            hint: Some("give the id of an event that you were told of".into()),
        })?;
        Ok(Self { kinds, since, limit })
    }
}

/// One event of a stream, as server-sent events are read.
#[derive(Debug, Serialize, ToSchema)]
pub struct StreamedEvent {
    /// What to go on after.
    id: Option<String>,
    /// Always `message`.
    event: Option<String>,
    /// The event, as JSON.
    data: String,
}

/// Follows what happens, as it happens.
///
/// A stream of server-sent events that does not end by itself.
#[utoipa::path(
    get,
    path = "/events",
    params(
        ("types" = Option<String>, Query, description = "Only these types, joined by commas; `*` stands for anything.", example = "tool.result"),
        ("last_event_id" = Option<String>, Query, description = "Go on after this event."),
        ("last-event-id" = Option<String>, Header, description = "The same, as a stream that comes back says it."),
        ("limit" = Option<u32>, Query, description = "Of no meaning for a stream."),
    ),
    responses(
        (status = 200, description = "The stream.", content_type = "text/event-stream", body = StreamedEvent),
        (status = 429, description = "`events.too-many-streams`."),
    )
)]
pub async fn follow(
    State(rest): State<Rest>,
    Who(caller): Who,
    RawQuery(query): RawQuery,
    By(via): By,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    let wanted = Wanted::read(query.as_deref(), &headers)?;
    let since = wanted.since.map_or(Since::Now, Since::After);
    // Before the look at who it is for: whoever loses their rights from now on is noticed.
    let taken_back = rest.door.identity.taken_back();
    let follower = rest.door.engine.events().follow_for(&caller.user, wanted.kinds, since);
    let follower = follower.map_err(|fault| Problem::of(&fault))?;
    let first = sign_of_life(&follower);
    let told = Told {
        door: rest.door.clone(),
        headers,
        via,
        caller,
        follower,
        taken_back,
        look_again: Instant::now() + LOOK_AGAIN,
        heard: Vec::new(),
        pending: VecDeque::from([first]),
    };
    let mut response = Response::new(Body::from_stream(told.pieces()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The latest events, as one list.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecentEvents {
    /// Oldest first.
    #[schema(value_type = Vec<Object>)]
    events: RawJson,
    /// What to go on after.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_event_id: Option<String>,
}

/// Lists the latest events, oldest first.
#[utoipa::path(
    get,
    path = "/events/recent",
    params(
        ("types" = Option<String>, Query, description = "Only these types, joined by commas; `*` stands for anything.", example = "tool.result"),
        ("last_event_id" = Option<String>, Query, description = "Go on after this event."),
        ("last-event-id" = Option<String>, Header, description = "The same, as a stream that comes back says it."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "How many, at most."),
    ),
    responses((status = 200, description = "The events.", body = RecentEvents))
)]
pub async fn recent(
    State(rest): State<Rest>,
    Who(caller): Who,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Json<RecentEvents>, ProblemDocument> {
    let wanted = Wanted::read(query.as_deref(), &headers)?;
    let engine = &rest.door.engine;
    let since = wanted.since.map_or(Since::Oldest, Since::After);
    let found = engine
        .events()
        .latest(since, wanted.limit, |event| wanted.kinds.has(event.kind) && engine.may_hear(&caller, event));
    let mut text = String::from("[");
    for (at, (id, event)) in found.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { "," });
        text.push_str(event.json(*id).as_str());
    }
    text.push(']');
    let last_event_id = found.last().map(|(id, _)| id.to_string());
    Ok(Json(RecentEvents { events: RawJson::trusted(text), last_event_id }))
}

/// Keeps a quiet stream open, and its client's place: what others do moves it on too.
fn sign_of_life(follower: &Follower) -> Bytes {
    Bytes::from(format!(": keep-alive\nid: {}\n\n", follower.place()))
}

/// A stream of events for one caller.
struct Told {
    door: Arc<Door>,
    /// What the caller showed; it is looked at again, as rights come and go.
    headers: HeaderMap,
    via: Via,
    caller: Arc<Caller>,
    follower: Follower,
    taken_back: broadcast::Receiver<Arc<str>>,
    look_again: Instant,
    /// What was heard, and not yet looked at for whether the caller may.
    heard: Vec<Heard>,
    pending: VecDeque<Bytes>,
}

impl Told {
    fn pieces(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        futures_util::stream::unfold(self, |mut stream| async move {
            let keep_alive = stream.door.keep_alive;
            match timeout(keep_alive, stream.next()).await {
                Ok(told) => told.map(|told| (Ok(told), stream)),
                // What was heard and not told must not be skipped by a place behind it.
                Err(_) if !stream.heard.is_empty() => Some((Ok(Bytes::from_static(KEEP_ALIVE)), stream)),
                Err(_) => {
                    let sign = sign_of_life(&stream.follower);
                    Some((Ok(sign), stream))
                }
            }
        })
    }

    /// The next piece; nothing when the stream has to end. Dropping the future loses nothing.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(told) = self.pending.pop_front() {
                return Some(told);
            }
            tokio::select! {
                heard = self.follower.next(), if self.heard.is_empty() => self.heard = heard,
                () = std::future::ready(()), if !self.heard.is_empty() => {}
                () = sleep_until(self.look_again) => {}
                () = self.door.stop.cancelled() => return None,
                // Whoever lost a credential asks anew, and is let in by another one or not at all.
                user = self.taken_back.recv() => match user {
                    Ok(user) if *user != *self.caller.user => continue,
                    _ => return None,
                },
            }
            // With what was heard kept: whoever waits for this may give up at any moment.
            self.identify_again().await?;
            let (engine, caller) = (&self.door.engine, &self.caller);
            let told = self.heard.drain(..).filter_map(|heard| engine.heard_by(caller, heard));
            self.pending.extend(
                told.map(|heard| write_event(heard.json().as_bytes(), Some(&heard.id().to_string()))),
            );
        }
    }

    /// Finds out who listens, as rights are now; nothing when that is nobody who may.
    async fn identify_again(&mut self) -> Option<()> {
        self.look_again = Instant::now() + LOOK_AGAIN;
        let knock = Knock::Http { headers: &self.headers, persona: None, via: self.via };
        let caller = self.door.identify(knock).await.ok()?;
        if caller.user != self.caller.user {
            return None;
        }
        self.caller = caller;
        Some(())
    }
}
