//! The folder in which a legacy client over HTTP works, which the client sends in its roots.
//!
//! A client that declares roots is asked for them in the answer to its first list: the answer becomes an event stream
//! that begins with the question. The list waits for the roots, so that it has the folder's servers. A folder counts only
//! for the owner of a gateway in `local` mode, over a loopback connection: the path of another machine has no meaning
//! here.

use super::FrontEndState;
use super::session::LegacySession;
use crate::identify::MAX_FOLDER;
use crate::peer::Ingress;
use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use toolbooth_core::caller::Caller;
use toolbooth_core::json::RawJson;
use toolbooth_wire::RpcError;
use toolbooth_wire::envelope::write_request;
use url::Url;

/// How long a client may take to send its roots. Its list waits at most that long.
const ANSWER_TIME: Duration = Duration::from_secs(3);
/// Maximum number of roots that are considered.
const MAX_ROOTS: usize = 16;
/// The file with the servers of a folder.
const SERVERS_FILE: &str = ".mcp.json";
/// The requests before which the client is asked.
const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

/// A question for the roots of a client. Dropped without an answer, it is asked again before the next list.
pub(super) struct RootsQuestion {
    session: Arc<LegacySession>,
    id: u64,
    reply: oneshot::Receiver<Result<RawJson, RpcError>>,
}

impl RootsQuestion {
    /// The message to the client.
    pub(super) fn message(&self) -> Bytes {
        write_request(self.id, "roots/list", None)
    }
}

impl Drop for RootsQuestion {
    fn drop(&mut self) {
        self.session.withdraw(&[self.id]);
        self.session.folder.give_up_asking();
    }
}

#[derive(Deserialize)]
struct ListedRoots {
    roots: Vec<ListedRoot>,
}

#[derive(Deserialize)]
struct ListedRoot {
    uri: String,
}

/// The folders that roots name, without those that are not paths of this machine.
fn paths_of(result: &RawJson) -> Vec<PathBuf> {
    let Ok(ListedRoots { roots }) = serde_json::from_slice(result.as_bytes()) else { return Vec::new() };
    let path = |root: ListedRoot| {
        let url = Url::parse(&root.uri).ok().filter(|url| url.scheme() == "file")?;
        url.to_file_path().ok().filter(|path| path.as_os_str().len() <= MAX_FOLDER)
    };
    roots.into_iter().take(MAX_ROOTS).filter_map(path).collect()
}

/// The first folder that has servers of its own.
async fn folder_with_servers(paths: Vec<PathBuf>) -> Option<Arc<str>> {
    for path in paths {
        // The same name for the same folder, however it is reached.
        let Ok(path) = tokio::fs::canonicalize(&path).await else { continue };
        let has_servers = tokio::fs::try_exists(path.join(SERVERS_FILE)).await.unwrap_or(false);
        if let (true, Some(path)) = (has_servers, path.to_str()) {
            return Some(path.into());
        }
    }
    None
}

impl FrontEndState {
    /// Whether the folder that a client names is one of this machine, and the client is the owner's.
    fn has_folders_for(&self, via: Ingress) -> bool {
        let is_local = matches!(via, Ingress::Network(address) if address.to_canonical().is_loopback());
        is_local && self.authenticator.is_local() && self.folders.get().is_some()
    }

    /// Makes the servers of the folder available that a client without a session names in a header.
    pub(super) async fn visit_folder(&self, caller: &Caller, via: Ingress) {
        if let (Some(folder), Some(folders)) = (&caller.folder, self.folders.get())
            && self.has_folders_for(via)
        {
            folders.visit(Path::new(&**folder)).await;
        }
    }

    /// Prepares the folder of a session for a request. Returns the question that has to be sent to the client before the
    /// request is served.
    pub(super) async fn roots_question(
        &self,
        session: &Arc<LegacySession>,
        method: &str,
        headers: &HeaderMap,
        via: Ingress,
    ) -> Option<RootsQuestion> {
        if !self.has_folders_for(via) {
            // The mode of the gateway may have changed.
            self.leave_folder(session);
            return None;
        }
        if !LISTS.contains(&method) || !session.facts().can_answer("roots/list", None) {
            return None;
        }
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        if !accept.contains("text/event-stream") {
            return None;
        }
        if !session.folder.begin_asking() {
            session.folder.settled(ANSWER_TIME).await;
            return None;
        }
        let (sender, reply) = oneshot::channel();
        let id = session.ask(sender);
        Some(RootsQuestion { session: session.clone(), id, reply })
    }

    /// Waits for the client's roots, and makes the servers of its folder available to it.
    pub(super) async fn take_roots(&self, mut question: RootsQuestion) {
        let answer = tokio::time::timeout(ANSWER_TIME, &mut question.reply).await;
        let paths = match answer {
            Ok(Ok(Ok(result))) => paths_of(&result),
            _ => Vec::new(),
        };
        let folder = folder_with_servers(paths).await;
        let session = question.session.clone();
        if session.folder.get() != folder {
            self.leave_folder(&session);
            if let (Some(folder), Some(folders)) = (&folder, self.folders.get())
                && folders.enter(Path::new(&**folder))
            {
                // Before the wait: if the client disconnects meanwhile, the end of the session leaves the folder.
                session.folder.set(Some(folder.clone()));
                match session.over().is_cancelled() {
                    // The session has ended while its client was asked.
                    true => self.leave_folder(&session),
                    false => folders.apply().await,
                }
            }
        }
        session.folder.end_asking();
    }

    /// The client of a session does not work in its folder any more.
    pub(super) fn leave_folder(&self, session: &LegacySession) {
        if let (Some(folder), Some(folders)) = (session.folder.set(None), self.folders.get()) {
            folders.close(Path::new(&*folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn roots_are_paths_of_this_machine() {
        let cases = [
            (json!({"roots": [{"uri": "file:///home/ann/a%20b"}]}), vec!["/home/ann/a b"]),
            (json!({"roots": [{"uri": "https://x/y"}, {"uri": "file:///b", "name": "b"}]}), vec!["/b"]),
            (json!({"roots": [{"uri": "file://elsewhere/b"}, {"uri": "b"}]}), vec![]),
            (json!({"roots": [{"uri": format!("file:///{}", "x".repeat(5_000))}]}), vec![]),
            (json!({"roots": []}), vec![]),
            (json!({}), vec![]),
        ];
        for (result, expected) in cases {
            let expected: Vec<PathBuf> = expected.into_iter().map(PathBuf::from).collect();
            assert_eq!(paths_of(&RawJson::from_value(&result)), expected, "{result}");
        }
    }
}
