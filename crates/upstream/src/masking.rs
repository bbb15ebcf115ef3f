//! A server's own secrets, masked in its answers: some servers repeat the credential they were given.

use crate::peer::PeerAnswer;
use std::borrow::Cow;
use toolbooth_core::secret::KnownSecrets;
use toolbooth_wire::RpcError;

impl PeerAnswer {
    /// The answer without these secrets. What holds none of them stays as it is, to the byte.
    #[must_use]
    pub(crate) fn masked(self, secrets: &KnownSecrets) -> Self {
        match self {
            Self::Whole(Ok(result)) => Self::Whole(Ok(secrets.mask_json(&result).unwrap_or(result))),
            Self::Whole(Err(error)) => Self::Whole(Err(masked_error(error, secrets))),
            Self::Long(long) if secrets.are_in_pieces(long.pieces().iter().map(|piece| &**piece)) => {
                let whole = long.whole();
                Self::Whole(Ok(secrets.mask_json(&whole).unwrap_or(whole)))
            }
            Self::Long(long) => Self::Long(long),
        }
    }
}

fn masked_error(mut error: RpcError, secrets: &KnownSecrets) -> RpcError {
    if let Cow::Owned(masked) = secrets.mask(&error.message) {
        error.message = masked;
    }
    if let Some(masked) = error.data.as_ref().and_then(|data| secrets.mask_json(data)) {
        error.data = Some(masked);
    }
    error
}
