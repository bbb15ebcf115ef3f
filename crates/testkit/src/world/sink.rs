//! A small HTTP server inside the test that takes what is posted to it, and says so or not, as told.

use ::http::{HeaderMap, Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// Something that was posted.
#[derive(Clone, Debug)]
pub struct Posted {
    /// To which path.
    pub path: String,
    /// With which headers.
    pub headers: HeaderMap,
    /// What.
    pub body: Bytes,
    /// What it was answered with.
    pub status: u16,
}

impl Posted {
    /// What was posted, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("what is posted is JSON")
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A server that takes posts. It ends with the test's runtime.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Where it is, without a path.
    pub url: String,
    posted: Arc<Mutex<Vec<Posted>>>,
}

impl Sink {
    /// Starts one that answers with these statuses in turn, and with 200 from then on.
    pub async fn answering(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let sink = Self { url, posted: Arc::default() };
        tokio::spawn(serve(listener, statuses.to_vec(), sink.posted.clone()));
        sink
    }

    /// Everything that was posted so far.
    pub fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, statuses: Vec<u16>, posted: Arc<Mutex<Vec<Posted>>>) {
    let statuses = Arc::new(statuses);
    while let Ok((stream, _)) = listener.accept().await {
        let (statuses, posted) = (statuses.clone(), posted.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| take(request, statuses.clone(), posted.clone()));
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn take(
    request: Request<Incoming>,
    statuses: Arc<Vec<u16>>,
    posted: Arc<Mutex<Vec<Posted>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut posted = posted.lock().unwrap_or_else(PoisonError::into_inner);
    let status = statuses.get(posted.len()).copied().unwrap_or(200);
    posted.push(Posted { path: head.uri.path().to_owned(), headers: head.headers, body, status });
    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
    *response.status_mut() = status.try_into().expect("a status");
    Ok(response)
}
