//! Webhooks: events posted to addresses of the operator's, signed, in order, again after a failure.
//!
//! The ring is a hook's queue: one that is slow falls behind in it and at last loses the oldest, which is counted
//! and logged. No call ever waits for a hook.

use super::{Events, Follower, Heard, Since};
use bytes::{BufMut, Bytes, BytesMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolbooth_core::event::{EventId, Kinds, signature};
use toolbooth_core::secret::SecretText;
use toolbooth_upstream::http::{PostError, Postbox};

/// The most events of one post.
const MAX_BATCH: usize = 100;
/// How often one post is tried.
const ATTEMPTS: u32 = 6;
/// How long the first pause after a failure is; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long what is left is delivered when the gateway ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// An address that wants to hear of events.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// The address; it may hold a secret.
    pub url: SecretText,
    /// Which events.
    pub kinds: Kinds,
    /// The key that signs what is posted.
    pub secret: Option<SecretText>,
}

/// The hooks at work.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    /// Nothing before the first were put to work.
    running: Mutex<Option<Vec<Running>>>,
}

#[derive(Debug)]
struct Running {
    hook: Webhook,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Events {
    /// Puts these webhooks to work and lets others go. Those that stay go on where they are.
    pub fn set_webhooks(self: &Arc<Self>, hooks: Vec<Webhook>) {
        let mut running = self.hooks.running.lock().unwrap_or_else(PoisonError::into_inner);
        // The first are told how the gateway came up; later ones what happens from then on.
        let since = if running.is_none() { Since::Oldest } else { Since::Now };
        let running = running.get_or_insert_default();
        // The others end by themselves when they are dropped: nobody can tell them to stop any more.
        running.retain(|running| hooks.contains(&running.hook));
        for hook in hooks {
            if running.iter().any(|running| running.hook == hook) {
                continue;
            }
            let Ok(postbox) = Postbox::new(hook.url.expose()) else {
                tracing::error!("the webhook {} is no http or https address", hook.url.shown());
                continue;
            };
            let (stop, stopped) = watch::channel(());
            let delivery = Delivery {
                shown: hook.url.shown().to_owned(),
                secret: hook.secret.clone(),
                events: self.clone(),
                postbox,
            };
            let follower = self.follow(hook.kinds, since);
            let task = tokio::spawn(delivery.run(follower, stopped));
            running.push(Running { hook, stop, task });
        }
    }

    /// Ends the webhooks; what is left is delivered if that goes quickly.
    pub(crate) async fn end_webhooks(&self) {
        let running = self.hooks.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let running = running.unwrap_or_default();
        let (stops, tasks): (Vec<_>, Vec<_>) =
            running.into_iter().map(|running| (running.stop, running.task)).unzip();
        drop(stops);
        let _ = tokio::time::timeout(LAST_WORDS, futures_util::future::join_all(tasks)).await;
    }
}

struct Delivery {
    shown: String,
    secret: Option<SecretText>,
    events: Arc<Events>,
    postbox: Postbox,
}

impl Delivery {
    async fn run(self, mut follower: Follower, mut stopped: watch::Receiver<()>) {
        loop {
            tokio::select! {
                heard = follower.next() => {
                    let done = self.deliver(heard, &mut stopped).await;
                    if done == Stopped::No {
                        continue;
                    }
                }
                _ = stopped.changed() => {}
            }
            break;
        }
        // What has happened until now, in one go each.
        loop {
            let heard = follower.now();
            if heard.is_empty() || self.deliver(heard, &mut stopped).await == Stopped::Yes {
                return;
            }
        }
    }

    async fn deliver(&self, heard: Vec<Heard>, stopped: &mut watch::Receiver<()>) -> Stopped {
        for batch in heard.chunks(MAX_BATCH) {
            if let Some(Heard::Gap { missed: Some(missed), .. }) = batch.first() {
                self.lost(*missed, "it is too slow");
            }
            let Some(last) = batch.last().map(Heard::id) else { continue };
            let body = body(batch);
            if self.post(&body, last, batch.len() as u64, stopped).await == Stopped::Yes {
                return Stopped::Yes;
            }
        }
        Stopped::No
    }

    /// Posts until it is taken, refused, or was tried often enough.
    async fn post(
        &self,
        body: &Bytes,
        last: EventId,
        events: u64,
        stopped: &mut watch::Receiver<()>,
    ) -> Stopped {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            let error = match self.postbox.post(body.clone(), &self.headers(body, last)).await {
                Ok(()) => return Stopped::No,
                Err(error) => error,
            };
            let is_over = stopped.has_changed().is_err();
            if attempt == ATTEMPTS || is_over || matches!(error, PostError::Refused(_)) {
                self.lost(events, &error.to_string());
                return if is_over { Stopped::Yes } else { Stopped::No };
            }
            tracing::debug!("the webhook {} is tried again: {error}", self.shown);
            tokio::select! {
                () = tokio::time::sleep(jittered(pause)) => {}
                // The gateway ends: one more time, at once.
                _ = stopped.changed() => {}
            }
            pause *= 2;
        }
        Stopped::No
    }

    /// Signed anew each time: receivers refuse what is old.
    fn headers(&self, body: &Bytes, last: EventId) -> Vec<(&'static str, String)> {
        let mut headers = vec![("toolbooth-delivery", last.to_string())];
        if let Some(secret) = &self.secret {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            headers.push(("toolbooth-signature", signature(secret.expose().as_bytes(), now, body)));
        }
        headers
    }

    fn lost(&self, events: u64, why: &str) {
        tracing::warn!("{events} events did not reach the webhook {}: {why}", self.shown);
        self.events.undelivered.fetch_add(events, Ordering::Relaxed);
    }
}

/// Whether a hook was told to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Yes,
    No,
}

/// `{"events":[…]}`, as streams show them.
fn body(batch: &[Heard]) -> Bytes {
    let mut text = BytesMut::with_capacity(batch.len() * 320 + 16);
    text.put_slice(br#"{"events":["#);
    for (at, heard) in batch.iter().enumerate() {
        if at > 0 {
            text.put_u8(b',');
        }
        text.put_slice(heard.json().as_bytes());
    }
    text.put_slice(b"]}");
    text.freeze()
}

/// Between half and all of a pause, so that hooks do not come back all at once.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 2];
    let _ = getrandom::fill(&mut random);
    pause.mul_f64(0.5 + f64::from(u16::from_le_bytes(random)) / f64::from(u16::MAX) / 2.0)
}
