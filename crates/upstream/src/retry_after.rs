//! `Retry-After`: how long a server asks to wait before the next request, in seconds or until a date.

use std::time::Duration;

/// Maximum wait that a server can request.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(3600);

/// Reads `Retry-After`, up to a limit. A date is compared with the response's own `Date`, so that a wrong clock on
/// either side does not matter; without one it is ignored.
pub(crate) fn read(value: &str, date: Option<&str>) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = httpdate::parse_http_date(value).ok()?;
            let now = httpdate::parse_http_date(date?.trim()).ok()?;
            // A moment that has passed means no wait.
            until.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read() {
        const NOW: &str = "Wed, 18 Nov 2026 00:00:00 GMT";
        let cases = [
            ("1", None, Some(1)),
            (" 7 ", Some(NOW), Some(7)),
            ("99999999", None, Some(3600)),
            ("-1", Some(NOW), None),
            ("soon", Some(NOW), None),
            ("Wed, 18 Nov 2026 00:00:05 GMT", Some(NOW), Some(5)),
            ("Wed, 18 Nov 2026 00:00:05 GMT", None, None),
            ("Wed, 18 Nov 2026 00:00:05 GMT", Some("now"), None),
            ("Wed, 18 Nov 2026 09:00:00 GMT", Some(NOW), Some(3600)),
            ("Tue, 17 Nov 2026 00:00:00 GMT", Some(NOW), Some(0)),
            ("Wednesday, 18-Nov-26 00:00:09 GMT", Some(NOW), Some(9)),
        ];
        for (value, date, expected) in cases {
            assert_eq!(read(value, date), expected.map(Duration::from_secs), "{value} {date:?}");
        }
    }
}
