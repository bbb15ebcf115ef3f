//! The folder of a legacy client over HTTP, and whether the client has to be asked for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What is known about the roots of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RootsState {
    /// It has to be asked.
    #[default]
    Unknown,
    /// It was asked and has not answered.
    Asked,
    /// It has answered, or did not answer in time.
    Known,
}

/// The folder of a session's client.
#[derive(Debug, Default)]
pub struct SessionFolder {
    state: watch::Sender<RootsState>,
    folder: Mutex<Option<Arc<str>>>,
}

impl SessionFolder {
    /// The folder, if the client has sent it.
    pub fn get(&self) -> Option<Arc<str>> {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the client again before its next list: its roots have changed.
    pub fn ask_again(&self) {
        self.state
            .send_if_modified(|state| *state == RootsState::Known && replace(state, RootsState::Unknown));
    }

    /// Sets the folder; returns the one before.
    pub(super) fn set(&self, folder: Option<Arc<str>>) -> Option<Arc<str>> {
        std::mem::replace(&mut *self.folder.lock().unwrap_or_else(PoisonError::into_inner), folder)
    }

    /// Whether this request is the one that asks.
    pub(super) fn begin_asking(&self) -> bool {
        self.state
            .send_if_modified(|state| *state == RootsState::Unknown && replace(state, RootsState::Asked))
    }

    /// The client has answered, or did not answer in time.
    pub(super) fn end_asking(&self) {
        self.state.send_replace(RootsState::Known);
    }

    /// The question cannot be answered any more; another request asks again.
    pub(super) fn give_up_asking(&self) {
        self.state
            .send_if_modified(|state| *state == RootsState::Asked && replace(state, RootsState::Unknown));
    }

    /// Waits until a question of another request is answered.
    pub(super) async fn settled(&self, at_most: Duration) {
        let mut state = self.state.subscribe();
        let _ = tokio::time::timeout(at_most, state.wait_for(|state| *state != RootsState::Asked)).await;
    }
}

fn replace(state: &mut RootsState, new: RootsState) -> bool {
    *state = new;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_is_asked_once_until_its_roots_change() {
        let folder = SessionFolder::default();
        assert!(folder.begin_asking());
        assert!(!folder.begin_asking(), "another request waits for the answer");
        folder.end_asking();
        folder.settled(Duration::from_secs(1)).await;
        assert!(!folder.begin_asking());
        folder.ask_again();
        assert!(folder.begin_asking());
        folder.give_up_asking();
        assert!(folder.begin_asking(), "a question that was not answered is asked again");
    }
}
