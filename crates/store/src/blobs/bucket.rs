//! Blobs in a bucket of S3 or of an S3-compatible service.

use super::BlobError;
use object_store::aws::AmazonS3Builder;
use object_store::client::HttpConnector;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

pub use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};

/// The part size of a multipart upload. S3 requires at least 5 MiB except for the last part, and at most 10,000 parts.
pub(super) const PIECE: usize = 8 << 20;
/// The region if none is configured.
const REGION: &str = "us-east-1";

/// A bucket and its credentials.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// The prefix of every object key.
    pub prefix: String,
    /// The endpoint, unless the bucket is on AWS.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The access key ID.
    pub access_key: SecretText,
    /// The secret access key.
    pub secret_key: SecretText,
    /// The session token, for temporary credentials.
    pub session_token: Option<SecretText>,
}

/// Returns the gateway's own HTTP client for every connection.
#[derive(Debug)]
struct Connector(HttpClient);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.0.clone())
    }
}

impl Bucket {
    pub(super) fn open(&self, service: impl HttpService) -> Result<Arc<dyn ObjectStore>, BlobError> {
        let retry =
            RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(30), ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.name)
            .with_region(self.region.as_deref().unwrap_or(REGION))
            .with_access_key_id(self.access_key.expose())
            .with_secret_access_key(self.secret_key.expose())
            .with_retry(retry)
            .with_http_connector(Connector(HttpClient::new(service)));
        if let Some(token) = &self.session_token {
            builder = builder.with_token(token.expose());
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
        }
        let store = builder.build()?;
        Ok(match self.prefix.as_str() {
            "" => Arc::new(store),
            prefix => Arc::new(PrefixStore::new(store, prefix)),
        })
    }
}
