//! Tools that are requests to an HTTP service: the operator's template, filled with a call's arguments.
//!
//! Only the operator chooses the target: scheme, host and port are fixed when the template is parsed, and an
//! argument is one path segment or one value. Host names are resolved and checked here, and only checked
//! addresses are connected to. Redirects are followed only within the same origin.

mod address;
mod answer;
mod error;
mod secret_filter;

pub use answer::RestAnswer;
pub use error::{RestError, TemplateError};

use crate::http::{Fetch, HttpOrigin, SendError};
use crate::oauth::NetworkReach;
use ::http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use ::http::{Method, Request, Response, StatusCode};
use address::Address;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use secret_filter::SecretFilter;
use serde_json::{Map, Value};
use std::net::IpAddr;
use toolbooth_core::manifest::{HttpMethod, HttpRequest};
use toolbooth_core::provider::text_of;

/// Maximum number of redirects within the origin.
const MAX_REDIRECTS: usize = 3;
/// Maximum length of a query or body built from arguments.
const MAX_REQUEST_BYTES: usize = 4 << 20;
/// The header with the idempotency key, by which a service recognises a repeated request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Whether a host name may resolve to private networks and this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Private {
    /// Only if the template's host itself is such an address.
    #[default]
    Refused,
    /// The operator allows it.
    Allowed,
}

/// A tool that is a request to an HTTP service.
#[derive(Debug)]
pub struct RestTool {
    method: Method,
    address: Address,
    reach: NetworkReach,
    headers: Vec<(HeaderName, HeaderValue)>,
    request: HttpRequest,
    secrets: SecretFilter,
    fetch: Fetch,
}

impl RestTool {
    /// Parses a template.
    pub fn new(request: &HttpRequest, private: Private) -> Result<Self, TemplateError> {
        let address = Address::parse(request.url.expose())?;
        let mut headers = Vec::with_capacity(request.headers.len());
        for (name, value) in &request.headers {
            let wrong = || TemplateError::Header(name.clone());
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            if [HOST, ::http::header::CONTENT_LENGTH, ::http::header::TRANSFER_ENCODING].contains(&key) {
                return Err(wrong());
            }
            let mut value = HeaderValue::try_from(value.expose()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.push((key, value));
        }
        let method = match request.method {
            HttpMethod::Get => Method::GET,
            HttpMethod::Head => Method::HEAD,
            HttpMethod::Post => Method::POST,
            HttpMethod::Put => Method::PUT,
            HttpMethod::Patch => Method::PATCH,
            HttpMethod::Delete => Method::DELETE,
        };
        let reach = reach(address.host(), private);
        let secrets = SecretFilter::of(request);
        Ok(Self {
            method,
            address,
            reach,
            headers,
            request: request.clone(),
            secrets,
            fetch: Fetch::default(),
        })
    }

    /// The host and port of the service, for display.
    pub fn authority(&self) -> &str {
        self.address.origin.authority.as_str()
    }

    /// Makes a call and reads at most `max_bytes` bytes of the response. Dropping the future cancels it.
    pub async fn call(
        &self,
        arguments: &Map<String, Value>,
        key: Option<&str>,
        max_bytes: usize,
    ) -> Result<RestAnswer, RestError> {
        let (mut path, body) = self.fill(arguments)?;
        for _ in 0..=MAX_REDIRECTS {
            let (response, connection) = self.send(&self.method, &path, body.clone(), key).await?;
            match self.redirected(&response)? {
                Some(elsewhere) => path = elsewhere,
                None => return answer::read(response, connection, max_bytes, &self.secrets).await,
            }
        }
        Err(RestError::Redirected)
    }

    /// Health check: any response that is not a server error counts as success.
    pub async fn probe(&self) -> Result<(), RestError> {
        let path = self.address.fixed_path();
        let (response, _) = self.send(&Method::HEAD, &path, None, None).await?;
        match response.status() {
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                Err(RestError::Failed { status: status.as_u16(), retry_after: None })
            }
            _ => Ok(()),
        }
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<Bytes>,
        key: Option<&str>,
    ) -> Result<(Response<Incoming>, crate::http::PooledConnection), RestError> {
        let origin = HttpOrigin { path: path.to_owned(), ..self.address.origin.clone() };
        let client = self.fetch.within_reach(&origin, self.reach).await.map_err(RestError::of)?;
        let mut request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(HOST, origin.authority.as_str())
            .header(ACCEPT, "application/json, text/*;q=0.9, */*;q=0.5")
            .header(USER_AGENT, concat!("toolbooth/", env!("CARGO_PKG_VERSION")));
        if body.is_some() && !self.headers.iter().any(|(name, _)| *name == CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(key) = key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        if let Some(headers) = request.headers_mut() {
            for (name, value) in &self.headers {
                headers.insert(name, value.clone());
            }
        }
        let request = request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|_| RestError::BadRequest { what: "the URL is not a valid request URL".into() })?;
        client.send(request).await.map_err(|failure| match failure {
            SendError::NotSent(reason) => RestError::Unreachable { reason },
            SendError::Broken(reason) => RestError::Lost { reason },
        })
    }

    /// The path, query and body of one call.
    fn fill(&self, arguments: &Map<String, Value>) -> Result<(String, Option<Bytes>), RestError> {
        let mut used: Vec<&str> = Vec::new();
        let mut path = self.address.fill(arguments, &mut used)?;
        let mut query: Vec<(String, String)> = Vec::new();
        if let Some(pairs) = &self.request.query {
            for (name, template) in pairs {
                used.extend(address::names(template));
                if let Some(value) = address::fill_value(template, arguments) {
                    query.push((name.clone(), value));
                }
            }
        }
        let takes_body = matches!(self.method, Method::POST | Method::PUT | Method::PATCH);
        let body = match &self.request.body {
            Some(template) => {
                used.extend(template.roots());
                let from = Value::Object(arguments.clone());
                let filled = template.apply(&from).map_err(|_| too_long())?.unwrap_or(Value::Null);
                Some(self.body_text(&filled))
            }
            None if takes_body => {
                let rest = arguments.iter().filter(|(name, _)| !used.contains(&name.as_str()));
                let rest: Map<String, Value> =
                    rest.map(|(name, value)| (name.clone(), value.clone())).collect();
                Some(Value::Object(rest).to_string())
            }
            None => None,
        };
        if self.request.query.is_none() && body.is_none() {
            for (name, value) in arguments.iter().filter(|(name, _)| !used.contains(&name.as_str())) {
                match value {
                    Value::Null => {}
                    Value::Array(many) => {
                        query.extend(many.iter().map(|one| (name.clone(), text_of(one))));
                    }
                    one => query.push((name.clone(), text_of(one))),
                }
            }
        }
        address::add_query(&mut path, &query);
        if path.len() > MAX_REQUEST_BYTES.min(64 << 10)
            || body.as_ref().is_some_and(|body| body.len() > MAX_REQUEST_BYTES)
        {
            return Err(too_long());
        }
        Ok((path, body.map(Bytes::from)))
    }

    /// A string is sent as it is if the operator declares a content type other than JSON.
    fn body_text(&self, filled: &Value) -> String {
        let kind = self.headers.iter().find(|(name, _)| *name == CONTENT_TYPE);
        let is_json = kind.is_none_or(|(_, kind)| kind.to_str().is_ok_and(|kind| kind.contains("json")));
        match filled {
            Value::String(text) if !is_json => text.clone(),
            other => other.to_string(),
        }
    }

    /// The redirect target, if it is on the same origin and repeating the request is safe.
    fn redirected(&self, response: &Response<Incoming>) -> Result<Option<String>, RestError> {
        if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let is_safe = self.method == Method::GET || self.method == Method::HEAD;
        let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
        let elsewhere = place.filter(|_| is_safe).and_then(|place| self.address.on_same_origin(place));
        elsewhere.map(Some).ok_or(RestError::Redirected)
    }
}

fn too_long() -> RestError {
    RestError::BadRequest { what: "the arguments are too long".into() }
}

/// The reach of a template's requests: where its host is, unless the operator allows more.
fn reach(host: &str, private: Private) -> NetworkReach {
    if private == Private::Allowed {
        return NetworkReach::Loopback;
    }
    let name = host.to_ascii_lowercase();
    if name == "localhost" || name.ends_with(".localhost") {
        return NetworkReach::Loopback;
    }
    host.parse::<IpAddr>().map_or(NetworkReach::Public, NetworkReach::of)
}

#[cfg(test)]
mod tests;
