//! A command that does not exist is looked for less and less often, and found soon after it was installed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{ServerEntry, Transport};
use toolbooth_upstream::http::ServerCredential;
use toolbooth_upstream::open::OpenContext;
use toolbooth_upstream::process::Reaper;
use toolbooth_upstream::{ServerEvent, ServerState, Start, Supervised, SupervisorContext};

const HOUR: Duration = Duration::from_secs(3600);
/// A little more than the interval at which a missing command is looked for.
const SOON: Duration = Duration::from_secs(20);

/// Supervises a server whose command is this path.
fn supervise(command: &Path) -> (Arc<Supervised>, mpsc::Receiver<ServerEvent>) {
    let transport = Transport::Stdio {
        command: SecretText::plain(command.display().to_string()),
        args: Vec::new(),
        cwd: None,
        env: BTreeMap::new(),
    };
    let entry = ServerEntry::with_defaults("tools".parse().unwrap(), transport);
    let open_context = OpenContext {
        host_environment: BTreeMap::new(),
        allowed_environment: Vec::new(),
        // It ends at once, so the server does not start; the test only needs the attempt.
        reaper: Reaper { program: "/bin/false".into(), args: Vec::new() },
        bundled: toolbooth_upstream::bundled::none,
        own_executable: "toolbooth".into(),
        roots: None,
        answer_limit: 1000,
    };
    let (events, received) = mpsc::channel(1000);
    let context = SupervisorContext {
        open_context: Arc::new(open_context),
        events,
        slots: Arc::new(Semaphore::new(1)),
        process_slots: Arc::new(Semaphore::new(1)),
    };
    let credential = ServerCredential::None;
    (Supervised::start(Arc::new(entry), None, credential, Start::AtOnce, &context), received)
}

/// Waits for the next state that `is_wanted`.
async fn next_state(events: &mut mpsc::Receiver<ServerEvent>, is_wanted: fn(&ServerState) -> bool) {
    while let Some(event) = events.recv().await {
        if matches!(&event, ServerEvent::State(_, state) if is_wanted(state)) {
            return;
        }
    }
    panic!("the supervisor ended");
}

fn is_connecting(state: &ServerState) -> bool {
    *state == ServerState::Connecting
}

#[tokio::test(start_paused = true)]
async fn missing_command_is_looked_for_less_often_and_found_when_it_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let command = folder.path().join("late");
    let (server, mut events) = supervise(&command);
    let start = Instant::now();
    let mut attempts = 0;
    while start.elapsed() < 24 * HOUR {
        next_state(&mut events, ServerState::is_missing_command).await;
        attempts += 1;
    }
    // At a pause of up to a minute there would be about 2900 attempts; a pause of up to an hour makes about 60.
    assert!((24..300).contains(&attempts), "{attempts} attempts in a day");
    while server.state().retry_in().is_none_or(|wait| wait < 2 * SOON) {
        next_state(&mut events, ServerState::is_missing_command).await;
    }
    fs::write(&command, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    let installed = Instant::now();
    next_state(&mut events, is_connecting).await;
    assert!(installed.elapsed() <= SOON, "found after {:?}", installed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn reload_looks_for_a_missing_command_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (server, mut events) = supervise(&folder.path().join("never"));
    next_state(&mut events, ServerState::is_missing_command).await;
    while server.state().retry_in().is_none_or(|wait| wait < SOON) {
        next_state(&mut events, ServerState::is_missing_command).await;
    }
    let reloaded = Instant::now();
    server.look_for_command().await;
    next_state(&mut events, is_connecting).await;
    assert_eq!(reloaded.elapsed(), Duration::ZERO);
}
