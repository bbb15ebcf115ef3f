//! Subscriptions to resources: counted per server and URI, renewed when a server comes back.

use crate::engine::Engine;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_upstream::connection::{Ask, AskError};
use toolbooth_upstream::{CallLink, UpstreamError};
use toolbooth_wire::{Era, RpcError};

/// The most URIs clients may be subscribed to at once.
const MAX_SUBSCRIPTIONS: usize = 10_000;
/// How many of their subscriptions may be one user's.
const MAX_OF_USER: usize = MAX_SUBSCRIPTIONS / 4;
/// How long a modern server may take to acknowledge a subscription.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(5);

/// Who is subscribed to what.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    wanted: Mutex<HashMap<(ServerName, String), Wanted>>,
    of_user: Mutex<HashMap<Arc<str>, usize>>,
}

#[derive(Debug, Default)]
struct Wanted {
    count: usize,
    /// The stream that carries updates of a modern server.
    listening: Option<tokio::task::AbortHandle>,
}

impl Subscriptions {
    fn wanted(&self) -> MutexGuard<'_, HashMap<(ServerName, String), Wanted>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more subscription of a user; `false` if they have their share.
    fn take_share(&self, user: &Arc<str>) -> bool {
        let mut of_user = self.of_user.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = of_user.entry(user.clone()).or_default();
        let fits = *mine < MAX_OF_USER;
        *mine += usize::from(fits);
        fits
    }

    fn give_share_back(&self, user: &str) {
        let mut of_user = self.of_user.lock().unwrap_or_else(PoisonError::into_inner);
        match of_user.get_mut(user) {
            Some(mine) if *mine > 1 => *mine -= 1,
            _ => drop(of_user.remove(user)),
        }
    }
}

/// A subscription could not be made.
#[derive(Debug)]
pub enum SubscribeError {
    /// No such resource for this caller.
    Unknown,
    /// Too many.
    Full,
    /// The server could not be asked.
    Upstream(UpstreamError),
    /// The server said no.
    Refused(RpcError),
}

impl Engine {
    /// Subscribes to a resource on behalf of a client. Each success is ended by one `unsubscribe` of the same user.
    pub async fn subscribe(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
        uri: &str,
    ) -> Result<(), SubscribeError> {
        if !self.subscriptions.take_share(&caller.user) {
            return Err(SubscribeError::Full);
        }
        let subscribed = self.subscribe_within_share(caller, client, uri).await;
        if subscribed.is_err() {
            self.subscriptions.give_share_back(&caller.user);
        }
        subscribed
    }

    async fn subscribe_within_share(
        self: &Arc<Self>,
        caller: &Caller,
        client: &ClientFacts,
        uri: &str,
    ) -> Result<(), SubscribeError> {
        self.gathered_for_resource(uri, caller).await;
        let server =
            self.servers_of_resource(uri, caller).into_iter().next().ok_or(SubscribeError::Unknown)?;
        let key = (server.clone(), uri.to_owned());
        let first = {
            let mut wanted = self.subscriptions.wanted();
            if wanted.len() >= MAX_SUBSCRIPTIONS && !wanted.contains_key(&key) {
                return Err(SubscribeError::Full);
            }
            let entry = wanted.entry(key.clone()).or_default();
            entry.count += 1;
            entry.count == 1
        };
        if !first {
            return Ok(());
        }
        let subscribed = self.ask_for_updates(&server, uri, Some((caller, client))).await;
        if subscribed.is_err() {
            self.subscriptions.wanted().remove(&key);
        }
        subscribed
    }

    /// Ends one client's subscription.
    pub fn unsubscribe(self: &Arc<Self>, caller: &Caller, uri: &str) {
        self.subscriptions.give_share_back(&caller.user);
        let Some(server) = self.servers_of_resource(uri, caller).into_iter().next() else { return };
        let key = (server.clone(), uri.to_owned());
        let last = {
            let mut wanted = self.subscriptions.wanted();
            let Some(entry) = wanted.get_mut(&key) else { return };
            entry.count = entry.count.saturating_sub(1);
            if entry.count > 0 {
                return;
            }
            wanted.remove(&key)
        };
        if let Some(Wanted { listening: Some(task), .. }) = last {
            task.abort();
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move {
            let Ok(supervised) = engine.server(&key.0) else { return };
            let Some(connection) = supervised.pool.primary() else { return };
            let client = ClientFacts::default();
            let params = vec![("uri", RawJson::from_value(&key.1))];
            let _ = connection.result(Ask::plain("resources/unsubscribe", params, &client)).await;
        });
    }

    /// Subscribes anew at a server that came back.
    pub(crate) fn renew_subscriptions(self: &Arc<Self>, server: &ServerName) {
        let uris: Vec<String> = self
            .subscriptions
            .wanted()
            .keys()
            .filter(|(name, _)| name == server)
            .map(|(_, uri)| uri.clone())
            .collect();
        if uris.is_empty() {
            return;
        }
        let (engine, server) = (self.clone(), server.clone());
        tokio::spawn(async move {
            for uri in uris {
                if let Err(error) = engine.ask_for_updates(&server, &uri, None).await {
                    tracing::debug!("a subscription could not be renewed: {error:?}");
                }
            }
        });
    }

    /// Subscribes on the connection that the caller's calls use, as a server may keep state there.
    async fn ask_for_updates(
        self: &Arc<Self>,
        server: &ServerName,
        uri: &str,
        whose: Option<(&Caller, &ClientFacts)>,
    ) -> Result<(), SubscribeError> {
        let supervised = self.server(server).map_err(SubscribeError::Upstream)?;
        supervised.ready().await.map_err(SubscribeError::Upstream)?;
        let connection = match whose {
            Some((caller, client)) => {
                supervised.pool.home(caller, client).await.map_err(SubscribeError::Upstream)?
            }
            None => match supervised.pool.primary() {
                Some(primary) => primary,
                None => return Ok(()),
            },
        };
        let client = ClientFacts::default();
        if connection.era == Era::Legacy {
            let ask = Ask::plain("resources/subscribe", vec![("uri", RawJson::from_value(uri))], &client);
            return match connection.result(ask).await {
                Ok(_) => Ok(()),
                Err(AskError::Rpc(error)) => Err(SubscribeError::Refused(error)),
                Err(AskError::Upstream(error)) => Err(SubscribeError::Upstream(error)),
            };
        }
        let filter = RawJson::from_value(&serde_json::json!({ "resourceSubscriptions": [uri] }));
        let (link, mut said) = CallLink::new();
        let task = tokio::spawn(async move {
            let ask = Ask::plain("subscriptions/listen", vec![("notifications", filter)], &client);
            let _ = connection.ask(ask, &link).await;
        });
        // Subscribed means that the server has said so: a change right after must not be missed.
        let _ = tokio::time::timeout(ACKNOWLEDGED_WITHIN, said.recv()).await;
        let key = (server.clone(), uri.to_owned());
        let mut wanted = self.subscriptions.wanted();
        let earlier = wanted.get_mut(&key).and_then(|entry| entry.listening.replace(task.abort_handle()));
        if let Some(earlier) = earlier {
            earlier.abort();
        }
        Ok(())
    }
}
