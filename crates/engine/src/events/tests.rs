//! The ring and its followers.

use super::*;
use std::time::Duration;
use toolbooth_core::event::EventKind;

fn event(user: &str) -> Event {
    Event::new(EventKind::ToolCall).user(user)
}

fn users(heard: &[Heard]) -> Vec<String> {
    let told = heard.iter().map(|heard| match heard {
        Heard::Event(_, event) => event.user.as_deref().unwrap_or_default().to_owned(),
        Heard::Gap { missed, .. } => format!("gap {missed:?}"),
    });
    told.collect()
}

#[tokio::test]
async fn a_follower_hears_what_happens_and_can_come_back() {
    let events = Events::new(10);
    events.push(event("early"));
    let mut follower = events.follow(Kinds::ALL, Since::Now);
    for user in ["a", "b"] {
        events.push(event(user));
    }
    let heard = follower.next().await;
    assert_eq!(users(&heard), ["a", "b"]);
    let Heard::Event(id, _) = heard[0] else { panic!("an event") };
    assert_eq!(users(&events.follow(Kinds::ALL, Since::After(id)).next().await), ["b"]);
    assert_eq!(users(&events.follow(Kinds::ALL, Since::Oldest).next().await), ["early", "a", "b"]);
    let waiting = tokio::time::timeout(Duration::from_millis(20), follower.next()).await;
    assert!(waiting.is_err(), "nothing more has happened");
    let woken = tokio::spawn(async move { users(&follower.next().await) });
    tokio::task::yield_now().await;
    events.push(event("c"));
    assert_eq!(woken.await.expect("it ends"), ["c"]);
}

#[tokio::test]
async fn who_is_too_slow_is_told_so_and_nobody_waits() {
    let events = Events::new(3);
    let mut slow = events.follow(Kinds::ALL, Since::Now);
    for number in 0..10 {
        events.push(event(&number.to_string()));
    }
    assert_eq!(users(&slow.next().await), ["gap Some(7)", "7", "8", "9"]);
    assert_eq!(events.report().overtaken, 7);
    assert_eq!(events.report().emitted, 10);
}

#[tokio::test]
async fn an_id_of_another_run_is_recognised() {
    let events = Events::new(3);
    events.push(event("a"));
    let other = EventId { run: events.run.wrapping_add(1), number: 900 };
    let mut follower = events.follow(Kinds::ALL, Since::After(other));
    assert_eq!(users(&follower.next().await), ["gap None", "a"]);
    // One of this run that cannot be: nothing is invented.
    let future = EventId { run: events.run, number: 900 };
    let mut follower = events.follow(Kinds::ALL, Since::After(future));
    events.push(event("b"));
    assert_eq!(users(&follower.next().await), ["b"]);
}

#[tokio::test]
async fn only_what_is_wanted_is_heard() {
    let events = Events::new(2_000);
    let mut follower = events.follow(Kinds::of(["call.*"]).expect("known"), Since::Now);
    for _ in 0..1_000 {
        events.push(event("loud"));
    }
    events.push(Event::new(EventKind::CallHeld).user("ann"));
    assert_eq!(users(&follower.next().await), ["ann"]);
}

#[test]
fn the_latest_come_in_order() {
    let events = Events::new(5);
    for number in 0..9 {
        events.push(event(&number.to_string()));
    }
    let told = |found: Vec<(EventId, Event)>| -> Vec<String> {
        found
            .iter()
            .map(|(id, event)| format!("{}:{}", id.number, event.user.as_deref().unwrap_or("")))
            .collect()
    };
    assert_eq!(told(events.latest(Since::Oldest, 2, |_| true)), ["8:7", "9:8"]);
    assert_eq!(told(events.latest(Since::Oldest, 9, |event| event.user.as_deref() != Some("7"))).len(), 4);
    let after = EventId { run: events.run, number: 8 };
    assert_eq!(told(events.latest(Since::After(after), 9, |_| true)), ["9:8"]);
}

#[test]
fn the_latest_are_found_however_far_back_they_lie() {
    let events = Events::new(1_000);
    events.push(event("first"));
    for _ in 0..900 {
        events.push(event("loud"));
    }
    let found = events.latest(Since::Oldest, 10, |event| event.user.as_deref() == Some("first"));
    assert_eq!(found.iter().map(|(id, _)| id.number).collect::<Vec<_>>(), [1]);
    assert_eq!(events.latest(Since::Oldest, 1_000, |_| true).len(), 901);
}

#[test]
fn seats_are_limited_and_given_back() {
    let events = Events::new(5);
    let ann: Arc<str> = "ann".into();
    let open = || events.follow_for(&ann, Kinds::ALL, Since::Now);
    let mut seats: Vec<Follower> = (0..32).map(|_| open().expect("a seat")).collect();
    assert_eq!(open().err(), Some(TooManyFollowers::OfOne));
    seats.pop();
    assert!(open().is_ok());
    let others: Vec<_> = (0..300)
        .map_while(|n| events.follow_for(&n.to_string().into(), Kinds::ALL, Since::Now).ok())
        .collect();
    assert_eq!(others.len() + seats.len(), 256);
    drop((seats, others));
    assert_eq!(events.report().followers, 0);
    assert!(events.seats.lock().expect("sound").is_empty());
}

#[test]
fn a_ring_of_nothing_is_off() {
    let events = Events::new(0);
    events.push(event("a"));
    assert_eq!(events.report().emitted, 0);
}
