//! Changed content is told once; touched files are not.

use crate::world::World;
use std::time::Duration;
use toolbooth_config::watch::watch;

/// Waits for one message, on a thread's own time: the watcher owns a real thread.
fn wait(receiver: &mut tokio::sync::mpsc::Receiver<()>, at_most: Duration) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(at_most, receiver.recv()).await.is_ok_and(|told| told.is_some())
    })
}

#[test]
fn content_decides() {
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
    // An editor's way: write beside it, then rename over it.
    world.write("work/.a.json.swp", "{\"listen\": 2}");
    std::fs::rename(world.path("work/.a.json.swp"), world.path("work/a.json")).unwrap();
    assert!(wait(&mut receiver, Duration::from_secs(20)), "a replaced file");
    drop(watching);
    assert!(!wait(&mut receiver, Duration::from_secs(20)), "closed, not told");
}

#[test]
fn a_busy_folder_hides_no_change() {
    let world = World::new(&[("work/a.json", "{}"), ("work/build.log", "")]);
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let watching = watch(vec![world.path("work/a.json")], sender).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A log that grows and a file that comes and goes, without a rest.
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                world.write("work/build.log", "a line");
                world.write("work/build.tmp", "");
                let _ = std::fs::remove_file(world.path("work/build.tmp"));
            }
        });
        std::thread::sleep(Duration::from_millis(300));
        world.write("work/a.json", "{\"listen\": 1}");
        let is_told = wait(&mut receiver, Duration::from_secs(20));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(is_told, "a changed file among busy ones");
    });
    drop(watching);
}
