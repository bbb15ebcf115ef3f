//! Reads an HTTP response: one JSON message, a long one that stays in chunks, or an event stream.

use super::HttpPeer;
use crate::answer_memory;
use crate::duplex::note_unsolicited;
use crate::error::{SentStatus, UpstreamError};
use crate::http::incoming_body::IncomingBody;
use crate::http::response_head::{BodyKind, ResponseHead};
use crate::link::CallLink;
use crate::peer::{EncodedRequest, PeerAnswer, ResultReading};
use crate::process::preview;
use crate::unreadable::{is_answer, malformed_answers, spelled_id};
use bytes::{Bytes, BytesMut};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_wire::long::{AnswerReader, LongAnswer};
use toolbooth_wire::sse::SseDecoder;
use toolbooth_wire::{Era, Id, Message, Response};

/// Responses longer than this may stay in chunks; shorter ones are cheaper to copy together.
const LONG_FROM_BYTES: u64 = 32 * 1024;
/// Default read timeout of a long response.
const STALL: Duration = Duration::from_secs(30);
/// Maximum number of times a broken response stream is resumed.
const MAX_RESUMPTIONS: usize = 8;
/// The pause before a stream is resumed, if the server does not specify one.
const RESUME_PAUSE: Duration = Duration::from_millis(500);

/// The content of an HTTP response.
pub(super) enum Received {
    /// The answer to the request.
    Answer(PeerAnswer),
    /// A preview of text that is not a message.
    NotAMessage(String),
}

/// Reads one HTTP response.
pub(super) struct ResponseReader {
    body: IncomingBody,
    kind: BodyKind,
    length: Option<u64>,
    limit: usize,
    server: Arc<str>,
    decoder: SseDecoder,
    /// The read timeout of a long response.
    stall: Duration,
}

impl ResponseReader {
    pub(super) fn new(head: &ResponseHead, body: IncomingBody, limit: usize, server: Arc<str>) -> Self {
        let ResponseHead { kind, length, .. } = *head;
        Self { body, kind, length, limit, server, decoder: SseDecoder::new(limit), stall: STALL }
    }

    /// Sets the read timeout of a long response.
    pub(super) fn stalling(self, stall: Duration) -> Self {
        Self { stall, ..self }
    }

    pub(super) fn last_id(&self) -> Option<&str> {
        self.decoder.last_id()
    }

    fn too_large(&self) -> UpstreamError {
        UpstreamError::TooLarge { server: self.server.to_string(), limit: self.limit }
    }

    fn bad(&self, what: &str) -> UpstreamError {
        UpstreamError::BadAnswer { server: self.server.to_string(), what: what.to_owned() }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        self.body.chunk().await.map_err(|error| UpstreamError::Lost {
            server: self.server.to_string(),
            reason: format!("the answer broke off: {error}"),
            sent: SentStatus::Maybe,
        })
    }

    /// Reads the whole body.
    pub(super) async fn gather(mut self) -> Result<Bytes, UpstreamError> {
        self.gather_after(BytesMut::new()).await
    }

    async fn gather_after(&mut self, mut gathered: BytesMut) -> Result<Bytes, UpstreamError> {
        let mut memory = None;
        if self.length.is_some_and(|length| length > self.limit as u64) {
            return Err(self.too_large());
        }
        if gathered.is_empty() {
            let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
            // Most responses are one chunk: no copy for those.
            if self.body.is_ended() {
                return Ok(first);
            }
            memory = answer_memory::reserve(self.known_length()).await;
            let expected = self.length.unwrap_or(first.len() as u64 * 2).min(self.limit as u64);
            gathered.reserve(usize::try_from(expected).unwrap_or(first.len()));
            gathered.extend_from_slice(&first);
        }
        while let Some(chunk) = self.chunk().await? {
            if gathered.len() + chunk.len() > self.limit {
                return Err(self.too_large());
            }
            gathered.extend_from_slice(&chunk);
            if memory.is_none() && answer_memory::is_large(gathered.len()) {
                // Its length is unknown, and memory is reserved only once.
                memory = answer_memory::reserve(self.limit).await;
            }
        }
        Ok(answer_memory::holding(gathered.freeze(), memory.as_ref()))
    }

    /// The length of the body, if the server gave it; otherwise 0.
    fn known_length(&self) -> usize {
        self.length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0)
    }

    /// Reads the next message of an event stream. An unusable answer to the request `awaited` is an error,
    /// because no other will follow.
    pub(super) async fn next_message(
        &mut self,
        awaited: Option<u64>,
    ) -> Result<Option<Message>, UpstreamError> {
        loop {
            match self.decoder.next_event() {
                Ok(Some(event)) => match Message::parse(&event.data) {
                    Ok(Message::Response(response)) if is_misspelled(&response, &event.data, awaited) => {
                        return Err(self.bad("an answer whose id is not the number that was sent"));
                    }
                    Ok(message) => return Ok(Some(message)),
                    Err(unreadable)
                        if is_answer(&event.data, &unreadable)
                            || awaited
                                .is_some_and(|id| malformed_answers(&event.data).contains(&Some(id))) =>
                    {
                        return Err(self.bad(&preview(unreadable.error.message.as_bytes(), 200)));
                    }
                    // Anything else is a priming event or of a kind of the server's own.
                    Err(_) => {}
                },
                Ok(None) => match self.chunk().await? {
                    Some(chunk) => self.decoder.push(&chunk),
                    None => return Ok(None),
                },
                Err(_) => return Err(self.too_large()),
            }
        }
    }

    /// Reads until the answer to `outbound` arrives.
    pub(super) async fn receive(
        self,
        peer: &Arc<HttpPeer>,
        outbound: &EncodedRequest,
        link: &CallLink,
        questions: Option<CallLink>,
    ) -> Result<Received, UpstreamError> {
        match self.kind {
            BodyKind::Events => Box::pin(self.receive_events(peer, outbound, link, questions)).await,
            BodyKind::Other => pin!(self.receive_json(outbound, peer.era())).await,
        }
    }

    async fn receive_json(mut self, outbound: &EncodedRequest, era: Era) -> Result<Received, UpstreamError> {
        if self.length.is_some_and(|length| length > self.limit as u64) {
            return Err(self.too_large());
        }
        let is_long = self.length.is_some_and(|length| length > LONG_FROM_BYTES);
        let text = if outbound.reading == ResultReading::InPieces && is_long {
            match pin!(self.gather_pieces(AnswerReader::new(outbound.id, era))).await? {
                LongAnswer::Plain(long) => return Ok(Received::Answer(PeerAnswer::Long(long))),
                LongAnswer::Gathered(text) => text,
            }
        } else {
            pin!(self.gather_after(BytesMut::new())).await?
        };
        match Message::parse(&text) {
            // An error may come without an id if the server could not parse the request.
            Ok(Message::Response(response))
                if response.id.as_ref().is_some_and(|id| id.is(outbound.id))
                    || (response.id.is_none() && response.outcome.is_err()) =>
            {
                Ok(Received::Answer(PeerAnswer::Whole(response.outcome)))
            }
            Ok(Message::Response(_)) => Ok(Received::NotAMessage("an answer under another id".into())),
            _ => Ok(Received::NotAMessage(preview(&text, 100))),
        }
    }

    /// Reads a long response to its end without copying its chunks together if it is plain.
    async fn gather_pieces(&mut self, mut reader: AnswerReader) -> Result<LongAnswer, UpstreamError> {
        let memory = answer_memory::reserve(self.known_length()).await;
        while let Some(piece) = self.next_chunk().await? {
            if reader.length() + piece.len() > self.limit {
                return Err(self.too_large());
            }
            reader.push(answer_memory::holding(piece, memory.as_ref()));
        }
        Ok(reader.finish())
    }

    /// Reads the next chunk of a long response within the read timeout.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        let chunk = tokio::time::timeout(self.stall, self.chunk()).await;
        chunk.unwrap_or_else(|_| {
            Err(UpstreamError::Timeout { server: self.server.to_string(), after: self.stall })
        })
    }

    async fn receive_events(
        mut self,
        peer: &Arc<HttpPeer>,
        outbound: &EncodedRequest,
        link: &CallLink,
        questions: Option<CallLink>,
    ) -> Result<Received, UpstreamError> {
        let mut resumptions = 0;
        loop {
            while let Some(message) = self.next_message(Some(outbound.id)).await? {
                match message {
                    Message::Response(response)
                        if response.id.as_ref().is_some_and(|id| id.is(outbound.id)) =>
                    {
                        // A stream that ends with its answer makes the connection available for the next
                        // call.
                        let _ = tokio::time::timeout(Duration::from_millis(5), self.chunk()).await;
                        return Ok(Received::Answer(PeerAnswer::Whole(response.outcome)));
                    }
                    Message::Response(_) => note_unsolicited(&self.server, &peer.unsolicited),
                    Message::Notification(notification) => {
                        peer.handle_notification(notification, Some((outbound.id, link)))
                    }
                    Message::Request(request) => peer.handle_request(request, questions.clone())?,
                }
            }
            let Some(last_id) =
                self.decoder.last_id().map(str::to_owned).filter(|_| resumptions < MAX_RESUMPTIONS)
            else {
                return Err(UpstreamError::Lost {
                    server: self.server.to_string(),
                    reason: "its stream ended without an answer".into(),
                    sent: SentStatus::Maybe,
                });
            };
            resumptions += 1;
            tokio::time::sleep(self.decoder.retry().unwrap_or(RESUME_PAUSE)).await;
            let (head, body) = peer.open_stream(Some(&last_id)).await?;
            self = ResponseReader::new(&head, body, self.limit, self.server);
        }
    }
}

/// Whether a response has the id of the request `awaited` in another spelling, such as `"7"` for `7`.
fn is_misspelled(response: &Response, text: &Bytes, awaited: Option<u64>) -> bool {
    let is_number = response.id.as_ref().and_then(Id::as_number).is_some();
    !is_number && awaited.is_some() && spelled_id(text) == awaited
}
