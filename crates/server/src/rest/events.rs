//! Events over REST: a resumable stream, and a list of the latest events.
//!
//! A stream reads from its position in the ring, looks up the caller's rights again, and writes only the events that
//! this caller may see.

use super::RestState;
use super::auth::{self, RequestIngress, RestCaller};
use super::extract::bad_query;
use super::problem::ProblemDocument;
use crate::event_stream;
use crate::peer::Ingress;
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::HeaderMap;
use serde::Serialize;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until, timeout};
use toolbooth_core::caller::Caller;
use toolbooth_core::event::{Event, EventId, EventKinds, FactValue};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_engine::SessionUse;
use toolbooth_engine::events::{Follower, Since, StreamItem};
use toolbooth_wire::sse::{KEEP_ALIVE, write_event};
use utoipa::ToSchema;

/// How often the rights of a stream's caller are checked without an event.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Default number of recent events.
const DEFAULT_LIMIT: usize = 100;
/// Maximum number of recent events.
const MAX_LIMIT: usize = 1_000;
/// Maximum number of types per request.
const MAX_TYPES: usize = 64;

/// The query of both endpoints.
#[derive(Debug)]
struct EventQuery {
    kinds: EventKinds,
    since: Option<EventId>,
    limit: usize,
}

impl EventQuery {
    /// Parses `types` (repeatable, may contain commas), `last_event_id` and `limit`. The header of a reconnecting
    /// stream takes precedence over `last_event_id` in its URL, because it is newer.
    fn read(query: Option<&str>, headers: &HeaderMap) -> Result<Self, ProblemDocument> {
        let mut types: Vec<String> = Vec::new();
        let mut since = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let mut limit = DEFAULT_LIMIT;
        for (key, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*key {
                "types" => types.extend(value.split(',').map(str::to_owned)),
                "last_event_id" => since = since.or_else(|| Some(value.into_owned())),
                "limit" => match value.parse() {
                    Ok(number @ 1..=MAX_LIMIT) => limit = number,
                    _ => {
                        return Err(
                            bad_query(format!("`limit` must be a number from 1 to {MAX_LIMIT}")).into()
                        );
                    }
                },
                key => {
                    let key: String = key.chars().take(64).collect();
                    let known = "expected `types`, `last_event_id` or `limit`";
                    return Err(bad_query(format!("unknown field `{key}`: {known}")).into());
                }
            }
        }
        if types.len() > MAX_TYPES {
            return Err(bad_query(format!("at most {MAX_TYPES} types are allowed")).into());
        }
        let kinds = EventKinds::of(types.iter().map(String::as_str)).map_err(|fault| Problem::of(&fault))?;
        let since = since.filter(|id| !id.is_empty()).map(|id| id.parse()).transpose();
        let since = since.map_err(|fault: toolbooth_core::event::InvalidEventId| Problem {
            code: "events.bad-id",
            blame: Blame::Caller,
            message: fault.to_string(),
            hint: Some("give the id of an event that you received".into()),
        })?;
        Ok(Self { kinds, since, limit })
    }
}

/// One event of the stream, in the format of server-sent events.
#[derive(Debug, Serialize, ToSchema)]
pub struct StreamedEvent {
    /// The id to resume after.
    id: Option<String>,
    /// Always `message`.
    event: Option<String>,
    /// The event, as JSON.
    data: String,
}

/// Streams events as they happen.
///
/// A stream of server-sent events that stays open.
#[utoipa::path(
    get,
    path = "/events",
    params(
        ("types" = Option<String>, Query, description = "Only these types, separated by commas; `*` is a wildcard.", example = "tool.result"),
        ("last_event_id" = Option<String>, Query, description = "Resume after this event."),
        ("last-event-id" = Option<String>, Header, description = "The same; sent by clients that reconnect."),
        ("limit" = Option<u32>, Query, description = "Ignored for a stream."),
    ),
    responses(
        (status = 200, description = "The stream.", content_type = "text/event-stream", body = StreamedEvent),
        (status = 429, description = "`events.too-many-streams`."),
    )
)]
pub async fn follow(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    RawQuery(query): RawQuery,
    RequestIngress(via): RequestIngress,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    let query = EventQuery::read(query.as_deref(), &headers)?;
    open_stream(&rest, caller, via, headers, query, None)
}

/// A request for the events of one job.
pub(super) struct JobEvents {
    pub(super) caller: Arc<Caller>,
    pub(super) via: Ingress,
    /// The name of the job.
    pub(super) name: String,
}

/// Streams the events of a job as they happen.
pub(super) fn follow_job(
    rest: &RestState,
    request: JobEvents,
    query: Option<&str>,
    headers: HeaderMap,
) -> Result<Response, ProblemDocument> {
    let JobEvents { caller, via, name } = request;
    let mut query = EventQuery::read(query, &headers)?;
    query.kinds = EventKinds::of(["job.*"]).map_err(|fault| Problem::of(&fault))?;
    open_stream(rest, caller, via, headers, query, Some(name))
}

/// The latest events of a job, oldest first.
pub(super) fn of_job(rest: &RestState, caller: &Caller, name: &str) -> Vec<serde_json::Value> {
    let engine = rest.engine();
    let found = engine.events().latest(Since::Oldest, DEFAULT_LIMIT, |event| {
        is_about(event, name) && engine.catalog().may_see_event(caller, event)
    });
    let events = found.iter().map(|(id, event)| event.json(*id).read().unwrap_or_default());
    events.collect()
}

/// Whether an event is about a job.
fn is_about(event: &Event, job: &str) -> bool {
    event.kind.as_str().starts_with("job.")
        && event
            .facts
            .iter()
            .flat_map(|facts| facts.iter())
            .any(|(key, value)| *key == "job" && matches!(value, FactValue::Text(text) if **text == *job))
}

fn open_stream(
    rest: &RestState,
    caller: Arc<Caller>,
    via: Ingress,
    headers: HeaderMap,
    query: EventQuery,
    job: Option<String>,
) -> Result<Response, ProblemDocument> {
    let since = query.since.map_or(Since::Now, Since::After);
    // Subscribed before the stream opens, so that a revocation in between is not missed.
    let revoked = rest.front_end.authenticator.revoked();
    let follower = rest.engine().events().follow_for(&caller.user, query.kinds, since);
    let follower = follower.map_err(|fault| Problem::of(&fault))?;
    let first = keep_alive(&follower);
    let stream = EventStream {
        rest: rest.clone(),
        headers,
        via,
        caller,
        follower,
        revoked,
        recheck_at: Instant::now() + RECHECK_INTERVAL,
        received: Vec::new(),
        pending: VecDeque::from([first]),
        job,
    };
    Ok(event_stream::response(Body::from_stream(stream.chunks())))
}

/// The latest events.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecentEvents {
    /// Oldest first.
    #[schema(value_type = Vec<Object>)]
    events: RawJson,
    /// The id to resume after.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_event_id: Option<String>,
}

/// Lists the latest events, oldest first.
#[utoipa::path(
    get,
    path = "/events/recent",
    params(
        ("types" = Option<String>, Query, description = "Only these types, separated by commas; `*` is a wildcard.", example = "tool.result"),
        ("last_event_id" = Option<String>, Query, description = "Resume after this event."),
        ("last-event-id" = Option<String>, Header, description = "The same; sent by clients that reconnect."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number of events."),
    ),
    responses((status = 200, description = "The events.", body = RecentEvents))
)]
pub async fn recent(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Json<RecentEvents>, ProblemDocument> {
    let query = EventQuery::read(query.as_deref(), &headers)?;
    let engine = rest.engine();
    let since = query.since.map_or(Since::Oldest, Since::After);
    let found = engine.events().latest(since, query.limit, |event| {
        query.kinds.has(event.kind) && engine.catalog().may_see_event(&caller, event)
    });
    let mut text = String::from("[");
    for (at, (id, event)) in found.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { "," });
        text.push_str(event.json(*id).as_str());
    }
    text.push(']');
    let last_event_id = found.last().map(|(id, _)| id.to_string());
    Ok(Json(RecentEvents { events: RawJson::trusted(text), last_event_id }))
}

/// A keep-alive comment with the current position, which also advances past events that the caller does not see.
fn keep_alive(follower: &Follower) -> Bytes {
    Bytes::from(format!(": keep-alive\nid: {}\n\n", follower.position()))
}

/// A stream of events for one caller.
struct EventStream {
    rest: RestState,
    /// The headers of the request. The caller is identified again, because rights change.
    headers: HeaderMap,
    via: Ingress,
    caller: Arc<Caller>,
    follower: Follower,
    revoked: broadcast::Receiver<Arc<str>>,
    recheck_at: Instant,
    /// Events that were received and not yet filtered by the caller's rights.
    received: Vec<StreamItem>,
    pending: VecDeque<Bytes>,
    /// The job whose events are wanted; all if absent.
    job: Option<String>,
}

impl EventStream {
    fn chunks(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        futures_util::stream::unfold(self, |mut stream| async move {
            let interval = stream.rest.front_end.keep_alive;
            match timeout(interval, stream.next()).await {
                Ok(chunk) => chunk.map(|chunk| (Ok(chunk), stream)),
                // The position is already past received events that were not sent, so it must not be sent.
                Err(_) if !stream.received.is_empty() => Some((Ok(Bytes::from_static(KEEP_ALIVE)), stream)),
                Err(_) => {
                    let comment = keep_alive(&stream.follower);
                    Some((Ok(comment), stream))
                }
            }
        })
    }

    /// The next chunk; `None` when the stream has to end. Cancel-safe.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.pending.pop_front() {
                return Some(chunk);
            }
            tokio::select! {
                received = self.follower.next(), if self.received.is_empty() => self.received = received,
                () = std::future::ready(()), if !self.received.is_empty() => {}
                () = sleep_until(self.recheck_at) => {}
                () = self.rest.front_end.stop.cancelled() => return None,
                // The client has to connect again, with a credential that is still valid.
                user = self.revoked.recv() => match user {
                    Ok(user) if *user != *self.caller.user => continue,
                    _ => return None,
                },
            }
            // Received events stay in `received`, because the caller may drop this future at any await.
            self.identify_again().await?;
            let (catalog, caller) = (self.rest.engine().catalog(), &self.caller);
            let job = self.job.as_deref();
            let is_wanted = |item: &StreamItem| match (job, item) {
                (Some(job), StreamItem::Event(_, event)) => is_about(event, job),
                _ => true,
            };
            let visible = self.received.drain(..).filter_map(|item| catalog.visible_item(caller, item));
            let visible = visible.filter(is_wanted);
            self.pending.extend(
                visible.map(|item| write_event(item.json().as_bytes(), Some(&item.id().to_string()))),
            );
        }
    }

    /// Identifies the caller again with current rights; `None` if the stream has to end.
    async fn identify_again(&mut self) -> Option<()> {
        self.recheck_at = Instant::now() + RECHECK_INTERVAL;
        let identified = auth::identify(&self.rest, (&self.headers, self.via), SessionUse::Recheck).await;
        let caller = identified.ok()?;
        if caller.user != self.caller.user {
            return None;
        }
        self.caller = caller;
        Some(())
    }
}
