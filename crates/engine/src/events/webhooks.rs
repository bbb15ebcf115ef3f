//! Webhooks: events posted to URLs of the operator, signed, in order, and retried after a failure.
//!
//! The ring is a webhook's queue: a slow one falls behind and finally loses the oldest events, which is counted and
//! logged. Calls never wait for a webhook.

use super::{EventRing, Follower, ORIGIN, Since, StreamItem};
use bytes::{BufMut, Bytes, BytesMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolbooth_core::event::{EventId, EventKinds, signature};
use toolbooth_core::secret::SecretText;
use toolbooth_upstream::http::{PostError, PostTarget};

/// The maximum number of events in one request.
const MAX_BATCH: usize = 100;
/// The maximum number of attempts for one request.
const ATTEMPTS: u32 = 6;
/// The pause after the first failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long the remaining events are delivered when the gateway stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A URL that events are posted to.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// The URL, which may contain a secret.
    pub url: SecretText,
    /// The kinds of events to post.
    pub kinds: EventKinds,
    /// The key that signs requests.
    pub secret: Option<SecretText>,
}

/// The running webhooks.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    /// `None` until webhooks are set for the first time.
    running: Mutex<Option<Vec<RunningWebhook>>>,
}

#[derive(Debug)]
struct RunningWebhook {
    hook: Webhook,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl EventRing {
    /// Starts these webhooks and stops others. Webhooks that did not change keep their position.
    pub fn set_webhooks(self: &Arc<Self>, hooks: Vec<Webhook>) {
        let mut running = self.webhooks.running.lock().unwrap_or_else(PoisonError::into_inner);
        // The first webhooks also get the events of the startup; later ones start with the next event.
        let since = if running.is_none() { Since::Oldest } else { Since::Now };
        let running = running.get_or_insert_default();
        // Dropping a webhook's `stop` sender ends its task.
        running.retain(|running| hooks.contains(&running.hook));
        for hook in hooks {
            if running.iter().any(|running| running.hook == hook) {
                continue;
            }
            let Ok(target) = PostTarget::new(hook.url.expose()) else {
                tracing::error!("the webhook {} is not an http or https URL", hook.url.shown());
                continue;
            };
            let (stop, stopped) = watch::channel(());
            let delivery = WebhookDelivery {
                url: hook.url.shown().to_owned(),
                secret: hook.secret.clone(),
                events: self.clone(),
                target,
            };
            let follower = self.follow(hook.kinds, since);
            let task = tokio::spawn(delivery.run(follower, stopped));
            running.push(RunningWebhook { hook, stop, task });
        }
    }

    /// Stops the webhooks. Remaining events are delivered within a short time.
    pub(crate) async fn end_webhooks(&self) {
        let running = self.webhooks.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let running = running.unwrap_or_default();
        let (stops, tasks): (Vec<_>, Vec<_>) =
            running.into_iter().map(|running| (running.stop, running.task)).unzip();
        drop(stops);
        let _ = tokio::time::timeout(STOP_TIMEOUT, futures_util::future::join_all(tasks)).await;
    }
}

struct WebhookDelivery {
    /// The URL with secrets masked, for the log.
    url: String,
    secret: Option<SecretText>,
    events: Arc<EventRing>,
    target: PostTarget,
}

impl WebhookDelivery {
    async fn run(self, mut follower: Follower, mut stopped: watch::Receiver<()>) {
        loop {
            tokio::select! {
                items = follower.next() => {
                    let done = self.deliver(items, &mut stopped).await;
                    if done == Stopped::No {
                        continue;
                    }
                }
                _ = stopped.changed() => {}
            }
            break;
        }
        // The events until now, with one attempt each.
        loop {
            let items = follower.now();
            if items.is_empty() || self.deliver(items, &mut stopped).await == Stopped::Yes {
                return;
            }
        }
    }

    async fn deliver(&self, mut items: Vec<StreamItem>, stopped: &mut watch::Receiver<()>) -> Stopped {
        items.retain(|item| !is_elsewhere(item));
        for batch in items.chunks(MAX_BATCH) {
            if let Some(StreamItem::Gap { missed: Some(missed), .. }) = batch.first() {
                self.note_lost(*missed, "it is too slow");
            }
            let Some(last) = batch.last().map(StreamItem::id) else { continue };
            let body = body(batch);
            if self.post(&body, last, batch.len() as u64, stopped).await == Stopped::Yes {
                return Stopped::Yes;
            }
        }
        Stopped::No
    }

    /// Posts until the request is accepted, refused, or has failed too often.
    async fn post(
        &self,
        body: &Bytes,
        last: EventId,
        events: u64,
        stopped: &mut watch::Receiver<()>,
    ) -> Stopped {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            let error = match self.target.post(body.clone(), &self.headers(body, last)).await {
                Ok(()) => return Stopped::No,
                Err(error) => error,
            };
            let is_over = stopped.has_changed().is_err();
            if attempt == ATTEMPTS || is_over || matches!(error, PostError::Refused(_)) {
                self.note_lost(events, &error.to_string());
                return if is_over { Stopped::Yes } else { Stopped::No };
            }
            tracing::debug!("retrying the webhook {}: {error}", self.url);
            tokio::select! {
                () = tokio::time::sleep(jittered(pause)) => {}
                // The gateway is stopping: one more attempt, at once.
                _ = stopped.changed() => {}
            }
            pause *= 2;
        }
        Stopped::No
    }

    /// Signed for each attempt, because receivers refuse old signatures.
    fn headers(&self, body: &Bytes, last: EventId) -> Vec<(&'static str, String)> {
        let mut headers = vec![("toolbooth-delivery", last.to_string())];
        if let Some(secret) = &self.secret {
            let now = self.events.clock.wall().as_secs();
            headers.push(("toolbooth-signature", signature(secret.expose().as_bytes(), now, body)));
        }
        headers
    }

    fn note_lost(&self, events: u64, why: &str) {
        tracing::warn!("{events} events were not delivered to the webhook {}: {why}", self.url);
        self.events.undelivered.fetch_add(events, Ordering::Relaxed);
    }
}

/// Whether a webhook was stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Yes,
    No,
}

/// Whether an event happened on another gateway, which posts it itself.
fn is_elsewhere(item: &StreamItem) -> bool {
    match item {
        StreamItem::Event(_, event) => {
            event.facts.as_ref().is_some_and(|facts| facts.iter().any(|(key, _)| *key == ORIGIN))
        }
        StreamItem::Gap { .. } => false,
    }
}

/// The request body, `{"events":[…]}`, with the same JSON as streams.
fn body(batch: &[StreamItem]) -> Bytes {
    let mut text = BytesMut::with_capacity(batch.len() * 320 + 16);
    text.put_slice(br#"{"events":["#);
    for (at, item) in batch.iter().enumerate() {
        if at > 0 {
            text.put_u8(b',');
        }
        text.put_slice(item.json().as_bytes());
    }
    text.put_slice(b"]}");
    text.freeze()
}

/// Between half and all of a pause, so that webhooks do not retry at the same moment.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 2];
    let _ = getrandom::fill(&mut random);
    pause.mul_f64(0.5 + f64::from(u16::from_le_bytes(random)) / f64::from(u16::MAX) / 2.0)
}
