//! Reads the bearer token from the `Authorization` header.

use super::refusal::Unidentified;
use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Maximum length of a token, in bytes.
pub(super) const MAX_TOKEN: usize = 16 * 1024;

/// The token of a request. Only the header may carry it, because URLs end up in logs.
pub(super) fn token(headers: &HeaderMap) -> Result<&str, Unidentified> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Unidentified::Missing)?;
    if values.next().is_some() || value.len() > MAX_TOKEN {
        return Err(Unidentified::refused("the header `Authorization` is too long, or given twice"));
    }
    let not_bearer = || Unidentified::refused("the header `Authorization` is not `Bearer TOKEN`");
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(not_bearer)?;
    let token = token.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || !token.bytes().all(plain) {
        return Err(not_bearer());
    }
    Ok(token)
}
