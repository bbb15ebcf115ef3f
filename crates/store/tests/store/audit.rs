//! The audit: contract tests for every backend.

use crate::contract::{HOUR_MS, Shared};
use crate::sample::{approval, approve, audited, entry, json, reject, result};
use tokio::task::JoinSet;
use toolbooth_core::audit::{AuditEntry, ChainHead};
use toolbooth_core::held::HeldState;
use toolbooth_core::json::RawJson;
use toolbooth_store::{AuditFilter, CallCount, CallCountQuery, HeldUpdate, ResultSizeQuery, ResultSizes};
use uuid::Uuid;

async fn times(store: &Shared, filter: AuditFilter) -> Vec<i64> {
    store.audit_rows(filter).await.expect("read").into_iter().map(|row| row.entry.at_ms).collect()
}

async fn good(store: &Shared) -> u64 {
    let report = store.verify_audit().await.expect("checked");
    assert_eq!(report.first_bad, None);
    report.rows
}

pub async fn an_empty_audit_is_good(store: Shared) {
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.purged_to, report.first_bad), (0, 0, None));
    assert_eq!(report.head, ChainHead::START);
    assert_eq!(store.audit_rows(AuditFilter::default()).await.expect("read"), []);
    store.audit_now(vec![]).await.expect("nothing to add");
    assert_eq!(good(&store).await, 0);
}

pub async fn audit_rows_are_read_back_unchanged(store: Shared) {
    let full = audited(-3);
    let bare = AuditEntry::new(i64::MAX, "", "", "");
    store.audit_now(vec![full.clone(), bare.clone()]).await.expect("added");
    store.audit(full.clone()).await.expect("queued");
    store.flush().await.expect("flushed");
    let rows = store.audit_rows(AuditFilter::default()).await.expect("read");
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(rows.into_iter().map(|row| row.entry).collect::<Vec<_>>(), [full.clone(), bare, full]);
    assert_eq!(good(&store).await, 3);
}

pub async fn oversized_audit_entries_are_truncated(store: Shared) {
    let odd = AuditEntry {
        client: Some("x\0".repeat(2_000).into()),
        duration_ms: Some(u64::MAX),
        detail: Some(json(&format!("\"{}\"", "x".repeat(100_000)))),
        ..audited(1)
    };
    store.audit(odd.clone()).await.expect("queued");
    store.audit_now(vec![odd.clone()]).await.expect("added");
    let call = approval(1);
    store.hold(call.clone()).await.expect("held");
    store.decide_held(call.id, reject("cy", 2), odd).await.expect("decided");
    assert_eq!(good(&store).await, 3);
}

pub async fn audit_rows_are_filtered_and_paged(store: Shared) {
    let mut entries = Vec::new();
    for at_ms in 1..=6_i64 {
        entries.push(AuditEntry {
            user: if at_ms % 2 == 0 { "ann" } else { "bo" }.into(),
            kind: if at_ms > 3 { "call" } else { "decision" }.into(),
            tool: (at_ms == 4).then(|| "send".into()),
            call_id: Some(Uuid::from_u128(at_ms.unsigned_abs().into())),
            ..audited(at_ms)
        });
    }
    store.audit_now(entries).await.expect("added");
    let text = |text: &str| Some(text.to_owned());
    let none = AuditFilter::default;
    let cases: [(AuditFilter, &[i64]); 12] = [
        (none(), &[6, 5, 4, 3, 2, 1]),
        (AuditFilter { limit: Some(2), ..none() }, &[6, 5]),
        (AuditFilter { limit: Some(2), before_seq: Some(5), ..none() }, &[4, 3]),
        (AuditFilter { after_seq: Some(4), ..none() }, &[6, 5]),
        (AuditFilter { after_seq: Some(u64::MAX), ..none() }, &[]),
        (AuditFilter { user: text("ann"), ..none() }, &[6, 4, 2]),
        (AuditFilter { user: text("ann"), kind: text("call"), ..none() }, &[6, 4]),
        (AuditFilter { tool: text("send"), server: text("mail"), ..none() }, &[4]),
        (AuditFilter { server: text("web"), ..none() }, &[]),
        (AuditFilter { outcome: text("refused"), ..none() }, &[]),
        (AuditFilter { call_id: Some(Uuid::from_u128(5)), ..none() }, &[5]),
        (AuditFilter { call_id: Some(Uuid::from_u128(5)), user: text("ann"), ..none() }, &[]),
    ];
    for (filter, expected) in cases {
        assert_eq!(times(&store, filter.clone()).await, expected, "{filter:?}");
    }
}

pub async fn audit_rows_are_filtered_by_client_session_name_and_time(store: Shared) {
    let mut entries = Vec::new();
    for hour in 1..=6_i64 {
        // The session of a call is the first member; that of a display hint is not a session.
        let detail = match hour {
            1 | 2 => r#"{"session":"a \"b\"","waited_ms":1}"#,
            3 => r#"{"session":"a"}"#,
            _ => r#"{"waited_ms":1,"display":{"session":"a"}}"#,
        };
        entries.push(AuditEntry {
            client: (hour > 3).then(|| "editor".into()),
            tool: Some(if hour % 2 == 0 { "Find_File" } else { "send" }.into()),
            detail: Some(json(detail)),
            ..audited(hour * HOUR_MS)
        });
    }
    // A row without a tool.
    entries.push(AuditEntry::new(7 * HOUR_MS, "reload", "ann@example.org", "reloaded"));
    store.audit_now(entries).await.expect("added");
    let text = |text: &str| Some(text.to_owned());
    let none = AuditFilter::default;
    let cases: [(AuditFilter, &[i64]); 15] = [
        (AuditFilter { client: text("a\0b"), ..none() }, &[]),
        (AuditFilter { session: text("a\0b"), ..none() }, &[]),
        (AuditFilter { client: text("editor"), ..none() }, &[6, 5, 4]),
        (AuditFilter { client: text("Editor"), ..none() }, &[]),
        (AuditFilter { session: text("a"), ..none() }, &[3]),
        (AuditFilter { session: text("a \"b\""), ..none() }, &[2, 1]),
        (AuditFilter { session: text("a \"b"), ..none() }, &[]),
        (AuditFilter { text: text("MAIL_find"), ..none() }, &[6, 4, 2]),
        (AuditFilter { text: text("%"), ..none() }, &[]),
        (AuditFilter { text: text(""), ..none() }, &[7, 6, 5, 4, 3, 2, 1]),
        (AuditFilter { since_ms: Some(5 * HOUR_MS), ..none() }, &[7, 6, 5]),
        (AuditFilter { until_ms: Some(3 * HOUR_MS), ..none() }, &[2, 1]),
        (AuditFilter { since_ms: Some(2 * HOUR_MS), until_ms: Some(5 * HOUR_MS), ..none() }, &[4, 3, 2]),
        (AuditFilter { since_ms: Some(i64::MIN), until_ms: Some(i64::MAX), limit: Some(1), ..none() }, &[7]),
        (AuditFilter { since_ms: Some(5 * HOUR_MS), until_ms: Some(3 * HOUR_MS), ..none() }, &[]),
    ];
    for (filter, expected) in cases {
        let hours: Vec<i64> =
            times(&store, filter.clone()).await.into_iter().map(|at| at / HOUR_MS).collect();
        assert_eq!(hours, expected, "{filter:?}");
    }
}

pub async fn calls_are_counted_by_step_and_outcome(store: Shared) {
    let call = |at_ms: i64, user: &str, outcome: &str| AuditEntry::new(at_ms, "call", user, outcome);
    let entries = vec![
        call(999, "ann", "done"),
        call(1_000, "ann", "done"),
        call(1_099, "bo", "done"),
        // The system clock was set back.
        call(1_050, "ann", "failed"),
        AuditEntry::new(1_060, "decision", "ann", "done"),
        call(1_200, "bo", "held"),
        call(1_299, "ann", "done"),
        call(1_300, "ann", "done"),
    ];
    store.audit_now(entries).await.expect("added");
    let query = CallCountQuery { user: None, from_ms: 1_000, step_ms: 100, steps: 3 };
    let count = |step: u32, outcome: &str, calls: u64| CallCount { step, outcome: outcome.to_owned(), calls };
    let all = vec![count(0, "done", 2), count(0, "failed", 1), count(2, "done", 1), count(2, "held", 1)];
    let ann = vec![count(0, "done", 1), count(0, "failed", 1), count(2, "done", 1)];
    let cases = [(None, all), (Some("ann"), ann), (Some("cy"), vec![]), (Some("c\0y"), vec![])];
    for (user, expected) in cases {
        let query = CallCountQuery { user: user.map(str::to_owned), ..query.clone() };
        let counted = store.call_counts(query).await.expect("counted");
        assert_eq!((counted.counts, counted.complete_from_ms), (expected, 1_000), "{user:?}");
    }
}

pub async fn sizes_of_results_are_added_up(store: Shared) {
    let call = |at_ms: i64, user: &str, detail: &str| AuditEntry {
        detail: Some(RawJson::parse(detail.to_owned()).expect("JSON")),
        ..AuditEntry::new(at_ms, "call", user, "done")
    };
    // SQLite reads at most 1,000 levels of JSON.
    let deep = format!(r#"{{"result_bytes":4,"display":{}{}}}"#, "[".repeat(1_100), "]".repeat(1_100));
    let is_deep_read = RawJson::parse(deep.clone()).is_ok();
    let mut entries = vec![
        call(999, "ann", r#"{"result_bytes":1000}"#),
        call(1_000, "ann", r#"{"session":"\"result_bytes\":7","waited_ms":3,"result_bytes":10}"#),
        // PostgreSQL does not read this escape in JSON, and a tool chooses the hints.
        call(1_050, "bo", r#"{"result_bytes":200,"display":{"title":"\u0000","x":{"result_bytes":5}}}"#),
        call(1_060, "bo", r#"{"waited_ms":1}"#),
        AuditEntry::new(1_070, "call", "ann", "failed"),
        AuditEntry { kind: "decision".into(), ..call(1_080, "ann", r#"{"result_bytes":3}"#) },
        call(1_100, "ann", r#"{"result_bytes":1000}"#),
    ];
    if is_deep_read {
        entries.push(call(2_000, "ann", &deep));
    }
    store.audit_now(entries).await.expect("added");
    let query = ResultSizeQuery { user: None, from_ms: 1_000, until_ms: 1_100 };
    let cases = [(None, (2, 210)), (Some("ann"), (1, 10)), (Some("cy"), (0, 0)), (Some("c\0y"), (0, 0))];
    for (user, (results, bytes)) in cases {
        let query = ResultSizeQuery { user: user.map(str::to_owned), ..query.clone() };
        let sizes = store.result_sizes(query).await.expect("measured");
        assert_eq!(sizes, ResultSizes { results, bytes, complete_from_ms: 1_000 }, "{user:?}");
    }
    let late = ResultSizeQuery { user: None, from_ms: 2_000, until_ms: 3_000 };
    store.result_sizes(late).await.expect("a detail that cannot be read is left out");
}

pub async fn only_the_winning_decision_is_audited(store: Shared) {
    let call = approval(1);
    store.hold(call.clone()).await.expect("held");
    for number in 0..3 {
        let decision = AuditEntry { by: Some(format!("user {number}").into()), ..entry("decision") };
        store.decide_held(call.id, approve("cy", 5), decision).await.expect("an answer");
    }
    store.decide_held(Uuid::nil(), approve("cy", 5), entry("decision")).await.expect("an answer");
    store.finish_held(call.id, result(6), entry("call")).await.expect("not running yet");
    store.claim_held(call.id, 7).await.expect("claimed");
    for _ in 0..2 {
        store.finish_held(call.id, result(8), entry("call")).await.expect("an answer");
    }
    let rows = store.audit_rows(AuditFilter::default()).await.expect("read");
    let seen: Vec<_> = rows.iter().map(|row| (&*row.entry.kind, row.entry.by.as_deref())).collect();
    assert_eq!(seen, [("call", None), ("decision", Some("user 0"))]);
    assert_eq!(good(&store).await, 2);
}

pub async fn expired_and_interrupted_calls_are_audited(store: Shared) {
    let (late, cut_off) = (approval(1), approval(1));
    for call in [&late, &cut_off] {
        store.hold(call.clone()).await.expect("held");
    }
    store.decide_held(cut_off.id, approve("cy", 5), entry("decision")).await.expect("decided");
    store.claim_held(cut_off.id, 6).await.expect("claimed");
    assert_eq!(store.expire_held(1_000).await.expect("swept").len(), 1);
    assert_eq!(store.interrupted_held(1_001).await.expect("closed").len(), 1);
    let rows =
        store.audit_rows(AuditFilter { limit: Some(2), ..AuditFilter::default() }).await.expect("read");
    let seen: Vec<_> =
        rows.iter().map(|row| (row.entry.call_id, &*row.entry.outcome, row.entry.at_ms)).collect();
    assert_eq!(seen, [(Some(cut_off.id), "unknown", 1_001), (Some(late.id), "expired", 1_000)]);
    // The intent of an interrupted call leaves the row of the call.
    assert!(rows.iter().all(|row| &*row.entry.kind == "decision"), "{rows:?}");
    assert_eq!(good(&store).await, 3);
}

pub async fn many_writers_make_one_chain(store: Shared) {
    let mut writers = JoinSet::new();
    for writer in 0..20 {
        let store = store.clone();
        writers.spawn(async move {
            for at_ms in 0..100 {
                match writer % 4 {
                    0 => store.audit_now(vec![audited(at_ms); 3]).await.expect("added"),
                    1 => {
                        let call = approval(at_ms);
                        store.hold(call.clone()).await.expect("held");
                        let decided = store.decide_held(call.id, reject("cy", at_ms), audited(at_ms)).await;
                        assert!(
                            matches!(decided, Ok(HeldUpdate::Won(call)) if call.state == HeldState::Rejected)
                        );
                    }
                    _ => store.audit(audited(at_ms)).await.expect("queued"),
                }
            }
        });
    }
    writers.join_all().await;
    store.flush().await.expect("flushed");
    assert_eq!(good(&store).await, 500 * 3 + 500 + 1_000);
}

pub async fn purge_drops_the_oldest_audit_rows_and_the_rest_verifies(store: Shared) {
    store.audit_now((0..2_500).map(|_| audited(1)).collect()).await.expect("added");
    store.audit_now((0..10).map(|_| audited(HOUR_MS)).collect()).await.expect("added");
    // An old row after younger ones stays: rows are only deleted from the beginning.
    store.audit_now(vec![audited(1)]).await.expect("added");
    let before = store.verify_audit().await.expect("checked");
    store.purge(HOUR_MS + 2).await.expect("purged");
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.purged_to, report.first_bad), (11, 2_500, None));
    assert_eq!(report.head, before.head);
    // By size: only some hundred rows fit.
    store.audit_now((0..3_000).map(|_| audited(HOUR_MS)).collect()).await.expect("added");
    store.purge(HOUR_MS).await.expect("purged");
    let report = store.verify_audit().await.expect("checked");
    assert!((100..1_000).contains(&report.rows), "{report:?}");
    assert_eq!((report.first_bad, report.head.seq), (None, 5_511));
    // Purging everything: the chain continues where it was.
    store.purge(i64::MAX).await.expect("purged");
    store.audit_now(vec![audited(5)]).await.expect("added");
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.purged_to, report.first_bad), (1, 5_511, None));
}
