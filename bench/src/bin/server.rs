//! `bench-server`: a fast MCP server with test data, over HTTP or stdio, in both eras.

use anyhow::Result;
use bytes::Bytes;
use clap::Parser;
use http::{Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toolbooth_bench::answers::{AnswerParts, BenchServer, ServerReply};

/// The longest request.
const REQUEST_LIMIT_BYTES: usize = 32 * 1024 * 1024;

/// A fast MCP server with test data.
#[derive(Parser)]
struct BenchServerArguments {
    /// Serve Streamable HTTP at this address
    #[arg(long, required_unless_present = "stdio", conflicts_with = "stdio")]
    listen: Option<SocketAddr>,
    /// Serve stdin and stdout
    #[arg(long)]
    stdio: bool,
    /// The number of tools to list
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tools: u32,
    /// The delay before the server reads its first request
    #[arg(long, default_value_t = 0)]
    start_delay_ms: u64,
}

struct HttpServer {
    answers: BenchServer,
    sessions: AtomicU64,
}

fn main() -> Result<()> {
    let arguments = BenchServerArguments::parse();
    // One thread, so that its cost does not depend on the number of free cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::time::sleep(Duration::from_millis(arguments.start_delay_ms)).await;
        let answers = BenchServer::new(arguments.tools as usize);
        match arguments.listen {
            Some(address) => {
                serve_http(Arc::new(HttpServer { answers, sessions: AtomicU64::new(0) }), address).await
            }
            None => serve_stdio(&answers).await,
        }
    })?;
    // The runtime would wait for the thread that reads stdin.
    std::process::exit(0)
}

async fn serve_stdio(answers: &BenchServer) -> Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut out = tokio::io::stdout();
    while let Some(line) = lines.next_line().await? {
        if let Some(ServerReply::Message(parts) | ServerReply::Session(parts)) =
            answers.answer(line.as_bytes()).await
        {
            let mut text = parts.concat();
            text.push(b'\n');
            out.write_all(&text).await?;
            out.flush().await?;
        }
    }
    Ok(())
}

async fn serve_http(server: Arc<HttpServer>, address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    println!("listening http://{}/mcp", listener.local_addr()?);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Probably out of file descriptors: wait until a connection is closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        tokio::spawn(serve_connection(server.clone(), stream));
    }
}

async fn serve_connection(server: Arc<HttpServer>, stream: TcpStream) {
    drop(stream.set_nodelay(true));
    let service = service_fn(|request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(respond(&server, request).await) }
    });
    // A client that disconnects is not an error.
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn respond(server: &HttpServer, request: Request<Incoming>) -> Response<PartsBody> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/mcp") => {}
        (&Method::DELETE, "/mcp") => return bare(StatusCode::OK),
        (&Method::GET, "/stats") => return stats(server),
        (_, "/mcp") => return bare(StatusCode::METHOD_NOT_ALLOWED),
        _ => return bare(StatusCode::NOT_FOUND),
    }
    let session = request.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
    let known = session.is_none_or(|id| {
        id.strip_prefix("bench-")
            .and_then(|number| number.parse().ok())
            .is_some_and(|number: u64| number <= server.sessions.load(Ordering::Relaxed))
    });
    if !known {
        return bare(StatusCode::NOT_FOUND);
    }
    let Ok(body) = Limited::new(request.into_body(), REQUEST_LIMIT_BYTES).collect().await else {
        return bare(StatusCode::BAD_REQUEST);
    };
    match server.answers.answer(&body.to_bytes()).await {
        None => bare(StatusCode::BAD_REQUEST),
        Some(ServerReply::Accepted) => bare(StatusCode::ACCEPTED),
        Some(ServerReply::Message(parts)) => json(parts),
        Some(ServerReply::Session(parts)) => {
            let number = server.sessions.fetch_add(1, Ordering::Relaxed) + 1;
            let mut response = json(parts);
            if let Ok(id) = format!("bench-{number}").parse() {
                response.headers_mut().insert("mcp-session-id", id);
            }
            response
        }
    }
}

fn stats(server: &HttpServer) -> Response<PartsBody> {
    let messages = server.answers.messages.load(Ordering::Relaxed);
    json(vec![Bytes::from(format!("{{\"messages\":{messages}}}"))])
}

fn bare(status: StatusCode) -> Response<PartsBody> {
    let mut response = Response::new(PartsBody::default());
    *response.status_mut() = status;
    response
}

fn json(parts: AnswerParts) -> Response<PartsBody> {
    let mut response =
        Response::new(PartsBody { remaining: parts.iter().map(Bytes::len).sum(), parts: parts.into_iter() });
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A body in parts with a known length.
#[derive(Default)]
struct PartsBody {
    parts: std::vec::IntoIter<Bytes>,
    remaining: usize,
}

impl Body for PartsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.parts.next();
        self.remaining -= part.as_ref().map_or(0, Bytes::len);
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.as_slice().is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining as u64)
    }
}
