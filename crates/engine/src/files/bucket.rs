//! Access to an S3 bucket with the gateway's own HTTP client and its trusted certificates.

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
use toolbooth_upstream::http::{HttpOrigin, OriginClient, SendError};

/// The connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the bucket may take to begin a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of HTTP clients, one per host. A bucket has one host, or two after a move.
const MAX_HOSTS: usize = 8;

/// Blob storage in a bucket. No connection is opened before the first read or write.
pub fn open_bucket(bucket: &Bucket) -> Result<Blobs, BlobError> {
    Blobs::in_bucket(bucket, BucketClient::default())
}

/// Sends the requests of `object_store`.
#[derive(Debug, Default)]
struct BucketClient {
    clients: Mutex<HashMap<String, Arc<OriginClient>>>,
}

impl BucketClient {
    fn client(&self, origin: HttpOrigin) -> Arc<OriginClient> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MAX_HOSTS {
            clients.clear();
        }
        let key = format!("{}://{}", origin.scheme, origin.authority);
        clients.entry(key).or_insert_with(|| OriginClient::new(origin, CONNECT_TIMEOUT)).clone()
    }
}

#[async_trait]
impl HttpService for BucketClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut head, body) = request.into_parts();
        let invalid = |why: &str| HttpError::new(HttpErrorKind::Request, io::Error::other(why.to_owned()));
        let origin = HttpOrigin::parse(&head.uri.to_string()).map_err(|_| invalid("the URL has no host"))?;
        head.uri = origin.path.parse().map_err(|_| invalid("the URL has no valid path"))?;
        let host = HeaderValue::from_str(origin.authority.as_str())
            .map_err(|_| invalid("the URL has no valid host"))?;
        head.headers.insert(header::HOST, host);
        head.headers.insert(header::CONTENT_LENGTH, body.content_length().into());
        let client = self.client(origin);
        let answered = client.send_streaming(http::Request::from_parts(head, body));
        let answer = match tokio::time::timeout(RESPONSE_TIMEOUT, answered).await {
            Err(_) => {
                return Err(HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut)));
            }
            Ok(Err(SendError::NotSent(why))) => {
                return Err(HttpError::new(HttpErrorKind::Connect, io::Error::other(why)));
            }
            Ok(Err(SendError::Broken(why))) => {
                return Err(HttpError::new(HttpErrorKind::Interrupted, io::Error::other(why)));
            }
            Ok(Ok(answer)) => answer,
        };
        let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
        Ok(answer.map(|body| HttpResponseBody::new(body.map_err(broken))))
    }
}
