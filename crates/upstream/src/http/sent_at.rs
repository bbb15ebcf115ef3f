//! When a server sent a response, by its own clock.

use http::HeaderMap;
use http::header::{AGE, DATE};
use std::time::{Duration, SystemTime};

/// When the server sent a response, from `Date`. A response from a cache is older by its `Age` (RFC 9111, 5.1).
pub fn sent_at(headers: &HeaderMap) -> Option<SystemTime> {
    let date = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?.trim()).ok()?;
    let age = headers.get(AGE).and_then(|age| age.to_str().ok()?.trim().parse::<u32>().ok());
    date.checked_add(Duration::from_secs(age.unwrap_or_default().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_counts_with_the_age_in_a_cache() {
        let of = |pairs: &[(http::HeaderName, &'static str)]| {
            let pairs =
                pairs.iter().map(|(name, value)| (name.clone(), http::HeaderValue::from_static(value)));
            sent_at(&HeaderMap::from_iter(pairs))
        };
        let date = (DATE, "Thu, 01 Jan 1970 00:01:00 GMT");
        let after = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(of(std::slice::from_ref(&date)), after(60));
        assert_eq!(of(&[date.clone(), (AGE, "30")]), after(90));
        assert_eq!(of(&[date, (AGE, "old")]), after(60));
        assert_eq!(of(&[(DATE, "today")]), None);
        assert_eq!(of(&[(AGE, "30")]), None);
    }
}
