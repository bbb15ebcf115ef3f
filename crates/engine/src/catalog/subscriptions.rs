//! Subscriptions to resources: counted per server and URI, and renewed when a server reconnects.

use super::LiveCatalog;
use crate::server_table::ServerTable;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_upstream::connection::{RequestError, UpstreamRequest};
use toolbooth_upstream::{CallLink, UpstreamError};
use toolbooth_wire::{Era, RpcError};

/// The maximum number of URIs that clients are subscribed to.
const MAX_SUBSCRIPTIONS: usize = 10_000;
/// The maximum number of subscriptions of one user.
const MAX_OF_USER: usize = MAX_SUBSCRIPTIONS / 4;
/// How long a modern server may take to acknowledge a subscription.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(5);

/// The subscriptions of clients.
#[derive(Debug)]
pub struct Subscriptions {
    catalog: Arc<LiveCatalog>,
    servers: Arc<ServerTable>,
    active: Mutex<HashMap<(ServerName, String), ResourceSubscription>>,
    of_user: Mutex<HashMap<Arc<str>, usize>>,
}

#[derive(Debug, Default)]
struct ResourceSubscription {
    /// The number of subscribed clients.
    count: usize,
    /// The stream that carries updates of a modern server.
    listening: Option<tokio::task::AbortHandle>,
}

impl Subscriptions {
    pub(crate) fn new(catalog: Arc<LiveCatalog>, servers: Arc<ServerTable>) -> Self {
        Self { catalog, servers, active: Mutex::default(), of_user: Mutex::default() }
    }

    fn active(&self) -> MutexGuard<'_, HashMap<(ServerName, String), ResourceSubscription>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more subscription of a user; `false` if the limit is reached.
    fn add_for(&self, user: &Arc<str>) -> bool {
        let mut of_user = self.of_user.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = of_user.entry(user.clone()).or_default();
        let fits = *mine < MAX_OF_USER;
        *mine += usize::from(fits);
        fits
    }

    fn remove_for(&self, user: &str) {
        let mut of_user = self.of_user.lock().unwrap_or_else(PoisonError::into_inner);
        match of_user.get_mut(user) {
            Some(mine) if *mine > 1 => *mine -= 1,
            _ => drop(of_user.remove(user)),
        }
    }
}

/// Why a subscription failed.
#[derive(Debug)]
pub enum SubscribeError {
    /// The resource does not exist for this caller.
    Unknown,
    /// The limit of subscriptions is reached.
    Full,
    /// The request to the server failed.
    Upstream(UpstreamError),
    /// The server refused the subscription.
    Refused(RpcError),
}

impl Subscriptions {
    /// Subscribes to a resource on behalf of a client. Each success is ended by one `unsubscribe` of the same user.
    pub async fn subscribe(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
        uri: &str,
    ) -> Result<(), SubscribeError> {
        if !self.add_for(&caller.user) {
            return Err(SubscribeError::Full);
        }
        let subscribed = self.subscribe_counted(caller, client, uri).await;
        if subscribed.is_err() {
            self.remove_for(&caller.user);
        }
        subscribed
    }

    async fn subscribe_counted(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
        uri: &str,
    ) -> Result<(), SubscribeError> {
        self.catalog.wait_for_resource(uri, None, caller).await;
        let server = self
            .catalog
            .servers_of_resource(uri, None, caller)
            .into_iter()
            .next()
            .ok_or(SubscribeError::Unknown)?;
        let key = (server.clone(), uri.to_owned());
        let first = {
            let mut active = self.active();
            if active.len() >= MAX_SUBSCRIPTIONS && !active.contains_key(&key) {
                return Err(SubscribeError::Full);
            }
            let entry = active.entry(key.clone()).or_default();
            entry.count += 1;
            entry.count == 1
        };
        if !first {
            return Ok(());
        }
        let subscribed = self.subscribe_at_server(&server, uri, Some((caller, client))).await;
        if subscribed.is_err() {
            self.active().remove(&key);
        }
        subscribed
    }

    /// Ends one client's subscription.
    pub fn unsubscribe(self: &Arc<Self>, caller: &Caller, uri: &str) {
        self.remove_for(&caller.user);
        let servers = self.catalog.servers_of_resource(uri, None, caller);
        let Some(server) = servers.into_iter().next() else { return };
        let key = (server.clone(), uri.to_owned());
        let last = {
            let mut active = self.active();
            let Some(entry) = active.get_mut(&key) else { return };
            entry.count = entry.count.saturating_sub(1);
            if entry.count > 0 {
                return;
            }
            active.remove(&key)
        };
        if let Some(ResourceSubscription { listening: Some(task), .. }) = last {
            task.abort();
            return;
        }
        let subscriptions = self.clone();
        tokio::spawn(async move {
            let Ok(supervised) = subscriptions.servers.running(&key.0) else { return };
            let Some(connection) = supervised.pool.primary() else { return };
            let client = ClientFacts::default();
            let params = vec![("uri", RawJson::from_value(&key.1))];
            let _ = connection.result(UpstreamRequest::plain("resources/unsubscribe", params, &client)).await;
        });
    }

    /// Subscribes again at a server that reconnected.
    pub(crate) fn renew(self: &Arc<Self>, server: &ServerName) {
        let uris: Vec<String> =
            self.active().keys().filter(|(name, _)| name == server).map(|(_, uri)| uri.clone()).collect();
        if uris.is_empty() {
            return;
        }
        let (subscriptions, server) = (self.clone(), server.clone());
        tokio::spawn(async move {
            for uri in uris {
                if let Err(error) = subscriptions.subscribe_at_server(&server, &uri, None).await {
                    tracing::debug!("a subscription could not be renewed: {error:?}");
                }
            }
        });
    }

    /// Subscribes on the connection that the caller's calls use, because a server may keep state there.
    async fn subscribe_at_server(
        self: &Arc<Self>,
        server: &ServerName,
        uri: &str,
        whose: Option<(&Caller, &ClientFacts)>,
    ) -> Result<(), SubscribeError> {
        let supervised = self.servers.running(server).map_err(SubscribeError::Upstream)?;
        supervised.ready().await.map_err(SubscribeError::Upstream)?;
        let connection = match whose {
            Some((caller, client)) => {
                supervised.pool.home(caller, client).await.map_err(SubscribeError::Upstream)?
            }
            // The gateway's own connection uses the key of one user, who may not be a subscriber.
            None if supervised.pool.user_keys().is_some() => return Ok(()),
            None => match supervised.pool.primary() {
                Some(primary) => primary,
                None => return Ok(()),
            },
        };
        let client = ClientFacts::default();
        if connection.era == Era::Legacy {
            let ask = UpstreamRequest::plain(
                "resources/subscribe",
                vec![("uri", RawJson::from_value(uri))],
                &client,
            );
            return match connection.result(ask).await {
                Ok(_) => Ok(()),
                Err(RequestError::Rpc(error)) => Err(SubscribeError::Refused(error)),
                Err(RequestError::Upstream(error)) => Err(SubscribeError::Upstream(error)),
            };
        }
        let filter = RawJson::from_value(&serde_json::json!({ "resourceSubscriptions": [uri] }));
        let (link, mut events) = CallLink::new();
        let task = tokio::spawn(async move {
            let ask =
                UpstreamRequest::plain("subscriptions/listen", vec![("notifications", filter)], &client);
            let _ = connection.send(ask, &link).await;
        });
        // Waits for the acknowledgement, so that a change right after is not missed.
        let _ = tokio::time::timeout(ACKNOWLEDGED_WITHIN, events.recv()).await;
        let key = (server.clone(), uri.to_owned());
        let mut active = self.active();
        let earlier = active.get_mut(&key).and_then(|entry| entry.listening.replace(task.abort_handle()));
        if let Some(earlier) = earlier {
            earlier.abort();
        }
        Ok(())
    }
}
