//! Dead letters: contract tests for every backend.

use crate::contract::{Shared, code};
use crate::sample::{entry, letter};
use tokio::task::JoinSet;
use toolbooth_core::dead_letter::{Attempt, DeadLetter, LetterState, LetterStep, ReplayMode, Settlement};
use toolbooth_store::{
    AuditFilter, ENDED_LETTER_MS, LetterFilter, LetterUpdate, MAX_OPEN_LETTERS_OF_USER, MAX_SEALED_BYTES,
    OPEN_LETTER_MS,
};
use uuid::Uuid;

fn attempt(code: &str) -> Attempt {
    Attempt { at_ms: 9, provider: "mcp:other".into(), code: code.into(), duration_ms: 3 }
}

fn resolved() -> LetterStep {
    LetterStep::Settle(Settlement::Resolved(attempt("done")))
}

async fn won(store: &Shared, id: Uuid, step: LetterStep, at_ms: i64) -> DeadLetter {
    match store.move_letter(id, step, at_ms, None).await.expect("an answer") {
        LetterUpdate::Won(letter) => *letter,
        other => panic!("not won: {other:?}"),
    }
}

pub async fn a_letter_is_replayed_and_resolved(store: Shared) {
    let first = letter(5);
    store.add_letter(first.clone()).await.expect("kept");
    store.add_letter(first.clone()).await.expect("a repetition");
    let other = DeadLetter { tool: "delete".into(), ..first.clone() };
    assert_eq!(code(store.add_letter(other).await), "store.conflict");
    assert_eq!(store.letter(first.id).await, Ok(Some(first.clone())));
    assert_eq!(store.letter(Uuid::nil()).await, Ok(None));
    let missing = store.move_letter(Uuid::nil(), LetterStep::Claim, 6, None).await;
    assert_eq!(missing, Ok(LetterUpdate::Missing));

    let lost = store.move_letter(first.id, resolved(), 6, Some(entry("dead_letter"))).await;
    assert_eq!(lost, Ok(LetterUpdate::Lost(first.clone().into())));
    assert_eq!(
        store.audit_rows(AuditFilter::default()).await.expect("rows"),
        [],
        "a lost attempt adds no row"
    );
    let claimed = won(&store, first.id, LetterStep::Claim, 6).await;
    assert_eq!((claimed.state, claimed.replays), (LetterState::Retrying, 1));
    let failed = LetterStep::Settle(Settlement::Failed {
        attempt: attempt("call.timeout"),
        text: "no answer".into(),
        next_retry_ms: Some(70),
        may_have_happened: true,
    });
    let failed = won(&store, first.id, failed, 8).await;
    assert_eq!(store.letter(first.id).await, Ok(Some(failed.clone())));
    assert_eq!((failed.state, failed.error_code.as_str()), (LetterState::Pending, "call.timeout"));
    assert_eq!((failed.may_have_happened, failed.attempts.len()), (true, 2));
    won(&store, first.id, LetterStep::Claim, 9).await;
    let done = won(&store, first.id, resolved(), 10).await;
    assert_eq!(store.letter(first.id).await, Ok(Some(done.clone())));
    assert_eq!((done.state, done.ended_ms, done.sealed), (LetterState::Resolved, Some(10), None));
}

pub async fn one_of_eight_parallel_replays_wins(store: Shared) {
    for round in 0..50 {
        let letter = letter(round);
        store.add_letter(letter.clone()).await.expect("kept");
        let mut claims = JoinSet::new();
        for _ in 0..8 {
            let (store, id) = (store.clone(), letter.id);
            claims.spawn(async move {
                store.move_letter(id, LetterStep::Claim, 1, Some(entry("dead_letter"))).await
            });
        }
        let claims = claims.join_all().await;
        assert_eq!(claims.iter().filter(|claim| matches!(claim, Ok(LetterUpdate::Won(_)))).count(), 1);
    }
    assert_eq!(store.audit_rows(AuditFilter::default()).await.expect("rows").len(), 50);
}

pub async fn letters_are_filtered_and_paged(store: Shared) {
    let mut all = Vec::new();
    for number in 0..6 {
        let mut letter = letter(number);
        letter.user = if number % 2 == 0 { "ann" } else { "bo" }.into();
        letter.exposed = format!("mail_{}", number / 3);
        store.add_letter(letter.clone()).await.expect("kept");
        all.push(DeadLetter { sealed: None, ..letter });
    }
    all[4] = won(&store, all[4].id, LetterStep::Drop, 3).await;
    all.reverse();
    let ids = async |filter: LetterFilter| {
        let found = store.letters(filter).await.expect("found");
        found.iter().map(|letter| all.iter().position(|known| known == letter)).collect::<Vec<_>>()
    };
    let places = |numbers: &[usize]| numbers.iter().map(|number| Some(*number)).collect::<Vec<_>>();
    let none = LetterFilter::default;
    let cases = [
        (none(), places(&[0, 1, 2, 3, 4, 5])),
        (LetterFilter { user: Some("ann".into()), ..none() }, places(&[1, 3, 5])),
        (LetterFilter { states: vec![LetterState::Dropped], ..none() }, places(&[1])),
        (LetterFilter { tool: Some("mail_0".into()), ..none() }, places(&[3, 4, 5])),
        (LetterFilter { tool: Some("send".into()), ..none() }, places(&[0, 1, 2, 3, 4, 5])),
        (LetterFilter { before: Some(all[1].id), limit: Some(2), ..none() }, places(&[2, 3])),
        (LetterFilter { before: Some(Uuid::nil()), ..none() }, places(&[])),
    ];
    for (filter, expected) in cases {
        assert_eq!(ids(filter.clone()).await, expected, "{filter:?}");
    }
}

pub async fn due_letters_are_sorted_by_time(store: Shared) {
    assert_eq!(store.next_letter_ms().await, Ok(None));
    let letters =
        [Some(30), None, Some(10), Some(20)].map(|at| DeadLetter { next_retry_ms: at, ..letter(1) });
    for letter in &letters {
        store.add_letter(letter.clone()).await.expect("kept");
    }
    assert_eq!(store.next_letter_ms().await, Ok(Some(10)));
    assert_eq!(store.due_letters(9, 8).await, Ok(vec![]));
    assert_eq!(store.due_letters(20, 8).await, Ok(vec![letters[2].clone(), letters[3].clone()]));
    assert_eq!(store.due_letters(99, 1).await, Ok(vec![letters[2].clone()]));
    won(&store, letters[2].id, LetterStep::Claim, 11).await;
    assert_eq!(store.next_letter_ms().await, Ok(Some(20)));
}

pub async fn interrupted_replays_are_found_again(store: Shared) {
    let safe = DeadLetter { replaying: ReplayMode::Automatic, ..letter(1) };
    let (write, waiting) = (letter(1), letter(1));
    for letter in [&safe, &write, &waiting] {
        store.add_letter(letter.clone()).await.expect("kept");
    }
    won(&store, safe.id, LetterStep::Claim, 2).await;
    won(&store, write.id, LetterStep::Claim, 2).await;
    let found = store.interrupted_letters(9, 69).await.expect("found");
    assert_eq!(found.iter().map(|letter| letter.id).collect::<Vec<_>>(), [safe.id, write.id]);
    assert_eq!((found[0].next_retry_ms, found[0].may_have_happened), (Some(69), false));
    assert_eq!((found[1].next_retry_ms, found[1].may_have_happened), (None, true));
    assert_eq!(store.interrupted_letters(10, 70).await, Ok(vec![]));
    assert_eq!(store.letter(write.id).await, Ok(Some(found[1].clone())));
    assert_eq!(store.letter(waiting.id).await, Ok(Some(waiting)));
    let rows = store.audit_rows(AuditFilter::default()).await.expect("rows");
    assert_eq!(rows.iter().filter(|row| &*row.entry.outcome == "interrupted").count(), 2);
}

pub async fn letters_are_limited_and_purged(store: Shared) {
    let unfit = DeadLetter { sealed: Some("x".repeat(MAX_SEALED_BYTES + 1)), ..letter(1) };
    assert_eq!(code(store.add_letter(unfit).await), "store.unfit");
    let ended = DeadLetter { state: LetterState::Dropped, ended_ms: Some(1), ..letter(1) };
    assert_eq!(code(store.add_letter(ended).await), "store.unfit");
    let now_ms = 100 * 24 * 3_600_000;
    let [old, young, ended, lately] = [
        letter(now_ms - OPEN_LETTER_MS - 1),
        letter(now_ms - OPEN_LETTER_MS + 1),
        letter(now_ms - 10),
        letter(now_ms - 10),
    ];
    for letter in [&old, &young, &ended, &lately] {
        store.add_letter(letter.clone()).await.expect("kept");
    }
    won(&store, ended.id, LetterStep::Drop, now_ms - ENDED_LETTER_MS - 1).await;
    won(&store, lately.id, LetterStep::Drop, now_ms - ENDED_LETTER_MS + 1).await;
    store.purge(now_ms).await.expect("purged");
    let left = store.letters(LetterFilter::default()).await.expect("found");
    assert_eq!(left.iter().map(|letter| letter.id).collect::<Vec<_>>(), [lately.id, young.id]);
    for number in 1..MAX_OPEN_LETTERS_OF_USER {
        store.add_letter(letter(now_ms)).await.unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    assert_eq!(code(store.add_letter(letter(now_ms)).await), "store.full");
    store.add_letter(DeadLetter { user: "another user".into(), ..letter(now_ms) }).await.expect("kept");
}
