//! Rows of files and grants: contract tests for every backend.

use crate::contract::{Shared, code};
use crate::sample::server;
use toolbooth_core::file::{FileName, FileOrigin, FileRow};
use toolbooth_store::{FileFilter, MAX_FILES_OF_USER, MAX_FILES_PAGE};
use uuid::Uuid;

fn file(name: &str) -> FileRow {
    FileRow {
        id: Uuid::now_v7(),
        user: "ann".into(),
        session: None,
        name: FileName::made_safe(name).expect("a name"),
        version: 0,
        mime: "text/csv".into(),
        size_bytes: 5_000_000_000,
        sha256: [3; 32],
        origin: FileOrigin::Upload,
        description: None,
        viewer: None,
        created_ms: 17,
    }
}

fn in_session(session: &str, file: FileRow) -> FileRow {
    FileRow { session: Some(session.into()), ..file }
}

async fn add(store: &Shared, file: FileRow) -> FileRow {
    store.add_file(file).await.expect("added")
}

pub async fn a_reused_name_creates_a_new_version(store: Shared) {
    let artifact = FileRow {
        origin: FileOrigin::Artifact { call: Uuid::now_v7(), server: server("mail"), tool: "plot".into() },
        description: Some("Zoë's \"plot\"; --".into()),
        viewer: Some("image".into()),
        ..file("a.csv")
    };
    let first = add(&store, file("a.csv")).await;
    let second = add(&store, artifact.clone()).await;
    assert_eq!((first.version, second.version), (1, 2));
    assert_eq!(second, FileRow { version: 2, ..artifact.clone() });
    assert_eq!(add(&store, artifact.clone()).await, second, "a repetition");
    assert_eq!(code(store.add_file(FileRow { size_bytes: 1, ..artifact }).await), "store.taken");
    for other in
        [file("b.csv"), in_session("s", file("a.csv")), FileRow { user: "bo".into(), ..file("a.csv") }]
    {
        assert_eq!(add(&store, other).await.version, 1);
    }
    assert_eq!(store.file(first.id).await, Ok(Some(first.clone())));
    assert_eq!(store.file_named("ann", None, "a.csv").await, Ok(Some(second.clone())));
    assert_eq!(store.remove_file(second.id).await, Ok(Some(second.clone())));
    assert_eq!(store.remove_file(second.id).await, Ok(None));
    assert_eq!(store.file(second.id).await, Ok(None));
    assert_eq!(
        store.file_named("ann", None, "a.csv").await,
        Ok(Some(first.clone())),
        "the one before is back"
    );
    assert_eq!(store.known_files(&[second.id, first.id]).await, Ok(vec![first.id]));
    assert_eq!(store.known_files(&[]).await, Ok(vec![]));
}

pub async fn a_session_sees_its_own_files_and_those_without_one(store: Shared) {
    let shared = add(&store, file("a.csv")).await;
    let own = add(&store, in_session("s1", file("a.csv"))).await;
    let later = add(&store, file("a.csv")).await;
    let cases = [
        ("ann", None, Some(&later)),
        ("ann", Some("s1"), Some(&own)),
        ("ann", Some("s2"), Some(&later)),
        ("bo", None, None),
        ("bo", Some("s1"), None),
    ];
    for (user, session, expected) in cases {
        let found = store.file_named(user, session, "a.csv").await.expect("read");
        assert_eq!(found.as_ref(), expected, "{user} {session:?}");
    }
    assert_eq!(store.file_named("ann", Some("s1"), "b.csv").await, Ok(None));
    let seen = |session: Option<&str>| FileFilter {
        user: "ann".into(),
        session: session.map(Into::into),
        ..FileFilter::default()
    };
    assert_eq!(store.files(seen(None)).await, Ok(vec![later.clone(), own.clone(), shared.clone()]));
    assert_eq!(store.files(seen(Some("s1"))).await, Ok(vec![later.clone(), own, shared.clone()]));
    assert_eq!(store.files(seen(Some("s2"))).await, Ok(vec![later, shared]));
}

pub async fn files_are_listed_in_pages(store: Shared) {
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(add(&store, file(&format!("{number}.txt"))).await.id);
    }
    add(&store, FileRow { user: "bo".into(), ..file("x") }).await;
    ids.reverse();
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let filter = FileFilter { user: "ann".into(), before, limit: Some(2), ..FileFilter::default() };
        let page = store.files(filter).await.expect("a page");
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        seen.extend(page.iter().map(|file| file.id));
    }
    assert_eq!(seen, ids);
    let named = FileFilter { user: "ann".into(), name: Some("3.txt".into()), ..FileFilter::default() };
    assert_eq!(store.files(named).await.expect("listed").len(), 1);
    let gone = FileFilter { user: "ann".into(), before: Some(Uuid::nil()), ..FileFilter::default() };
    assert_eq!(store.files(gone).await, Ok(vec![]));
}

pub async fn invalid_files_are_refused(store: Shared) {
    let unfit = [
        FileRow { user: "\0".into(), ..file("a") },
        in_session("", file("a")),
        FileRow { mime: "x".repeat(2_000), ..file("a") },
        FileRow { description: Some("x".repeat(10_000)), ..file("a") },
        FileRow { size_bytes: u64::MAX, ..file("a") },
    ];
    for file in unfit {
        assert_eq!(code(store.add_file(file).await), "store.unfit");
    }
    let many = vec![Uuid::nil(); MAX_FILES_PAGE as usize + 1];
    assert_eq!(code(store.known_files(&many).await), "store.unfit");
}

pub async fn files_of_one_user_are_limited(store: Shared) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..MAX_FILES_OF_USER {
        let store = store.clone();
        tasks.spawn(async move { store.add_file(file(&format!("{number}.txt"))).await });
    }
    assert!(tasks.join_all().await.into_iter().all(|added| added.is_ok()));
    assert_eq!(code(store.add_file(file("one more")).await), "store.full");
    add(&store, FileRow { user: "bo".into(), ..file("x") }).await;
}

pub async fn grants_end_with_their_calls(store: Shared) {
    let (one, two) = (Uuid::now_v7(), Uuid::now_v7());
    assert_eq!(store.grant(one).await, Ok(None));
    for call in [one, two] {
        store.open_grant(call, 1_000).await.expect("opened");
    }
    store.end_grant(one, 100).await.expect("ended");
    store.end_grant(one, 500).await.expect("ended again, later");
    store.end_grant(Uuid::nil(), 100).await.expect("nothing to end");
    assert_eq!(store.grant(one).await, Ok(Some(100)));
    assert_eq!(store.grant(two).await, Ok(Some(1_000)));
    store.end_grants(300).await.expect("all ended");
    assert_eq!((store.grant(one).await, store.grant(two).await), (Ok(Some(100)), Ok(Some(300))));
    store.purge(100).await.expect("purged");
    assert_eq!((store.grant(one).await, store.grant(two).await), (Ok(None), Ok(Some(300))));
}
