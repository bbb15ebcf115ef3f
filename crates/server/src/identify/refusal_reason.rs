//! Reasons why a credential was refused: one text for the log, and a shorter one that the client may know.

use std::borrow::Cow;

/// Maximum length of an audience in the log, in characters.
const MAX_AUDIENCE: usize = 120;

/// Why a credential was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// It is not a signed token that the gateway can read.
    Malformed(&'static str),
    /// It names a key that the issuer does not publish, or not for its algorithm.
    UnknownKey,
    /// No key of the issuer made its signature.
    Signature,
    /// Another issuer made it.
    Issuer,
    /// It is for another resource or client.
    Audience {
        /// The audience in the token, shortened.
        of_token: String,
    },
    /// It has expired.
    Expired,
    /// Its time has not begun.
    NotYetValid,
    /// One of its claims is missing or not usable.
    Claim(&'static str),
    /// Any other credential, such as a token that the gateway issued.
    Other(&'static str),
}

impl RefusalReason {
    /// The token is for this audience, which is not accepted.
    pub(super) fn audience(of_token: Option<&serde_json::Value>) -> Self {
        // Only a token with a valid signature gets here, but a provider may let its clients choose the audience.
        let text = of_token.map(ToString::to_string).unwrap_or_else(|| "(none)".to_owned());
        let plain = text.chars().map(|c| if c.is_control() { '?' } else { c });
        Self::Audience { of_token: plain.take(MAX_AUDIENCE).collect() }
    }

    /// The reason for the operator. It has nothing of the token but its audience.
    pub(super) fn for_log(&self) -> Cow<'static, str> {
        match self {
            Self::Malformed(why) | Self::Claim(why) | Self::Other(why) => (*why).into(),
            Self::UnknownKey => "no key of the issuer matches it".into(),
            Self::Signature => "its signature is wrong".into(),
            Self::Issuer => "it is from another issuer".into(),
            Self::Audience { of_token } => format!("it is for another audience: {of_token}").into(),
            Self::Expired => "it has expired".into(),
            Self::NotYetValid => "it is not valid yet".into(),
        }
    }

    /// The reason for the client, if it may know it; a text for `error_description` (RFC 6750, 3).
    ///
    /// It must not help to forge or to find a credential. The claims of a token are read only after its signature has been
    /// checked, so only the holder of a token that the issuer made learns which claim is wrong, and the holder can read the
    /// claims anyway. An accepted audience or issuer is not named. A wrong signature and an unknown key read the same,
    /// because the difference would tell which keys the gateway has cached. Tokens of the gateway are opaque and the secret
    /// of a proxy is shared: whether one has expired, was revoked or never existed is not told, because it would
    /// confirm a stolen or guessed one.
    pub(super) fn for_client(&self) -> Option<&'static str> {
        match self {
            Self::Malformed(_) => Some("the token is malformed, or not of an accepted kind"),
            Self::UnknownKey | Self::Signature => {
                Some("the token is not signed by a current key of the issuer")
            }
            Self::Issuer => Some("the token is from another issuer"),
            Self::Audience { .. } => Some("the token is for another audience"),
            Self::Expired => Some("the token has expired"),
            Self::NotYetValid => Some("the token is not valid yet"),
            Self::Claim(_) => Some("a claim of the token is missing or not usable"),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn clients_learn_reasons_that_do_not_help_an_attacker() {
        let reasons = [
            RefusalReason::Malformed("its algorithm is not accepted"),
            RefusalReason::UnknownKey,
            RefusalReason::Signature,
            RefusalReason::Issuer,
            RefusalReason::audience(Some(&json!("https://other.example"))),
            RefusalReason::Expired,
            RefusalReason::NotYetValid,
            RefusalReason::Claim("it has no user claim"),
        ];
        for reason in &reasons {
            let text = reason.for_client().expect("a reason");
            // The characters of RFC 6750, without quotes and backslashes.
            assert!(
                text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte)),
                "{text}"
            );
            assert!(!text.contains("example"), "{text}");
        }
        assert_eq!(RefusalReason::UnknownKey.for_client(), RefusalReason::Signature.for_client());
        assert_eq!(RefusalReason::Other("it has expired").for_client(), None);
    }

    #[test]
    fn an_audience_in_the_log_is_one_short_line() {
        let named = |audience: Option<serde_json::Value>| {
            RefusalReason::audience(audience.as_ref()).for_log().into_owned()
        };
        assert_eq!(named(Some(json!(["a", "b"]))), r#"it is for another audience: ["a","b"]"#);
        assert_eq!(named(None), "it is for another audience: (none)");
        let hostile = named(Some(json!(format!("a\n\u{1b}[2J{}", "x".repeat(10_000)))));
        assert!(hostile.len() < 200 && !hostile.contains(char::is_control), "{hostile}");
    }
}
