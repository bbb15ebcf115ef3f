//! The small server on a WebSocket.
#![allow(clippy::result_large_err, reason = "the library's type")]

use crate::test_server::{Act, Journal, Seen, answer_messages, written};
use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// How the server handles the handshake.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Greeting {
    /// It chooses the subprotocol `mcp`.
    Mcp,
    /// It chooses none.
    NoSubprotocol,
    /// It refuses with a status and a challenge.
    Refusal(u16),
    /// It completes the handshake and never reads again.
    Unresponsive,
    /// It accepts one connection and refuses others.
    OnlyOnce,
}

/// Starts the server and returns its URL.
pub async fn serve(greeting: Greeting) -> (String, Journal) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
    let (seen, journal) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut greeting = greeting;
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(talk(stream, greeting, seen.clone()));
            if greeting == Greeting::OnlyOnce {
                greeting = Greeting::Refusal(503);
            }
        }
    });
    (url, Journal(journal))
}

/// Starts the server behind TLS and returns its URL.
pub async fn serve_tls(acceptor: TlsAcceptor) -> (String, Journal) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("wss://localhost:{}/mcp", listener.local_addr().unwrap().port());
    let (seen, journal) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, seen) = (acceptor.clone(), seen.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    talk(stream, Greeting::Mcp, seen).await;
                }
            });
        }
    });
    (url, Journal(journal))
}

trait Bytes: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Bytes for T {}

fn greet(
    request: &Request,
    mut response: Response,
    greeting: Greeting,
    seen: &mpsc::UnboundedSender<Seen>,
) -> Result<Response, ErrorResponse> {
    let _ = seen.send(Seen::Headers("handshake", written(request.headers())));
    if let Greeting::Refusal(status) = greeting {
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = StatusCode::from_u16(status).unwrap();
        refusal.headers_mut().insert("www-authenticate", "Bearer realm=\"tools\"".parse().unwrap());
        return Err(refusal);
    }
    if greeting != Greeting::NoSubprotocol {
        response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    }
    Ok(response)
}

async fn talk(stream: impl Bytes, greeting: Greeting, seen: mpsc::UnboundedSender<Seen>) {
    let shaken = tokio_tungstenite::accept_hdr_async(stream, |request: &Request, response: Response| {
        greet(request, response, greeting, &seen)
    });
    let Ok(mut socket) = shaken.await else { return };
    if greeting == Greeting::Unresponsive {
        std::future::pending::<()>().await;
    }
    let (inbox, messages) = mpsc::channel(64);
    let (acts, mut acting) = mpsc::channel(64);
    tokio::spawn(answer_messages(messages, acts, seen.clone()));
    loop {
        tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    inbox.send(serde_json::from_str(&text).unwrap()).await.unwrap();
                }
                Some(Ok(Message::Close(frame))) => {
                    let _ = seen.send(Seen::Ended(frame.map(|frame| frame.code.into())));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => {
                    let _ = seen.send(Seen::Ended(None));
                    return;
                }
            },
            act = acting.recv() => match act {
                Some(Act::Say(message)) => {
                    let _ = socket.send(Message::text(message.to_string())).await;
                }
                Some(Act::HangUp) | None => return,
            },
        }
    }
}
