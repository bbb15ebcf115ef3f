//! A server that comes with the binary: a task of this process that reads from one queue and writes to another.
//!
//! A process of its own for each, with its reaper, would cost memory and a slower start on the very
//! machines that have nothing configured yet.

use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG, Taken};
use crate::error::UpstreamError;
use crate::peer::Notice;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Weak};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;

/// Both ends of the queues, for the server: whole messages, in JSON.
#[derive(Debug)]
pub struct Queues {
    /// What the gateway says. It ends when the server is to end.
    pub incoming: mpsc::Receiver<Bytes>,
    /// What the gateway is told.
    pub outgoing: mpsc::Sender<Bytes>,
}

/// Finds a server by its name: what it does until its queue ends.
pub type Bundled = fn(&str, Queues) -> Option<BoxFuture<'static, ()>>;

/// For gateways that bring no servers.
pub fn none(_: &str, _: Queues) -> Option<BoxFuture<'static, ()>> {
    None
}

/// What a bundled server is opened with.
#[derive(Debug)]
pub(crate) struct BundledParts<'a> {
    /// The server's name, for messages.
    pub(crate) server: String,
    /// Which of the bundled servers it is.
    pub(crate) name: &'a str,
    /// Where they are found.
    pub(crate) bundled: Bundled,
    /// Where its notices go.
    pub(crate) notices: mpsc::Sender<Notice>,
    /// What unasked `roots/list` is answered with.
    pub(crate) roots: Option<RawJson>,
}

/// Starts the server and speaks to it.
pub(crate) fn open(parts: BundledParts<'_>) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let BundledParts { server, name, bundled, notices, roots } = parts;
    let (outgoing, incoming) = mpsc::channel(OUTGOING_BACKLOG);
    let (told, heard) = mpsc::channel(OUTGOING_BACKLOG);
    let Some(work) = bundled(name, Queues { incoming, outgoing: told }) else {
        return Err(UpstreamError::NotStarted(Box::new(Problem {
            code: "server.config",
            blame: Blame::Gateway,
            message: format!("server `{server}` cannot be started: no server `{name}` is bundled"),
            hint: Some("`toolbooth demo-server --help` names those that are".into()),
        })));
    };
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&server, outgoing, notices, roots, on_close);
    tokio::spawn(run(Arc::downgrade(&peer), tokio::spawn(work), heard, closing));
    Ok(peer)
}

async fn run(
    peer: Weak<DuplexPeer>,
    work: JoinHandle<()>,
    mut heard: mpsc::Receiver<Bytes>,
    closing: oneshot::Receiver<oneshot::Sender<()>>,
) {
    // The queue ends with the task, also when it panics.
    let listening = async {
        while let Some(message) = heard.recv().await {
            let Some(peer) = peer.upgrade() else { return };
            if peer.receive(&message) == Taken::Last {
                return;
            }
        }
    };
    let confirm = tokio::select! {
        () = listening => None,
        asked = closing => asked.ok(),
    };
    work.abort();
    let _ = work.await;
    if let Some(peer) = peer.upgrade() {
        peer.lost("it ended");
    }
    if let Some(confirm) = confirm {
        let _ = confirm.send(());
    }
}
