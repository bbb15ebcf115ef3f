//! Handles 401 and 403 responses: obtains a new credential and decides whether to retry.

use crate::error::UpstreamError;
use crate::http::ServerCredential;
use crate::oauth::RetryDecision;
use ::http::header::WWW_AUTHENTICATE;
use ::http::{HeaderMap, StatusCode};

/// Maximum number of retries with a new credential.
const MAX_RETRIES: usize = 3;

/// Counts the refusals of one request.
#[derive(Debug, Default)]
pub(crate) struct AuthRefusals {
    met: usize,
}

impl AuthRefusals {
    /// Whether the status is a refused credential.
    pub(crate) fn is_one(status: StatusCode) -> bool {
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// Handles a refusal. `Ok` means that the request may be sent again with the current credential.
    pub(crate) async fn answer(
        &mut self,
        server: &str,
        credential: &ServerCredential,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<(), UpstreamError> {
        let challenge =
            headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        self.met += 1;
        let next = credential.challenged(status.as_u16(), challenge.as_deref()).await;
        if self.met <= MAX_RETRIES && matches!(next, Some(RetryDecision::Retry)) {
            return Ok(());
        }
        Err(UpstreamError::NeedsAuth {
            server: server.to_owned(),
            challenge,
            status: status.as_u16(),
            remedy: credential.remedy(),
        })
    }
}
