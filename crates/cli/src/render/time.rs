//! Formats times.

use std::time::{SystemTime, UNIX_EPOCH};

/// A time in UTC, such as `2026-07-28 09:30:05Z`.
pub fn moment(at_ms: i64) -> String {
    let seconds = at_ms.div_euclid(1000);
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

/// The date a number of days after 1970-01-01. Years are counted from March, so that leap days come last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Milliseconds since 1970, for times that are shown relative to now.
#[allow(clippy::disallowed_methods, reason = "a command that prints has no gateway and no clock")]
pub fn wall_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The approximate time since a moment.
pub fn ago(at_ms: i64) -> String {
    let passed = wall_ms().saturating_sub(at_ms).max(0) / 1000;
    match passed {
        0..120 => format!("{passed} s ago"),
        120..7_200 => format!("{} min ago", passed / 60),
        7_200..172_800 => format!("{} h ago", passed / 3_600),
        _ => format!("{} days ago", passed / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        let cases = [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399_999, "2000-02-28 23:59:59Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_785_231_005_123, "2026-07-28 09:30:05Z"),
            (-1, "1969-12-31 23:59:59Z"),
        ];
        for (at_ms, expected) in cases {
            assert_eq!(moment(at_ms), expected, "{at_ms}");
        }
    }
}
