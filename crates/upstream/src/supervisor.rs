//! Supervises one server: connects, lists, watches, and reconnects after a loss.

use crate::backoff::{Backoff, RetryReason};
use crate::connection::SharedConnection;
use crate::credential::{KeyChange, ServerCredential};
use crate::error::{StartStage, UpstreamError};
use crate::lease::ConnectionLease;
use crate::open::OpenContext;
use crate::peer::ServerNotice;
use crate::pool::{IdleLimits, Pool};
use crate::process::StderrTail;
use crate::state::{MISSING_COMMAND_CODES, ServerState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use toolbooth_core::caller::{Admin, Caller, ClientFacts};
use toolbooth_core::catalog::Discovery;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::names::ServerName;
use toolbooth_core::server::{Restart, ServerEntry};
use toolbooth_wire::Era;

/// A connection that lasted this long resets the backoff.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// How long list changes are collected before the lists are read again.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(150);
/// Maximum delay of that read while changes keep coming.
const MAX_CHANGE_DELAY: Duration = Duration::from_secs(2);
/// How often a missing command is looked for during a pause, without a connection attempt.
const COMMAND_LOOKUP_INTERVAL: Duration = Duration::from_secs(15);
/// How often idle connections are looked for.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(30);
/// Timeout of a health check.
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
        let keeper = Supervisor {
            entry: entry.clone(),
            pool: pool.clone(),
            context: context.clone(),
            state,
            inbox,
            noticed,
            hint,
            backoff: Backoff::default(),
        };
        tokio::spawn(keeper.run(first));
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

/// The supervision task of one server.
struct Supervisor {
    entry: Arc<ServerEntry>,
    pool: Arc<Pool>,
    context: SupervisorContext,
    state: watch::Sender<ServerState>,
    inbox: mpsc::Receiver<SupervisorCommand>,
    noticed: mpsc::Receiver<ServerNotice>,
    hint: Option<Era>,
    backoff: Backoff,
}

/// The pause before an attempt is over.
struct PauseOver;

/// The next step of the supervision task.
enum NextStep {
    Connect,
    /// Connect again, with the connections of callers left open.
    Reopen,
    Wait,
    Pause(Duration),
    Stop(Option<oneshot::Sender<()>>),
}

impl Supervisor {
    async fn run(mut self, first: NextStep) {
        let mut next = first;
        loop {
            next = match next {
                NextStep::Connect | NextStep::Reopen => self.connect().await,
                NextStep::Wait => self.wait(None).await,
                NextStep::Pause(pause) => self.wait(Some(pause)).await,
                NextStep::Stop(done) => {
                    self.pool.close().await;
                    if let Some(done) = done {
                        let _ = done.send(());
                    }
                    return;
                }
            };
        }
    }

    fn set(&self, state: ServerState) {
        if *self.state.borrow() != state {
            self.state.send_replace(state.clone());
            let _ = self.context.events.try_send(ServerEvent::State(self.entry.name.clone(), state));
        }
    }

    /// Waits for a command or the end of a pause.
    async fn wait(&mut self, pause: Option<Duration>) -> NextStep {
        if pause.is_none() && self.state.borrow().problem().is_none() {
            self.set(ServerState::Disconnected);
        }
        let command = match pause {
            None => self.inbox.recv().await,
            Some(pause) => match self.command_within(pause).await {
                Ok(command) => command,
                Err(PauseOver) => return NextStep::Connect,
            },
        };
        match command {
            None => NextStep::Stop(None),
            Some(SupervisorCommand::Stop(done)) => NextStep::Stop(Some(done)),
            Some(SupervisorCommand::Disconnect) => {
                self.set(ServerState::Disconnected);
                NextStep::Wait
            }
            Some(
                SupervisorCommand::Connect
                | SupervisorCommand::Restart
                | SupervisorCommand::Reopen
                | SupervisorCommand::Refresh(_),
            ) => NextStep::Connect,
        }
    }

    /// Waits for a command until the end of a pause. A pause for a missing command also ends when the command exists.
    async fn command_within(&mut self, pause: Duration) -> Result<Option<SupervisorCommand>, PauseOver> {
        if !self.state.borrow().is_missing_command() {
            return tokio::time::timeout(pause, self.inbox.recv()).await.map_err(|_| PauseOver);
        }
        let end = Instant::now() + pause;
        loop {
            let next = end.min(Instant::now() + COMMAND_LOOKUP_INTERVAL);
            if let Ok(command) = tokio::time::timeout_at(next, self.inbox.recv()).await {
                return Ok(command);
            }
            if Instant::now() >= end || self.context.open_context.finds_command(&self.entry) {
                return Err(PauseOver);
            }
        }
    }

    async fn connect(&mut self) -> NextStep {
        self.set(ServerState::Connecting);
        while self.noticed.try_recv().is_ok() {} // Discards notices of the previous connection.
        let (pool, context) = (self.pool.clone(), self.context.clone());
        let attempt = open_and_list(&pool, &context, self.hint, self.entry.connect_timeout);
        tokio::pin!(attempt);
        let outcome = loop {
            let command = tokio::select! {
                outcome = &mut attempt => break outcome,
                command = self.inbox.recv() => command,
            };
            let next = match command {
                // A connection attempt is already running.
                Some(SupervisorCommand::Connect | SupervisorCommand::Refresh(_)) => continue,
                Some(SupervisorCommand::Restart) => NextStep::Connect,
                Some(SupervisorCommand::Reopen) => {
                    self.pool.close_primary().await;
                    return NextStep::Reopen;
                }
                Some(SupervisorCommand::Disconnect) => {
                    self.set(ServerState::Disconnected);
                    NextStep::Wait
                }
                Some(SupervisorCommand::Stop(done)) => NextStep::Stop(Some(done)),
                None => NextStep::Stop(None),
            };
            self.pool.close().await;
            return next;
        };
        match outcome {
            Ok((connection, discovery)) => {
                self.hint = Some(connection.era);
                let since = Instant::now();
                self.publish(discovery, connection.era).await;
                self.set(ServerState::Connected);
                let next = self.watch(&connection).await;
                match next {
                    NextStep::Reopen => {
                        // Calls wait for the new connection from now on.
                        self.set(ServerState::Connecting);
                        self.pool.close_primary().await;
                    }
                    _ => self.pool.close().await,
                }
                if since.elapsed() >= STABLE_AFTER {
                    self.backoff = Backoff::default();
                }
                next
            }
            Err(error) => {
                self.pool.close().await;
                self.failed(&error)
            }
        }
    }

    async fn publish(&self, discovery: Discovery, era: Era) {
        let server = self.entry.name.clone();
        let discovery = Box::new(discovery);
        let (kept, in_catalog) = oneshot::channel();
        let news = ServerEvent::Discovered { server, discovery, era, kept };
        // The state becomes `Connected` only when the lists are in the catalog.
        if self.context.events.send(news).await.is_ok() {
            let _ = tokio::time::timeout(PROBE_TIMEOUT, in_catalog).await;
        }
    }

    /// Records a failure and decides when to retry.
    fn failed(&mut self, error: &UpstreamError) -> NextStep {
        let problem = Problem::of(error);
        if matches!(error, UpstreamError::NeedsKey { .. }) {
            // Connecting makes no sense until a user gives a key.
            self.set(ServerState::NeedsAuth(problem));
            return NextStep::Wait;
        }
        if matches!(error, UpstreamError::NeedsAuth { .. }) {
            if self.pool.note_refused_lister(error) {
                return NextStep::Reopen;
            }
            self.set(ServerState::NeedsAuth(problem));
            return NextStep::Pause(self.backoff.longest());
        }
        if self.entry.restart == Restart::Never {
            self.set(ServerState::Error { problem, next_retry_at: None });
            return NextStep::Wait;
        }
        let is_missing_command = MISSING_COMMAND_CODES.contains(&problem.code);
        let pause = self.backoff.next_pause(match is_missing_command {
            true => RetryReason::MissingCommand,
            false => RetryReason::Failure,
        });
        let (name, attempt, seconds) = (&self.entry.name, self.backoff.attempts(), pause.as_secs_f32());
        if self.backoff.is_worth_warning() {
            tracing::warn!(server.name = %name, attempt, "{}; retrying in {seconds:.1} s", problem.message);
        } else {
            tracing::debug!(server.name = %name, attempt, "{}; retrying in {seconds:.1} s", problem.message);
        }
        self.set(ServerState::Error { problem, next_retry_at: Some(Instant::now() + pause) });
        NextStep::Pause(pause)
    }

    /// Watches a connected server until the connection ends or a command ends it.
    async fn watch(&mut self, connection: &SharedConnection) -> NextStep {
        let mut checks = tokio::time::interval(self.entry.health_check_interval.max(Duration::from_secs(1)));
        checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        checks.tick().await; // The first tick fires immediately, and the handshake was a health check.
        let mut cleanup = tokio::time::interval(CLEANUP_INTERVAL);
        cleanup.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // A server that announces changes is listed when it does.
        let lists_again = !self.entry.discovery_interval.is_zero() && !connection.announces_all_changes();
        let mut discoveries =
            tokio::time::interval(self.entry.discovery_interval.max(Duration::from_secs(1)));
        discoveries.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        discoveries.tick().await; // The first tick fires immediately, and the server was just listed.
        loop {
            tokio::select! {
                command = self.inbox.recv() => match command {
                    None => return NextStep::Stop(None),
                    Some(SupervisorCommand::Stop(done)) => return NextStep::Stop(Some(done)),
                    Some(SupervisorCommand::Restart) => return NextStep::Connect,
                    Some(SupervisorCommand::Reopen) => return NextStep::Reopen,
                    Some(SupervisorCommand::Connect) => {}
                    Some(SupervisorCommand::Disconnect) => {
                        self.set(ServerState::Disconnected);
                        return NextStep::Wait;
                    }
                    Some(SupervisorCommand::Refresh(_until_listed)) => if let Err(error) = self.list_again(connection).await {
                        return self.failed(&error);
                    },
                },
                notice = self.noticed.recv() => match notice {
                    Some(ServerNotice::Closed(reason)) => {
                        return self.failed(&UpstreamError::Unreachable { server: self.entry.name.to_string(), reason });
                    }
                    Some(ServerNotice::Flooded(reason)) => {
                        return self.failed(&UpstreamError::Flooded { server: self.entry.name.to_string(), reason });
                    }
                    Some(ServerNotice::ResourceUpdated(params)) => self.resource_updated(params),
                    Some(ServerNotice::ListChanged(_) | ServerNotice::Missed) => {
                        if let Some(end) = self.debounce(connection).await {
                            return end;
                        }
                    }
                    None => return NextStep::Stop(None),
                },
                _ = discoveries.tick(), if lists_again => {
                    if connection.waits_for_person() {
                        continue;
                    }
                    if let Err(error) = self.list_again(connection).await {
                        tracing::warn!(server.name = %self.entry.name, "server `{}` could not be listed again: {error}", self.entry.name);
                    }
                }
                _ = cleanup.tick() => self.pool.close_idle(IdleLimits::default()).await,
                _ = checks.tick() => {
                    // Some servers do not answer while they wait for a person's answer.
                    if connection.waits_for_person() {
                        continue;
                    }
                    if let Err(error) = connection.probe(PROBE_TIMEOUT).await {
                        return self.failed(&error);
                    }
                }
            }
        }
    }

    fn resource_updated(&self, params: RawJson) {
        let server = self.entry.name.clone();
        let _ = self.context.events.try_send(ServerEvent::ResourceUpdated { server, params });
    }

    /// Waits until changes stop coming, then reads the lists once.
    async fn debounce(&mut self, connection: &SharedConnection) -> Option<NextStep> {
        let deadline = Instant::now() + MAX_CHANGE_DELAY;
        while Instant::now() < deadline {
            match tokio::time::timeout(CHANGE_DEBOUNCE, self.noticed.recv()).await {
                Err(_) => break,
                Ok(Some(ServerNotice::ListChanged(_) | ServerNotice::Missed)) => {}
                Ok(Some(ServerNotice::ResourceUpdated(params))) => self.resource_updated(params),
                Ok(Some(ServerNotice::Closed(reason))) => {
                    let server = self.entry.name.to_string();
                    return Some(self.failed(&UpstreamError::Unreachable { server, reason }));
                }
                Ok(Some(ServerNotice::Flooded(reason))) => {
                    let server = self.entry.name.to_string();
                    return Some(self.failed(&UpstreamError::Flooded { server, reason }));
                }
                Ok(None) => return Some(NextStep::Stop(None)),
            }
        }
        match self.list_again(connection).await {
            Ok(()) => None,
            Err(error) => Some(self.failed(&error)),
        }
    }

    async fn list_again(&self, connection: &SharedConnection) -> Result<(), UpstreamError> {
        let time_limit = self.entry.connect_timeout;
        let connection = &self.pool.informant().unwrap_or_else(|| connection.clone());
        let listed = tokio::time::timeout(time_limit, connection.discover()).await;
        let discovery = listed.map_err(|_| UpstreamError::Timeout {
            server: self.entry.name.to_string(),
            after: time_limit,
        })??;
        self.publish(discovery, connection.era).await;
        Ok(())
    }
}

async fn open_and_list(
    pool: &Pool,
    context: &SupervisorContext,
    hint: Option<Era>,
    time_limit: Duration,
) -> Result<(SharedConnection, Discovery), UpstreamError> {
    let _slot = context.slots.acquire().await;
    let connection = pool.open_primary(hint).await?;
    pool.watch_changes(&connection).await;
    match tokio::time::timeout(time_limit, connection.discover()).await {
        Ok(discovery) => Ok((connection.clone(), discovery.map_err(UpstreamError::at_start)?)),
        Err(_) => {
            let server = connection.server.clone();
            Err(UpstreamError::StartTimeout { server, stage: StartStage::Listing, after: time_limit })
        }
    }
}

/// The parameters of a resource subscription.
pub fn subscription(uri: &str) -> RawJson {
    let mut params = ObjectWriter::default();
    params.text("uri", uri);
    params.finish()
}
