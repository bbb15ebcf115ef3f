//! Turns on a connection whose questions name no call, and the spares of those who find the turn taken.

use crate::brain::Journal;
use crate::sockets::{self, Greeting};
use crate::{LIMIT, SOON};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::json::RawJson;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{Remote, ServerEntry, Transport};
use toolbooth_upstream::connection::Ask;
use toolbooth_upstream::http::Credential;
use toolbooth_upstream::open::Surroundings;
use toolbooth_upstream::pool::{IdleLimits, Pool};
use toolbooth_upstream::process::{Reaper, StderrTail};
use toolbooth_upstream::{CallLink, Connection, LinkEvent, PeerAnswer, Seat, UpstreamError};

/// Longer than a call waits for its own connection, and than opening another takes.
const WHILE: Duration = Duration::from_millis(700);
/// How many connections of the same callers work side by side.
const AT_ONCE: usize = 4;

struct Booth {
    pool: Arc<Pool>,
    journal: Journal,
}

impl Booth {
    async fn open(url: &str, journal: Journal) -> Self {
        let remote = Remote { url: SecretText::plain(url), headers: BTreeMap::new() };
        let entry = ServerEntry::with_defaults("tools".parse().unwrap(), Transport::WebSocket(remote));
        let surroundings = Surroundings {
            host_environment: BTreeMap::new(),
            allowed_environment: Vec::new(),
            reaper: Reaper::current_exe(),
            bundled: toolbooth_upstream::bundled::none,
            own_executable: "toolbooth".into(),
            roots: None,
            answer_limit: LIMIT,
        };
        let notices = mpsc::channel(16).0;
        let pool =
            Pool::new(Arc::new(entry), Arc::new(surroundings), Credential::None, StderrTail::new(), notices);
        pool.open_primary(None).await.unwrap();
        Self { pool, journal }
    }

    async fn new() -> Self {
        let (url, journal) = sockets::serve(Greeting::Mcp).await;
        Self::open(&url, journal).await
    }

    async fn seat(&self, client: &ClientFacts) -> Seat {
        let caller = Caller::owner("me");
        timeout(SOON, self.pool.for_call(&caller, client)).await.expect("a place in time").unwrap()
    }

    fn is_home(&self, seat: &Seat) -> bool {
        std::ptr::eq::<Connection>(&**seat, &*self.pool.primary().unwrap())
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
    seat: &Seat,
    tool: &str,
    client: &ClientFacts,
    link: &CallLink,
) -> Result<String, UpstreamError> {
    let params = vec![("name", RawJson::from_value(tool)), ("arguments", RawJson::empty_object())];
    match seat.ask(Ask::plain("tools/call", params, client), link).await? {
        PeerAnswer::Whole(Ok(result)) => Ok(result.as_str().to_owned()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_taken_turn_leads_to_a_spare_and_a_free_one_home() {
    let booth = Booth::new().await;
    let client = askable();
    let first = booth.seat(&client).await;
    assert!(booth.is_home(&first));
    let second = booth.seat(&client).await;
    assert!(!booth.is_home(&second), "the turn at home is taken");
    drop(first);
    let third = booth.seat(&client).await;
    assert!(booth.is_home(&third), "home comes first, whatever else is free");
    drop(second);
    assert!(booth.is_home(&booth.seat(&unaskable()).await), "who cannot be asked needs no turn");
}

#[tokio::test]
async fn a_turn_taken_for_a_moment_is_waited_for() {
    let booth = Booth::new().await;
    let client = askable();
    for _ in 0..5 {
        let first = booth.seat(&client).await;
        let (second, ()) = tokio::join!(booth.seat(&client), async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(first);
        });
        assert!(booth.is_home(&second));
    }
}

#[tokio::test]
async fn no_more_spares_are_opened_than_may_be_and_further_calls_wait() {
    let booth = Booth::new().await;
    let client = askable();
    let mut seats = Vec::new();
    for _ in 0..AT_ONCE {
        seats.push(booth.seat(&client).await);
    }
    let caller = Caller::owner("me");
    let waiting = booth.pool.for_call(&caller, &client);
    tokio::pin!(waiting);
    assert!(timeout(WHILE, &mut waiting).await.is_err(), "all are taken");
    let freed: *const Connection = &**seats.last().unwrap();
    seats.pop();
    let seat = timeout(SOON, waiting).await.expect("a place in time").unwrap();
    assert!(std::ptr::eq::<Connection>(&*seat, freed), "the one that came free");
}

#[tokio::test]
async fn calls_that_wait_for_a_person_leave_room_for_others() {
    let booth = Booth::new().await;
    let client = askable();
    let mut asked = Vec::new();
    for _ in 0..AT_ONCE + 2 {
        let (link, mut events) = CallLink::new();
        let seat = booth.seat(&client).await;
        let facts = client.clone();
        let calling = tokio::spawn(async move { call(&seat, "ask", &facts, &link).await });
        let Some(LinkEvent::Question(question)) = timeout(SOON, events.recv()).await.unwrap() else {
            panic!("no question")
        };
        asked.push((question, events, calling));
    }
    for (number, (question, _events, calling)) in asked.into_iter().enumerate() {
        let answer = format!(r#"{{"action":"accept","content":{{"number":{number}}}}}"#);
        question.reply.send(Ok(RawJson::trusted(answer))).unwrap();
        let result = timeout(SOON, calling).await.unwrap().unwrap().unwrap();
        assert!(result.contains(&format!(r#""number":{number}"#)), "each its own: {result}");
    }
}

#[tokio::test]
async fn spares_that_nobody_uses_are_closed() {
    let mut booth = Booth::new().await;
    let client = askable();
    let (home, spare) = (booth.seat(&client).await, booth.seat(&client).await);
    let at_once = IdleLimits { own: Duration::ZERO, spare: Duration::ZERO };
    booth.pool.close_idle(at_once).await;
    let result = call(&spare, "echo", &client, &CallLink::silent()).await;
    assert!(result.is_ok(), "one in use is not idle: {result:?}");
    drop(spare);
    booth.pool.close_idle(IdleLimits::default()).await;
    let spare = booth.seat(&client).await;
    assert!(call(&spare, "echo", &client, &CallLink::silent()).await.is_ok(), "it was used just now");
    drop(spare);
    booth.journal.drain();
    booth.pool.close_idle(at_once).await;
    booth.journal.end().await;
    let result = call(&home, "echo", &client, &CallLink::silent()).await;
    assert!(result.is_ok(), "the gateway's own stays: {result:?}");
}

/// Some servers bear no second process: their calls go one by one, and none fails of it.
#[tokio::test]
async fn where_no_spare_can_be_opened_calls_wait_for_home() {
    let (url, journal) = sockets::serve(Greeting::OnlyOnce).await;
    let booth = Booth::open(&url, journal).await;
    let client = askable();
    let first = booth.seat(&client).await;
    let start = Instant::now();
    let (second, ()) = tokio::join!(booth.seat(&client), async {
        tokio::time::sleep(WHILE).await;
        drop(first);
    });
    assert!(booth.is_home(&second));
    assert!(start.elapsed() >= WHILE);
}

/// What a call of somebody who cannot be asked may have caused is shown to nobody else.
#[tokio::test]
async fn a_question_that_may_be_anothers_is_shown_to_nobody() {
    let booth = Booth::new().await;
    let (ann, bob) = (askable(), unaskable());
    let (ann_sits, bob_sits) = (booth.seat(&ann).await, booth.seat(&bob).await);
    assert!(booth.is_home(&ann_sits) && booth.is_home(&bob_sits));
    let (link, mut events) = CallLink::new();
    let silent = CallLink::silent();
    let waits = call(&ann_sits, "wait for ever", &ann, &link);
    let asks = async {
        tokio::task::yield_now().await;
        call(&bob_sits, "ask", &bob, &silent).await
    };
    tokio::select! {
        done = asks => assert!(done.unwrap().contains(r#""structuredContent":null"#), "it was refused"),
        _ = waits => panic!("nobody answers that"),
        event = events.recv() => panic!("Ann was shown {event:?}"),
    }
    drop((ann_sits, bob_sits));
    // A server that asks gets one call at a time from now on, so that Ann's own questions reach her.
    let ann_sits = booth.seat(&ann).await;
    assert!(booth.is_home(&ann_sits));
    assert!(!booth.is_home(&booth.seat(&bob).await), "Bob is served elsewhere meanwhile");
    let asking = call(&ann_sits, "ask", &ann, &link);
    let answering = async {
        let Some(LinkEvent::Question(question)) = events.recv().await else { panic!("no question") };
        question.reply.send(Ok(RawJson::trusted(r#"{"action":"decline"}"#))).unwrap();
    };
    let (result, ()) = timeout(SOON, async { tokio::join!(asking, answering) }).await.unwrap();
    assert!(result.unwrap().contains("decline"));
}
