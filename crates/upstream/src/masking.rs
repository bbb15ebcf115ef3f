//! Masks a server's own secrets in its answers: some servers repeat the credential they were given.

use crate::peer::PeerAnswer;
use std::borrow::Cow;
use toolbooth_core::secret::KnownSecrets;
use toolbooth_wire::RpcError;
use toolbooth_wire::long::LongResult;

impl PeerAnswer {
    /// Masks these secrets in an answer to a request of `method`. An answer without them is returned
    /// unchanged.
    #[must_use]
    pub(crate) fn masked(self, method: &str, secrets: &KnownSecrets) -> Self {
        match self {
            Self::Whole(Err(error)) => Self::Whole(Err(masked_error(error, secrets))),
            listed if is_list(method) => listed,
            Self::Whole(Ok(result)) => Self::Whole(Ok(secrets.mask_json(&result).unwrap_or(result))),
            Self::Long(long) if may_be_in(&long, secrets) => match secrets.mask_json(&long.whole()) {
                Some(masked) => Self::Whole(Ok(masked)),
                None => Self::Long(long),
            },
            Self::Long(long) => Self::Long(long),
        }
    }
}

/// Whether a method lists names and schemas. Clients call by them, so masking would break the names.
fn is_list(method: &str) -> bool {
    matches!(method, "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list")
}

/// Whether a long result contains one of the secrets, or may contain one behind escapes.
fn may_be_in(long: &LongResult, secrets: &KnownSecrets) -> bool {
    let pieces = || long.pieces().iter().map(|piece| &**piece);
    !secrets.is_empty()
        && (secrets.are_in_pieces(pieces()) || pieces().any(|piece| memchr::memchr(b'\\', piece).is_some()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::json::RawJson;

    // A tool whose name is masked could not be called.
    #[test]
    fn lists_stay_as_they_are_and_results_are_masked() {
        let secrets = KnownSecrets::new(["correct-horse"]);
        let cases = [
            ("tools/list", false),
            ("prompts/list", false),
            ("resources/list", false),
            ("resources/templates/list", false),
            ("tools/call", true),
            ("prompts/get", true),
            ("resources/read", true),
            ("completion/complete", true),
        ];
        for (method, is_masked) in cases {
            let result = RawJson::parse(r#"{"name":"correct-horse"}"#.to_owned()).expect("JSON");
            let answer = PeerAnswer::Whole(Ok(result)).masked(method, &secrets);
            let PeerAnswer::Whole(Ok(masked)) = answer else { panic!("{method} has no result") };
            assert_eq!(masked.as_str().contains("[redacted]"), is_masked, "{method}");
            let error = RpcError::new(-32000, "bad correct-horse".to_owned());
            let answer = PeerAnswer::Whole(Err(error)).masked(method, &secrets);
            let PeerAnswer::Whole(Err(masked)) = answer else { panic!("{method} has no error") };
            assert_eq!(masked.message, "bad [redacted]", "{method}");
        }
    }
}
