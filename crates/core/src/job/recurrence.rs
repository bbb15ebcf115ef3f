//! Recurrence: at which times a job is due, in its time zone.
//!
//! Cron patterns are matched with the local time of the zone. A time that a clock change skips is due when the clock
//! has moved on by as much (02:30 becomes 03:30); a time that occurs twice is due once, at the first one. Patterns with
//! a wildcard or a step in the hours run in both passes of a repeated hour.

use super::fields::{DefinitionFields, FaultList};
use crate::words::words;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp, ToSpan, Zoned};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// How late a missed run may start, unless the recurrence says otherwise.
pub const DEFAULT_GRACE_SECONDS: u64 = 3600;
/// The maximum of `grace_seconds`.
const MAX_GRACE_SECONDS: u64 = 30 * 86_400;
/// The maximum of `interval`.
const MAX_INTERVAL: u64 = 10_000;
/// The maximum length of a pattern or a date.
const MAX_TEXT: usize = 256;
/// The maximum number of missed times that are counted.
const MAX_COUNTED: u32 = 1_000;

words! {
    /// The unit of an interval.
    pub enum Frequency ("frequency") {
        /// Every `interval` minutes.
        Minutely = "minutely",
        /// Every `interval` hours.
        Hourly = "hourly",
        /// Every `interval` days.
        Daily = "daily",
        /// Every `interval` weeks.
        Weekly = "weekly",
        /// Every `interval` months; a day that a month does not have is its last day.
        Monthly = "monthly",
    }
}

/// When a job is due, as written. [`Recurrence::compile`] checks it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recurrence {
    /// A cron pattern with five fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The unit of `interval`, instead of a pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<String>,
    /// The number of units between two times; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u64>,
    /// The time zone; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The first possible time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_date: Option<String>,
    /// The last possible time; a date includes the whole day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_date: Option<String>,
    /// How late a missed run may start, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<u64>,
}

/// A recurrence, ready to compute times.
#[derive(Debug, Clone)]
pub struct Schedule {
    rule: DueRule,
    zone: TimeZone,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    grace_ms: i64,
}

#[derive(Debug, Clone)]
enum DueRule {
    Pattern(Box<Cron>, RepeatedHour),
    Every { frequency: Frequency, interval: i64, anchor: DateTime },
}

/// What a pattern does in an hour that a clock change repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RepeatedHour {
    /// It is due in the first pass only.
    FirstPass,
    /// It is due in both passes, because it runs in every hour or every few hours.
    BothPasses,
}

impl RepeatedHour {
    fn of(pattern: &str) -> Self {
        let hours = pattern.split_whitespace().nth(1).unwrap_or_default();
        match hours.contains(['*', '/']) || pattern.trim().eq_ignore_ascii_case("@hourly") {
            true => Self::BothPasses,
            false => Self::FirstPass,
        }
    }
}

/// What to do about a time that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueDecision {
    /// The occurrence to run now; none if all of them are too long ago.
    pub run_ms: Option<i64>,
    /// The number of occurrences that are not run.
    pub missed: u32,
    /// The next occurrence after now.
    pub next_ms: Option<i64>,
}

/// The zones that are part of the binary, so that nothing is read from the machine.
fn zones() -> &'static TimeZoneDatabase {
    static ZONES: OnceLock<TimeZoneDatabase> = OnceLock::new();
    ZONES.get_or_init(TimeZoneDatabase::bundled)
}

impl Recurrence {
    pub(super) fn read(faults: &mut FaultList, value: &serde_json::Value, pointer: String) -> Option<Self> {
        const KNOWN: [&str; 7] =
            ["cron", "frequency", "interval", "timezone", "start_date", "end_date", "grace_seconds"];
        let fields: DefinitionFields<'_> = faults.fields(value, pointer.clone(), &KNOWN)?;
        let recurrence = Self {
            cron: faults.short(&fields, "cron"),
            frequency: faults.short(&fields, "frequency"),
            interval: faults.whole(&fields, "interval", 1, MAX_INTERVAL),
            timezone: faults.short(&fields, "timezone"),
            start_date: faults.short(&fields, "start_date"),
            end_date: faults.short(&fields, "end_date"),
            grace_seconds: faults.whole(&fields, "grace_seconds", 0, MAX_GRACE_SECONDS),
        };
        // Other programs write an interval of 1 beside a pattern; a larger one would be ignored.
        if recurrence.cron.is_some() && recurrence.interval.is_some_and(|interval| interval > 1) {
            faults.add(
                format!("{pointer}/interval"),
                "`interval` counts steps of `frequency`; a pattern in `cron` has its own, such as `*/2`",
            );
            return None;
        }
        match recurrence.compile() {
            Ok(_) => Some(recurrence),
            Err((key, sentence)) => {
                faults.add(format!("{pointer}{key}"), sentence);
                None
            }
        }
    }

    /// Checks the recurrence. The error has the pointer of the wrong field, such as `/cron`.
    pub fn compile(&self) -> Result<Schedule, (&'static str, String)> {
        let zone = match self.timezone.as_deref() {
            None => TimeZone::UTC,
            Some(name) => zones().get(name).map_err(|_| {
                let shown: String = name.chars().take(64).collect();
                ("/timezone", format!("there is no time zone `{shown}`; use a name such as Europe/Berlin"))
            })?,
        };
        let start = moment(self.start_date.as_deref(), &zone, DayEnd::First, "/start_date")?;
        let end = moment(self.end_date.as_deref(), &zone, DayEnd::Last, "/end_date")?;
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            return Err(("/end_date", "`end_date` is before `start_date`".into()));
        }
        let rule = match (self.cron.as_deref(), self.frequency.as_deref()) {
            (Some(_), Some(_)) => return Err(("/frequency", "give `cron` or `frequency`, not both".into())),
            (None, None) => return Err(("", "give `cron`, or `frequency` with `interval`".into())),
            (Some(pattern), None) => {
                DueRule::Pattern(Box::new(parse_pattern(pattern)?), RepeatedHour::of(pattern))
            }
            (None, Some(word)) => {
                let frequency = word.to_ascii_lowercase().parse::<Frequency>().map_err(|_| {
                    let words = Frequency::ALL.map(Frequency::as_str).join(", ");
                    ("/frequency", format!("`frequency` must be one of {words}"))
                })?;
                let anchor = match start {
                    Some(start) => start.to_zoned(zone.clone()).datetime(),
                    // A Monday, at midnight.
                    None => Date::constant(1970, 1, 5).to_datetime(Time::midnight()),
                };
                let interval = i64::try_from(self.interval.unwrap_or(1)).unwrap_or(1).max(1);
                DueRule::Every { frequency, interval, anchor }
            }
        };
        let grace = self.grace_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).min(MAX_GRACE_SECONDS);
        let grace_ms = i64::try_from(grace).unwrap_or(0) * 1000;
        Ok(Schedule { rule, zone, start, end, grace_ms })
    }
}

/// Which instant a date without a time means.
#[derive(Clone, Copy, PartialEq)]
enum DayEnd {
    First,
    Last,
}

fn moment(
    text: Option<&str>,
    zone: &TimeZone,
    edge: DayEnd,
    key: &'static str,
) -> Result<Option<Timestamp>, (&'static str, String)> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || (key, format!("`{}` must be a date or a time such as 2026-03-01T07:00", &key[1..]));
    if text.len() > MAX_TEXT {
        return Err(wrong());
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Some(at));
    }
    let civil = match text.contains(['T', 't', ' ']) {
        true => text.parse::<DateTime>().map_err(|_| wrong())?,
        false => {
            let date = text.parse::<Date>().map_err(|_| wrong())?;
            let time = if edge == DayEnd::First { Time::midnight() } else { Time::constant(23, 59, 59, 0) };
            date.to_datetime(time)
        }
    };
    zone.to_timestamp(civil).map(Some).map_err(|_| wrong())
}

fn parse_pattern(pattern: &str) -> Result<Cron, (&'static str, String)> {
    let shown: String = pattern.chars().take(64).collect();
    let wrong = || ("/cron", format!("`{shown}` is not a cron pattern with five fields"));
    if pattern.len() > MAX_TEXT {
        return Err(wrong());
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let cron = parser.parse(pattern).map_err(|_| wrong())?;
    // A pattern such as `0 0 30 2 *` never matches.
    let from = Date::constant(2024, 1, 1).to_datetime(Time::midnight());
    match cron.find_next_occurrence(&from, true) {
        Ok(_) => Ok(cron),
        Err(_) => Err(("/cron", format!("`{shown}` never matches"))),
    }
}

impl Schedule {
    /// The first time after `after_ms`; `None` after the last one.
    pub fn next_ms(&self, after_ms: i64) -> Option<i64> {
        let mut after = Timestamp::from_millisecond(after_ms).ok()?;
        if let Some(start) = self.start
            && after < start
        {
            // The start itself is a possible time.
            after = start.checked_sub(1.millisecond()).ok()?;
        }
        let next = match &self.rule {
            DueRule::Pattern(cron, RepeatedHour::FirstPass) => self.next_fixed(cron, after),
            DueRule::Pattern(cron, RepeatedHour::BothPasses) => {
                let from = after.to_zoned(self.zone.clone());
                cron.find_next_occurrence(&from, false)
                    .ok()
                    .map(|zoned: Zoned| whole_second(zoned.timestamp()))
            }
            DueRule::Every { frequency, interval, anchor } => {
                self.next_interval(*frequency, *interval, *anchor, after)
            }
        }?;
        if self.end.is_some_and(|end| next > end) {
            return None;
        }
        Some(next.as_millisecond())
    }

    /// The next times after `after_ms`, at most `count`.
    pub fn upcoming(&self, after_ms: i64, count: usize) -> Vec<i64> {
        let first = self.next_ms(after_ms);
        std::iter::successors(first, |last| self.next_ms(*last)).take(count).collect()
    }

    /// A time in the zone of the recurrence, such as `2026-07-28 09:30 +02:00`.
    pub fn local_time(&self, at_ms: i64) -> String {
        let Ok(at) = Timestamp::from_millisecond(at_ms) else { return String::new() };
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M %:z").to_string()
    }

    /// Decides about an occurrence that is due: it runs once if it, or a later one that has also passed, is within the
    /// grace period.
    pub fn decide(&self, due_ms: i64, now_ms: i64) -> DueDecision {
        let (mut latest, mut passed) = (due_ms, 1_u32);
        let mut next_ms = self.next_ms(due_ms);
        while let Some(next) = next_ms
            && next <= now_ms
        {
            latest = next;
            passed = passed.saturating_add(1);
            next_ms = match passed < MAX_COUNTED {
                true => self.next_ms(next),
                // After a very long time, skip to the present.
                false => self.next_ms(now_ms),
            };
        }
        let in_time = now_ms.saturating_sub(latest) <= self.grace_ms;
        DueDecision {
            run_ms: in_time.then_some(latest),
            missed: if in_time { passed - 1 } else { passed },
            next_ms,
        }
    }

    /// The next time of a pattern with fixed hours, by local time.
    fn next_fixed(&self, cron: &Cron, after: Timestamp) -> Option<Timestamp> {
        // Earlier by more than any clock change, because a skipped local time is due later than it reads.
        let from = after.checked_sub(3.hours()).ok()?.to_zoned(self.zone.clone()).datetime();
        let mut civil = from;
        // Three hours have at most 180 matching minutes.
        for _ in 0..400 {
            civil = cron.find_next_occurrence(&civil, false).ok()?;
            let at = self.zone.to_ambiguous_zoned(civil).compatible().ok()?.timestamp();
            if at > after {
                return Some(whole_second(at));
            }
        }
        None
    }

    fn next_interval(
        &self,
        frequency: Frequency,
        interval: i64,
        anchor: DateTime,
        after: Timestamp,
    ) -> Option<Timestamp> {
        let first = self.zone.to_ambiguous_zoned(anchor).compatible().ok()?.timestamp();
        if after < first {
            return Some(first);
        }
        let seconds = after.as_second().saturating_sub(first.as_second());
        // An estimate that is never too late; the loop below takes the remaining steps.
        let unit = match frequency {
            Frequency::Minutely => 60,
            Frequency::Hourly => 3_600,
            Frequency::Daily => 86_400,
            Frequency::Weekly => 7 * 86_400,
            Frequency::Monthly => 31 * 86_400,
        };
        let first_step = (seconds / (unit * interval)).saturating_sub(2).max(0);
        for step in first_step..first_step.saturating_add(10_000) {
            let count = step.checked_mul(interval)?;
            let at = match frequency {
                // Elapsed time, also over a clock change.
                Frequency::Minutely => first.checked_add(Span::new().try_minutes(count).ok()?).ok()?,
                Frequency::Hourly => first.checked_add(Span::new().try_hours(count).ok()?).ok()?,
                Frequency::Daily => self.local(anchor, Span::new().try_days(count).ok()?)?,
                Frequency::Weekly => self.local(anchor, Span::new().try_weeks(count).ok()?)?,
                Frequency::Monthly => self.local(anchor, Span::new().try_months(count).ok()?)?,
            };
            if at > after {
                return Some(at);
            }
        }
        None
    }

    fn local(&self, anchor: DateTime, span: Span) -> Option<Timestamp> {
        let civil = anchor.checked_add(span).ok()?;
        Some(self.zone.to_ambiguous_zoned(civil).compatible().ok()?.timestamp())
    }
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
#[path = "recurrence_tests.rs"]
mod tests;
