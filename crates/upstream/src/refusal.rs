//! A server that refuses the gateway until it sees a better credential.

use crate::error::UpstreamError;
use crate::http::Credential;
use crate::oauth::Next;
use ::http::header::WWW_AUTHENTICATE;
use ::http::{HeaderMap, StatusCode};

/// How often a refused request is repeated after new authorisation.
const ROUNDS: usize = 3;

/// The refusals one request has met so far.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    met: usize,
}

impl Refusals {
    /// Whether a status refuses the credential.
    pub(crate) fn is_one(status: StatusCode) -> bool {
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// Answers a refusal: `Ok` when the request may be sent again, with the credential as it is then.
    pub(crate) async fn answer(
        &mut self,
        server: &str,
        credential: &Credential,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<(), UpstreamError> {
        let challenge =
            headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        self.met += 1;
        let next = credential.challenged(status.as_u16(), challenge.as_deref()).await;
        if self.met <= ROUNDS && matches!(next, Some(Next::Retry)) {
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
