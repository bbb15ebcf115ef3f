//! An HTTP server inside the test that records posted requests and answers with given statuses.

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

/// A recorded request.
#[derive(Clone, Debug)]
pub struct PostedRequest {
    /// Its path.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// The status of its answer.
    pub status: u16,
}

impl PostedRequest {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A server that records posted requests. It ends with the test's runtime.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Its URL without a path.
    pub url: String,
    posted: Arc<Mutex<Vec<PostedRequest>>>,
}

impl Sink {
    /// Starts a server that answers with these statuses in turn, then with 200.
    pub async fn answering(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let sink = Self { url, posted: Arc::default() };
        tokio::spawn(serve(listener, statuses.to_vec(), sink.posted.clone()));
        sink
    }

    /// All requests so far.
    pub fn posted(&self) -> Vec<PostedRequest> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, statuses: Vec<u16>, posted: Arc<Mutex<Vec<PostedRequest>>>) {
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
    posted: Arc<Mutex<Vec<PostedRequest>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut posted = posted.lock().unwrap_or_else(PoisonError::into_inner);
    let status = statuses.get(posted.len()).copied().unwrap_or(200);
    posted.push(PostedRequest { path: head.uri.path().to_owned(), headers: head.headers, body, status });
    let mut response = Response::new(Full::new(Bytes::from_static(b"{}")));
    *response.status_mut() = status.try_into().expect("a status");
    Ok(response)
}
