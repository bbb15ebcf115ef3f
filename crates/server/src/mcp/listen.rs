//! Streams of changes: `subscriptions/listen` for modern clients, the GET stream for legacy ones.

use super::Door;
use super::client::Client;
use super::streams::StreamSeat;
use crate::identify::Knock;
use crate::peer::Via;
use bytes::Bytes;
use http::HeaderMap;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use toolbooth_core::catalog::{Catalog, ListKind, ServerCatalog};
use toolbooth_core::json::{ObjectWriter, RawJson, with_members};
use toolbooth_core::permission::{Permission, on_server};
use toolbooth_engine::Change;
use toolbooth_wire::codes::INVALID_PARAMS;
use toolbooth_wire::envelope::write_notification;
use toolbooth_wire::meta::{SUBSCRIPTION_ID, of_a_server, strip_modern};
use toolbooth_wire::{Id, RpcError};

/// The most resources one stream may follow.
const MAX_RESOURCES: usize = 1000;
/// How long a stream goes on without a look at whether its client may still listen.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Which changes a client wants to hear of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: HashSet<String>,
}

impl Filter {
    /// All lists.
    pub fn lists() -> Self {
        Self { tools: true, prompts: true, resources: true, uris: HashSet::new() }
    }

    /// Reads the filter of a `subscriptions/listen` request.
    pub fn read(params: Option<&RawJson>) -> Result<Self, RpcError> {
        let wrong = |what: &str| RpcError::new(INVALID_PARAMS, format!("Invalid params: {what}"));
        let wanted = params.and_then(|params| params.member("notifications"));
        let wanted =
            wanted.filter(RawJson::is_object).ok_or_else(|| wrong("`notifications` must be an object"))?;
        let flag = |key: &str| wanted.member(key).is_some_and(|value| value.as_str() == "true");
        let uris: Vec<String> = match wanted.member("resourceSubscriptions") {
            None => Vec::new(),
            Some(list) => {
                list.read().map_err(|_| wrong("`resourceSubscriptions` must be a list of strings"))?
            }
        };
        if uris.len() > MAX_RESOURCES {
            return Err(wrong("too many `resourceSubscriptions`"));
        }
        Ok(Self {
            tools: flag("toolsListChanged"),
            prompts: flag("promptsListChanged"),
            resources: flag("resourcesListChanged"),
            uris: uris.into_iter().collect(),
        })
    }

    fn acknowledged(&self) -> RawJson {
        let mut writer = ObjectWriter::default();
        let flags = [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ];
        for (key, _) in flags.iter().filter(|(_, wanted)| *wanted) {
            writer.raw(key, &RawJson::trusted(&b"true"[..]));
        }
        if !self.uris.is_empty() {
            let mut uris: Vec<&String> = self.uris.iter().collect();
            uris.sort();
            writer.raw("resourceSubscriptions", &RawJson::from_value(&uris));
        }
        writer.finish()
    }

    fn wants_list(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.tools,
            ListKind::Prompts => self.prompts,
            ListKind::Resources | ListKind::Templates => self.resources,
        }
    }

    fn wants(&self, change: &Change, client: &Client, catalog: &Catalog) -> bool {
        match change {
            Change::List(kind) => self.wants_list(*kind),
            Change::Loaded(_) => self.tools,
            Change::Resource { params, server } => {
                let uri = params.member("uri");
                let uri = uri.as_ref().and_then(RawJson::string).unwrap_or_default();
                let wanted = self.uris.contains(&*uri)
                    || client.session.as_ref().is_some_and(|session| session.is_subscribed(&uri));
                // Another server may use the same URI, one that this caller does not know of.
                let known =
                    |part: &Arc<ServerCatalog>| on_server(&client.caller, &part.entry) == Permission::Granted;
                wanted && catalog.servers().get(server).is_some_and(known)
            }
        }
    }
}

/// What a client showed when it opened its stream: it is looked at again, as rights come and go.
#[derive(Debug, Clone)]
pub enum Shown {
    /// The headers of its request, and how that came.
    Headers(HeaderMap, Via),
    /// That it is at the local socket.
    Socket,
}

/// A stream of changes for one client.
#[derive(Debug)]
pub struct Listening {
    door: Arc<Door>,
    client: Client,
    shown: Shown,
    filter: Filter,
    /// The lists as the client may know them, in the order of [`ListKind::ALL`].
    known: [u64; 4],
    /// Changes that were heard of and not yet told.
    pending: VecDeque<Change>,
    look_again: Instant,
    /// The id of the request that opened it; legacy streams have none.
    id: Option<Id>,
    changes: broadcast::Receiver<Change>,
    taken_back: broadcast::Receiver<Arc<str>>,
    first: Option<Bytes>,
    subscribed: Vec<String>,
    _seat: StreamSeat,
}

impl Listening {
    /// Opens a stream, if its user may have one more. Resources are subscribed to at their servers.
    pub async fn open(
        door: &Arc<Door>,
        client: &Client,
        shown: Shown,
        mut filter: Filter,
        id: Option<Id>,
    ) -> Result<Self, RpcError> {
        let seat = door.streams.take(&client.caller.user)?;
        let changes = door.engine.changes();
        let taken_back = door.identity.taken_back();
        let mut subscribed = Vec::new();
        for uri in filter.uris.clone() {
            match door.engine.subscribe(&client.caller, &client.facts, &uri).await {
                Ok(()) => subscribed.push(uri),
                Err(_) => drop(filter.uris.remove(&uri)),
            }
        }
        let mut listening = Self {
            door: door.clone(),
            client: client.clone(),
            shown,
            filter,
            known: [0; 4],
            pending: VecDeque::new(),
            look_again: Instant::now() + LOOK_AGAIN,
            id,
            changes,
            taken_back,
            first: None,
            subscribed,
            _seat: seat,
        };
        for kind in ListKind::ALL {
            listening.is_other(kind);
        }
        if listening.id.is_some() {
            let mut params = ObjectWriter::default();
            params.raw("notifications", &listening.filter.acknowledged());
            listening.first =
                Some(listening.message("notifications/subscriptions/acknowledged", Some(params.finish())));
        }
        Ok(listening)
    }

    /// The next message. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            if self.pending.is_empty() {
                self.hear().await?;
            }
            // With what was heard kept: whoever waits for this may give up at any moment.
            self.identify_again().await?;
            while let Some(change) = self.pending.pop_front() {
                if !self.filter.wants(&change, &self.client, &self.door.engine.catalog()) {
                    continue;
                }
                match &change {
                    Change::Resource { params, .. } => {
                        return Some(self.message(change.method(), Some(params.clone())));
                    }
                    // What changed may be nothing that this client can see.
                    Change::List(kind) if self.is_other(*kind) => {
                        return Some(self.message(change.method(), None));
                    }
                    Change::Loaded(_) if self.is_other(ListKind::Tools) => {
                        return Some(self.message(change.method(), None));
                    }
                    Change::List(_) | Change::Loaded(_) => {}
                }
            }
        }
    }

    /// Waits until there may be news; nothing when the stream has to end.
    async fn hear(&mut self) -> Option<()> {
        let every_list = || ListKind::ALL.map(Change::List);
        loop {
            tokio::select! {
                change = self.changes.recv() => match change {
                    // Another session's is nothing to look up rights for.
                    Ok(Change::Loaded(by)) if self.client.facts.loaded.as_ref() != Some(&by) => continue,
                    Ok(change) => self.pending.push_back(change),
                    // Too far behind to know what was missed.
                    Err(RecvError::Lagged(_)) => self.pending.extend(every_list()),
                    Err(RecvError::Closed) => return None,
                },
                () = sleep_until(self.look_again) => self.pending.extend(every_list()),
                () = self.door.stop.cancelled() => return None,
                // Whoever lost a credential asks anew, and is let in by another one or not at all.
                user = self.taken_back.recv() => match user {
                    Ok(user) if *user != *self.client.caller.user => continue,
                    _ => return None,
                },
            }
            return Some(());
        }
    }

    /// Finds out who listens, as rights are now; nothing when that is nobody who may.
    async fn identify_again(&mut self) -> Option<()> {
        self.look_again = Instant::now() + LOOK_AGAIN;
        let persona = self.client.caller.persona_name();
        let knock = match &self.shown {
            Shown::Headers(headers, via) => Knock::Http { headers, persona, via: *via },
            Shown::Socket => Knock::Socket { persona },
        };
        let caller = self.door.identify(knock).await.ok()?;
        if caller.user != self.client.caller.user {
            return None;
        }
        self.client.caller = match &self.client.session {
            Some(session) => session.caller_now(&caller),
            None => caller,
        };
        Some(())
    }

    /// Whether a list that the client wants to hear of is another than it was told of last.
    fn is_other(&mut self, kind: ListKind) -> bool {
        if !self.filter.wants_list(kind) {
            return false;
        }
        let list = self.door.engine.listed(kind, &self.client.caller, &self.client.facts, self.client.era());
        let digest = list.digest();
        let place = ListKind::ALL.iter().position(|other| *other == kind);
        place
            .and_then(|place| self.known.get_mut(place))
            .is_some_and(|known| std::mem::replace(known, digest) != digest)
    }

    fn message(&self, method: &str, params: Option<RawJson>) -> Bytes {
        // The server's own subscription id means nothing here: a legacy client gets none, a modern one its own.
        let params = params.map(|params| strip_modern(&of_a_server(params)));
        let Some(id) = &self.id else { return write_notification(method, params.as_ref()) };
        let params = params.unwrap_or_else(RawJson::empty_object);
        let meta = params.member("_meta").unwrap_or_else(RawJson::empty_object);
        let meta = with_members(&meta, &[(SUBSCRIPTION_ID, id.raw().clone())]).unwrap_or(meta);
        let tagged = with_members(&params, &[("_meta", meta)]).unwrap_or(params);
        write_notification(method, Some(&tagged))
    }

    /// The result that ends a modern stream gracefully.
    pub fn goodbye(&self) -> RawJson {
        let mut writer = ObjectWriter::default();
        writer.text("resultType", "complete");
        if let Some(id) = &self.id {
            let mut meta = ObjectWriter::default();
            meta.raw(SUBSCRIPTION_ID, id.raw());
            writer.raw("_meta", &meta.finish());
        }
        writer.finish()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        for uri in &self.subscribed {
            self.door.engine.unsubscribe(&self.client.caller, uri);
        }
    }
}
