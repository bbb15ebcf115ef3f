//! Waits on this machine for a browser that comes back from a sign-in.
//!
//! Anybody on this machine, and any page in its browser, can knock here: only the answer to our own question counts,
//! and everything else is sent away.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The longest head of a request that is read.
const LONGEST_HEAD: usize = 32 * 1024;
/// How long a visitor may take; browsers open connections that they never use.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many visitors are heard at once.
const MOST_VISITORS: usize = 32;
/// What the person sees then.
const THANKS: &str = "<!doctype html><meta charset=\"utf-8\"><title>Toolbooth</title>\
<p>Toolbooth has its answer. You can close this page; the terminal says how it went.</p>";

/// A place to come back to.
pub struct Callback {
    listener: TcpListener,
    /// Its port.
    pub port: u16,
}

impl Callback {
    /// Listens on this port; without one, on the usual one or any other.
    pub async fn open(port: Option<u16>, usual: u16) -> io::Result<Self> {
        let listener = match port {
            Some(port) => TcpListener::bind(("127.0.0.1", port)).await?,
            None => match TcpListener::bind(("127.0.0.1", usual)).await {
                Ok(listener) => listener,
                Err(_) => TcpListener::bind(("127.0.0.1", 0)).await?,
            },
        };
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Waits for the answer that carries `state`; gives its query.
    pub async fn answer(self, state: &str) -> io::Result<String> {
        let mut visitors = JoinSet::new();
        loop {
            tokio::select! {
                Some(query) = visitors.join_next() => {
                    if let Ok(Some(query)) = query {
                        return Ok(query);
                    }
                }
                visitor = self.listener.accept(), if visitors.len() < MOST_VISITORS => {
                    let (stream, _) = visitor?;
                    let state = state.to_owned();
                    visitors.spawn(async move {
                        tokio::time::timeout(PATIENCE, hear(stream, &state)).await.ok().flatten()
                    });
                }
            }
        }
    }
}

/// Hears one visitor; the query, if it is the answer.
async fn hear(mut stream: TcpStream, state: &str) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let query = answer_in(&head, state);
    let (status, page) = match query {
        Some(_) => ("200 OK", THANKS),
        None => ("404 Not Found", ""),
    };
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\ncontent-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\n\
         connection: close\r\n\r\n{page}",
        page.len()
    );
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
    query
}

fn answer_in(head: &[u8], state: &str) -> Option<String> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let query = line.strip_prefix("GET /callback?")?.split(' ').next()?;
    (state_of(query) == Some(state)).then(|| query.to_owned())
}

/// The state in a query or in an address. Ours are made of letters that need no encoding.
pub fn state_of(text: &str) -> Option<&str> {
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    query.split('&').find_map(|pair| pair.strip_prefix("state="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_our_own_question_counts() {
        let cases = [
            ("GET /callback?code=c&state=s1 HTTP/1.1\r\n\r\n", Some("code=c&state=s1")),
            (
                "GET /callback?error=access_denied&state=s1 HTTP/1.1\r\n\r\n",
                Some("error=access_denied&state=s1"),
            ),
            ("GET /callback?code=c&state=s2 HTTP/1.1\r\n\r\n", None),
            ("GET /callback?code=c HTTP/1.1\r\n\r\n", None),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", None),
            ("POST /callback?code=c&state=s1 HTTP/1.1\r\n\r\n", None),
            ("\u{0}\r\n\r\n", None),
        ];
        for (head, expected) in cases {
            assert_eq!(answer_in(head.as_bytes(), "s1").as_deref(), expected, "{head}");
        }
        assert_eq!(state_of("https://as.example/authorize?a=b&state=xyz&c=d"), Some("xyz"));
    }
}
