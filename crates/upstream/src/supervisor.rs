//! A supervised server: its state, the connections of its calls, and the commands for the task that supervises it
//! (`supervisor/task.rs`).

mod task;

use crate::backoff::Backoff;
use crate::credential::{KeyChange, ServerCredential};
use crate::error::UpstreamError;
use crate::lease::ConnectionLease;
use crate::open::OpenContext;
use crate::pool::Pool;
use crate::process::StderrTail;
use crate::state::ServerState;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use task::{NextStep, Supervisor};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use toolbooth_core::caller::{Admin, Caller, ClientFacts};
use toolbooth_core::catalog::Discovery;
use toolbooth_core::fault::Blame;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_wire::Era;

/// Timeout of a health check, and of the steps that take a moment: the start of an attempt, an update of the catalog.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The state shared by all servers of a gateway.
#[derive(Debug, Clone)]
pub struct SupervisorContext {
    /// Environment, limits and executables.
    pub open_context: Arc<OpenContext>,
    /// Receives the servers' events.
    pub events: mpsc::Sender<ServerEvent>,
    /// Limits how many servers connect at the same time.
    pub slots: Arc<Semaphore>,
    /// Limits how many of them are commands that start. Each needs a core for a moment; if all start at once on a small
    /// machine, none finishes its handshake in time.
    pub process_slots: Arc<Semaphore>,
}

/// An event of a supervised server.
#[derive(Debug)]
pub enum ServerEvent {
    /// The state changed.
    State(ServerName, ServerState),
    /// The server listed its tools, prompts and resources.
    Discovered {
        /// The server.
        server: ServerName,
        /// The lists.
        discovery: Box<Discovery>,
        /// The server's era.
        era: Era,
        /// Notified when the catalog contains them.
        kept: oneshot::Sender<()>,
    },
    /// A resource of the server changed.
    ResourceUpdated {
        /// The server.
        server: ServerName,
        /// The notification's parameters.
        params: RawJson,
    },
}

/// When a server is first connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Immediately.
    AtOnce,
    /// On the first request.
    OnDemand,
}

#[derive(Debug)]
enum SupervisorCommand {
    Connect,
    Disconnect,
    Restart,
    /// Open the gateway's own connection again, because a user's key changed. Other connections stay open.
    Reopen,
    /// Dropping the sender reports that the lists are in the catalog.
    Refresh(oneshot::Sender<()>),
    Stop(oneshot::Sender<()>),
}

/// A supervised server.
#[derive(Debug)]
pub struct Supervised {
    /// The configuration entry.
    pub entry: Arc<ServerEntry>,
    /// The connection pool.
    pub pool: Arc<Pool>,
    /// The last lines of its standard error.
    pub stderr: StderrTail,
    state: watch::Receiver<ServerState>,
    commands: mpsc::Sender<SupervisorCommand>,
    /// Whether it was disconnected by hand: requests do not connect it again.
    is_held_off: AtomicBool,
}

impl Supervised {
    /// Starts supervising a server.
    pub fn start(
        entry: Arc<ServerEntry>,
        hint: Option<Era>,
        credential: ServerCredential,
        start: Start,
        context: &SupervisorContext,
    ) -> Arc<Self> {
        let (first, state) = match start {
            Start::AtOnce => (NextStep::Connect, ServerState::Connecting),
            Start::OnDemand => (NextStep::Wait, ServerState::Disconnected),
        };
        let (state, watched) = watch::channel(state);
        let (commands, inbox) = mpsc::channel(16);
        let (notices, noticed) = mpsc::channel(64);
        let stderr = StderrTail::without(entry.secrets());
        let pool =
            Pool::new(entry.clone(), context.open_context.clone(), credential, stderr.clone(), notices);
        let supervisor = Supervisor {
            entry: entry.clone(),
            pool: pool.clone(),
            context: context.clone(),
            state,
            inbox,
            noticed,
            hint,
            backoff: Backoff::default(),
        };
        tokio::spawn(supervisor.run(first));
        let is_held_off = AtomicBool::new(false);
        Arc::new(Self { entry, pool, stderr, state: watched, commands, is_held_off })
    }

    /// The server's current state.
    pub fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// The server's state for a caller, who may have to give a key first.
    pub fn state_for(&self, caller: &Caller) -> ServerState {
        match self.pool.user_keys() {
            Some(keys) => keys.state_for(&caller.user, self.state()),
            None => self.state(),
        }
    }

    /// Replaces the connections of a user whose key was set or deleted.
    pub async fn key_changed(&self, user: &str, change: KeyChange) {
        self.pool.close_of_user(user, change).await;
        let is_affected = self.pool.primary().is_none() || self.pool.is_lister(user);
        if is_affected && !self.is_held_off.load(Ordering::Relaxed) {
            let _ = self.commands.send(SupervisorCommand::Reopen).await;
        }
    }

    /// Leases a connection for a call. Waits while the server is connecting, connects it if it is
    /// disconnected, and fails immediately if it is down.
    pub async fn connection(
        &self,
        caller: &Caller,
        client: &ClientFacts,
    ) -> Result<ConnectionLease, UpstreamError> {
        self.pool.check_key(caller)?;
        if self.pool.primary().is_none() {
            Box::pin(self.ready()).await.map_err(|error| self.error_for(caller, error))?;
        }
        let mut leased = pin!(self.pool.for_call(caller, client)).await;
        let is_replaced = || self.pool.user_keys().is_some() && self.pool.primary().is_none();
        if matches!(leased, Err(UpstreamError::Unreachable { .. })) && is_replaced() {
            // The key of the primary connection changed meanwhile.
            Box::pin(self.ready()).await.map_err(|error| self.error_for(caller, error))?;
            leased = Box::pin(self.pool.for_call(caller, client)).await;
        }
        leased.map_err(|error| self.error_for(caller, error))
    }

    /// Removes details of the gateway's machine, such as commands and folders, from an error unless the
    /// caller is an administrator.
    fn error_for(&self, caller: &Caller, error: UpstreamError) -> UpstreamError {
        if caller.admin == Admin::Yes {
            return error;
        }
        let withheld = |state, retry_in| UpstreamError::NotConnected {
            server: self.entry.name.to_string(),
            state,
            reason: "it could not be started".into(),
            retry_in,
        };
        match error {
            UpstreamError::NotStarted(_) => withheld("error", None),
            UpstreamError::NotConnected { state, retry_in, .. }
                if self.state().problem().is_some_and(|problem| problem.blame == Blame::Gateway) =>
            {
                withheld(state, retry_in)
            }
            other => other,
        }
    }

    /// Waits until the server is no longer connecting, whether that succeeded or not.
    pub fn tried(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut state = self.state.clone();
        async move {
            let _ = state.wait_for(|state| *state != ServerState::Connecting).await;
        }
    }

    /// Waits until the server is connected, or returns why it is not.
    pub async fn ready(&self) -> Result<(), UpstreamError> {
        if self.is_held_off.load(Ordering::Relaxed) {
            return Err(UpstreamError::NotConnected {
                server: self.entry.name.to_string(),
                state: ServerState::Disconnected.as_str(),
                reason: "it was disconnected by hand".into(),
                retry_in: None,
            });
        }
        let mut state = self.state.clone();
        if matches!(*state.borrow(), ServerState::Disconnected) {
            let _ = self.commands.send(SupervisorCommand::Connect).await;
            let _ = tokio::time::timeout(
                PROBE_TIMEOUT,
                state.wait_for(|state| *state != ServerState::Disconnected),
            )
            .await;
        }
        let time_limit = self.entry.connect_timeout;
        let settled = state.wait_for(|state| *state != ServerState::Connecting);
        let settled = match tokio::time::timeout(time_limit, settled).await {
            Ok(Ok(settled)) => settled.clone(),
            _ => ServerState::Connecting,
        };
        match settled {
            ServerState::Connected => Ok(()),
            other => Err(UpstreamError::NotConnected {
                server: self.entry.name.to_string(),
                state: other.as_str(),
                reason: other
                    .problem()
                    .map_or_else(|| "it is not connected".into(), |problem| problem.message.clone()),
                retry_in: other.retry_in(),
            }),
        }
    }

    /// Connects now, without waiting for the backoff.
    pub async fn connect(&self) {
        self.is_held_off.store(false, Ordering::Relaxed);
        let _ = self.commands.send(SupervisorCommand::Connect).await;
    }

    /// Connects now if the last attempt failed because the command does not exist. Called when the configuration is
    /// loaded again.
    pub async fn look_for_command(&self) {
        if self.state().is_missing_command() && !self.is_held_off.load(Ordering::Relaxed) {
            let _ = self.commands.send(SupervisorCommand::Connect).await;
        }
    }

    /// Disconnects until it is connected or restarted by hand.
    pub async fn disconnect(&self) {
        self.is_held_off.store(true, Ordering::Relaxed);
        let _ = self.commands.send(SupervisorCommand::Disconnect).await;
    }

    /// Closes all connections and connects again.
    pub async fn restart(&self) {
        self.is_held_off.store(false, Ordering::Relaxed);
        let _ = self.commands.send(SupervisorCommand::Restart).await;
    }

    /// Reads the lists again and waits until they are in the catalog. A disconnected server is connected, unless it
    /// was disconnected by hand.
    pub async fn refresh(&self) {
        if self.is_held_off.load(Ordering::Relaxed) {
            return;
        }
        let (done, listed) = oneshot::channel();
        if self.commands.send(SupervisorCommand::Refresh(done)).await.is_ok() {
            let _ = listed.await;
        }
    }

    /// Stops supervision and closes everything it opened.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(SupervisorCommand::Stop(done)).await.is_ok() {
            let _ = stopped.await;
        }
    }
}

/// The parameters of a resource subscription.
pub fn subscription(uri: &str) -> RawJson {
    let mut params = ObjectWriter::default();
    params.text("uri", uri);
    params.finish()
}
