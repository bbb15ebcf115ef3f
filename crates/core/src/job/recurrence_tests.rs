use super::*;

fn recurrence(json: serde_json::Value) -> Recurrence {
    serde_json::from_value(json).expect("a recurrence")
}

fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().expect("a time").as_millisecond()
}

fn times(json: serde_json::Value, after: &str, count: usize) -> Vec<String> {
    let schedule = recurrence(json).compile().expect("valid");
    let found = schedule.upcoming(ms(after), count);
    found.into_iter().map(|at| Timestamp::from_millisecond(at).expect("a time").to_string()).collect()
}

#[test]
fn patterns_go_by_local_time_over_clock_changes() {
    let zone = "America/New_York";
    let cases = [
        // The clock skips 02:30 on 8 March 2026.
        ("30 2 * * *", "2026-03-08T05:00:00Z", ["2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"]),
        ("30 1 * * *", "2026-03-08T05:00:00Z", ["2026-03-08T06:30:00Z", "2026-03-09T05:30:00Z"]),
        // 01:30 occurs twice on 1 November 2026.
        ("30 1 * * *", "2026-11-01T04:00:00Z", ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]),
        // Between the two, it is not due again.
        ("30 1 * * *", "2026-11-01T05:45:00Z", ["2026-11-02T06:30:00Z", "2026-11-03T06:30:00Z"]),
        ("30 1,13 * * *", "2026-11-01T04:00:00Z", ["2026-11-01T05:30:00Z", "2026-11-01T18:30:00Z"]),
        // Every hour has both passes.
        ("0 * * * *", "2026-11-01T05:00:00Z", ["2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"]),
    ];
    for (cron, after, expected) in cases {
        let found = times(serde_json::json!({ "cron": cron, "timezone": zone }), after, 2);
        assert_eq!(found, expected, "{cron} after {after}");
    }
}

#[test]
fn a_time_is_shown_in_the_zone_of_the_recurrence() {
    let cases = [
        (Some("America/New_York"), "2026-07-28 03:30 -04:00"),
        (Some("Europe/Berlin"), "2026-07-28 09:30 +02:00"),
        (None, "2026-07-28 07:30 +00:00"),
    ];
    for (zone, expected) in cases {
        let written = serde_json::json!({ "cron": "0 7 * * *", "timezone": zone });
        let schedule = recurrence(written).compile().expect("valid");
        assert_eq!(schedule.local_time(ms("2026-07-28T07:30:05Z")), expected, "{zone:?}");
    }
}

#[test]
fn intervals_start_at_the_start_date() {
    let cases = [
        (
            serde_json::json!({ "frequency": "monthly", "start_date": "2026-01-31T07:00", "timezone": "Europe/Berlin" }),
            "2026-01-31T07:00:00Z",
            vec!["2026-02-28T06:00:00Z", "2026-03-31T05:00:00Z"],
        ),
        (
            serde_json::json!({ "frequency": "weekly", "interval": 2, "start_date": "2026-01-05" }),
            "2025-12-01T00:00:00Z",
            vec!["2026-01-05T00:00:00Z", "2026-01-19T00:00:00Z"],
        ),
        (
            serde_json::json!({ "frequency": "hourly", "interval": 6, "start_date": "2026-01-01" }),
            "2026-11-18T04:00:00Z",
            vec!["2026-11-18T06:00:00Z", "2026-11-18T12:00:00Z"],
        ),
        (
            serde_json::json!({ "frequency": "daily", "end_date": "2026-01-02" }),
            "2026-01-01T00:00:00Z",
            vec!["2026-01-02T00:00:00Z"],
        ),
    ];
    for (json, after, expected) in cases {
        assert_eq!(times(json.clone(), after, 2), expected, "{json}");
    }
}

#[test]
fn the_start_itself_is_due() {
    let json = serde_json::json!({ "cron": "0 7 * * *", "start_date": "2026-05-01T07:00:00Z" });
    assert_eq!(times(json, "2026-01-01T00:00:00Z", 1), ["2026-05-01T07:00:00Z"]);
}

#[test]
fn a_missed_run_runs_once_within_its_grace_period() {
    let schedule = recurrence(serde_json::json!({ "cron": "0 * * * *", "grace_seconds": 600 }));
    let schedule = schedule.compile().expect("valid");
    let due = ms("2026-01-01T07:00:00Z");
    let cases = [
        ("2026-01-01T07:00:01Z", Some("2026-01-01T07:00:00Z"), 0, "2026-01-01T08:00:00Z"),
        ("2026-01-01T07:10:00Z", Some("2026-01-01T07:00:00Z"), 0, "2026-01-01T08:00:00Z"),
        ("2026-01-01T07:10:01Z", None, 1, "2026-01-01T08:00:00Z"),
        ("2026-01-01T10:05:00Z", Some("2026-01-01T10:00:00Z"), 3, "2026-01-01T11:00:00Z"),
        ("2026-01-01T10:30:00Z", None, 4, "2026-01-01T11:00:00Z"),
    ];
    for (now, run, missed, next) in cases {
        let expected = DueDecision { run_ms: run.map(ms), missed, next_ms: Some(ms(next)) };
        assert_eq!(schedule.decide(due, ms(now)), expected, "{now}");
    }
}

#[test]
fn wrong_fields_are_named() {
    let cases = [
        (serde_json::json!({}), ""),
        (serde_json::json!({ "cron": "every day" }), "/cron"),
        (serde_json::json!({ "cron": "0 0 30 2 *" }), "/cron"),
        (serde_json::json!({ "cron": "* * * * * *" }), "/cron"),
        (serde_json::json!({ "cron": "0 7 * * *", "timezone": "Europe/Nowhere" }), "/timezone"),
        (serde_json::json!({ "cron": "0 7 * * *", "frequency": "daily" }), "/frequency"),
        (serde_json::json!({ "frequency": "sometimes" }), "/frequency"),
        (serde_json::json!({ "frequency": "daily", "start_date": "soon" }), "/start_date"),
        (
            serde_json::json!({ "frequency": "daily", "start_date": "2026-02-01", "end_date": "2026-01-01" }),
            "/end_date",
        ),
    ];
    for (json, expected) in cases {
        let (key, sentence) = recurrence(json.clone()).compile().expect_err("wrong");
        assert_eq!(key, expected, "{json}: {sentence}");
    }
}
