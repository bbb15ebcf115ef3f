//! The ring and its followers.

use super::*;
use crate::clock::system_clock;
use std::time::Duration;
use toolbooth_core::event::EventKind;

fn event(user: &str) -> Event {
    Event::new(EventKind::ToolCall).user(user)
}

fn users(items: &[StreamItem]) -> Vec<String> {
    let users = items.iter().map(|item| match item {
        StreamItem::Event(_, event) => event.user.as_deref().unwrap_or_default().to_owned(),
        StreamItem::Gap { missed, .. } => format!("gap {missed:?}"),
    });
    users.collect()
}

#[tokio::test]
async fn a_follower_reads_new_events_and_can_resume() {
    let events = EventRing::new(10, system_clock());
    events.emit(event("early"));
    let mut follower = events.follow(EventKinds::ALL, Since::Now);
    for user in ["a", "b"] {
        events.emit(event(user));
    }
    let heard = follower.next().await;
    assert_eq!(users(&heard), ["a", "b"]);
    let StreamItem::Event(id, _) = heard[0] else { panic!("an event") };
    assert_eq!(users(&events.follow(EventKinds::ALL, Since::After(id)).next().await), ["b"]);
    assert_eq!(users(&events.follow(EventKinds::ALL, Since::Oldest).next().await), ["early", "a", "b"]);
    let waiting = tokio::time::timeout(Duration::from_millis(20), follower.next()).await;
    assert!(waiting.is_err(), "nothing more has happened");
    let woken = tokio::spawn(async move { users(&follower.next().await) });
    tokio::task::yield_now().await;
    events.emit(event("c"));
    assert_eq!(woken.await.expect("it ends"), ["c"]);
}

#[tokio::test]
async fn a_slow_follower_gets_a_gap() {
    let events = EventRing::new(3, system_clock());
    let mut slow = events.follow(EventKinds::ALL, Since::Now);
    for number in 0..10 {
        events.emit(event(&number.to_string()));
    }
    assert_eq!(users(&slow.next().await), ["gap Some(7)", "7", "8", "9"]);
    assert_eq!(events.report().overtaken, 7);
    assert_eq!(events.report().emitted, 10);
}

#[tokio::test]
async fn an_id_of_another_run_gives_a_gap() {
    let events = EventRing::new(3, system_clock());
    events.emit(event("a"));
    let other = EventId { run: events.run.wrapping_add(1), number: 900 };
    let mut follower = events.follow(EventKinds::ALL, Since::After(other));
    assert_eq!(users(&follower.next().await), ["gap None", "a"]);
    // An id of this run from the future: the follower starts at the newest event.
    let future = EventId { run: events.run, number: 900 };
    let mut follower = events.follow(EventKinds::ALL, Since::After(future));
    events.emit(event("b"));
    assert_eq!(users(&follower.next().await), ["b"]);
}

#[tokio::test]
async fn only_the_wanted_kinds_are_read() {
    let events = EventRing::new(2_000, system_clock());
    let mut follower = events.follow(EventKinds::of(["call.*"]).expect("known"), Since::Now);
    for _ in 0..1_000 {
        events.emit(event("loud"));
    }
    events.emit(Event::new(EventKind::CallHeld).user("ann"));
    assert_eq!(users(&follower.next().await), ["ann"]);
}

#[test]
fn the_latest_events_are_in_order() {
    let events = EventRing::new(5, system_clock());
    for number in 0..9 {
        events.emit(event(&number.to_string()));
    }
    let shown = |found: Vec<(EventId, Event)>| -> Vec<String> {
        found
            .iter()
            .map(|(id, event)| format!("{}:{}", id.number, event.user.as_deref().unwrap_or("")))
            .collect()
    };
    assert_eq!(shown(events.latest(Since::Oldest, 2, |_| true)), ["8:7", "9:8"]);
    assert_eq!(shown(events.latest(Since::Oldest, 9, |event| event.user.as_deref() != Some("7"))).len(), 4);
    let after = EventId { run: events.run, number: 8 };
    assert_eq!(shown(events.latest(Since::After(after), 9, |_| true)), ["9:8"]);
}

#[test]
fn the_latest_events_are_found_however_far_back_they_are() {
    let events = EventRing::new(1_000, system_clock());
    events.emit(event("first"));
    for _ in 0..900 {
        events.emit(event("loud"));
    }
    let found = events.latest(Since::Oldest, 10, |event| event.user.as_deref() == Some("first"));
    assert_eq!(found.iter().map(|(id, _)| id.number).collect::<Vec<_>>(), [1]);
    assert_eq!(events.latest(Since::Oldest, 1_000, |_| true).len(), 901);
}

#[test]
fn slots_are_limited_and_returned() {
    let events = EventRing::new(5, system_clock());
    let ann: Arc<str> = "ann".into();
    let open = || events.follow_for(&ann, EventKinds::ALL, Since::Now);
    let mut followers: Vec<Follower> = (0..32).map(|_| open().expect("a slot")).collect();
    assert_eq!(open().err(), Some(TooManyFollowers::OfUser));
    followers.pop();
    assert!(open().is_ok());
    let others: Vec<_> = (0..300)
        .map_while(|n| events.follow_for(&n.to_string().into(), EventKinds::ALL, Since::Now).ok())
        .collect();
    assert_eq!(others.len() + followers.len(), 256);
    drop((followers, others));
    assert_eq!(events.report().followers, 0);
    assert!(events.slots.lock().expect("sound").is_empty());
}

#[test]
fn capacity_zero_switches_events_off() {
    let events = EventRing::new(0, system_clock());
    events.emit(event("a"));
    assert_eq!(events.report().emitted, 0);
}

#[tokio::test(start_paused = true)]
async fn progress_becomes_events_at_a_limited_rate() {
    use toolbooth_core::json::RawJson;
    use toolbooth_upstream::link::ProgressObserver;
    let events = EventRing::new(1_000, system_clock());
    let mut follower = events.follow(EventKinds::ALL, Since::Now);
    let progress = ProgressEvents::with(events.clone(), event("ann"));
    let notify = |text: &str| progress.progress(&RawJson::parse(text.to_owned()).expect("JSON"));
    notify(r#"{"progress":1.0,"total":2.5,"message":"half"}"#);
    notify(
        r#"{"message":"files","_meta":{"toolbooth/update":{"type":"artifacts","artifacts":["a.txt"],"display":{}}}}"#,
    );
    let data = |item: &StreamItem| match item {
        StreamItem::Event(id, event) => {
            let json: serde_json::Value = event.json(*id).read().expect("JSON");
            (json["type"].as_str().unwrap_or_default().to_owned(), json["data"].to_string())
        }
        StreamItem::Gap { .. } => panic!("a gap"),
    };
    let heard: Vec<_> = follower.next().await.iter().map(data).collect();
    assert_eq!(heard[0].1, r#"{"progress":1,"total":2.5,"message":"half"}"#);
    assert_eq!(heard[1].0, "tool.update");
    assert_eq!(heard[1].1, r#"{"type":"artifacts","artifacts":["a.txt"],"message":"files"}"#);
    for _ in 0..500 {
        notify(r#"{"progress":3}"#);
    }
    assert_eq!(follower.next().await.len(), 18, "a call may emit 20 events at once");
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..500 {
        notify(r#"{"progress":4}"#);
    }
    assert_eq!(follower.next().await.len(), 5, "and 5 in a second");
}
