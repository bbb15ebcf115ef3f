//! What a service answered.

use super::error::RestError;
use super::quiet::Quiet;
use crate::http::PooledConnection;
use ::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use ::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use std::time::Duration;

/// How much of what a service says about a wrong request is told.
const LONGEST_REFUSAL: usize = 2000;
/// The longest wait that a service may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// An answer that is a result, good or bad.
#[derive(Debug, Clone, PartialEq)]
pub enum RestAnswer {
    /// JSON.
    Json(Value),
    /// Text.
    Text(String),
    /// An image or a sound, in Base64.
    Media {
        /// Its kind, as the service says.
        mime: String,
        /// Its content.
        base64: String,
    },
    /// The service says that the request was wrong.
    Refused {
        /// With which status.
        status: u16,
        /// What it said.
        text: String,
    },
}

/// Reads an answer to its end.
pub(super) async fn read(
    response: Response<Incoming>,
    connection: PooledConnection,
    longest: usize,
    quiet: &Quiet,
) -> Result<RestAnswer, RestError> {
    let (parts, body) = response.into_parts();
    let header = |name| parts.headers.get(name).and_then(|value: &::http::HeaderValue| value.to_str().ok());
    let status = parts.status;
    let retry_after = header(RETRY_AFTER).and_then(|wait| wait.trim().parse().ok());
    let retry_after = retry_after.map(|seconds| Duration::from_secs(seconds).min(LONGEST_WAIT));
    match status {
        StatusCode::TOO_MANY_REQUESTS => return Err(RestError::RateLimited { retry_after }),
        StatusCode::UNAUTHORIZED => return Err(RestError::NeedsAuth),
        StatusCode::REQUEST_TIMEOUT => return Err(RestError::Failed { status: 408, retry_after }),
        status if status.is_server_error() => {
            return Err(RestError::Failed { status: status.as_u16(), retry_after });
        }
        _ => {}
    }
    let too_large = || RestError::TooLarge { limit: longest };
    if header(CONTENT_LENGTH)
        .and_then(|length| length.parse::<usize>().ok())
        .is_some_and(|length| length > longest)
    {
        return Err(too_large());
    }
    let body = match Limited::new(body, longest).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(too_large()),
        Err(_) => return Err(RestError::Lost { reason: "its answer broke off".into() }),
    };
    connection.give_back();
    let mime = header(CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let mime = mime.to_ascii_lowercase();
    if !status.is_success() {
        let text = quiet.hush(String::from_utf8_lossy(&body).into_owned());
        let text = text.chars().take(LONGEST_REFUSAL).collect();
        return Ok(RestAnswer::Refused { status: status.as_u16(), text });
    }
    if mime.starts_with("image/") && mime != "image/svg+xml" || mime.starts_with("audio/") {
        return Ok(RestAnswer::Media { mime, base64: STANDARD.encode(&body) });
    }
    let text = quiet.hush(String::from_utf8_lossy(&body).into_owned());
    let is_json = mime.ends_with("/json") || mime.ends_with("+json") || mime.is_empty();
    match serde_json::from_str(&text) {
        Ok(value) if is_json => Ok(RestAnswer::Json(value)),
        _ => Ok(RestAnswer::Text(text)),
    }
}
