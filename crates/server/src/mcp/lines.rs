//! The MCP door over lines: a local socket that `toolbooth stdio` joins, one message a line.
//!
//! One connection may speak both eras: `initialize` opens its session, requests with modern `_meta`
//! stand for themselves.

use super::Door;
use super::batch;
use super::cancel::Cancel;
use super::client::{Client, modern_facts};
use super::follow::{Final, Step};
use super::http::{forget, heed, open_session, reply_pieces};
use super::listen::{Filter, Listening, Shown};
use super::long::joined;
use super::methods::{self, Begun};
use super::session::Session;
use crate::identify::Knock;
use bytes::Bytes;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use toolbooth_core::caller::Caller;
use toolbooth_core::json::RawJson;
use toolbooth_upstream::process::{Frame, LineReader};
use toolbooth_wire::codes::{INVALID_PARAMS, INVALID_REQUEST, RpcError};
use toolbooth_wire::envelope::{Unreadable, write_error, write_result};
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Era, Id, Message, Request, strict};

/// How many messages wait for a slow reader before its requests wait too.
const BACKLOG: usize = 256;
/// How many requests one connection may have under way.
const MAX_REQUESTS: usize = 1024;

struct Connection {
    door: Arc<Door>,
    out: mpsc::Sender<Bytes>,
    session: Mutex<Option<Arc<Session>>>,
    /// The persona the client asked for before its first message.
    persona: OnceLock<String>,
    /// Modern requests under way, so that they can be cancelled.
    running: Mutex<HashMap<Id, Cancel>>,
}

/// Serves one connection until its client closes it.
pub async fn serve<R, W>(door: Arc<Door>, read: R, write: W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (out, queue) = mpsc::channel(BACKLOG);
    let writer = tokio::spawn(write_all(write, queue));
    let connection = Arc::new(Connection {
        door: door.clone(),
        out,
        session: Mutex::default(),
        persona: OnceLock::new(),
        running: Mutex::default(),
    });
    let mut lines = LineReader::new(read, door.body_limit);
    let mut tasks = tokio::task::JoinSet::new();
    let mut first = true;
    while let Ok(Some(frame)) = lines.next().await {
        while tasks.try_join_next().is_some() {}
        match frame {
            Frame::Line(line) if std::mem::take(&mut first) && connection.introduced(&line) => {}
            Frame::Line(line) => connection.receive(line, &mut tasks).await,
            Frame::TooLong { limit, .. } => {
                let error = RpcError::new(
                    INVALID_REQUEST,
                    format!("Invalid Request: a message is over {limit} bytes"),
                );
                let _ = connection.out.send(write_error(None, &error)).await;
            }
            Frame::Skipped { .. } | Frame::Partial(_) => {}
        }
    }
    // The client is gone: what it left running is cancelled, down to the servers.
    tasks.shutdown().await;
    let session = connection.session.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(session) = session {
        forget(&door, &session);
    }
    drop(connection);
    let _ = writer.await;
}

async fn write_all<W: AsyncWrite + Unpin>(mut write: W, mut queue: mpsc::Receiver<Bytes>) {
    let mut batch = Vec::with_capacity(4096);
    while let Some(message) = queue.recv().await {
        batch.clear();
        batch.extend_from_slice(&message);
        batch.push(b'\n');
        while batch.len() < 64 * 1024 {
            let Ok(more) = queue.try_recv() else { break };
            batch.extend_from_slice(&more);
            batch.push(b'\n');
        }
        if write.write_all(&batch).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
}

impl Connection {
    async fn receive(self: &Arc<Self>, line: Bytes, tasks: &mut tokio::task::JoinSet<()>) {
        if line.trim_ascii_start().first() == Some(&b'[') && strict::check(&line).is_ok() {
            return self.batched(line, tasks).await;
        }
        let message = match Message::parse_strictly(&line) {
            Ok(message) => message,
            Err(Unreadable { id, error }) => return self.send(write_error(id.as_ref(), &error)).await,
        };
        match message {
            Message::Request(request) if request.method == "initialize" => {
                let opened = self.caller().await.and_then(|caller| open_session(&caller, &request));
                let text = match opened {
                    Ok(session) => {
                        let facts = session.facts();
                        let result =
                            methods::initialized(&self.door, &session.caller, &facts, session.revision);
                        self.start_listening(&session, tasks);
                        let earlier =
                            self.session.lock().unwrap_or_else(PoisonError::into_inner).replace(session);
                        if let Some(earlier) = earlier {
                            forget(&self.door, &earlier);
                        }
                        write_result(&request.id, &result)
                    }
                    Err(error) => write_error(Some(&request.id), &error),
                };
                self.send(text).await;
            }
            Message::Request(request) if tasks.len() >= MAX_REQUESTS => {
                let error = RpcError::new(INVALID_REQUEST, "too many requests are under way");
                self.send(write_error(Some(&request.id), &error)).await;
            }
            Message::Request(request) => {
                let connection = self.clone();
                tasks.spawn(async move { connection.asked(request).await });
            }
            Message::Notification(notification) => {
                if let Some(session) = self.current_session() {
                    heed(&session, &notification);
                }
                if notification.method == "notifications/cancelled" {
                    self.cancelled(notification.params.as_ref());
                }
            }
            Message::Response(response) => {
                if let (Some(session), Some(id)) = (self.current_session(), response.id) {
                    session.answered(&id, response.outcome);
                }
            }
        }
    }

    async fn batched(self: &Arc<Self>, line: Bytes, tasks: &mut tokio::task::JoinSet<()>) {
        if tasks.len() >= MAX_REQUESTS {
            let error = RpcError::new(INVALID_REQUEST, "too many requests are under way");
            return self.send(write_error(None, &error)).await;
        }
        let connection = self.clone();
        tasks.spawn(async move {
            let answered = match (connection.caller().await, connection.current_session()) {
                (Ok(caller), Some(session)) => {
                    batch::answers(&connection.door, &caller, session, &line).await
                }
                (Ok(_), None) => Err(batch::needs_session()),
                (Err(error), _) => Err(error),
            };
            match answered {
                Ok(Some(answers)) => connection.send(one_line(answers)).await,
                Ok(None) => {}
                Err(error) => connection.send(write_error(None, &error)).await,
            }
        });
    }

    fn current_session(&self) -> Option<Arc<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn cancelled(&self, params: Option<&RawJson>) {
        let id = params.and_then(|params| params.member("requestId")).and_then(|id| Id::from_raw(&id));
        let request =
            id.and_then(|id| self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
        if let Some(request) = request {
            request.cancel();
        }
    }

    async fn send(&self, message: Bytes) {
        let _ = self.out.send(message).await;
    }

    /// Takes the line by which `toolbooth stdio` says what its client wants, where it sends one.
    fn introduced(&self, line: &Bytes) -> bool {
        #[derive(serde::Deserialize)]
        struct Introduction {
            toolbooth: Wanted,
        }
        #[derive(serde::Deserialize)]
        struct Wanted {
            persona: String,
        }
        let Ok(Introduction { toolbooth }) = serde_json::from_slice(line) else { return false };
        self.persona.set(toolbooth.persona).is_ok()
    }

    /// Who is at the other end of the socket, by the configuration as it is now.
    async fn caller(&self) -> Result<Arc<Caller>, RpcError> {
        let knock = Knock::Socket { persona: self.persona.get().map(String::as_str) };
        let identified = self.door.identify(knock).await;
        identified.map_err(|unidentified| RpcError::new(INVALID_PARAMS, unidentified.to_string()))
    }

    async fn client(&self, meta: &RequestMeta) -> Result<Client, RpcError> {
        let caller = self.caller().await?;
        if meta.is_modern() {
            let facts = Arc::new(modern_facts(meta)?);
            return Ok(Client { caller, facts, revision: meta.modern_revision()?, session: None });
        }
        let Some(session) = self.current_session() else {
            return Err(RpcError::new(
                INVALID_REQUEST,
                "Invalid Request: start with `initialize`, or send the modern `_meta`",
            ));
        };
        Ok(Client::of_session(session, &caller))
    }

    async fn asked(self: Arc<Self>, request: Request) {
        let known = match RequestMeta::of(request.params.as_ref()) {
            Ok(meta) => self.client(&meta).await.map(|client| (client, meta)),
            Err(error) => Err(error),
        };
        let begun = match known {
            Ok((client, meta)) => {
                methods::begin(&self.door, &client, &request, meta, None).await.map(|begun| (client, begun))
            }
            Err(error) => Err(error),
        };
        let (client, begun) = match begun {
            Ok(begun) => begun,
            Err(error) => return self.send(write_error(Some(&request.id), &error)).await,
        };
        match begun {
            Begun::Ready(reply) => {
                let pieces: Vec<Bytes> = reply_pieces(&request.id, reply, client.era()).into();
                self.send(one_line(Bytes::from(pieces.concat()))).await;
            }
            Begun::Listen(filter) => {
                let cancel = self.track(&request.id);
                let opened =
                    Listening::open(&self.door, &client, Shown::Socket, filter, Some(request.id.clone()))
                        .await;
                match opened {
                    Ok(listening) => self.listen(listening, cancel.cancelled()).await,
                    Err(error) => self.send(write_error(Some(&request.id), &error)).await,
                }
            }
            Begun::Ongoing(mut following) => {
                if client.era() == Era::Modern {
                    following = following.cancellable(self.track(&request.id));
                }
                loop {
                    let last = match following.next().await {
                        Step::Message(message) => {
                            self.send(one_line(message)).await;
                            continue;
                        }
                        Step::Done(Final::Nothing) => break,
                        Step::Done(Final::Result(result)) => write_result(&request.id, &result),
                        Step::Done(Final::Error(error)) => write_error(Some(&request.id), &error),
                        Step::Done(Final::Long(pieces)) => joined(&request.id, &pieces),
                    };
                    self.send(one_line(last)).await;
                    break;
                }
                self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.id);
            }
        }
    }

    fn track(&self, id: &Id) -> Cancel {
        let cancel = Cancel::default();
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), cancel.clone());
        cancel
    }

    async fn listen(&self, mut listening: Listening, until: impl Future<Output = ()>) {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return,
                message = listening.next() => match message {
                    Some(message) => self.send(one_line(message)).await,
                    None => return,
                },
            }
        }
    }

    /// A legacy client hears of changes on its one channel.
    fn start_listening(self: &Arc<Self>, session: &Arc<Session>, tasks: &mut tokio::task::JoinSet<()>) {
        let connection = self.clone();
        let client = Client {
            caller: session.caller.clone(),
            facts: session.facts(),
            revision: session.revision,
            session: Some(session.clone()),
        };
        let over = session.over();
        tasks.spawn(async move {
            let opened =
                Listening::open(&connection.door, &client, Shown::Socket, Filter::lists(), None).await;
            // A client over its share of streams gets no change notifications; its requests are served.
            if let Ok(listening) = opened {
                connection.listen(listening, over.cancelled()).await;
            }
        });
    }
}

/// A line must not hold line ends. JSON can hold them between values only, where a space does as well.
fn one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return message;
    }
    let spaced: Vec<u8> =
        message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect();
    Bytes::from(spaced)
}
