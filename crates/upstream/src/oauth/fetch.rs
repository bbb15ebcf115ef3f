//! OAuth requests: checked URLs, limited sizes, JSON responses.

use super::HttpFetch;
use super::error::{HttpError, OAuthError, clip};
use super::guard::{NetworkReach, UrlGuard};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use toolbooth_core::secret::SecretText;
use tracing::debug;
use url::Url;

const MAX_RESPONSE_BYTES: usize = 256 * 1024;
const MAX_REDIRECTS: usize = 3;

/// An [`HttpFetch`] that stays within a [`UrlGuard`].
pub(super) struct Fetcher<'a> {
    pub(super) http: &'a dyn HttpFetch,
    pub(super) guard: &'a UrlGuard,
}

/// A request body.
pub(super) enum PostBody {
    Form(String),
    Json(Vec<u8>),
}

/// The status and body of a POST response.
pub(super) struct PostResponse {
    pub(super) status: StatusCode,
    body: Bytes,
}

impl PostResponse {
    /// The body as JSON, if it is valid.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl Fetcher<'_> {
    /// Fetches a metadata document; `None` if `url` has none.
    ///
    /// Metadata is public and validated after it was received, so redirects may be followed; each hop is
    /// checked.
    pub(super) async fn metadata<T: DeserializeOwned>(
        &self,
        what: &'static str,
        url: &str,
    ) -> Result<Option<T>, OAuthError> {
        let mut next = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let (url, reach) = self.guard.admit(what, &next)?;
            let response = self.send(Method::GET, &url, reach, None, None).await?;
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            match (response.status(), target) {
                (StatusCode::OK, _) => return Ok(serde_json::from_slice(response.body()).ok()),
                (status, Some(target)) if status.is_redirection() => match url.join(target) {
                    Ok(target) => next = target.into(),
                    Err(_) => return Ok(None),
                },
                (status, _) => {
                    debug!(%status, host = url.host_str(), "no {what} at {}", url.path());
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Posts to an endpoint. Redirects are not followed, because the body contains credentials.
    pub(super) async fn post(
        &self,
        what: &'static str,
        url: &str,
        body: PostBody,
        authorization: Option<&SecretText>,
    ) -> Result<PostResponse, OAuthError> {
        let (url, reach) = self.guard.admit(what, url)?;
        let response = self.send(Method::POST, &url, reach, Some(body), authorization).await?;
        let status = response.status();
        // An outage is not a refusal: no token may be discarded because of it.
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            let host = clip(url.host_str().unwrap_or_default());
            return Err(OAuthError::Unreachable { host, cause: HttpError::Failing(status.as_u16()) });
        }
        Ok(PostResponse { status: response.status(), body: response.into_body() })
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        reach: NetworkReach,
        body: Option<PostBody>,
        authorization: Option<&SecretText>,
    ) -> Result<Response<Bytes>, OAuthError> {
        let unreachable =
            |cause| OAuthError::Unreachable { host: clip(url.host_str().unwrap_or_default()), cause };
        let (content_type, bytes) = match body {
            None => (None, Bytes::new()),
            Some(PostBody::Form(form)) => (Some("application/x-www-form-urlencoded"), form.into()),
            Some(PostBody::Json(json)) => (Some("application/json"), json.into()),
        };
        let mut request = Request::new(bytes);
        *request.method_mut() = method;
        *request.uri_mut() = url.as_str().parse().map_err(|_| unreachable(HttpError::Unreachable))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(content_type) = content_type {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        if let Some(secret) = authorization {
            let mut value =
                HeaderValue::from_str(secret.expose()).map_err(|_| unreachable(HttpError::Unreachable))?;
            value.set_sensitive(true);
            request.headers_mut().insert(http::header::AUTHORIZATION, value);
        }
        request.extensions_mut().insert(reach);
        let response = self.http.fetch(request).await.map_err(unreachable)?;
        if response.body().len() > MAX_RESPONSE_BYTES {
            return Err(unreachable(HttpError::TooLarge));
        }
        Ok(response)
    }
}
