//! Counts of calls over time, for charts and for the numbers of a day.

use super::RestState;
use super::auth::RestCaller;
use super::extract::{QueryParams, bad_query};
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolbooth_core::fault::Problem;
use toolbooth_engine::{AuditScope, CallCountQuery, CallCounts, ResultSizeQuery, ResultSizes};
use utoipa::{IntoParams, ToSchema};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// The largest difference of a time zone to UTC, in minutes.
const MAX_OFFSET: i32 = 14 * 60;

/// The length of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesStep {
    /// An hour; at most 24 of them.
    #[default]
    Hour,
    /// A day of 24 hours; at most 30 of them.
    Day,
}

impl SeriesStep {
    fn length_ms(self) -> i64 {
        match self {
            Self::Hour => HOUR_MS,
            Self::Day => DAY_MS,
        }
    }

    /// The maximum number of steps, which is also the default.
    fn max_steps(self) -> u32 {
        match self {
            Self::Hour => 24,
            Self::Day => 30,
        }
    }
}

/// The steps to count calls in.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SeriesQuery {
    /// The length of a step; an hour if absent.
    #[param(inline)]
    step: Option<SeriesStep>,
    /// Number of steps; the last one has not ended yet. Values out of range are clamped (1 to 24 hours or 30 days).
    count: Option<u32>,
    /// The difference of your time zone to UTC in minutes, such as 120 or -300: steps begin with its hours and days.
    #[param(minimum = -840, maximum = 840)]
    utc_offset: Option<i32>,
    /// Only calls of this user. Others than administrators see only their own calls.
    user: Option<String>,
    /// Whether to add up the sizes of the results (`results` of the answer), which reads more.
    results: Option<bool>,
}

/// Numbers of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct CallNumbers {
    /// Calls that have ended, with any outcome.
    calls: u64,
    /// Those that failed: the outcomes `tool_error`, `failed`, `timeout` and `unknown`.
    failed: u64,
    /// Those that were cancelled.
    cancelled: u64,
    /// Requests that were held for an approval. They are not in `calls`; the approved call is.
    held: u64,
}

impl CallNumbers {
    fn add(&mut self, outcome: &str, calls: u64) {
        let sum = |number: &mut u64| *number = number.saturating_add(calls);
        match outcome {
            // The call continues under another row.
            "held" => return sum(&mut self.held),
            "cancelled" => sum(&mut self.cancelled),
            "done" => {}
            _ => sum(&mut self.failed),
        }
        sum(&mut self.calls);
    }
}

/// The calls that ended in one step.
#[derive(Debug, Serialize, ToSchema)]
pub struct SeriesPoint {
    /// The beginning of the step, in milliseconds since 1970.
    at_ms: i64,
    #[serde(flatten)]
    numbers: CallNumbers,
}

/// Bytes of JSON per token, on average. Results are not stored, so their tokens are estimated from their size.
const BYTES_PER_TOKEN: u64 = 4;

/// How much text the results of calls were, which fills the context of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResultAmount {
    /// Number of results, after files were taken out and the token budget was applied.
    results: u64,
    /// Their size as JSON, in bytes.
    bytes: u64,
    /// Their tokens: an estimate of one token for four bytes.
    tokens: u64,
    /// Results before this time may be missing, because there were too many to add up. Otherwise it is `from_ms`.
    complete_from_ms: i64,
}

impl From<ResultSizes> for ResultAmount {
    fn from(sizes: ResultSizes) -> Self {
        let ResultSizes { results, bytes, complete_from_ms } = sizes;
        Self { results, bytes, tokens: bytes.div_ceil(BYTES_PER_TOKEN), complete_from_ms }
    }
}

/// The calls that the audit log records (`audit.calls`); other calls are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedCalls {
    /// All calls.
    All,
    /// Calls that may change something, and refused ones.
    Writes,
    /// None.
    None,
}

/// Numbers of calls over time.
#[derive(Debug, Serialize, ToSchema)]
pub struct SeriesView {
    step: SeriesStep,
    /// The beginning of the first step.
    from_ms: i64,
    /// The end of the last step.
    until_ms: i64,
    /// Calls before this time may be missing, because there were too many to count. Otherwise it is `from_ms`.
    complete_from_ms: i64,
    /// Which calls are recorded now.
    recorded: RecordedCalls,
    /// The sum of all steps.
    total: CallNumbers,
    /// How much text the results of these calls were, if `results=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<ResultAmount>,
    /// The steps in order, including those without calls.
    points: Vec<SeriesPoint>,
}

/// Counts calls by hour or day: the caller's own, or those of all users for an administrator.
///
/// Calls are counted in the audit log by the time at which they ended, so `audit.calls` and the retention of the log
/// apply.
#[utoipa::path(
    get,
    path = "/stats/series",
    params(SeriesQuery),
    responses(
        (status = 200, description = "The numbers of each step.", body = SeriesView),
        (status = 400, description = "`request.bad-query`."),
    )
)]
pub async fn series(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    QueryParams(query): QueryParams<SeriesQuery>,
) -> Result<Json<SeriesView>, ProblemDocument> {
    let engine = rest.engine();
    let step = query.step.unwrap_or_default();
    let with_results = query.results == Some(true);
    let counted = steps(query, engine.clock().wall_ms())?;
    let results = match with_results {
        true => Some(engine.audit().result_sizes(&caller, results_in(&counted)).await?.into()),
        false => None,
    };
    let counts = engine.audit().call_counts(&caller, counted.clone()).await?;
    let recorded = match engine.terms().audit_scope {
        AuditScope::All => RecordedCalls::All,
        AuditScope::Writes => RecordedCalls::Writes,
        AuditScope::None => RecordedCalls::None,
    };
    Ok(Json(SeriesView { results, ..view(step, &counted, &counts, recorded) }))
}

/// The query for the results of the same calls.
fn results_in(counted: &CallCountQuery) -> ResultSizeQuery {
    ResultSizeQuery { user: counted.user.clone(), from_ms: counted.from_ms, until_ms: counted.until_ms() }
}

/// The steps of a query; the last one contains the current time.
fn steps(query: SeriesQuery, now_ms: i64) -> Result<CallCountQuery, Problem> {
    let SeriesQuery { step, count, utc_offset, user, results: _ } = query;
    let step = step.unwrap_or_default();
    let minutes = utc_offset.unwrap_or(0);
    if !(-MAX_OFFSET..=MAX_OFFSET).contains(&minutes) {
        return Err(bad_query(format!(
            "`utc_offset` must be between -{MAX_OFFSET} and {MAX_OFFSET} minutes"
        )));
    }
    let offset_ms = i64::from(minutes) * 60_000;
    let step_ms = step.length_ms();
    let steps = count.unwrap_or(step.max_steps()).clamp(1, step.max_steps());
    let last_ms = (now_ms + offset_ms).div_euclid(step_ms) * step_ms - offset_ms;
    Ok(CallCountQuery { user, from_ms: last_ms - i64::from(steps - 1) * step_ms, step_ms, steps })
}

fn view(
    step: SeriesStep,
    query: &CallCountQuery,
    counts: &CallCounts,
    recorded: RecordedCalls,
) -> SeriesView {
    let mut points: Vec<SeriesPoint> = (0..query.steps)
        .map(|place| SeriesPoint {
            at_ms: query.from_ms + i64::from(place) * query.step_ms,
            numbers: CallNumbers::default(),
        })
        .collect();
    let mut total = CallNumbers::default();
    for count in &counts.counts {
        let place = usize::try_from(count.step).unwrap_or(usize::MAX);
        if let Some(point) = points.get_mut(place) {
            point.numbers.add(&count.outcome, count.calls);
            total.add(&count.outcome, count.calls);
        }
    }
    SeriesView {
        step,
        from_ms: query.from_ms,
        until_ms: query.until_ms(),
        complete_from_ms: counts.complete_from_ms,
        recorded,
        total,
        results: None,
        points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toolbooth_engine::CallCount;

    fn query(step: SeriesStep, count: u32, utc_offset: i32) -> SeriesQuery {
        SeriesQuery {
            step: Some(step),
            count: Some(count),
            utc_offset: Some(utc_offset),
            user: None,
            results: None,
        }
    }

    #[test]
    fn steps_begin_with_the_hours_and_days_of_the_time_zone() {
        // 1 January 2026, 00:30 in UTC.
        let now_ms = 1_767_227_400_000;
        let midnight_ms = now_ms - HOUR_MS / 2;
        let cases = [
            (query(SeriesStep::Hour, 1, 0), midnight_ms),
            (query(SeriesStep::Hour, 3, 0), midnight_ms - 2 * HOUR_MS),
            (query(SeriesStep::Day, 1, 0), midnight_ms),
            // It is 02:30 there.
            (query(SeriesStep::Day, 1, 120), midnight_ms - 2 * HOUR_MS),
            // It is still 31 December there.
            (query(SeriesStep::Day, 1, -300), midnight_ms - 19 * HOUR_MS),
            // The hour began with the half hour of UTC.
            (query(SeriesStep::Hour, 1, 330), now_ms),
            (query(SeriesStep::Hour, 999, 0), midnight_ms - 23 * HOUR_MS),
            (query(SeriesStep::Day, 0, 0), midnight_ms),
            (query(SeriesStep::Day, 999, 0), midnight_ms - 29 * DAY_MS),
        ];
        for (query, from_ms) in cases {
            let shown = format!("{query:?}");
            let steps = steps(query, now_ms).expect("a valid query");
            assert_eq!(steps.from_ms, from_ms, "{shown}");
            assert!((steps.until_ms() - steps.step_ms..steps.until_ms()).contains(&now_ms), "{shown}");
        }
        for minutes in [-841, 841, i32::MIN, i32::MAX] {
            let refused = steps(query(SeriesStep::Hour, 1, minutes), now_ms).expect_err("a refusal");
            assert_eq!(refused.code, "request.bad-query");
        }
    }

    #[test]
    fn every_step_has_its_numbers() {
        let steps = CallCountQuery { user: None, from_ms: 1_000, step_ms: 100, steps: 3 };
        let count =
            |step: u32, outcome: &str, calls: u64| CallCount { step, outcome: outcome.to_owned(), calls };
        let counts = vec![
            count(0, "done", 5),
            count(0, "timeout", 2),
            count(0, "held", 1),
            count(2, "cancelled", 3),
            count(2, "tool_error", 1),
            count(3, "done", 9),
        ];
        let counts = CallCounts { counts, complete_from_ms: 1_000 };
        let view = view(SeriesStep::Day, &steps, &counts, RecordedCalls::All);
        let shown = serde_json::to_value(view).expect("JSON");
        let points = json!([
            { "at_ms": 1_000, "calls": 7, "failed": 2, "cancelled": 0, "held": 1 },
            { "at_ms": 1_100, "calls": 0, "failed": 0, "cancelled": 0, "held": 0 },
            { "at_ms": 1_200, "calls": 4, "failed": 1, "cancelled": 3, "held": 0 },
        ]);
        assert_eq!(shown["points"], points);
        assert_eq!(shown["total"], json!({ "calls": 11, "failed": 3, "cancelled": 3, "held": 1 }));
        assert_eq!(
            (&shown["step"], &shown["until_ms"], &shown["recorded"]),
            (&json!("day"), &json!(1_300), &json!("all"))
        );
    }
}
