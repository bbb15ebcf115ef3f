//! PostgreSQL: several stores on one database. `cargo xtask test` starts a server and sets `TOOLBOOTH_TEST_POSTGRES` to its
//! URL; without it these tests, and the contract tests of PostgreSQL, are skipped.

use crate::contract::{HOUR_MS, RETENTION, Shared};
use crate::sample::{approval, approve, audited, entry, intent, letter};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolbooth_core::dead_letter::LetterStep;
use toolbooth_core::fault::Fault;
use toolbooth_core::held::HeldState;
use toolbooth_store::{HeldUpdate, NonceUse, StoreNotice, StoreTopic, StoreUrl, open, open_with};
use uuid::Uuid;

const SERVER: &str = "TOOLBOOTH_TEST_POSTGRES";

/// A new, empty schema of the test server.
pub struct Schema {
    server: String,
    name: String,
}

impl Schema {
    pub async fn create() -> Option<Self> {
        let Ok(server) = std::env::var(SERVER) else {
            eprintln!("{SERVER} is not set, so this test is skipped");
            return None;
        };
        let schema = Self { server, name: format!("t{}", Uuid::now_v7().simple()) };
        schema.run(&format!("CREATE SCHEMA {}", schema.name)).await;
        Some(schema)
    }

    pub fn url(&self) -> StoreUrl {
        format!("{}?options[search_path]={}", self.server, self.name).parse().expect("a URL")
    }

    /// The URL of this schema with another address of the server.
    pub fn url_at(&self, address: &str) -> StoreUrl {
        let server = self.server.replacen(self.address(), address, 1);
        format!("{server}?options[search_path]={}", self.name).parse().expect("a URL")
    }

    /// The address of the server.
    pub fn address(&self) -> &str {
        let (_, after_user) = self.server.rsplit_once('@').expect("a user");
        after_user.split_once('/').expect("a database").0
    }

    /// Runs a statement beside the stores.
    async fn run(&self, statement: &str) {
        let mut plain = PgConnection::connect(&self.server).await.expect("the server is there");
        plain.execute(AssertSqlSafe(statement.to_owned())).await.expect("executed");
        plain.close().await.expect("closed");
    }

    async fn open(&self) -> Shared {
        open(&self.url()).await.expect("opens")
    }

    /// The partitions of the audit, by name.
    async fn partitions(&self) -> Vec<String> {
        let mut plain = PgConnection::connect(&self.server).await.expect("the server is there");
        let names = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 AND tablename LIKE 'audit\\_to\\_%' \
            ORDER BY length(tablename), tablename";
        let names = sqlx::query_scalar(names).bind(&self.name).fetch_all(&mut plain).await.expect("read");
        plain.close().await.expect("closed");
        names
    }

    /// Replaces the first partition of the audit by two of a hundred rows.
    async fn divide_audit(&self) {
        assert_eq!(self.partitions().await, ["audit_to_40000000"]);
        self.run(&format!(
            "SET search_path = {}; DROP TABLE audit_to_40000000; \
            CREATE TABLE audit_to_100 PARTITION OF audit FOR VALUES FROM (MINVALUE) TO (100); \
            CREATE TABLE audit_to_200 PARTITION OF audit FOR VALUES FROM (100) TO (200)",
            self.name
        ))
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_write_one_chain_and_use_a_nonce_once() {
    let Some(schema) = Schema::create().await else { return };
    let (a, b) = tokio::join!(schema.open(), schema.open());
    let mut writers = JoinSet::new();
    for (store, writer) in [(a.clone(), 0), (b.clone(), 0), (a.clone(), 1), (b.clone(), 1)] {
        writers.spawn(async move {
            let mut first = 0;
            for at_ms in 0..50_i64 {
                store.audit(audited(at_ms)).await.expect("added");
                let call = intent(at_ms);
                store.write_intent(call.clone()).await.expect("written");
                let nonce = format!("{writer} {at_ms}");
                first += u32::from(store.use_nonce(nonce.as_bytes(), 1_000).await == Ok(NonceUse::First));
            }
            first
        });
    }
    let first: u32 = writers.join_all().await.into_iter().sum();
    assert_eq!(first, 100);
    let report = b.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.first_bad), (200, None));
    let key = a.get_or_create_secret("seal", &|| vec![1; 32]).await.expect("a key");
    assert_eq!(b.get_or_create_secret("seal", &|| vec![2; 32]).await, Ok(key));
    a.close().await;
    b.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_noticed_by_the_other_gateway_at_once() {
    let Some(schema) = Schema::create().await else { return };
    let a = schema.open().await;
    let mut notices = a.notices().expect("notices");
    // The listener is ready once it has announced that changes may have been missed.
    wait_for(&mut notices, |notice| notice.topic.is_none()).await;
    let b = schema.open().await;
    let call = approval(1);
    a.hold(call.clone()).await.expect("held");
    let began = Instant::now();
    let decided = b.decide_held(call.id, approve("cy", 5), entry("decision")).await;
    assert!(matches!(decided, Ok(HeldUpdate::Won(_))));
    wait_for(&mut notices, |notice| notice.topic == Some(StoreTopic::Held) && notice.id == Some(call.id))
        .await;
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(a.held(call.id).await.map(|held| held.map(|held| held.state)), Ok(Some(HeldState::Approved)));
    a.close().await;
    b.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_gateway_runs_on_a_newer_schema_unless_it_is_marked() {
    let Some(schema) = Schema::create().await else { return };
    schema.open().await.close().await;
    let migrated = |name: &str, version: i64| {
        format!(
            "INSERT INTO {}._sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES ({version}, '{name}', true, 'x', 0)",
            schema.name
        )
    };
    // A newer version has added a column and a table.
    schema.run(&format!("ALTER TABLE {}.work ADD COLUMN later TEXT", schema.name)).await;
    schema.run(&migrated("later", 9_001)).await;
    let older = schema.open().await;
    older.audit(audited(1)).await.expect("added");
    older.close().await;
    // It has changed what was there.
    schema.run(&migrated("breaking_names", 9_002)).await;
    let refused = open(&schema.url()).await.map(drop).expect_err("refused");
    assert_eq!(refused.code(), "store.newer-schema", "{refused}");
}

async fn wait_for(notices: &mut toolbooth_store::StoreNotices, wanted: impl Fn(&StoreNotice) -> bool) {
    let waiting = async {
        loop {
            if notices.next().await.is_some_and(|notice| wanted(&notice)) {
                return;
            }
        }
    };
    timeout(Duration::from_secs(10), waiting).await.expect("a notice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_delivered_once_to_running_gateways() {
    let Some(schema) = Schema::create().await else { return };
    let (a, b, c) = (schema.open().await, schema.open().await, schema.open().await);
    // A lease is taken with the first commit.
    for store in [&a, &b, &c] {
        store.audit_now(vec![audited(1)]).await.expect("written");
    }
    let mut ids = [&a, &b, &c].map(|store| store.replica().to_owned());
    ids.sort();
    assert_eq!(a.live_replicas().await, Ok(ids.to_vec()));
    let mut notices = b.notices().expect("notices");
    assert_eq!(a.send_mail(b.replica(), "for b".into(), 1).await, Ok(1));
    let own: Uuid = b.replica().parse().expect("an id");
    wait_for(&mut notices, |notice| notice.is_about(StoreTopic::Mail)).await;
    assert_eq!(a.send_mail(&own.to_string()[31..], "by the end of the id".into(), 1).await, Ok(1));
    assert_eq!(a.send_mail("", "for all".into(), 1).await, Ok(2));
    assert_eq!(a.send_mail(a.replica(), "for itself".into(), 1).await, Ok(0));
    let expected = ["for b", "by the end of the id", "for all"].map(String::from).to_vec();
    assert_eq!(b.take_mail().await, Ok(expected));
    assert_eq!(b.take_mail().await, Ok(vec![]));
    assert_eq!(c.take_mail().await, Ok(vec!["for all".to_owned()]));
    let gone = c.replica().to_owned();
    c.close().await;
    assert_eq!(a.send_mail(&gone, "late".into(), 1).await, Ok(0));
    a.close().await;
    b.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_work_of_ended_gateways_is_ended() {
    let Some(schema) = Schema::create().await else { return };
    let (a, b) = (schema.open().await, schema.open().await);
    let (call, held, replayed) = (intent(1), approval(1), letter(1));
    a.write_intent(call.clone()).await.expect("written");
    a.hold(held.clone()).await.expect("held");
    a.decide_held(held.id, approve("cy", 5), entry("decision")).await.expect("decided");
    a.claim_held(held.id, 6).await.expect("claimed");
    a.add_letter(replayed.clone()).await.expect("added");
    a.move_letter(replayed.id, LetterStep::Claim, 2, None).await.expect("claimed");
    a.open_grant(call.call_id, 1_000_000).await.expect("opened");
    // A second gateway that starts leaves the work of the first alone.
    let starting = schema.open().await;
    assert_eq!(starting.close_interrupted(99).await, Ok(0));
    assert_eq!(starting.interrupted_held(99).await, Ok(vec![]));
    assert_eq!(starting.interrupted_letters(99, 100).await, Ok(vec![]));
    starting.end_grants(50).await.expect("ended");
    assert_eq!(b.grant(call.call_id).await, Ok(Some(1_000_000)));
    let lost = b.end_lost_work(99, 100, 50).await.expect("looked for");
    assert_eq!((lost.calls, lost.held.len(), lost.letters.len()), (0, 0, 0));
    // The first gateway ends without finishing its work.
    a.close().await;
    let lost = b.end_lost_work(99, 100, 50).await.expect("looked for");
    assert_eq!((lost.calls, lost.held.len(), lost.letters.len()), (1, 1, 1));
    assert_eq!(b.grant(call.call_id).await, Ok(Some(50)));
    assert_eq!(b.open_intents().await, Ok(vec![]));
    starting.close().await;
    b.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_opened_again_and_nothing_is_written_twice() {
    let Some(schema) = Schema::create().await else { return };
    let store = schema.open().await;
    let killing = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            // Only the connections of this test's schema have written its tables.
            schema
                .run(&format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
                    AND application_name = 'toolbooth' AND pid IN (SELECT pid FROM pg_locks l JOIN pg_class c \
                    ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = '{}')",
                    schema.name
                ))
                .await;
        }
    };
    let writing = async {
        for at_ms in 0..300 {
            store.audit_now(vec![audited(at_ms)]).await.expect("written in the end");
        }
    };
    tokio::join!(killing, writing);
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.first_bad), (300, None));
    store.check().await.expect("usable");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_on_after_all_connections_were_lost() {
    let Some(schema) = Schema::create().await else { return };
    // A database of its own, so that its connections are known.
    let name = format!("d{}", Uuid::now_v7().simple());
    schema.run(&format!("CREATE DATABASE {name}")).await;
    let (server, _) = schema.server.rsplit_once('/').expect("a URL with a database");
    let store = open(&format!("{server}/{name}").parse().expect("a URL")).await.expect("opens");
    let read_at_once = || {
        let reads: JoinSet<_> = (0..16)
            .map(|_| {
                let store = store.clone();
                async move { store.recent_calls(1).await }
            })
            .collect();
        reads.join_all()
    };
    assert_eq!(read_at_once().await, vec![Ok(vec![]); 16]);
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    schema.run(&end).await;
    assert_eq!(read_at_once().await, vec![Ok(vec![]); 16]);
    store.close().await;
    schema.run(&format!("DROP DATABASE {name}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_of_the_audit_are_created_in_time_and_dropped_when_old() {
    let Some(schema) = Schema::create().await else { return };
    let store = open_with(&schema.url(), RETENTION).await.expect("opens");
    schema.divide_audit().await;
    store.audit_now((0..250).map(|_| audited(1)).collect()).await.expect("added");
    store.audit_now((0..10).map(|_| audited(HOUR_MS)).collect()).await.expect("added");
    let created = ["audit_to_100", "audit_to_200", "audit_to_20000000", "audit_to_40000000"];
    assert_eq!(schema.partitions().await, created);
    store.purge(HOUR_MS + 2).await.expect("purged");
    assert_eq!(schema.partitions().await, created[2..]);
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.purged_to, report.first_bad), (10, 250, None));
    store.audit_now(vec![audited(HOUR_MS)]).await.expect("added");
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.first_bad, report.head.seq), (11, None, 261));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_with_young_rows_or_readers_stays() {
    let Some(schema) = Schema::create().await else { return };
    let store = open_with(&schema.url(), RETENTION).await.expect("opens");
    schema.divide_audit().await;
    // The last row is old, but another one is not.
    store.audit_now((0..50).map(|_| audited(HOUR_MS)).collect()).await.expect("added");
    store.audit_now((0..80).map(|_| audited(1)).collect()).await.expect("added");
    store.purge(HOUR_MS + 2).await.expect("purged");
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.first_bad), (130, None));
    // All rows are old, but a request reads them.
    let mut reader = PgConnection::connect(&schema.server).await.expect("the server is there");
    let begin = format!("BEGIN; SELECT count(*) FROM {}.audit", schema.name);
    reader.execute(AssertSqlSafe(begin)).await.expect("reads");
    store.purge(3 * HOUR_MS).await.expect("purged");
    assert_eq!(schema.partitions().await.len(), 4);
    reader.close().await.expect("closed");
    store.purge(3 * HOUR_MS).await.expect("purged");
    assert_eq!(schema.partitions().await, ["audit_to_200", "audit_to_20000000", "audit_to_40000000"]);
    let report = store.verify_audit().await.expect("checked");
    assert_eq!((report.rows, report.purged_to, report.first_bad), (0, 130, None));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_another_program_is_refused() {
    let Some(schema) = Schema::create().await else { return };
    schema.run(&format!("CREATE TABLE {}.theirs (id BIGINT)", schema.name)).await;
    assert_eq!(open(&schema.url()).await.err().map(|error| error.code()), Some("store.foreign"));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_reported_without_the_password() {
    // A port that nothing listens on.
    let url: StoreUrl = "postgres://ann:hunter2@127.0.0.1:1/x".parse().expect("a URL");
    let error = open(&url).await.err().expect("not reachable");
    assert_eq!(error.code(), "store.unreachable");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}
