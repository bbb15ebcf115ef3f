//! A watch reports changed content once, and ignores files that are only touched.

use crate::world::World;
use std::time::Duration;
use toolbooth_config::watch::{fingerprint, watch};

/// Waits for one message in real time, since the watcher runs on a thread of its own.
fn wait(receiver: &mut tokio::sync::mpsc::Receiver<()>, at_most: Duration) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(at_most, receiver.recv()).await.is_ok_and(|message| message.is_some())
    })
}

#[test]
fn only_a_change_of_content_is_reported() {
    let world = World::new(&[("work/a.json", "{}")]);
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let files = vec![world.path("work/a.json"), world.path("work/later.json")];
    let watching = watch(files, sender).unwrap();
    world.write("work/a.json", "{}");
    assert!(!wait(&mut receiver, Duration::from_millis(600)), "nothing changed");
    world.write("work/a.json", "{\"listen\": 1}");
    assert!(wait(&mut receiver, Duration::from_secs(20)), "a changed file");
    world.write("work/later.json", "{}");
    assert!(wait(&mut receiver, Duration::from_secs(20)), "a new file");
    // Replace the file as editors do: write a new file, then rename it.
    world.write("work/.a.json.swp", "{\"listen\": 2}");
    std::fs::rename(world.path("work/.a.json.swp"), world.path("work/a.json")).unwrap();
    assert!(wait(&mut receiver, Duration::from_secs(20)), "a replaced file");
    drop(watching);
    assert!(!wait(&mut receiver, Duration::from_secs(20)), "closed without a message");
}

#[test]
fn a_change_in_a_busy_folder_is_reported() {
    let world = World::new(&[("work/a.json", "{}"), ("work/build.log", "")]);
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let watching = watch(vec![world.path("work/a.json")], sender).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A log that grows and a file that is created and removed, without a pause.
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                world.write("work/build.log", "a line");
                world.write("work/build.tmp", "");
                let _ = std::fs::remove_file(world.path("work/build.tmp"));
            }
        });
        std::thread::sleep(Duration::from_millis(300));
        world.write("work/a.json", "{\"listen\": 1}");
        let is_reported = wait(&mut receiver, Duration::from_secs(20));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(is_reported, "a changed file in a busy folder");
    });
    drop(watching);
}

/// A reload can read a file between two looks of the watch, and the file can have its former content at the second one.
#[test]
fn a_reload_that_read_other_content_is_repeated() {
    let world = World::new(&[("work/a.json", "{}")]);
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let files = vec![world.path("work/a.json")];
    let now = fingerprint(&files);
    let watching = watch(files, sender).unwrap();
    watching.read(now.clone(), &now);
    assert!(!wait(&mut receiver, Duration::from_millis(600)), "the content that the watch has seen");
    for (before, after) in [("other", "other"), ("other", now.as_str())] {
        watching.read(before.to_owned(), after);
        assert!(wait(&mut receiver, Duration::from_secs(20)), "{before}, {after}");
    }
    assert!(!wait(&mut receiver, Duration::from_millis(600)), "once each");
}
