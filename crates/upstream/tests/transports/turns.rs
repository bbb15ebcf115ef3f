//! Turns on connections whose questions name no call, and spare connections for calls that find the turn
//! taken.

use crate::sockets::{self, Greeting};
use crate::test_server::Journal;
use crate::{LIMIT, SOON};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use toolbooth_core::caller::{AskedWhen, Caller, ClientFacts};
use toolbooth_core::json::RawJson;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{RemoteEndpoint, ServerEntry, Transport};
use toolbooth_upstream::connection::UpstreamRequest;
use toolbooth_upstream::http::ServerCredential;
use toolbooth_upstream::open::OpenContext;
use toolbooth_upstream::pool::{IdleLimits, Pool};
use toolbooth_upstream::process::{Reaper, StderrTail};
use toolbooth_upstream::{CallLink, Connection, ConnectionLease, LinkEvent, PeerAnswer, UpstreamError};

/// Longer than a call waits for its own connection, and longer than opening another takes.
const PAUSE: Duration = Duration::from_millis(700);
/// Number of connections of the same callers that work in parallel.
const MAX_PARALLEL: usize = 4;

struct TestPool {
    pool: Arc<Pool>,
    journal: Journal,
}

impl TestPool {
    async fn open(url: &str, journal: Journal) -> Self {
        let remote = RemoteEndpoint { url: SecretText::plain(url), headers: BTreeMap::new() };
        let entry = ServerEntry::with_defaults("tools".parse().unwrap(), Transport::WebSocket(remote));
        let open_context = OpenContext {
            host_environment: BTreeMap::new(),
            allowed_environment: Vec::new(),
            reaper: Reaper::current_exe(),
            bundled: toolbooth_upstream::bundled::none,
            own_executable: "toolbooth".into(),
            roots: None,
            answer_limit: LIMIT,
        };
        let notices = mpsc::channel(16).0;
        let pool = Pool::new(
            Arc::new(entry),
            Arc::new(open_context),
            ServerCredential::None,
            StderrTail::new(),
            notices,
        );
        pool.open_primary(None).await.unwrap();
        Self { pool, journal }
    }

    async fn new() -> Self {
        let (url, journal) = sockets::serve(Greeting::Mcp).await;
        Self::open(&url, journal).await
    }

    async fn lease(&self, client: &ClientFacts) -> ConnectionLease {
        let caller = Caller::owner("me");
        timeout(SOON, self.pool.for_call(&caller, client)).await.expect("a lease in time").unwrap()
    }

    fn is_home(&self, lease: &ConnectionLease) -> bool {
        std::ptr::eq::<Connection>(&**lease, &*self.pool.primary().unwrap())
    }
}

fn who_can(capabilities: &'static str) -> ClientFacts {
    ClientFacts { capabilities: RawJson::trusted(capabilities), ..ClientFacts::default() }
}

fn askable() -> ClientFacts {
    who_can(r#"{"elicitation":{}}"#)
}

fn unaskable() -> ClientFacts {
    who_can("{}")
}

async fn call(
    lease: &ConnectionLease,
    tool: &str,
    client: &ClientFacts,
    link: &CallLink,
) -> Result<String, UpstreamError> {
    let params = vec![("name", RawJson::from_value(tool)), ("arguments", RawJson::empty_object())];
    match lease.send(UpstreamRequest::plain("tools/call", params, client), link).await? {
        PeerAnswer::Whole(Ok(result)) => Ok(result.as_str().to_owned()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_taken_turn_leads_to_a_spare_connection() {
    let test_pool = TestPool::new().await;
    let client = askable();
    let first = test_pool.lease(&client).await;
    assert!(test_pool.is_home(&first));
    let second = test_pool.lease(&client).await;
    assert!(!test_pool.is_home(&second), "the turn of the own connection is taken");
    drop(first);
    let third = test_pool.lease(&client).await;
    assert!(test_pool.is_home(&third), "the own connection is preferred");
    drop(second);
    assert!(
        test_pool.is_home(&test_pool.lease(&unaskable()).await),
        "a client that cannot be asked needs no turn"
    );
}

#[tokio::test]
async fn calls_that_are_asked_only_alone_share_a_connection_until_the_server_asks() {
    let test_pool = TestPool::new().await;
    let client = ClientFacts { asked_when: AskedWhen::Alone, ..askable() };
    let (first, second) = (test_pool.lease(&client).await, test_pool.lease(&client).await);
    assert!(test_pool.is_home(&first) && test_pool.is_home(&second), "neither needs a turn");
    drop(second);
    let (link, mut events) = CallLink::new();
    let facts = client.clone();
    let calling = tokio::spawn(async move { call(&first, "ask", &facts, &link).await });
    let Some(LinkEvent::Question(question)) = timeout(SOON, events.recv()).await.unwrap() else {
        panic!("no question")
    };
    question.reply.send(Ok(RawJson::trusted(r#"{"action":"accept","content":{"number":7}}"#))).unwrap();
    let result = timeout(SOON, calling).await.unwrap().unwrap().unwrap();
    assert!(result.contains(r#""number":7"#), "{result}");
    let (first, second) = (test_pool.lease(&client).await, test_pool.lease(&client).await);
    assert!(test_pool.is_home(&first) && !test_pool.is_home(&second), "now they take turns");
}

#[tokio::test]
async fn a_turn_taken_briefly_is_waited_for() {
    let test_pool = TestPool::new().await;
    let client = askable();
    for _ in 0..5 {
        let first = test_pool.lease(&client).await;
        let (second, ()) = tokio::join!(test_pool.lease(&client), async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(first);
        });
        assert!(test_pool.is_home(&second));
    }
}

#[tokio::test]
async fn the_number_of_spares_is_limited_and_further_calls_wait() {
    let test_pool = TestPool::new().await;
    let client = askable();
    let mut leases = Vec::new();
    for _ in 0..MAX_PARALLEL {
        leases.push(test_pool.lease(&client).await);
    }
    let caller = Caller::owner("me");
    let waiting = test_pool.pool.for_call(&caller, &client);
    tokio::pin!(waiting);
    assert!(timeout(PAUSE, &mut waiting).await.is_err(), "all connections are taken");
    let freed: *const Connection = &**leases.last().unwrap();
    leases.pop();
    let lease = timeout(SOON, waiting).await.expect("a lease in time").unwrap();
    assert!(std::ptr::eq::<Connection>(&*lease, freed), "the connection that became free");
}

#[tokio::test]
async fn calls_that_wait_for_a_person_do_not_block_others() {
    let test_pool = TestPool::new().await;
    let client = askable();
    let mut asked = Vec::new();
    for _ in 0..MAX_PARALLEL + 2 {
        let (link, mut events) = CallLink::new();
        let lease = test_pool.lease(&client).await;
        let facts = client.clone();
        let calling = tokio::spawn(async move { call(&lease, "ask", &facts, &link).await });
        let Some(LinkEvent::Question(question)) = timeout(SOON, events.recv()).await.unwrap() else {
            panic!("no question")
        };
        asked.push((question, events, calling));
    }
    for (number, (question, _events, calling)) in asked.into_iter().enumerate() {
        let answer = format!(r#"{{"action":"accept","content":{{"number":{number}}}}}"#);
        question.reply.send(Ok(RawJson::trusted(answer))).unwrap();
        let result = timeout(SOON, calling).await.unwrap().unwrap().unwrap();
        assert!(result.contains(&format!(r#""number":{number}"#)), "each call gets its own answer: {result}");
    }
}

#[tokio::test]
async fn idle_spares_are_closed() {
    let mut test_pool = TestPool::new().await;
    let client = askable();
    let (home, spare) = (test_pool.lease(&client).await, test_pool.lease(&client).await);
    let at_once = IdleLimits { own: Duration::ZERO, spare: Duration::ZERO };
    test_pool.pool.close_idle(at_once).await;
    let result = call(&spare, "echo", &client, &CallLink::silent()).await;
    assert!(result.is_ok(), "one in use is not idle: {result:?}");
    drop(spare);
    test_pool.pool.close_idle(IdleLimits::default()).await;
    let spare = test_pool.lease(&client).await;
    assert!(call(&spare, "echo", &client, &CallLink::silent()).await.is_ok(), "it was used recently");
    drop(spare);
    test_pool.journal.drain();
    test_pool.pool.close_idle(at_once).await;
    test_pool.journal.end().await;
    let result = call(&home, "echo", &client, &CallLink::silent()).await;
    assert!(result.is_ok(), "the gateway's own connection stays open: {result:?}");
}

/// Some servers do not support a second process: their calls run one at a time, and none fails.
#[tokio::test]
async fn calls_wait_for_the_own_connection_if_no_spare_can_be_opened() {
    let (url, journal) = sockets::serve(Greeting::OnlyOnce).await;
    let test_pool = TestPool::open(&url, journal).await;
    let client = askable();
    let first = test_pool.lease(&client).await;
    let start = Instant::now();
    let (second, ()) = tokio::join!(test_pool.lease(&client), async {
        tokio::time::sleep(PAUSE).await;
        drop(first);
    });
    assert!(test_pool.is_home(&second));
    assert!(start.elapsed() >= PAUSE);
}

/// A question that may have been caused by a call whose client cannot be asked is refused.
#[tokio::test]
async fn a_question_of_unknown_origin_is_not_shown() {
    let test_pool = TestPool::new().await;
    let (ann, bob) = (askable(), unaskable());
    let (ann_lease, bob_lease) = (test_pool.lease(&ann).await, test_pool.lease(&bob).await);
    assert!(test_pool.is_home(&ann_lease) && test_pool.is_home(&bob_lease));
    let (link, mut events) = CallLink::new();
    let silent = CallLink::silent();
    let waits = call(&ann_lease, "wait for ever", &ann, &link);
    let asks = async {
        tokio::task::yield_now().await;
        call(&bob_lease, "ask", &bob, &silent).await
    };
    tokio::select! {
        done = asks => assert!(done.unwrap().contains(r#""structuredContent":null"#), "it was refused"),
        _ = waits => panic!("this call is never answered"),
        event = events.recv() => panic!("Ann was shown {event:?}"),
    }
    drop((ann_lease, bob_lease));
    // From now on the server gets one call at a time, so that Ann's own questions reach her.
    let ann_lease = test_pool.lease(&ann).await;
    assert!(test_pool.is_home(&ann_lease));
    assert!(!test_pool.is_home(&test_pool.lease(&bob).await), "Bob uses another connection meanwhile");
    let asking = call(&ann_lease, "ask", &ann, &link);
    let answering = async {
        let Some(LinkEvent::Question(question)) = events.recv().await else { panic!("no question") };
        question.reply.send(Ok(RawJson::trusted(r#"{"action":"decline"}"#))).unwrap();
    };
    let (result, ()) = timeout(SOON, async { tokio::join!(asking, answering) }).await.unwrap();
    assert!(result.unwrap().contains("decline"));
}
