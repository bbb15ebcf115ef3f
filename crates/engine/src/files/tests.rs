//! File operations in memory: which names find which files, and which tokens open them.

use super::file_url::{TokenUse, is_admitted};
use super::*;
use crate::clock::system_clock;
use futures_util::{TryStreamExt, stream};
use std::collections::BTreeMap;
use std::convert::Infallible;
use toolbooth_core::catalog::{Catalog, Discovery, Naming, admit};
use toolbooth_core::fault::Fault;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::{ServerEntry, Transport};
use toolbooth_store::{MemoryStore, Retention};

struct World {
    store: Arc<dyn Store>,
    blobs: Blobs,
}

impl World {
    fn new() -> Self {
        Self { store: Arc::new(MemoryStore::new(Retention::default())), blobs: Blobs::in_memory() }
    }

    /// The files of one replica on this world's store.
    async fn replica(&self, key: Option<&str>, terms: FileTerms) -> Arc<CallerFiles> {
        let key = key.map(|key| key.as_bytes().to_vec());
        let room = FileStorage { blobs: self.blobs.clone(), terms, key };
        CallerFiles::open(room, self.store.clone(), system_clock()).await.expect("it opens")
    }
}

fn now_ms() -> i64 {
    system_clock().now_ms()
}

fn ann(session: Option<&str>) -> Caller {
    Caller { session: session.map(Into::into), ..Caller::guest("ann", []) }
}

fn pieces(text: &str) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    let pieces: Vec<_> = text.as_bytes().chunks(3).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces)
}

async fn text(files: &CallerFiles, file: &FileRow) -> String {
    let content = files.content(file, 0..file.size_bytes).await.expect("content");
    let pieces: Vec<Bytes> = content.try_collect().await.expect("all of it");
    String::from_utf8(pieces.concat()).expect("text")
}

#[tokio::test]
async fn names_mean_the_newest_file_of_their_session() {
    let files = World::new().replica(None, FileTerms::default()).await;
    let put = async |caller: &Caller, name: &str, content: &str| {
        files.put(caller, NewFile::upload(name), pieces(content)).await.expect("stored")
    };
    put(&ann(None), "a.csv", "shared").await;
    put(&ann(Some("s1")), "a.csv", "first").await;
    let second = put(&ann(Some("s1")), "../x/a.csv", "second").await;
    assert_eq!((second.version, second.mime.as_str(), second.name.as_str()), (2, "text/csv", "a.csv"));
    let bo = Caller::guest("bo", []);
    let cases = [
        (ann(None), "a.csv", Some("shared")),
        (ann(Some("s1")), "a.csv", Some("second")),
        (ann(Some("s1")), "/tmp/a.csv", Some("second")),
        (ann(Some("s2")), "a.csv", Some("shared")),
        (ann(None), "b.csv", None),
        (ann(None), "..", None),
        (bo.clone(), "a.csv", None),
    ];
    for (caller, name, expected) in cases {
        let found = files.named(&caller, name).await.expect("looked up");
        let found = match &found {
            Some(file) => Some(text(&files, file).await),
            None => None,
        };
        assert_eq!(found.as_deref(), expected, "{} {:?} {name}", caller.user, caller.session);
    }
    assert_eq!(files.get(&bo, second.id).await, Err(FileProblem::Unknown));
    assert_eq!(files.remove(&bo, second.id).await, Err(FileProblem::Unknown));
    files.remove(&ann(None), second.id).await.expect("removed");
    assert_eq!(files.get(&ann(None), second.id).await, Err(FileProblem::Unknown));
    assert_eq!(files.list(&ann(None), FileQuery::default()).await.expect("listed").len(), 2);
}

#[tokio::test]
async fn invalid_or_incomplete_files_leave_nothing_behind() {
    let world = World::new();
    let files = world.replica(None, FileTerms { max_bytes: 10, ..FileTerms::default() }).await;
    let upload = |name: &str| NewFile::upload(name);
    files.put(&ann(None), upload("ten"), pieces("0123456789")).await.expect("ten bytes are within the limit");
    let too_large = files.put(&ann(None), upload("x"), pieces("0123456789a")).await;
    assert_eq!(too_large, Err(FileProblem::TooLarge { limit_bytes: 10 }));
    assert_eq!(files.put(&ann(None), upload("..."), pieces("x")).await, Err(FileProblem::BadName));
    let cut = stream::iter([Ok(Bytes::from("x")), Err("hung up")]);
    assert_eq!(files.put(&ann(None), upload("x"), cut).await, Err(FileProblem::CutShort));
    assert_eq!(files.list(&ann(None), FileQuery::default()).await.expect("listed").len(), 1);
    // Content without a row is deleted; content with one is kept.
    let mut writer = world.blobs.writer(Uuid::now_v7()).await.expect("a writer");
    writer.write(Bytes::from("orphan")).await.expect("written");
    writer.finish().await.expect("finished");
    assert_eq!(files.sweep_orphans(now_ms() + 1_000).await, Ok(1));
    assert_eq!(files.sweep_orphans(now_ms() + 1_000).await, Ok(0));
}

#[tokio::test]
async fn a_token_opens_its_file_for_its_call_on_every_replica() {
    const KEY: &str = "0123456789abcdef0123456789abcdef";
    let world = World::new();
    let files = world.replica(Some(KEY), FileTerms::default()).await;
    let file = files.put(&ann(None), NewFile::upload("a.txt"), pieces("hello")).await.expect("stored");
    let other = files.put(&ann(None), NewFile::upload("b.txt"), pieces("other")).await.expect("stored");
    let server: ServerName = "mail".parse().expect("a name");
    let now_s = now_ms() / 1000;
    let token = |file: &FileRow, call: Uuid, expires_s: i64| {
        let url = files.file_url("http://gate/", file, &server, call, expires_s).expect("a URL");
        let (url, token) = url.expose().split_once("?token=").expect("a token");
        assert_eq!(url, format!("http://gate/files/download/{}/{}", file.id, file.name.as_str()));
        token.to_owned()
    };
    let (live, over, unheard) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    for call in [live, over] {
        world.store.open_grant(call, now_ms() + 10_000).await.expect("granted");
    }
    world.store.end_grant(over, now_ms() - 1).await.expect("ended");
    let twin = world.replica(Some(KEY), FileTerms::default()).await;
    let stranger = world.replica(None, FileTerms::default()).await;
    let good = token(&file, live, now_s + 100);
    // A token for a file of another user: its claims do not match the file's owner.
    let stolen = token(&FileRow { user: "bo".into(), ..file.clone() }, live, now_s + 100);
    let gone = token(&FileRow { id: unheard, ..file.clone() }, live, now_s + 100);
    let (id, other_id, gone_id) = (file.id.to_string(), other.id.to_string(), unheard.to_string());
    let altered = format!("{good}x");
    let expired = token(&file, live, now_s - 1);
    let (of_ended, of_unheard) = (token(&file, over, now_s + 100), token(&file, unheard, now_s + 100));
    use TokenRefusal::{Gone, Invalid, OtherFile};
    let cases = [
        ("good", &files, &id, Some(&good), None),
        ("good again", &files, &id, Some(&good), None),
        ("a replica with the same key", &twin, &id, Some(&good), None),
        ("a gateway with another key", &stranger, &id, Some(&good), Some(Invalid)),
        ("missing", &files, &id, None, Some(Invalid)),
        ("altered", &files, &id, Some(&altered), Some(Invalid)),
        ("expired", &files, &id, Some(&expired), Some(Invalid)),
        ("other file", &files, &other_id, Some(&good), Some(OtherFile)),
        ("other user", &files, &id, Some(&stolen), Some(Gone)),
        ("gone", &files, &gone_id, Some(&gone), Some(Gone)),
        ("call over", &files, &id, Some(&of_ended), Some(Invalid)),
        ("call unheard of", &files, &id, Some(&of_unheard), Some(Invalid)),
    ];
    for (case, files, id, token, refusal) in cases {
        let found = files.by_token(id, token.map(String::as_str), TokenUse::Fetch).await;
        assert_eq!(found.as_ref().err(), refusal.as_ref(), "{case}");
        assert_eq!(found.ok().map(|found| found.file.id), refusal.is_none().then_some(file.id), "{case}");
    }
}

#[tokio::test]
async fn a_token_for_one_use_is_used_once_on_any_replica() {
    let world = World::new();
    let terms = FileTerms { uses: Uses::Once, ..FileTerms::default() };
    let (files, twin) = (world.replica(None, terms.clone()).await, world.replica(None, terms).await);
    let file = files.put(&ann(None), NewFile::upload("a.txt"), pieces("hello")).await.expect("stored");
    let call = Uuid::now_v7();
    world.store.open_grant(call, now_ms() + 10_000).await.expect("granted");
    let server = "mail".parse().expect("a name");
    let url = files.file_url("http://gate", &file, &server, call, now_ms() / 1000 + 100).expect("a URL");
    let token = url.expose().split_once("?token=").expect("a token").1;
    let id = file.id.to_string();
    files.by_token(&id, Some(token), TokenUse::Head).await.expect("reading the head does not use it up");
    files.by_token(&id, Some(token), TokenUse::Fetch).await.expect("the first use");
    for files in [files, twin] {
        let again = files.by_token(&id, Some(token), TokenUse::Fetch).await;
        assert_eq!(again.expect_err("used up").code(), "file.token-invalid");
    }
}

// audit: file URLs have unlimited uses.
#[tokio::test]
async fn a_file_url_can_be_used_up_to_its_limit() {
    let world = World::new();
    let files = world.replica(None, FileTerms { max_uses: 3, ..FileTerms::default() }).await;
    let file = files.put(&ann(None), NewFile::upload("a.txt"), pieces("hello")).await.expect("stored");
    let server = "mail".parse().expect("a name");
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let call = Uuid::now_v7();
        world.store.open_grant(call, now_ms() + 10_000).await.expect("granted");
        let url = files.file_url("http://gate", &file, &server, call, now_ms() / 1000 + 100).expect("a URL");
        tokens.push(url.expose().split_once("?token=").expect("a token").1.to_owned());
    }
    let id = file.id.to_string();
    for token in &tokens {
        for purpose in [TokenUse::Fetch, TokenUse::Head, TokenUse::Fetch] {
            files.by_token(&id, Some(token), purpose).await.expect("within the limit");
        }
        let over = files.by_token(&id, Some(token), TokenUse::Fetch).await;
        assert_eq!(over.expect_err("used up").code(), "file.token-invalid");
    }
}

// audit: no per-user quota.
#[tokio::test]
async fn the_quota_limits_files_and_bytes_of_a_user() {
    let world = World::new();
    let quota = FileQuota { files: 3, bytes: 10 };
    let files = world.replica(None, FileTerms { quota, ..FileTerms::default() }).await;
    let put = async |caller: &Caller, text: &str| {
        files.put(caller, NewFile::upload("a.txt"), pieces(text)).await.map(|file| file.id)
    };
    put(&ann(None), "12345").await.expect("there is room");
    assert_eq!(put(&ann(None), "123456").await, Err(FileProblem::Quota), "one byte too many");
    let second = put(&ann(None), "1234").await.expect("there is room");
    put(&ann(None), "1").await.expect("there is room");
    assert_eq!(put(&ann(None), "").await, Err(FileProblem::Quota), "three files are the limit");
    put(&Caller::guest("bo", []), "1234567890").await.expect("another user has room");
    files.remove(&ann(None), second).await.expect("removed");
    put(&ann(None), "1234").await.expect("there is room again");
    // Concurrent uploads share the rest of the quota.
    let bo = Caller::guest("cy", []);
    let (one, two) = tokio::join!(put(&bo, "123456"), put(&bo, "123456"));
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
}

#[tokio::test]
async fn old_files_are_purged_if_configured() {
    let world = World::new();
    let keep = Some(Duration::from_secs(60));
    let files = world.replica(None, FileTerms { keep, ..FileTerms::default() }).await;
    files.put(&ann(None), NewFile::upload("a.txt"), pieces("hello")).await.expect("stored");
    assert_eq!(files.purge(now_ms()).await, Ok(0));
    assert_eq!(files.purge(now_ms() + 61_000).await, Ok(1));
    assert_eq!(files.list(&ann(None), FileQuery::default()).await.expect("listed").len(), 0);
}

#[tokio::test]
async fn weak_keys_are_refused() {
    for key in ["", "short", &"a".repeat(64)] {
        let room = FileStorage { key: Some(key.as_bytes().to_vec()), ..FileStorage::in_memory() };
        let refused =
            CallerFiles::open(room, World::new().store, system_clock()).await.expect_err("a weak key");
        assert_eq!(refused.code, "config.weak-key", "{key}");
    }
}

// audit: a server that was removed from the catalog counts as admitted.
#[test]
fn only_a_server_of_the_catalog_is_admitted() {
    let mut parts = BTreeMap::new();
    for (name, group, enabled) in
        [("open", "users", true), ("closed", "staff", true), ("disabled", "users", false)]
    {
        let name: ServerName = name.parse().expect("a name");
        let mut entry = ServerEntry::with_defaults(name.clone(), Transport::Own);
        (entry.groups, entry.enabled) = (vec![group.to_owned()], enabled);
        let part = admit(&Arc::new(entry), &Discovery::default(), &Naming::default(), &|_| false);
        parts.insert(name, Arc::new(part));
    }
    let catalog = Catalog::new(1, parts);
    let (ann, staff) = (ann(None), Caller::guest("bo", ["staff".to_owned()]));
    let cases = [
        ("open", &ann, true),
        ("closed", &ann, false),
        ("closed", &staff, true),
        ("disabled", &ann, false),
        ("gone", &ann, false),
        ("", &ann, false),
    ];
    for (server, owner, expected) in cases {
        assert_eq!(is_admitted(&catalog, server, owner), expected, "{server} for {}", owner.user);
    }
}
