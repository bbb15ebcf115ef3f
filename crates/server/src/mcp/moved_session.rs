//! Legacy sessions that move between the gateways on a shared store.
//!
//! A gateway that does not know a session reads it from the store, and serves it from then on. Changes of a session are
//! stored and noticed by the gateways that have a copy. Without a shared store nothing is stored.

use super::FrontEndState;
use super::session::{LegacySession, forget};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::caller::{AskedWhen, Caller, ClientFacts};
use toolbooth_core::json::RawJson;
use toolbooth_engine::{ChangeNotice, StoredSession};
use toolbooth_upstream::connection::LOG_LEVELS;
use toolbooth_wire::Revision;
use uuid::Uuid;

/// Sessions that were used within this time are kept in the store. Longer than the interval of the extensions.
const USED_WITHIN: Duration = Duration::from_secs(15 * 60);

/// The content of a stored session.
#[derive(Debug, Serialize, Deserialize)]
struct SessionBody {
    revision: String,
    info: Option<RawJson>,
    capabilities: RawJson,
    log_level: Option<String>,
    loaded: Vec<Box<str>>,
    subscriptions: Vec<String>,
}

impl SessionBody {
    fn of(session: &LegacySession) -> Self {
        let facts = session.facts();
        Self {
            revision: session.revision.as_str().to_owned(),
            info: facts.info.clone(),
            capabilities: facts.capabilities.clone(),
            log_level: facts.log_level.clone(),
            loaded: facts.loaded.as_ref().map(|loaded| loaded.names()).unwrap_or_default(),
            subscriptions: session.subscriptions(),
        }
    }
}

fn stored(session: &LegacySession) -> Option<StoredSession> {
    let body = serde_json::to_string(&SessionBody::of(session)).ok()?;
    Some(StoredSession { id: session.id.to_string(), user: session.caller.user.to_string(), body })
}

/// The store cannot be asked for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionUnreadable;

impl FrontEndState {
    /// Prepares a new session for other gateways, and stores it.
    pub(super) async fn share_session(&self, session: &LegacySession) {
        let Some(first) = self.engine.replica_mail().first_question() else { return };
        session.number_questions_from(first);
        if let Some(stored) = stored(session) {
            self.engine.shared_sessions().add(stored).await;
        }
    }

    /// Stores a session that its client has changed.
    pub(super) async fn store_change(&self, session: &LegacySession) {
        if !self.is_listed(session) {
            return;
        }
        if let Some(stored) = stored(session) {
            self.engine.shared_sessions().change(stored).await;
        }
    }

    /// Stores the session if it has loaded other tools than before.
    pub(super) async fn store_loaded(&self, session: &LegacySession) {
        if self.is_listed(session) && session.newly_loaded().is_some() {
            self.store_change(session).await;
        }
    }

    /// Whether other gateways may use a session: a session of a local connection ends with it.
    fn is_listed(&self, session: &LegacySession) -> bool {
        self.engine.shared_sessions().are_stored() && self.sessions.known(&session.id).is_some()
    }

    /// Ends a session in the store, too, so that no gateway serves it.
    pub(super) async fn end_stored(&self, session: &LegacySession) {
        let ended = StoredSession {
            id: session.id.to_string(),
            user: session.caller.user.to_string(),
            body: String::new(),
        };
        self.engine.shared_sessions().change(ended).await;
    }

    /// Ends sessions that a new one has evicted, in the store, too. In a task: the request of the new session may be
    /// dropped, and the rows of evicted sessions would count for no quota.
    pub(super) fn end_evicted(self: &Arc<Self>, evicted: Vec<Arc<LegacySession>>) {
        for gone in &evicted {
            forget(self, gone);
        }
        if evicted.is_empty() || !self.engine.shared_sessions().are_stored() {
            return;
        }
        let front_end = self.clone();
        tokio::spawn(async move {
            for gone in evicted {
                front_end.end_stored(&gone).await;
            }
        });
    }

    /// Takes over a session of this caller that another gateway has opened; `None` if the store has no such session.
    pub(super) async fn adopt_session(
        self: &Arc<Self>,
        id: &str,
        caller: &Arc<Caller>,
    ) -> Result<Option<Arc<LegacySession>>, SessionUnreadable> {
        let found = self.engine.shared_sessions().read(id).await.map_err(|_| SessionUnreadable)?;
        let Some(found) = found.filter(|found| found.user == *caller.user) else { return Ok(None) };
        let Ok(body) = serde_json::from_str::<SessionBody>(&found.body) else { return Ok(None) };
        let Some(revision) = Revision::from_name(&body.revision) else { return Ok(None) };
        let facts = ClientFacts {
            info: body.info.clone(),
            capabilities: body.capabilities.clone(),
            log_level: None,
            loaded: Some(Arc::default()),
            asked_when: AskedWhen::InTurn,
        };
        let session = LegacySession::with_id(found.id.into(), caller, revision, facts);
        if let Some(first) = self.engine.replica_mail().first_question() {
            session.number_questions_from(first);
        }
        let (session, evicted) = self.sessions.adopt(session);
        self.end_evicted(evicted);
        self.apply(&session, body);
        Ok(Some(session))
    }

    /// Takes notice of a change of one session by another gateway, or of any number of them.
    pub async fn refresh_sessions(self: &Arc<Self>, id: Option<Uuid>) {
        let Some(id) = id else {
            for changed in self.engine.shared_sessions().changed().await {
                self.refresh(&changed);
            }
            return;
        };
        let id = id.simple().to_string();
        if self.sessions.known(&id).is_none() {
            return;
        }
        match self.engine.shared_sessions().read(&id).await {
            Ok(Some(changed)) => self.refresh(&changed),
            Ok(None) => {}
            Err(error) => tracing::warn!("a changed session could not be read: {error}"),
        }
    }

    fn refresh(self: &Arc<Self>, changed: &StoredSession) {
        let Some(session) = self.sessions.known(&changed.id) else { return };
        if *session.caller.user != *changed.user {
            return;
        }
        if changed.body.is_empty() {
            self.sessions.remove(&changed.id);
            forget(self, &session);
            return;
        }
        if let Ok(body) = serde_json::from_str::<SessionBody>(&changed.body) {
            self.apply(&session, body);
        }
    }

    /// Makes a copy of a session equal to the stored one.
    fn apply(self: &Arc<Self>, session: &Arc<LegacySession>, body: SessionBody) {
        let facts = session.facts();
        if let Some(level) = body.log_level
            && facts.log_level.as_ref() != Some(&level)
            && LOG_LEVELS.contains(&&*level)
        {
            session.set_log_level(level);
        }
        if let Some(loaded) = &facts.loaded
            && !loaded.add(body.loaded.iter().map(|name| &**name)).is_empty()
        {
            // The store has them already.
            session.newly_loaded();
            self.engine.catalog().announce(ChangeNotice::Loaded(loaded.clone()));
        }
        for uri in session.subscriptions() {
            if !body.subscriptions.contains(&uri) && session.unsubscribe(&uri) {
                self.engine.subscriptions().unsubscribe(&session.caller, &uri);
            }
        }
        let new: Vec<String> = body.subscriptions.into_iter().filter(|uri| session.subscribe(uri)).collect();
        if new.is_empty() {
            return;
        }
        // In the background: a server may have to be started first.
        let (front_end, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            for uri in new {
                let facts = session.facts();
                let subscribed =
                    front_end.engine.subscriptions().subscribe(&session.caller, &facts, &uri).await;
                if subscribed.is_err() {
                    session.unsubscribe(&uri);
                }
            }
        });
    }

    /// Keeps sessions in the store that clients use here.
    pub(super) fn extend_sessions(&self) {
        if !self.engine.shared_sessions().is_extension_due() {
            return;
        }
        let (engine, used) = (self.engine.clone(), self.sessions.used_within(USED_WITHIN));
        tokio::spawn(async move { engine.shared_sessions().extend(used).await });
    }
}
