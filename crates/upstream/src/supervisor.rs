//! Keeps one server connected: connects, lists, watches, and comes back after a loss, for ever.

use crate::backoff::Backoff;
use crate::connection::SharedConnection;
use crate::error::{Stage, UpstreamError};
use crate::http::Credential;
use crate::open::Surroundings;
use crate::peer::Notice;
use crate::pool::{IdleLimits, Pool};
use crate::process::StderrTail;
use crate::seat::Seat;
use crate::state::ServerState;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use toolbooth_core::caller::{Admin, Caller, ClientFacts};
use toolbooth_core::catalog::Discovery;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::names::ServerName;
use toolbooth_core::server::{Restart, ServerEntry};
use toolbooth_wire::Era;

/// A connection that lasted this long makes the next pauses short again.
const STABLE: Duration = Duration::from_secs(60);
/// How long changes are gathered before the lists are read again.
const QUIET: Duration = Duration::from_millis(150);
/// The longest a storm of changes can put that off.
const STORM_LIMIT: Duration = Duration::from_secs(2);
/// How often connections that nobody uses are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(30);
/// How long a sign of life may take.
const PROBE_PATIENCE: Duration = Duration::from_secs(10);

/// What all servers of a gateway share.
#[derive(Debug, Clone)]
pub struct Context {
    /// Environment, limits and executables.
    pub surroundings: Arc<Surroundings>,
    /// Where news goes.
    pub events: mpsc::Sender<ServerEvent>,
    /// How many servers may be connecting at once.
    pub slots: Arc<Semaphore>,
}

/// News of a server.
#[derive(Debug)]
pub enum ServerEvent {
    /// Its state changed.
    State(ServerName, ServerState),
    /// It has listed what it offers.
    Discovered {
        /// The server.
        server: ServerName,
        /// What it offers.
        discovery: Box<Discovery>,
        /// The era it speaks.
        era: Era,
        /// Told when the catalog has it.
        kept: oneshot::Sender<()>,
    },
    /// One of its resources changed.
    ResourceUpdated {
        /// The server.
        server: ServerName,
        /// The notification's parameters.
        params: RawJson,
    },
}

/// When a server is connected first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Now.
    AtOnce,
    /// When somebody asks for it.
    OnDemand,
}

#[derive(Debug)]
enum Command {
    Connect,
    Disconnect,
    Restart,
    /// Whoever holds the other end is told by its end that the lists are in.
    Refresh(oneshot::Sender<()>),
    Stop(oneshot::Sender<()>),
}

/// A server under supervision.
#[derive(Debug)]
pub struct Supervised {
    /// Its entry.
    pub entry: Arc<ServerEntry>,
    /// Its connections.
    pub pool: Arc<Pool>,
    /// The last lines of its standard error.
    pub stderr: StderrTail,
    state: watch::Receiver<ServerState>,
    commands: mpsc::Sender<Command>,
}

impl Supervised {
    /// Takes a server under supervision.
    pub fn start(
        entry: Arc<ServerEntry>,
        hint: Option<Era>,
        credential: Credential,
        start: Start,
        context: &Context,
    ) -> Arc<Self> {
        let (first, state) = match start {
            Start::AtOnce => (Next::Connect, ServerState::Connecting),
            Start::OnDemand => (Next::Rest, ServerState::Disconnected),
        };
        let (state, watched) = watch::channel(state);
        let (commands, inbox) = mpsc::channel(16);
        let (notices, noticed) = mpsc::channel(64);
        let stderr = StderrTail::without(entry.secrets());
        let pool =
            Pool::new(entry.clone(), context.surroundings.clone(), credential, stderr.clone(), notices);
        let keeper = Keeper {
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
        Arc::new(Self { entry, pool, stderr, state: watched, commands })
    }

    /// Where the server stands.
    pub fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// A place for a call. Waits while the server is on its way; starts one that nobody had asked for;
    /// answers at once for one that is down.
    pub async fn connection(&self, caller: &Caller, client: &ClientFacts) -> Result<Seat, UpstreamError> {
        if self.pool.primary().is_none() {
            Box::pin(self.ready()).await.map_err(|error| self.told_to(caller, error))?;
        }
        pin!(self.pool.for_call(caller, client)).await.map_err(|error| self.told_to(caller, error))
    }

    /// What a caller is told of a server that could not be reached: the commands and folders of the gateway's machine are
    /// for those who look after it.
    fn told_to(&self, caller: &Caller, error: UpstreamError) -> UpstreamError {
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

    /// Waits until the server is not connecting any more, well or badly.
    pub fn tried(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut state = self.state.clone();
        async move {
            let _ = state.wait_for(|state| *state != ServerState::Connecting).await;
        }
    }

    /// Waits until the server is connected, or says why it is not.
    pub async fn ready(&self) -> Result<(), UpstreamError> {
        let mut state = self.state.clone();
        if matches!(*state.borrow(), ServerState::Disconnected) {
            let _ = self.commands.send(Command::Connect).await;
            let _ = tokio::time::timeout(
                PROBE_PATIENCE,
                state.wait_for(|state| *state != ServerState::Disconnected),
            )
            .await;
        }
        let patience = self.entry.connect_timeout;
        let settled = state.wait_for(|state| *state != ServerState::Connecting);
        let settled = match tokio::time::timeout(patience, settled).await {
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

    /// Connects now, whatever the backoff says.
    pub async fn connect(&self) {
        let _ = self.commands.send(Command::Connect).await;
    }

    /// Disconnects until somebody asks.
    pub async fn disconnect(&self) {
        let _ = self.commands.send(Command::Disconnect).await;
    }

    /// Ends all connections and starts anew.
    pub async fn restart(&self) {
        let _ = self.commands.send(Command::Restart).await;
    }

    /// Reads the lists again, and waits until they are in the catalog. One that is not connected is connected.
    pub async fn refresh(&self) {
        let (done, listed) = oneshot::channel();
        if self.commands.send(Command::Refresh(done)).await.is_ok() {
            let _ = listed.await;
        }
    }

    /// Ends supervision and everything it started.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop(done)).await.is_ok() {
            let _ = stopped.await;
        }
    }
}

/// The task that keeps one server.
struct Keeper {
    entry: Arc<ServerEntry>,
    pool: Arc<Pool>,
    context: Context,
    state: watch::Sender<ServerState>,
    inbox: mpsc::Receiver<Command>,
    noticed: mpsc::Receiver<Notice>,
    hint: Option<Era>,
    backoff: Backoff,
}

/// What to do next.
enum Next {
    Connect,
    Rest,
    Pause(Duration),
    Stop(Option<oneshot::Sender<()>>),
}

impl Keeper {
    async fn run(mut self, first: Next) {
        let mut next = first;
        loop {
            next = match next {
                Next::Connect => self.connect().await,
                Next::Rest => self.rest(None).await,
                Next::Pause(pause) => self.rest(Some(pause)).await,
                Next::Stop(done) => {
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

    /// Waits for a command, or for the end of a pause.
    async fn rest(&mut self, pause: Option<Duration>) -> Next {
        if pause.is_none() && self.state.borrow().problem().is_none() {
            self.set(ServerState::Disconnected);
        }
        let command = match pause {
            None => self.inbox.recv().await,
            Some(pause) => match tokio::time::timeout(pause, self.inbox.recv()).await {
                Ok(command) => command,
                Err(_) => return Next::Connect,
            },
        };
        match command {
            None => Next::Stop(None),
            Some(Command::Stop(done)) => Next::Stop(Some(done)),
            Some(Command::Disconnect) => {
                self.set(ServerState::Disconnected);
                Next::Rest
            }
            Some(Command::Connect | Command::Restart | Command::Refresh(_)) => Next::Connect,
        }
    }

    async fn connect(&mut self) -> Next {
        self.set(ServerState::Connecting);
        while self.noticed.try_recv().is_ok() {} // News of a connection that is gone.
        let (pool, context) = (self.pool.clone(), self.context.clone());
        let attempt = open_and_list(&pool, &context, self.hint, self.entry.connect_timeout);
        tokio::pin!(attempt);
        let outcome = loop {
            let command = tokio::select! {
                outcome = &mut attempt => break outcome,
                command = self.inbox.recv() => command,
            };
            let next = match command {
                // It is on its way already.
                Some(Command::Connect | Command::Refresh(_)) => continue,
                Some(Command::Restart) => Next::Connect,
                Some(Command::Disconnect) => {
                    self.set(ServerState::Disconnected);
                    Next::Rest
                }
                Some(Command::Stop(done)) => Next::Stop(Some(done)),
                None => Next::Stop(None),
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
                self.pool.close().await;
                if since.elapsed() >= STABLE {
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
        // Connected means listed: whoever sees the one must see the other.
        if self.context.events.send(news).await.is_ok() {
            let _ = tokio::time::timeout(PROBE_PATIENCE, in_catalog).await;
        }
    }

    /// Notes a failure and says when to try again.
    fn failed(&mut self, error: &UpstreamError) -> Next {
        let problem = Problem::of(error);
        if matches!(error, UpstreamError::NeedsAuth { .. }) {
            self.set(ServerState::NeedsAuth(problem));
            return Next::Pause(self.backoff.longest());
        }
        if self.entry.restart == Restart::Never {
            self.set(ServerState::Error { problem, next_retry_at: None });
            return Next::Rest;
        }
        let pause = self.backoff.next_pause();
        tracing::warn!(
            server.name = %self.entry.name,
            attempt = self.backoff.attempts(),
            "{}; trying again in {:.1} s", problem.message, pause.as_secs_f32()
        );
        self.set(ServerState::Error { problem, next_retry_at: Some(SystemTime::now() + pause) });
        Next::Pause(pause)
    }

    /// Watches a connected server until something ends that.
    async fn watch(&mut self, connection: &SharedConnection) -> Next {
        let mut checks = tokio::time::interval(self.entry.health_check_interval.max(Duration::from_secs(1)));
        checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        checks.tick().await; // The first comes at once, and the handshake was one.
        let mut tidying = tokio::time::interval(TIDY_EVERY);
        tidying.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                command = self.inbox.recv() => match command {
                    None => return Next::Stop(None),
                    Some(Command::Stop(done)) => return Next::Stop(Some(done)),
                    Some(Command::Restart) => return Next::Connect,
                    Some(Command::Connect) => {}
                    Some(Command::Disconnect) => {
                        self.set(ServerState::Disconnected);
                        return Next::Rest;
                    }
                    Some(Command::Refresh(_until_listed)) => if let Err(error) = self.list_again(connection).await {
                        return self.failed(&error);
                    },
                },
                notice = self.noticed.recv() => match notice {
                    Some(Notice::Closed(reason)) => {
                        return self.failed(&UpstreamError::Unreachable { server: self.entry.name.to_string(), reason });
                    }
                    Some(Notice::Flooded(reason)) => {
                        return self.failed(&UpstreamError::Flooded { server: self.entry.name.to_string(), reason });
                    }
                    Some(Notice::ResourceUpdated(params)) => self.resource_updated(params),
                    Some(Notice::ListChanged(_) | Notice::Missed) => {
                        if let Some(end) = self.storm(connection).await {
                            return end;
                        }
                    }
                    None => return Next::Stop(None),
                },
                _ = tidying.tick() => self.pool.close_idle(IdleLimits::default()).await,
                _ = checks.tick() => {
                    // Some servers say nothing while a person thinks about their question.
                    if connection.is_held_up() {
                        continue;
                    }
                    if let Err(error) = connection.probe(PROBE_PATIENCE).await {
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

    /// Lets a storm of changes pass, then reads the lists once.
    async fn storm(&mut self, connection: &SharedConnection) -> Option<Next> {
        let deadline = Instant::now() + STORM_LIMIT;
        while Instant::now() < deadline {
            match tokio::time::timeout(QUIET, self.noticed.recv()).await {
                Err(_) => break,
                Ok(Some(Notice::ListChanged(_) | Notice::Missed)) => {}
                Ok(Some(Notice::ResourceUpdated(params))) => self.resource_updated(params),
                Ok(Some(Notice::Closed(reason))) => {
                    let server = self.entry.name.to_string();
                    return Some(self.failed(&UpstreamError::Unreachable { server, reason }));
                }
                Ok(Some(Notice::Flooded(reason))) => {
                    let server = self.entry.name.to_string();
                    return Some(self.failed(&UpstreamError::Flooded { server, reason }));
                }
                Ok(None) => return Some(Next::Stop(None)),
            }
        }
        match self.list_again(connection).await {
            Ok(()) => None,
            Err(error) => Some(self.failed(&error)),
        }
    }

    async fn list_again(&self, connection: &SharedConnection) -> Result<(), UpstreamError> {
        let patience = self.entry.connect_timeout;
        let connection = &self.pool.informant().unwrap_or_else(|| connection.clone());
        let listed = tokio::time::timeout(patience, connection.discover()).await;
        let discovery = listed
            .map_err(|_| UpstreamError::Timeout { server: self.entry.name.to_string(), after: patience })??;
        self.publish(discovery, connection.era).await;
        Ok(())
    }
}

async fn open_and_list(
    pool: &Pool,
    context: &Context,
    hint: Option<Era>,
    patience: Duration,
) -> Result<(SharedConnection, Discovery), UpstreamError> {
    let _slot = context.slots.acquire().await;
    let connection = pool.open_primary(hint).await?;
    pool.hear_changes(&connection).await;
    match tokio::time::timeout(patience, connection.discover()).await {
        Ok(discovery) => Ok((connection.clone(), discovery.map_err(UpstreamError::at_start)?)),
        Err(_) => {
            let server = connection.server.clone();
            Err(UpstreamError::StartTimeout { server, stage: Stage::Listing, after: patience })
        }
    }
}

/// The parameters by which a client subscribes to a resource.
pub fn subscription(uri: &str) -> RawJson {
    let mut params = ObjectWriter::default();
    params.text("uri", uri);
    params.finish()
}
