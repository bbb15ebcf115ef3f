//! Listens on this machine for the redirect at the end of an OAuth sign-in.
//!
//! Every program on this machine, and every page in its browser, can send requests here. Only the response with the
//! right `state` is accepted; all others get a 404.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The maximum size of a request's head.
const MAX_HEAD: usize = 32 * 1024;
/// The timeout of a connection; browsers open connections that they never use.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 32;
/// The page that the user sees after the redirect.
const FINAL_PAGE: &str = "<!doctype html><meta charset=\"utf-8\"><title>Toolbooth</title>\
<p>The sign-in has finished. You can close this page; the terminal shows the result.</p>";

/// A listener for the redirect of a sign-in.
pub struct CallbackListener {
    listener: TcpListener,
    /// The port it listens on.
    pub port: u16,
}

impl CallbackListener {
    /// Listens on this port; without one, on the usual port or any free one.
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

    /// Waits for the redirect with this `state`, and returns its query.
    pub async fn answer(self, state: &str) -> io::Result<String> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(query) = connections.join_next() => {
                    if let Ok(Some(query)) = query {
                        return Ok(query);
                    }
                }
                connection = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    let (stream, _) = connection?;
                    let state = state.to_owned();
                    connections.spawn(async move {
                        tokio::time::timeout(CONNECTION_TIMEOUT, serve_connection(stream, &state)).await.ok().flatten()
                    });
                }
            }
        }
    }
}

/// Serves one connection, and returns the query if it is the expected redirect.
async fn serve_connection(mut stream: TcpStream, state: &str) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let query = answer_in(&head, state);
    let (status, page) = match query {
        Some(_) => ("200 OK", FINAL_PAGE),
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

/// The `state` in a query or a URL. Ours needs no percent-encoding.
pub fn state_of(text: &str) -> Option<&str> {
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    query.split('&').find_map(|pair| pair.strip_prefix("state="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_redirect_with_the_right_state_is_accepted() {
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
