//! Reading an HTTP answer: one JSON message, a long one that stays in pieces, or a stream of events.

use super::head::{AnswerHead, Kind};
use super::inbound::Inbound;
use super::peer::HttpPeer;
use crate::duplex::note_unsolicited;
use crate::error::{Sent, UpstreamError};
use crate::link::CallLink;
use crate::peer::{Outbound, PeerAnswer, Reading};
use crate::process::preview;
use crate::unreadable::{is_answer, meant_id, odd_answers};
use bytes::{Bytes, BytesMut};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_wire::long::{AnswerReader, LongAnswer};
use toolbooth_wire::sse::Decoder;
use toolbooth_wire::{Era, Id, Message, Response};

/// Answers longer than this may stay in pieces; shorter ones are cheaper to gather.
const LONG_FROM_BYTES: u64 = 32 * 1024;
/// How long a long answer may stand still, when nothing else is said.
const STALL: Duration = Duration::from_secs(30);
/// How often a broken answer stream is taken up again.
const MAX_RESUMPTIONS: usize = 8;
/// The pause before a stream is taken up again, when the server names none.
const RESUME_PAUSE: Duration = Duration::from_millis(500);

/// What an HTTP answer turned out to be.
pub(super) enum Received {
    /// The answer to our request.
    Answer(PeerAnswer),
    /// Text that is no message; a preview of it.
    NotAMessage(String),
}

/// Reads one HTTP answer.
pub(super) struct Reader {
    body: Inbound,
    kind: Kind,
    length: Option<u64>,
    limit: usize,
    server: Arc<str>,
    decoder: Decoder,
    /// How long a long answer may stand still.
    stall: Duration,
}

impl Reader {
    pub(super) fn new(head: &AnswerHead, body: Inbound, limit: usize, server: Arc<str>) -> Self {
        let AnswerHead { kind, length, .. } = *head;
        Self { body, kind, length, limit, server, decoder: Decoder::new(limit), stall: STALL }
    }

    /// The same, with another patience for an answer that stands still.
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
            sent: Sent::Maybe,
        })
    }

    /// The whole body.
    pub(super) async fn gather(mut self) -> Result<Bytes, UpstreamError> {
        self.gather_after(BytesMut::new()).await
    }

    async fn gather_after(&mut self, mut gathered: BytesMut) -> Result<Bytes, UpstreamError> {
        if self.length.is_some_and(|length| length > self.limit as u64) {
            return Err(self.too_large());
        }
        if gathered.is_empty() {
            let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
            // Most answers are one chunk: no copy for those.
            if self.body.is_ended() {
                return Ok(first);
            }
            let expected = self.length.unwrap_or(first.len() as u64 * 2).min(self.limit as u64);
            gathered.reserve(usize::try_from(expected).unwrap_or(first.len()));
            gathered.extend_from_slice(&first);
        }
        while let Some(chunk) = self.chunk().await? {
            if gathered.len() + chunk.len() > self.limit {
                return Err(self.too_large());
            }
            gathered.extend_from_slice(&chunk);
        }
        Ok(gathered.freeze())
    }

    /// The next message of an event stream. An answer to the request `awaited` that cannot be taken is an error: there
    /// will be no other.
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
                            || awaited.is_some_and(|id| odd_answers(&event.data).contains(&Some(id))) =>
                    {
                        return Err(self.bad(&preview(unreadable.error.message.as_bytes(), 200)));
                    }
                    // Anything else is priming or a server's own kind of event.
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

    /// Reads until the answer to `outbound` has come.
    pub(super) async fn receive(
        self,
        peer: &Arc<HttpPeer>,
        outbound: &Outbound,
        link: &CallLink,
        questions: Option<CallLink>,
    ) -> Result<Received, UpstreamError> {
        match self.kind {
            Kind::Events => Box::pin(self.receive_events(peer, outbound, link, questions)).await,
            Kind::Other => pin!(self.receive_json(outbound, peer.era())).await,
        }
    }

    async fn receive_json(mut self, outbound: &Outbound, era: Era) -> Result<Received, UpstreamError> {
        if self.length.is_some_and(|length| length > self.limit as u64) {
            return Err(self.too_large());
        }
        let is_long = self.length.is_some_and(|length| length > LONG_FROM_BYTES);
        let text = if outbound.reading == Reading::InPieces && is_long {
            match pin!(self.gather_pieces(AnswerReader::new(outbound.id, era))).await? {
                LongAnswer::Plain(long) => return Ok(Received::Answer(PeerAnswer::Long(long))),
                LongAnswer::Gathered(text) => text,
            }
        } else {
            pin!(self.gather_after(BytesMut::new())).await?
        };
        match Message::parse(&text) {
            // An error may come without an id, when the server could not read ours.
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

    /// Reads a long answer to its end; its pieces are not copied together if it is plain.
    async fn gather_pieces(&mut self, mut reader: AnswerReader) -> Result<LongAnswer, UpstreamError> {
        while let Some(piece) = self.passed_on().await? {
            if reader.length() + piece.len() > self.limit {
                return Err(self.too_large());
            }
            reader.push(piece);
        }
        Ok(reader.finish())
    }

    /// The next piece of a long answer, which must not stand still for long.
    async fn passed_on(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        let chunk = tokio::time::timeout(self.stall, self.chunk()).await;
        chunk.unwrap_or_else(|_| {
            Err(UpstreamError::Timeout { server: self.server.to_string(), after: self.stall })
        })
    }

    async fn receive_events(
        mut self,
        peer: &Arc<HttpPeer>,
        outbound: &Outbound,
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
                        // A stream that ended with its answer leaves the connection free for the next call.
                        let _ = tokio::time::timeout(Duration::from_millis(5), self.chunk()).await;
                        return Ok(Received::Answer(PeerAnswer::Whole(response.outcome)));
                    }
                    Message::Response(_) => note_unsolicited(&self.server, &peer.unsolicited),
                    Message::Notification(notification) => {
                        peer.noticed(notification, Some((outbound.id, link)))
                    }
                    Message::Request(request) => peer.asked(request, questions.clone())?,
                }
            }
            let Some(last_id) =
                self.decoder.last_id().map(str::to_owned).filter(|_| resumptions < MAX_RESUMPTIONS)
            else {
                return Err(UpstreamError::Lost {
                    server: self.server.to_string(),
                    reason: "its stream ended without an answer".into(),
                    sent: Sent::Maybe,
                });
            };
            resumptions += 1;
            tokio::time::sleep(self.decoder.retry().unwrap_or(RESUME_PAUSE)).await;
            let (head, body) = peer.open_stream(Some(&last_id)).await?;
            self = Reader::new(&head, body, self.limit, self.server);
        }
    }
}

/// Whether an answer has the id of the request `awaited` in another spelling, such as `"7"` for `7`.
fn is_misspelled(response: &Response, text: &Bytes, awaited: Option<u64>) -> bool {
    let is_number = response.id.as_ref().and_then(Id::as_number).is_some();
    !is_number && awaited.is_some() && meant_id(text) == awaited
}
