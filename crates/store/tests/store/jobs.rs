//! Jobs, runs and tasks: contract tests for every backend.

use crate::contract::{Shared, code};
use crate::sample::entry;
use tokio::task::JoinSet;
use toolbooth_store::{
    AuditFilter, CALL_TASK_MS, ENDED_WORK_MS, MAX_WORK_BYTES, RowBodies, WorkChange, WorkFilter, WorkKind,
    WorkRow, WorkUpdate,
};

fn row(kind: WorkKind, id: &str) -> WorkRow {
    WorkRow {
        kind,
        id: id.into(),
        parent: (kind == WorkKind::Run).then(|| "job".into()),
        user: "ann".into(),
        name: "Daily \"brief\"".into(),
        state: "pending".into(),
        due_ms: None,
        created_ms: 1,
        updated_ms: 1,
        body: r#"{"note":"ü"}"#.into(),
    }
}

fn replace(earlier: &WorkRow, change: impl FnOnce(&mut WorkRow)) -> WorkChange {
    let mut row = earlier.clone();
    row.updated_ms += 1;
    change(&mut row);
    WorkChange::Replace { expected_ms: earlier.updated_ms, row }
}

pub async fn work_is_added_changed_and_removed(store: Shared) {
    let job = row(WorkKind::Job, "job");
    let added = store.change_work(vec![WorkChange::Add(job.clone())], Some(entry("job"))).await;
    assert_eq!(added, Ok(WorkUpdate::Won));
    assert_eq!(store.work(WorkKind::Job, "job").await, Ok(Some(job.clone())));
    assert_eq!(store.work(WorkKind::Run, "job").await, Ok(None), "kinds have their own ids");
    let again = store.change_work(vec![WorkChange::Add(job.clone())], Some(entry("job"))).await;
    assert_eq!(again, Ok(WorkUpdate::Lost(Some(job.clone().into()))));
    assert_eq!(store.audit_rows(AuditFilter::default()).await.expect("rows").len(), 1, "of the winner");

    let change = replace(&job, |row| (row.state, row.due_ms) = ("scheduled".into(), Some(9)));
    let WorkChange::Replace { row: changed, .. } = change.clone() else { panic!("a replacement") };
    assert_eq!(store.change_work(vec![change.clone()], None).await, Ok(WorkUpdate::Won));
    let late = store.change_work(vec![change], None).await;
    assert_eq!(late, Ok(WorkUpdate::Lost(Some(changed.clone().into()))), "it was changed before");
    let missing = store.change_work(vec![replace(&row(WorkKind::Task, "none"), |_| ())], None).await;
    assert_eq!(missing, Ok(WorkUpdate::Lost(None)));

    let remove = |expected_ms| WorkChange::Remove { kind: WorkKind::Job, id: "job".into(), expected_ms };
    assert!(matches!(store.change_work(vec![remove(1)], None).await, Ok(WorkUpdate::Lost(Some(_)))));
    assert_eq!(store.change_work(vec![remove(changed.updated_ms)], None).await, Ok(WorkUpdate::Won));
    assert_eq!(store.work(WorkKind::Job, "job").await, Ok(None));
}

pub async fn changes_of_work_are_made_together_or_not_at_all(store: Shared) {
    let (job, run) = (row(WorkKind::Job, "job"), row(WorkKind::Run, "run"));
    store.change_work(vec![WorkChange::Add(job.clone())], None).await.expect("added");
    let stale = WorkRow { updated_ms: 0, ..job.clone() };
    let changes = vec![WorkChange::Add(run.clone()), replace(&stale, |row| row.state = "running".into())];
    assert_eq!(store.change_work(changes, None).await, Ok(WorkUpdate::Lost(Some(job.clone().into()))));
    assert_eq!(store.work(WorkKind::Run, "run").await, Ok(None), "nothing of it was written");
    let changes = vec![WorkChange::Add(run.clone()), replace(&job, |row| row.state = "running".into())];
    assert_eq!(store.change_work(changes, None).await, Ok(WorkUpdate::Won));
    assert_eq!(store.work(WorkKind::Run, "run").await, Ok(Some(run)));
    let job = store.work(WorkKind::Job, &job.id).await.expect("read").expect("the job");
    let removal = WorkChange::Remove { kind: WorkKind::Job, id: job.id.clone(), expected_ms: job.updated_ms };
    assert_eq!(store.change_work(vec![removal], None).await, Ok(WorkUpdate::Won));
    assert_eq!(store.work(WorkKind::Run, "run").await, Ok(None), "its runs are removed with it");
    let long = WorkRow { body: "x".repeat(MAX_WORK_BYTES + 1), ..row(WorkKind::Task, "long") };
    assert_eq!(code(store.change_work(vec![WorkChange::Add(long)], None).await), "store.unfit");
}

/// Of many claims of one run, one wins.
pub async fn work_is_claimed_once(store: Shared) {
    let run = row(WorkKind::Run, "run");
    store.change_work(vec![WorkChange::Add(run.clone())], None).await.expect("added");
    let mut tasks = JoinSet::new();
    for worker in 0..20 {
        let (store, run) = (store.clone(), run.clone());
        tasks.spawn(async move {
            let claim = replace(&run, |row| row.body = format!(r#"{{"worker":{worker}}}"#));
            store.change_work(vec![claim], None).await.expect("an answer") == WorkUpdate::Won
        });
    }
    let won = tasks.join_all().await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}

pub async fn work_is_listed_by_page_and_by_due_time(store: Shared) {
    for number in 0..5 {
        let mut run = row(WorkKind::Run, &format!("run-{number}"));
        run.due_ms = (number > 1).then_some(10 - number);
        run.state = if number == 0 { "failed".into() } else { "running".into() };
        run.user = if number == 4 { "bob".into() } else { "ann".into() };
        store.change_work(vec![WorkChange::Add(run)], None).await.expect("added");
    }
    let ids = |rows: Vec<WorkRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    let all = WorkFilter::of(WorkKind::Run);
    let page = store.work_rows(WorkFilter { limit: Some(2), ..all.clone() }).await.expect("rows");
    assert_eq!(ids(page), ["run-4", "run-3"]);
    let before = Some("run-3".to_owned());
    let page = store.work_rows(WorkFilter { before, limit: Some(2), ..all.clone() }).await.expect("rows");
    assert_eq!(ids(page), ["run-2", "run-1"]);
    let filter = WorkFilter { states: vec!["failed".into()], user: Some("ann".into()), ..all.clone() };
    assert_eq!(ids(store.work_rows(filter).await.expect("rows")), ["run-0"]);
    let heads = WorkFilter { bodies: RowBodies::LeftOut, limit: Some(1), ..all.clone() };
    let heads = store.work_rows(heads).await.expect("rows");
    assert_eq!((heads[0].id.as_str(), heads[0].user.as_str(), heads[0].body.as_str()), ("run-4", "bob", ""));
    let other = WorkFilter { parent: Some("other".into()), ..all };
    assert_eq!(store.work_rows(other).await, Ok(Vec::new()));
    assert_eq!(ids(store.due_work(7, 10).await.expect("rows")), ["run-4", "run-3"]);
    assert_eq!(store.next_work_ms().await, Ok(Some(6)));
}

pub async fn ended_work_is_purged(store: Shared) {
    for (kind, id, state) in [
        (WorkKind::Run, "old", "succeeded"),
        (WorkKind::Run, "held", "held"),
        (WorkKind::Job, "job", "failed"),
        (WorkKind::Task, "task", "done"),
        (WorkKind::CallTask, "call", "working"),
    ] {
        let row = WorkRow { state: state.into(), ..row(kind, id) };
        store.change_work(vec![WorkChange::Add(row)], None).await.expect("added");
    }
    store.purge(CALL_TASK_MS).await.expect("purged");
    assert!(store.work(WorkKind::CallTask, "call").await.expect("read").is_some(), "not old enough");
    store.purge(CALL_TASK_MS + 10).await.expect("purged");
    assert_eq!(store.work(WorkKind::CallTask, "call").await, Ok(None), "its age decides");
    store.purge(ENDED_WORK_MS).await.expect("purged");
    assert!(store.work(WorkKind::Run, "old").await.expect("read").is_some(), "not old enough");
    store.purge(ENDED_WORK_MS + 10).await.expect("purged");
    assert_eq!(store.work(WorkKind::Run, "old").await, Ok(None));
    assert_eq!(store.work(WorkKind::Task, "task").await, Ok(None));
    assert!(store.work(WorkKind::Run, "held").await.expect("read").is_some(), "it waits for a person");
    assert!(store.work(WorkKind::Job, "job").await.expect("read").is_some());
}
