//! The task that supervises a server: connects, lists, watches, and reconnects after a loss.

use super::{PROBE_TIMEOUT, ServerEvent, SupervisorCommand, SupervisorContext};
use crate::backoff::{Backoff, RetryReason};
use crate::connection::SharedConnection;
use crate::error::{StartStage, UpstreamError};
use crate::peer::ServerNotice;
use crate::pool::{IdleLimits, Pool};
use crate::state::{MISSING_COMMAND_CODES, ServerState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use toolbooth_core::catalog::Discovery;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::server::{Restart, ServerEntry, Transport};
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

/// The supervision task of one server.
pub(super) struct Supervisor {
    pub(super) entry: Arc<ServerEntry>,
    pub(super) pool: Arc<Pool>,
    pub(super) context: SupervisorContext,
    pub(super) state: watch::Sender<ServerState>,
    pub(super) inbox: mpsc::Receiver<SupervisorCommand>,
    pub(super) noticed: mpsc::Receiver<ServerNotice>,
    pub(super) hint: Option<Era>,
    pub(super) backoff: Backoff,
}

/// The pause before an attempt is over.
struct PauseOver;

/// The next step of the supervision task.
pub(super) enum NextStep {
    Connect,
    /// Connect again, with the connections of callers left open.
    Reopen,
    Wait,
    Pause(Duration),
    Stop(Option<oneshot::Sender<()>>),
}

impl Supervisor {
    /// Runs until the server is stopped.
    pub(super) async fn run(mut self, first: NextStep) {
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
        let (pool, context, entry) = (self.pool.clone(), self.context.clone(), self.entry.clone());
        let attempt = open_and_list(&pool, &context, &entry, self.hint);
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
        let connection = &self.pool.latest_connection().unwrap_or_else(|| connection.clone());
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
    entry: &ServerEntry,
    hint: Option<Era>,
) -> Result<(SharedConnection, Discovery), UpstreamError> {
    let _process_slot = match entry.transport {
        Transport::Stdio { .. } => Some(context.process_slots.acquire().await),
        _ => None,
    };
    let _slot = context.slots.acquire().await;
    let time_limit = entry.connect_timeout;
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
