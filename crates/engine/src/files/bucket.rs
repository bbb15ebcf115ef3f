//! The way to a bucket: the gateway's own HTTP client, with its own trust in certificates.

use async_trait::async_trait;
use http::header::{self, HeaderValue};
use http_body_util::BodyExt;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use toolbooth_store::blobs::bucket::{
    HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use toolbooth_store::blobs::{BlobError, Blobs, Bucket};
use toolbooth_upstream::http::{Client, Failure, Origin};

/// How long a bucket may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may take to begin an answer.
const ANSWER: Duration = Duration::from_secs(60);
/// A bucket has one host, or two when it is moved.
const MAX_HOSTS: usize = 8;

/// Blobs in a bucket. Nothing is dialled before something is read or written.
pub fn open_bucket(bucket: &Bucket) -> Result<Blobs, BlobError> {
    Blobs::in_bucket(bucket, Dialler::default())
}

/// Sends the requests of whoever knows what a bucket wants.
#[derive(Debug, Default)]
struct Dialler {
    clients: Mutex<HashMap<String, Arc<Client>>>,
}

impl Dialler {
    fn client(&self, origin: Origin) -> Arc<Client> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MAX_HOSTS {
            clients.clear();
        }
        let key = format!("{}://{}", origin.scheme, origin.authority);
        clients.entry(key).or_insert_with(|| Client::new(origin, CONNECT)).clone()
    }
}

#[async_trait]
impl HttpService for Dialler {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut head, body) = request.into_parts();
        let wrong = |why: &str| HttpError::new(HttpErrorKind::Request, io::Error::other(why.to_owned()));
        let origin = Origin::parse(&head.uri.to_string()).map_err(|_| wrong("no address"))?;
        head.uri = origin.path.parse().map_err(|_| wrong("no path"))?;
        let host = HeaderValue::from_str(origin.authority.as_str()).map_err(|_| wrong("no host"))?;
        head.headers.insert(header::HOST, host);
        head.headers.insert(header::CONTENT_LENGTH, body.content_length().into());
        let client = self.client(origin);
        let answered = client.send_streaming(http::Request::from_parts(head, body));
        let answer = match tokio::time::timeout(ANSWER, answered).await {
            Err(_) => {
                return Err(HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut)));
            }
            Ok(Err(Failure::NotSent(why))) => {
                return Err(HttpError::new(HttpErrorKind::Connect, io::Error::other(why)));
            }
            Ok(Err(Failure::Broken(why))) => {
                return Err(HttpError::new(HttpErrorKind::Interrupted, io::Error::other(why)));
            }
            Ok(Ok(answer)) => answer,
        };
        let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
        Ok(answer.map(|body| HttpResponseBody::new(body.map_err(broken))))
    }
}
