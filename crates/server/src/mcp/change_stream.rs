//! Change streams: `subscriptions/listen` for modern clients, the GET stream for legacy ones.

use super::FrontEndState;
use super::client::McpClient;
use super::streams::StreamPermit;
use crate::identify::{IdentifyRequest, RequestedResource};
use crate::peer::Ingress;
use bytes::Bytes;
use http::HeaderMap;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Catalog, ListKind, ServerCatalog};
use toolbooth_core::json::{ObjectWriter, RawJson, with_members};
use toolbooth_core::permission::{ServerVisibility, extent};
use toolbooth_engine::ChangeNotice;
use toolbooth_wire::codes::INVALID_PARAMS;
use toolbooth_wire::envelope::write_notification;
use toolbooth_wire::meta::{SUBSCRIPTION_ID, strip_gateway_meta, strip_modern};
use toolbooth_wire::{Id, RpcError};

/// Maximum number of resources per stream.
const MAX_RESOURCES: usize = 1000;
/// How often the rights of a stream's caller are checked without a change.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Which changes a client wants to receive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeFilter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: HashSet<String>,
}

impl ChangeFilter {
    /// All list changes.
    pub fn lists() -> Self {
        Self { tools: true, prompts: true, resources: true, uris: HashSet::new() }
    }

    /// Parses the filter of a `subscriptions/listen` request.
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

    fn wants(&self, change: &ChangeNotice, client: &McpClient, catalog: &Catalog) -> bool {
        match change {
            ChangeNotice::List(kind) => self.wants_list(*kind),
            ChangeNotice::Loaded(_) => self.tools,
            ChangeNotice::Resource { params, server } => {
                let uri = params.member("uri");
                let uri = uri.as_ref().and_then(RawJson::string).unwrap_or_default();
                let wanted = self.uris.contains(&*uri)
                    || client.session.as_ref().is_some_and(|session| session.is_subscribed(&uri));
                // Another server, hidden from this caller, may use the same URI.
                let known = |part: &Arc<ServerCatalog>| {
                    extent(&client.caller, &part.entry) != ServerVisibility::Nothing
                };
                wanted && catalog.servers().get(server).is_some_and(known)
            }
        }
    }
}

/// The credentials with which a client opened its stream. They are checked again, because rights change.
#[derive(Debug, Clone)]
pub enum StreamCredentials {
    /// The request that opened the stream.
    Request {
        /// Its headers.
        headers: HeaderMap,
        /// The persona in its path.
        persona: Option<Box<str>>,
        /// How it reached the gateway.
        via: Ingress,
    },
    /// A connection to the local socket.
    Socket,
}

/// A stream of change notifications for one client.
#[derive(Debug)]
pub struct ChangeStream {
    front_end: Arc<FrontEndState>,
    client: McpClient,
    credentials: StreamCredentials,
    filter: ChangeFilter,
    /// Digests of the lists as the client knows them, in the order of [`ListKind::ALL`].
    known: [u64; 4],
    /// Changes that were received and not yet sent.
    pending: VecDeque<ChangeNotice>,
    recheck_at: Instant,
    /// The id of the request that opened it; `None` for legacy streams.
    id: Option<Id>,
    changes: broadcast::Receiver<ChangeNotice>,
    revoked: broadcast::Receiver<Arc<str>>,
    first: Option<Bytes>,
    subscribed: Vec<String>,
    _permit: StreamPermit,
}

impl ChangeStream {
    /// Opens a stream if its user's quota allows it. Subscribes to resources at their servers.
    pub async fn open(
        front_end: &Arc<FrontEndState>,
        client: &McpClient,
        credentials: StreamCredentials,
        mut filter: ChangeFilter,
        id: Option<Id>,
    ) -> Result<Self, RpcError> {
        let permit = front_end.streams.take(&client.caller.user)?;
        let changes = front_end.engine.catalog().changes();
        let revoked = front_end.authenticator.revoked();
        let mut subscribed = Vec::new();
        for uri in filter.uris.clone() {
            match front_end.engine.subscriptions().subscribe(&client.caller, &client.facts, &uri).await {
                Ok(()) => subscribed.push(uri),
                Err(_) => drop(filter.uris.remove(&uri)),
            }
        }
        let mut stream = Self {
            front_end: front_end.clone(),
            client: client.clone(),
            credentials,
            filter,
            known: [0; 4],
            pending: VecDeque::new(),
            recheck_at: Instant::now() + RECHECK_INTERVAL,
            id,
            changes,
            revoked,
            first: None,
            subscribed,
            _permit: permit,
        };
        for kind in ListKind::ALL {
            stream.has_changed(kind);
        }
        if stream.id.is_some() {
            let mut params = ObjectWriter::default();
            params.raw("notifications", &stream.filter.acknowledged());
            stream.first =
                Some(stream.message("notifications/subscriptions/acknowledged", Some(params.finish())));
        }
        Ok(stream)
    }

    /// The next message. Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            if self.pending.is_empty() {
                self.receive().await?;
            }
            // Received changes stay in `pending`, because the caller may drop this future at any await.
            self.identify_again().await?;
            while let Some(change) = self.pending.pop_front() {
                if !self.filter.wants(&change, &self.client, &self.front_end.engine.catalog().load()) {
                    continue;
                }
                match &change {
                    ChangeNotice::Resource { params, .. } => {
                        return Some(self.message(change.method(), Some(params.clone())));
                    }
                    // The change may not be visible to this client.
                    ChangeNotice::List(kind) if self.has_changed(*kind) => {
                        return Some(self.message(change.method(), None));
                    }
                    ChangeNotice::Loaded(_) if self.has_changed(ListKind::Tools) => {
                        return Some(self.message(change.method(), None));
                    }
                    ChangeNotice::List(_) | ChangeNotice::Loaded(_) => {}
                }
            }
        }
    }

    /// Waits until something may have changed; `None` when the stream has to end.
    async fn receive(&mut self) -> Option<()> {
        let every_list = || ListKind::ALL.map(ChangeNotice::List);
        loop {
            tokio::select! {
                change = self.changes.recv() => match change {
                    // Tools loaded by another session do not concern this one.
                    Ok(ChangeNotice::Loaded(by)) if self.client.facts.loaded.as_ref() != Some(&by) => continue,
                    Ok(change) => self.pending.push_back(change),
                    // Too far behind to know which changes were missed.
                    Err(RecvError::Lagged(_)) => self.pending.extend(every_list()),
                    Err(RecvError::Closed) => return None,
                },
                () = sleep_until(self.recheck_at) => self.pending.extend(every_list()),
                () = self.front_end.stop.cancelled() => return None,
                // The client has to connect again, with a credential that is still valid.
                user = self.revoked.recv() => match user {
                    Ok(user) if *user != *self.client.caller.user => continue,
                    _ => return None,
                },
            }
            return Some(());
        }
    }

    /// Identifies the caller again with current rights; `None` if the stream has to end.
    async fn identify_again(&mut self) -> Option<()> {
        self.recheck_at = Instant::now() + RECHECK_INTERVAL;
        let request = match &self.credentials {
            StreamCredentials::Request { headers, persona, via } => IdentifyRequest::Http {
                headers,
                resource: RequestedResource::Mcp { persona: persona.as_deref() },
                via: *via,
            },
            StreamCredentials::Socket => {
                IdentifyRequest::Socket { persona: self.client.caller.persona_name() }
            }
        };
        let caller = self.front_end.identify(request).await.ok()?;
        if caller.user != self.client.caller.user {
            return None;
        }
        // The folder of a connection does not change.
        let caller = match (&self.credentials, &self.client.caller.folder) {
            (StreamCredentials::Socket, Some(folder)) => {
                Arc::new(Caller { folder: Some(folder.clone()), ..Caller::clone(&caller) })
            }
            _ => caller,
        };
        self.client.caller = match &self.client.session {
            Some(session) => {
                if !self.front_end.authenticator.is_local() {
                    self.front_end.leave_folder(session);
                }
                session.caller_now(&caller)
            }
            None => caller,
        };
        Some(())
    }

    /// Whether a list that the client follows differs from its last known state. Updates that state.
    fn has_changed(&mut self, kind: ListKind) -> bool {
        if !self.filter.wants_list(kind) {
            return false;
        }
        let list = self.front_end.engine.exposure().listed(
            kind,
            &self.client.caller,
            &self.client.facts,
            self.client.era(),
        );
        let digest = list.digest();
        let place = ListKind::ALL.iter().position(|other| *other == kind);
        place
            .and_then(|place| self.known.get_mut(place))
            .is_some_and(|known| std::mem::replace(known, digest) != digest)
    }

    fn message(&self, method: &str, params: Option<RawJson>) -> Bytes {
        // A server's own subscription id is removed. Modern clients get the id of their own request.
        let params = params.map(|params| strip_modern(&strip_gateway_meta(params)));
        let Some(id) = &self.id else { return write_notification(method, params.as_ref()) };
        let params = params.unwrap_or_else(RawJson::empty_object);
        let meta = params.member("_meta").unwrap_or_else(RawJson::empty_object);
        let meta = with_members(&meta, &[(SUBSCRIPTION_ID, id.raw().clone())]).unwrap_or(meta);
        let tagged = with_members(&params, &[("_meta", meta)]).unwrap_or(params);
        write_notification(method, Some(&tagged))
    }

    /// The result that ends a modern stream gracefully.
    pub fn final_result(&self) -> RawJson {
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

impl Drop for ChangeStream {
    fn drop(&mut self) {
        for uri in &self.subscribed {
            self.front_end.engine.subscriptions().unsubscribe(&self.client.caller, uri);
        }
    }
}
