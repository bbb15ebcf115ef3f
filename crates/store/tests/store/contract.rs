//! The contract: tests that run for every backend.

use crate::audit::*;
use crate::consents::*;
use crate::console_sessions::*;
use crate::exposed_names::*;
use crate::file_rows::*;
use crate::health::*;
use crate::held::*;
use crate::jobs::*;
use crate::letters::*;
use crate::sample::{audited, discovery, intent, outcome, server};
use crate::shared_records::*;
use crate::tokens::*;
use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::task::JoinSet;
use toolbooth_core::fault::Fault;
use toolbooth_store::{
    AuditRetention, CallRow, DiscoveryRecord, NonceUse, OutcomeKind, Retention, Store, StoreError, StoreUrl,
    open_with,
};

pub type Shared = Arc<dyn Store>;

pub const RETENTION: Retention = Retention {
    max_age: Duration::from_secs(3600),
    max_rows: 20,
    audit: AuditRetention { max_age: Duration::from_secs(3600), max_bytes: 100_000 },
};
pub const HOUR_MS: i64 = 3_600_000;

macro_rules! contract {
    ($($promise:ident)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                super::$promise(super::open_with(&super::StoreUrl::Memory, super::RETENTION).await.expect("opens")).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let folder = tempfile::tempdir().expect("a folder");
                let url = crate::sample::url(&folder.path().join("toolbooth.db"));
                let store = super::open_with(&url, super::RETENTION).await.expect("opens");
                super::$promise(store.clone()).await;
                store.close().await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let Some(schema) = crate::postgres::Schema::create().await else { return };
                let store = super::open_with(&schema.url(), super::RETENTION).await.expect("opens");
                super::$promise(store.clone()).await;
                store.close().await;
            })*
        }
    };
}

contract! {
    discoveries_are_replaced_listed_and_deleted
    long_discoveries_are_stored_completely
    the_first_claim_of_a_name_wins
    one_of_eight_parallel_claims_of_a_name_wins
    claims_are_limited
    an_intent_is_open_until_its_outcome
    a_repeated_intent_is_accepted_and_a_different_one_is_a_conflict
    the_first_known_outcome_is_final
    a_known_outcome_replaces_unknown
    a_repeated_outcome_adds_no_second_audit_row
    an_outcome_needs_an_intent
    interrupted_calls_become_unknown
    the_clock_is_raised_and_a_wrong_time_is_replaced
    recent_calls_are_newest_first_and_limited
    every_kind_of_outcome_is_read_back
    invalid_values_are_refused
    sixty_four_callers_get_one_secret
    secrets_are_separate_by_name
    exactly_one_of_sixty_four_uses_a_nonce_first
    purge_deletes_expired_nonces
    purge_drops_old_calls_but_no_open_ones
    purge_drops_surplus_calls_but_no_open_ones
    writers_beyond_the_queue_wait_and_succeed
    a_cancelled_write_does_not_break_the_store
    a_closed_store_returns_store_closed
    tokens_are_found_by_their_hash
    a_token_with_a_used_id_or_hash_is_refused
    the_first_revocation_is_final
    purge_deletes_expired_and_revoked_tokens
    tokens_are_limited
    a_console_session_is_extended_and_ended
    console_sessions_are_limited_and_purged
    a_held_call_is_decided_claimed_and_finished
    one_of_four_parallel_answers_wins_a_thousand_times
    one_of_eight_parallel_claims_wins
    late_decisions_lose_and_overdue_calls_expire
    interrupted_held_calls_fail_as_unknown
    held_calls_are_filtered_and_paged
    pages_of_held_calls_are_limited
    one_user_cannot_reach_the_total_limit_of_held_calls
    purge_deletes_ended_held_calls
    the_narrowest_open_plan_covers_a_call
    steps_are_numbered_without_gaps
    consents_cover_only_their_scope
    a_newer_consent_replaces_an_older_one
    consents_are_limited
    pins_are_replaced_and_deleted
    a_pin_stores_the_accepted_text
    a_release_is_for_one_version
    a_reused_name_creates_a_new_version
    a_session_sees_its_own_files_and_those_without_one
    files_are_listed_in_pages
    invalid_files_are_refused
    files_of_one_user_are_limited
    grants_end_with_their_calls
    a_letter_is_replayed_and_resolved
    one_of_eight_parallel_replays_wins
    letters_are_filtered_and_paged
    due_letters_are_sorted_by_time
    interrupted_replays_are_found_again
    letters_are_limited_and_purged
    work_is_added_changed_and_removed
    changes_of_work_are_made_together_or_not_at_all
    work_is_claimed_once
    work_is_listed_by_page_and_by_due_time
    ended_work_is_purged
    shared_records_are_replaced_and_their_changes_listed
    purge_deletes_expired_shared_records
    a_lease_has_one_holder_until_it_ends
    windows_are_replaced_and_purged
    invalid_windows_are_refused_and_none_is_written
    an_empty_audit_is_good
    audit_rows_are_read_back_unchanged
    oversized_audit_entries_are_truncated
    audit_rows_are_filtered_and_paged
    audit_rows_are_filtered_by_client_session_name_and_time
    calls_are_counted_by_step_and_outcome
    sizes_of_results_are_added_up
    only_the_winning_decision_is_audited
    expired_and_interrupted_calls_are_audited
    many_writers_make_one_chain
    purge_drops_the_oldest_audit_rows_and_the_rest_verifies
}

pub fn code<T: std::fmt::Debug>(result: Result<T, StoreError>) -> &'static str {
    result.expect_err("a refusal").code()
}

/// Saves discoveries of sizes around the piece boundaries: each is complete, and no part of an earlier one remains.
async fn long_discoveries_are_stored_completely(store: Shared) {
    let long = |name: &str, length: usize| DiscoveryRecord {
        payload: (0..length).map(|at| (at % 251) as u8).collect(),
        ..discovery(name, "")
    };
    store.save_discovery(discovery("a", "short")).await.expect("saved");
    store.save_discovery(long("c", 200_000)).await.expect("saved");
    for length in [1 << 20, 65_535, 65_536, 65_537, 131_072, 131_073, 3, 5 << 20, 0] {
        store.save_discovery(long("b", length)).await.expect("saved");
        let kept = store.discoveries().await.expect("listed");
        assert!(kept == [discovery("a", "short"), long("b", length), long("c", 200_000)], "{length} bytes");
    }
    store.save_discovery(long("b", 1 << 20)).await.expect("saved");
    store.forget_discovery(&server("b")).await.expect("forgotten");
    store.save_discovery(discovery("b", "new")).await.expect("saved");
    let kept = store.discoveries().await.expect("listed");
    assert!(kept == [discovery("a", "short"), discovery("b", "new"), long("c", 200_000)]);
}

async fn discoveries_are_replaced_listed_and_deleted(store: Shared) {
    for record in [discovery("b", "one"), discovery("a", ""), discovery("b", "two")] {
        store.save_discovery(record).await.expect("saved");
    }
    let kept = store.discoveries().await.expect("listed");
    assert_eq!(kept, [discovery("a", ""), discovery("b", "two")]);
    store.forget_discovery(&server("b")).await.expect("forgotten");
    store.forget_discovery(&server("never-there")).await.expect("fine");
    assert_eq!(store.discoveries().await.expect("listed"), [discovery("a", "")]);
}

async fn an_intent_is_open_until_its_outcome(store: Shared) {
    let (first, second) = (intent(1), intent(2));
    store.write_intent(first.clone()).await.expect("written");
    store.write_intent(second.clone()).await.expect("written");
    assert_eq!(store.open_intents().await.expect("read"), [first.clone(), second.clone()]);
    store.write_outcome(outcome(&first, OutcomeKind::Done)).await.expect("written");
    assert_eq!(store.open_intents().await.expect("read"), [second]);
}

async fn a_repeated_intent_is_accepted_and_a_different_one_is_a_conflict(store: Shared) {
    let intent = intent(1);
    store.write_intent(intent.clone()).await.expect("written");
    store.write_intent(intent.clone()).await.expect("a repetition");
    let mut other = intent.clone();
    other.tool = "delete".into();
    assert_eq!(code(store.write_intent(other).await), "store.conflict");
    assert_eq!(store.open_intents().await.expect("read"), [intent]);
}

async fn the_first_known_outcome_is_final(store: Shared) {
    let intent = intent(1);
    let done = outcome(&intent, OutcomeKind::Done);
    store.write_intent(intent.clone()).await.expect("written");
    store.write_outcome(done.clone()).await.expect("written");
    store.write_outcome(done.clone()).await.expect("a repetition");
    store.write_outcome(outcome(&intent, OutcomeKind::Unknown)).await.expect("nothing new");
    assert_eq!(code(store.write_outcome(outcome(&intent, OutcomeKind::Cancelled)).await), "store.conflict");
    let calls = store.recent_calls(10).await.expect("read");
    assert_eq!(calls, [CallRow { intent, outcome: Some(done) }]);
}

async fn a_known_outcome_replaces_unknown(store: Shared) {
    let intent = intent(1);
    store.write_intent(intent.clone()).await.expect("written");
    for kind in [OutcomeKind::Unknown, OutcomeKind::Unknown, OutcomeKind::Failed] {
        store.write_outcome(outcome(&intent, kind)).await.expect("written");
    }
    let calls = store.recent_calls(1).await.expect("read");
    assert_eq!(calls[0].outcome, Some(outcome(&intent, OutcomeKind::Failed)));
}

async fn a_repeated_outcome_adds_no_second_audit_row(store: Shared) {
    let intent = intent(1);
    store.write_intent(intent.clone()).await.expect("written");
    let settle = |kind| store.settle(outcome(&intent, kind), Some(audited(6)));
    let kinds = [OutcomeKind::Unknown, OutcomeKind::Done, OutcomeKind::Done];
    for (kind, rows) in kinds.into_iter().zip([1, 2, 2]) {
        settle(kind).await.expect("settled");
        assert_eq!(store.verify_audit().await.expect("checked").rows, rows, "{kind:?}");
    }
    // The call has ended, although its outcome contradicts the stored one.
    assert_eq!(code(settle(OutcomeKind::Cancelled).await), "store.conflict");
    assert_eq!(store.verify_audit().await.expect("checked").rows, 3);
}

async fn an_outcome_needs_an_intent(store: Shared) {
    assert_eq!(code(store.write_outcome(outcome(&intent(1), OutcomeKind::Done)).await), "store.no-intent");
    assert_eq!(store.recent_calls(10).await.expect("read"), []);
}

async fn interrupted_calls_become_unknown(store: Shared) {
    let (finished, cut_off) = (intent(1), intent(2));
    store.write_intent(finished.clone()).await.expect("written");
    store.write_outcome(outcome(&finished, OutcomeKind::Done)).await.expect("written");
    store.write_intent(cut_off.clone()).await.expect("written");
    assert_eq!(store.close_interrupted(99).await, Ok(1));
    assert_eq!(store.close_interrupted(100).await, Ok(0));
    assert_eq!(store.open_intents().await.expect("read"), []);
    let calls = store.recent_calls(10).await.expect("read");
    let closed = calls[0].outcome.as_ref().expect("an outcome");
    assert_eq!(
        (calls[0].intent.call_id, closed.kind, closed.at_ms),
        (cut_off.call_id, OutcomeKind::Unknown, 99)
    );
    assert_eq!(calls[1].outcome, Some(outcome(&finished, OutcomeKind::Done)));
}

async fn the_clock_is_raised_and_a_wrong_time_is_replaced(store: Shared) {
    let steps = [
        (100 * HOUR_MS, 100 * HOUR_MS),
        (99 * HOUR_MS, 100 * HOUR_MS),
        (76 * HOUR_MS, 100 * HOUR_MS),
        // More than a day before the stored time.
        (75 * HOUR_MS, 75 * HOUR_MS),
        (200 * HOUR_MS, 200 * HOUR_MS),
    ];
    assert_eq!(store.latest_clock().await, Ok(0));
    for (raised_ms, stored_ms) in steps {
        store.raise_clock(raised_ms).await.expect("written");
        assert_eq!(store.latest_clock().await, Ok(stored_ms), "{raised_ms}");
    }
}

async fn recent_calls_are_newest_first_and_limited(store: Shared) {
    let written: Vec<_> = (0..10).map(intent).collect();
    for intent in &written {
        store.write_intent(intent.clone()).await.expect("written");
    }
    let cases = [(0, 0), (3, 3), (10, 10), (u32::MAX, 10)];
    for (limit, expected) in cases {
        let calls = store.recent_calls(limit).await.expect("read");
        let newest: Vec<_> = written.iter().rev().take(expected).cloned().collect();
        assert_eq!(calls.into_iter().map(|row| row.intent).collect::<Vec<_>>(), newest, "{limit}");
    }
}

async fn every_kind_of_outcome_is_read_back(store: Shared) {
    for kind in OutcomeKind::ALL {
        let mut intent = intent(-1);
        (intent.user, intent.tool) = ("Zoë \"'; DROP TABLE calls; --".into(), "📮".into());
        intent.arguments_sha256 = [0; 32];
        let mut outcome = outcome(&intent, kind);
        (outcome.error_code, outcome.duration_ms) = (Some("call.timeout".into()), i64::MAX as u64);
        store.write_intent(intent.clone()).await.expect("written");
        store.write_outcome(outcome.clone()).await.expect("written");
        let calls = store.recent_calls(1).await.expect("read");
        assert_eq!(calls, [CallRow { intent, outcome: Some(outcome) }]);
    }
}

async fn invalid_values_are_refused(store: Shared) {
    let mut nul = intent(1);
    nul.user = "ann\0".into();
    assert_eq!(code(store.write_intent(nul).await), "store.unfit");
    let mut long = intent(1);
    long.tool = "x".repeat(1_025);
    assert_eq!(code(store.write_intent(long).await), "store.unfit");
    let mut endless = outcome(&intent(1), OutcomeKind::Done);
    endless.duration_ms = u64::MAX;
    assert_eq!(code(store.write_outcome(endless).await), "store.unfit");
    assert_eq!(code(store.use_nonce(b"", 1).await), "store.unfit");
    assert_eq!(code(store.use_nonce(&[0; 257], 1).await), "store.unfit");
    assert_eq!(code(store.get_or_create_secret("", &|| vec![1]).await), "store.unfit");
    assert_eq!(code(store.get_or_create_secret("empty", &Vec::new).await), "store.unfit");
    assert_eq!(code(store.get_or_create_secret("long", &|| vec![0; 4_097]).await), "store.unfit");
    assert_eq!(store.recent_calls(10).await.expect("read"), []);
}

async fn sixty_four_callers_get_one_secret(store: Shared) {
    let mut callers = JoinSet::new();
    for caller in 0..64_u8 {
        let store = store.clone();
        callers.spawn(async move { store.get_or_create_secret("seal", &|| vec![caller; 32]).await });
    }
    let secrets: HashSet<_> =
        callers.join_all().await.into_iter().map(|secret| secret.expect("a secret")).collect();
    assert_eq!(secrets.len(), 1);
    let later = store.get_or_create_secret("seal", &|| panic!("the secret exists")).await.expect("a secret");
    assert!(secrets.contains(&later));
}

async fn secrets_are_separate_by_name(store: Shared) {
    for name in ["a", "A", "a "] {
        let bytes = name.as_bytes().to_vec();
        assert_eq!(store.get_or_create_secret(name, &|| bytes.clone()).await, Ok(bytes.clone()));
    }
    assert_eq!(store.get_or_create_secret("A", &|| vec![0]).await, Ok(b"A".to_vec()));
}

async fn exactly_one_of_sixty_four_uses_a_nonce_first(store: Shared) {
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        let store = store.clone();
        callers.spawn(async move { store.use_nonce(b"\0nonce\xff", 1_000).await.expect("an answer") });
    }
    let uses = callers.join_all().await;
    assert_eq!(uses.iter().filter(|use_| **use_ == NonceUse::First).count(), 1);
    assert_eq!(store.use_nonce(b"another", 1_000).await, Ok(NonceUse::First));
}

async fn purge_deletes_expired_nonces(store: Shared) {
    for (nonce, expires_at_ms) in [(b"early", 100), (b"later", 101)] {
        assert_eq!(store.use_nonce(nonce, expires_at_ms).await, Ok(NonceUse::First));
    }
    store.purge(100).await.expect("purged");
    assert_eq!(store.use_nonce(b"later", 101).await, Ok(NonceUse::Again));
    assert_eq!(store.use_nonce(b"early", 200).await, Ok(NonceUse::First));
}

async fn purge_drops_old_calls_but_no_open_ones(store: Shared) {
    let (old, old_and_open, young) = (intent(0), intent(0), intent(2));
    for intent in [&old, &old_and_open, &young] {
        store.write_intent(intent.clone()).await.expect("written");
    }
    for intent in [&old, &young] {
        store.write_outcome(outcome(intent, OutcomeKind::Done)).await.expect("written");
    }
    store.purge(HOUR_MS + 1).await.expect("purged");
    let kept: Vec<_> =
        store.recent_calls(10).await.expect("read").into_iter().map(|row| row.intent).collect();
    assert_eq!(kept, [young, old_and_open]);
    // A purged call can be written again.
    store.write_intent(old).await.expect("written");
}

async fn purge_drops_surplus_calls_but_no_open_ones(store: Shared) {
    let open = intent(0);
    store.write_intent(open.clone()).await.expect("written");
    for at_ms in 1..=2_050 {
        let intent = intent(at_ms);
        store.write_intent(intent.clone()).await.expect("written");
        store.write_outcome(outcome(&intent, OutcomeKind::Done)).await.expect("written");
    }
    store.purge(0).await.expect("purged");
    let kept: Vec<_> = store.recent_calls(1_000).await.expect("read");
    let times: Vec<_> = kept.iter().map(|row| row.intent.at_ms).collect();
    assert_eq!(times, (2_031..=2_050).rev().chain([0]).collect::<Vec<_>>());
    assert_eq!(store.open_intents().await.expect("read"), [open]);
}

async fn writers_beyond_the_queue_wait_and_succeed(store: Shared) {
    let mut writers = JoinSet::new();
    for at_ms in 0..2_000 {
        let store = store.clone();
        writers.spawn(async move {
            let intent = intent(at_ms);
            store.write_intent(intent.clone()).await?;
            store.write_outcome(outcome(&intent, OutcomeKind::Done)).await
        });
    }
    for result in writers.join_all().await {
        assert_eq!(result, Ok(()));
    }
    assert_eq!(store.open_intents().await.expect("read"), []);
}

async fn a_cancelled_write_does_not_break_the_store(store: Shared) {
    let intent = intent(1);
    {
        let mut write = pin!(store.write_intent(intent.clone()));
        let _ = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut read = pin!(store.recent_calls(1));
        let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    store.flush().await.expect("flushed");
    assert_eq!(store.open_intents().await.expect("read"), [intent]);
}

async fn a_closed_store_returns_store_closed(store: Shared) {
    store.write_intent(intent(1)).await.expect("written");
    store.close().await;
    store.close().await;
    assert_eq!(store.write_intent(intent(2)).await, Err(StoreError::Closed));
    assert_eq!(store.flush().await, Err(StoreError::Closed));
    assert_eq!(store.recent_calls(1).await, Err(StoreError::Closed));
    assert_eq!(store.use_nonce(b"n", 1).await, Err(StoreError::Closed));
    assert_eq!(code(store.get_or_create_secret("s", &|| vec![1]).await), "store.closed");
}
