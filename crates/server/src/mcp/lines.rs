//! MCP over lines: a local socket that `toolbooth stdio` connects to, with one message per line.
//!
//! One connection may use both eras: `initialize` opens its session, and requests with modern `_meta` are
//! independent of it.

use super::FrontEndState;
use super::batch;
use super::cancel::Cancel;
use super::change_stream::{ChangeFilter, ChangeStream, StreamCredentials};
use super::client::{McpClient, modern_facts};
use super::immediate_reply::reply_chunks;
use super::long::joined;
use super::methods::{self, MethodOutcome};
use super::running_request::{FinalAnswer, RequestStep};
use super::session::{LegacySession, forget};
use super::session_lookup::{apply_notification, open_session};
use crate::identify::{IdentifyRequest, MAX_FOLDER};
use bytes::Bytes;
use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use toolbooth_core::caller::Caller;
use toolbooth_core::json::RawJson;
use toolbooth_upstream::process::{LineFrame, LineReader};
use toolbooth_wire::codes::{INVALID_PARAMS, INVALID_REQUEST, RpcError};
use toolbooth_wire::envelope::{InvalidMessage, write_error, write_result};
use toolbooth_wire::meta::RequestMeta;
use toolbooth_wire::{Era, Id, Message, Request, strict};

/// Maximum number of messages queued for a slow reader before its requests wait too.
const BACKLOG: usize = 256;
/// Maximum number of concurrent requests per connection.
const MAX_REQUESTS: usize = 1024;

struct LineConnection {
    front_end: Arc<FrontEndState>,
    out: mpsc::Sender<Bytes>,
    session: Mutex<Option<Arc<LegacySession>>>,
    /// The persona the client asked for before its first message.
    persona: OnceLock<String>,
    /// The folder the client works in, as it said before its first message.
    folder: OnceLock<Arc<str>>,
    /// The folder, if the client counts as one of its clients.
    entered: OnceLock<Arc<str>>,
    /// Running modern requests, for cancellation.
    running: Mutex<HashMap<Id, Cancel>>,
}

/// Serves one connection until its client closes it.
pub async fn serve<R, W>(front_end: Arc<FrontEndState>, read: R, write: W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (out, queue) = mpsc::channel(BACKLOG);
    let writer = tokio::spawn(write_all(write, queue));
    let connection = Arc::new(LineConnection {
        front_end: front_end.clone(),
        out,
        session: Mutex::default(),
        persona: OnceLock::new(),
        folder: OnceLock::new(),
        entered: OnceLock::new(),
        running: Mutex::default(),
    });
    let mut lines = LineReader::new(read, front_end.body_limit);
    let mut tasks = tokio::task::JoinSet::new();
    let mut first = true;
    while let Ok(Some(frame)) = lines.next().await {
        while tasks.try_join_next().is_some() {}
        match frame {
            LineFrame::Line(line) if std::mem::take(&mut first) && connection.read_preamble(&line) => {
                connection.open_folder().await;
            }
            LineFrame::Line(line) => connection.receive(line, &mut tasks).await,
            LineFrame::TooLong { limit, .. } => {
                let error = RpcError::new(
                    INVALID_REQUEST,
                    format!("Invalid Request: a message is over {limit} bytes"),
                );
                let _ = connection.out.send(write_error(None, &error)).await;
            }
            LineFrame::Skipped { .. } | LineFrame::Partial(_) => {}
        }
    }
    // The client has disconnected: cancel its running requests, down to the servers.
    tasks.shutdown().await;
    if let (Some(folder), Some(folders)) = (connection.entered.get(), front_end.folders.get()) {
        folders.close(Path::new(&**folder));
    }
    let session = connection.session.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(session) = session {
        forget(&front_end, &session);
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

impl LineConnection {
    async fn receive(self: &Arc<Self>, line: Bytes, tasks: &mut tokio::task::JoinSet<()>) {
        if line.trim_ascii_start().first() == Some(&b'[') && strict::check(&line).is_ok() {
            return self.batched(line, tasks).await;
        }
        let message = match Message::parse_strictly(&line) {
            Ok(message) => message,
            Err(InvalidMessage { id, error }) => return self.send(write_error(id.as_ref(), &error)).await,
        };
        match message {
            Message::Request(request) if request.method == "initialize" => {
                let opened = self.caller().await.and_then(|caller| open_session(&caller, &request));
                let text = match opened {
                    Ok(session) => {
                        let facts = session.facts();
                        let result =
                            methods::initialized(&self.front_end, &session.caller, &facts, session.revision);
                        self.start_listening(&session, tasks);
                        let earlier =
                            self.session.lock().unwrap_or_else(PoisonError::into_inner).replace(session);
                        if let Some(earlier) = earlier {
                            forget(&self.front_end, &earlier);
                        }
                        write_result(&request.id, &result)
                    }
                    Err(error) => write_error(Some(&request.id), &error),
                };
                self.send(text).await;
            }
            Message::Request(request) if tasks.len() >= MAX_REQUESTS => {
                let error = RpcError::new(INVALID_REQUEST, "too many requests are running");
                self.send(write_error(Some(&request.id), &error)).await;
            }
            Message::Request(request) => {
                let connection = self.clone();
                tasks.spawn(async move { connection.serve_request(request).await });
            }
            Message::Notification(notification) => {
                if let Some(session) = self.current_session() {
                    apply_notification(&session, &notification);
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
            let error = RpcError::new(INVALID_REQUEST, "too many requests are running");
            return self.send(write_error(None, &error)).await;
        }
        let connection = self.clone();
        tasks.spawn(async move {
            let answered = match (connection.caller().await, connection.current_session()) {
                (Ok(caller), Some(session)) => {
                    batch::answers(&connection.front_end, &caller, session, &line).await
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

    fn current_session(&self) -> Option<Arc<LegacySession>> {
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

    /// Reads the optional first line, in which `toolbooth stdio` sends the options of its client.
    fn read_preamble(&self, line: &Bytes) -> bool {
        #[derive(serde::Deserialize)]
        struct ConnectionPreamble {
            toolbooth: PreambleOptions,
        }
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct PreambleOptions {
            persona: Option<String>,
            folder: Option<String>,
        }
        let Ok(ConnectionPreamble { toolbooth }) = serde_json::from_slice(line) else { return false };
        let PreambleOptions { persona, folder } = toolbooth;
        if let Some(persona) = persona {
            let _ = self.persona.set(persona);
        }
        if let Some(folder) = folder.filter(|folder| (1..=MAX_FOLDER).contains(&folder.len())) {
            let _ = self.folder.set(folder.into());
        }
        true
    }

    /// Makes the servers of the client's folder available to it.
    async fn open_folder(&self) {
        if let (Some(folder), Some(folders)) = (self.folder.get(), self.front_end.folders.get())
            && folders.enter(Path::new(&**folder))
        {
            let _ = self.entered.set(folder.clone());
            folders.apply().await;
        }
    }

    /// Identifies the peer of the socket with the current configuration.
    async fn caller(&self) -> Result<Arc<Caller>, RpcError> {
        let request = IdentifyRequest::Socket { persona: self.persona.get().map(String::as_str) };
        let identified = self.front_end.identify(request).await;
        let caller =
            identified.map_err(|unidentified| RpcError::new(INVALID_PARAMS, unidentified.to_string()))?;
        Ok(match self.folder.get() {
            Some(folder) => Arc::new(Caller { folder: Some(folder.clone()), ..Caller::clone(&caller) }),
            None => caller,
        })
    }

    async fn client(&self, meta: &RequestMeta) -> Result<McpClient, RpcError> {
        let caller = self.caller().await?;
        if meta.is_modern() {
            let facts = Arc::new(modern_facts(meta)?);
            return Ok(McpClient { caller, facts, revision: meta.modern_revision()?, session: None });
        }
        let Some(session) = self.current_session() else {
            return Err(RpcError::new(
                INVALID_REQUEST,
                "Invalid Request: start with `initialize`, or send the modern `_meta`",
            ));
        };
        Ok(McpClient::of_session(session, &caller))
    }

    async fn serve_request(self: Arc<Self>, request: Request) {
        let known = match RequestMeta::of(request.params.as_ref()) {
            Ok(meta) => self.client(&meta).await.map(|client| (client, meta)),
            Err(error) => Err(error),
        };
        let outcome = match known {
            Ok((client, meta)) => {
                let begun = methods::begin(&self.front_end, &client, &request, meta, None).await;
                begun.map(|outcome| (client, outcome))
            }
            Err(error) => Err(error),
        };
        let (client, outcome) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return self.send(write_error(Some(&request.id), &error)).await,
        };
        match outcome {
            MethodOutcome::Ready(reply) => {
                let chunks: Vec<Bytes> = reply_chunks(&request.id, reply, client.era()).into();
                self.send(one_line(Bytes::from(chunks.concat()))).await;
            }
            MethodOutcome::Listen(filter) => {
                let cancel = self.track(&request.id);
                let opened = ChangeStream::open(
                    &self.front_end,
                    &client,
                    StreamCredentials::Socket,
                    filter,
                    Some(request.id.clone()),
                )
                .await;
                match opened {
                    Ok(stream) => self.listen(stream, cancel.cancelled()).await,
                    Err(error) => self.send(write_error(Some(&request.id), &error)).await,
                }
            }
            MethodOutcome::Ongoing(mut running) => {
                if client.era() == Era::Modern {
                    running = running.cancellable(self.track(&request.id));
                }
                loop {
                    let last = match running.next().await {
                        RequestStep::Message(message) => {
                            self.send(one_line(message)).await;
                            continue;
                        }
                        RequestStep::Done(FinalAnswer::Nothing) => break,
                        RequestStep::Done(FinalAnswer::Result(result)) => write_result(&request.id, &result),
                        RequestStep::Done(FinalAnswer::Error(error)) => {
                            write_error(Some(&request.id), &error)
                        }
                        RequestStep::Done(FinalAnswer::Long(chunks)) => joined(&request.id, &chunks),
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

    async fn listen(&self, mut stream: ChangeStream, until: impl Future<Output = ()>) {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return,
                message = stream.next() => match message {
                    Some(message) => self.send(one_line(message)).await,
                    None => return,
                },
            }
        }
    }

    /// Starts sending change notifications to a legacy client, on its only channel.
    fn start_listening(self: &Arc<Self>, session: &Arc<LegacySession>, tasks: &mut tokio::task::JoinSet<()>) {
        let connection = self.clone();
        let client = McpClient {
            caller: session.caller.clone(),
            facts: session.facts(),
            revision: session.revision,
            session: Some(session.clone()),
        };
        let over = session.over();
        tasks.spawn(async move {
            let opened = ChangeStream::open(
                &connection.front_end,
                &client,
                StreamCredentials::Socket,
                ChangeFilter::lists(),
                None,
            )
            .await;
            // A client over its quota of streams gets no change notifications; its requests are served.
            if let Ok(stream) = opened {
                connection.listen(stream, over.cancelled()).await;
            }
        });
    }
}

/// Replaces line ends by spaces. In JSON they can only occur between values.
fn one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return message;
    }
    let spaced: Vec<u8> =
        message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect();
    Bytes::from(spaced)
}
