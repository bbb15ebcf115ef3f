//! Responses of HTTP services.

use super::error::RestError;
use super::secret_filter::SecretFilter;
use crate::http::PooledConnection;
use crate::retry_after;
use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, RETRY_AFTER};
use ::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;

/// How much of a service's error text is passed on.
const MAX_REFUSAL_CHARS: usize = 2000;

/// A response that counts as a result, successful or not.
#[derive(Debug, Clone, PartialEq)]
pub enum RestAnswer {
    /// JSON.
    Json(Value),
    /// Text.
    Text(String),
    /// An image or audio, in Base64.
    Media {
        /// The MIME type that the service sent.
        mime: String,
        /// Its content.
        base64: String,
    },
    /// The service refused the request.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The response text.
        text: String,
    },
}

/// Reads a response to its end.
pub(super) async fn read(
    response: Response<Incoming>,
    connection: PooledConnection,
    max_bytes: usize,
    secrets: &SecretFilter,
) -> Result<RestAnswer, RestError> {
    let (parts, body) = response.into_parts();
    let header = |name| parts.headers.get(name).and_then(|value: &::http::HeaderValue| value.to_str().ok());
    let status = parts.status;
    let retry_after = header(RETRY_AFTER).and_then(|wait| retry_after::read(wait, header(DATE)));
    match status {
        StatusCode::TOO_MANY_REQUESTS => return Err(RestError::RateLimited { retry_after }),
        StatusCode::UNAUTHORIZED => return Err(RestError::NeedsAuth),
        StatusCode::REQUEST_TIMEOUT => return Err(RestError::Failed { status: 408, retry_after }),
        status if status.is_server_error() => {
            return Err(RestError::Failed { status: status.as_u16(), retry_after });
        }
        _ => {}
    }
    let too_large = || RestError::TooLarge { limit: max_bytes };
    if header(CONTENT_LENGTH)
        .and_then(|length| length.parse::<usize>().ok())
        .is_some_and(|length| length > max_bytes)
    {
        return Err(too_large());
    }
    let body = match Limited::new(body, max_bytes).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(too_large()),
        Err(_) => return Err(RestError::Lost { reason: "its response ended early".into() }),
    };
    connection.give_back();
    let mime = header(CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let mime = mime.to_ascii_lowercase();
    if !status.is_success() {
        let text = secrets.redact(String::from_utf8_lossy(&body).into_owned());
        let text = text.chars().take(MAX_REFUSAL_CHARS).collect();
        return Ok(RestAnswer::Refused { status: status.as_u16(), text });
    }
    if mime.starts_with("image/") && mime != "image/svg+xml" || mime.starts_with("audio/") {
        return Ok(RestAnswer::Media { mime, base64: STANDARD.encode(&body) });
    }
    let text = secrets.redact(String::from_utf8_lossy(&body).into_owned());
    let is_json = mime.ends_with("/json") || mime.ends_with("+json") || mime.is_empty();
    match serde_json::from_str(&text) {
        Ok(value) if is_json => Ok(RestAnswer::Json(value)),
        _ => Ok(RestAnswer::Text(text)),
    }
}
