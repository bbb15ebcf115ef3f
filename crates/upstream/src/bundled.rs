//! Servers that are part of the binary: a task of this process that reads from one queue and writes to
//! another.
//!
//! Separate processes, each with its reaper, would cost memory and startup time on machines that have nothing
//! configured yet.

use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG, ReceiveOutcome};
use crate::error::UpstreamError;
use crate::peer::ServerNotice;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Weak};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;

/// The server's ends of the two queues. Each item is one complete JSON message.
#[derive(Debug)]
pub struct Queues {
    /// Messages from the gateway. The server ends when this queue closes.
    pub incoming: mpsc::Receiver<Bytes>,
    /// Messages to the gateway.
    pub outgoing: mpsc::Sender<Bytes>,
}

/// Looks a bundled server up by name and returns its future, which runs until the incoming queue closes.
pub type Bundled = fn(&str, Queues) -> Option<BoxFuture<'static, ()>>;

/// The lookup of a gateway without bundled servers.
pub fn none(_: &str, _: Queues) -> Option<BoxFuture<'static, ()>> {
    None
}

/// Parameters for opening a bundled server.
#[derive(Debug)]
pub(crate) struct BundledParts<'a> {
    /// The server's name in messages.
    pub(crate) server: String,
    /// The name of the bundled server to start.
    pub(crate) name: &'a str,
    /// The lookup function.
    pub(crate) bundled: Bundled,
    /// Receives the server's notices.
    pub(crate) notices: mpsc::Sender<ServerNotice>,
    /// The answer to `roots/list` outside a call.
    pub(crate) roots: Option<RawJson>,
}

/// Starts the server and connects a peer to it.
pub(crate) fn open(parts: BundledParts<'_>) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let BundledParts { server, name, bundled, notices, roots } = parts;
    let (outgoing, incoming) = mpsc::channel(OUTGOING_BACKLOG);
    let (to_gateway, from_server) = mpsc::channel(OUTGOING_BACKLOG);
    let Some(work) = bundled(name, Queues { incoming, outgoing: to_gateway }) else {
        return Err(UpstreamError::NotStarted(Box::new(Problem {
            code: "server.config",
            blame: Blame::Gateway,
            message: format!("server `{server}` cannot be started: no server `{name}` is bundled"),
            hint: Some("`toolbooth demo-server --help` lists the bundled servers".into()),
        })));
    };
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&server, outgoing, notices, roots, on_close);
    tokio::spawn(run(Arc::downgrade(&peer), tokio::spawn(work), from_server, closing));
    Ok(peer)
}

async fn run(
    peer: Weak<DuplexPeer>,
    work: JoinHandle<()>,
    mut from_server: mpsc::Receiver<Bytes>,
    closing: oneshot::Receiver<oneshot::Sender<()>>,
) {
    // The queue closes when the task ends, even if it panics.
    let reading = async {
        while let Some(message) = from_server.recv().await {
            let Some(peer) = peer.upgrade() else { return };
            if peer.receive(&message) == ReceiveOutcome::Last {
                return;
            }
        }
    };
    let confirm = tokio::select! {
        () = reading => None,
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
