//! Watches files for changes of their content, with notifications of the operating system, and with polling where
//! those are not available.

use crate::digest;
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tracing::{debug, warn};

/// How long no notification may arrive before files are read, since editors write a file several times.
const QUIET_PERIOD: Duration = Duration::from_millis(150);
/// How long the content of files must stay the same.
const STABLE_DELAY: Duration = Duration::from_millis(100);
/// How many times the watcher waits for an empty file to be filled.
const MAX_EMPTY_WAITS: usize = 15;
/// How many times the watcher waits for a busy folder before it reads the files anyway.
const MAX_WAITS: usize = 20;
/// The interval of polling, for mounts without notifications.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// A running watch of files; dropping it stops the watch.
#[derive(Debug)]
pub struct FileWatch {
    stop: mpsc::Sender<WatchMessage>,
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        // The thread may have ended already.
        let _ = self.stop.send(WatchMessage::Stop);
    }
}

impl FileWatch {
    /// Says which content a reload has read ([`fingerprint`] before and after it). A file that was changed and changed back
    /// between two looks of the watch has the content that the watch has seen, but maybe not the one that was read.
    pub fn read(&self, before: String, after: &str) {
        let read = (before == after).then_some(before);
        let _ = self.stop.send(WatchMessage::Read(read));
    }

    /// Replaces the watched files, for example after a reload that found new ones.
    pub fn set_files(&self, files: Vec<PathBuf>) {
        let _ = self.stop.send(WatchMessage::Files(files));
    }
}

enum WatchMessage {
    Notice,
    Files(Vec<PathBuf>),
    /// The content that was read; `None` if it changed meanwhile.
    Read(Option<String>),
    Stop,
}

/// Starts a watch that sends a message when the content of a file has changed. At most one message is pending.
pub fn watch(files: Vec<PathBuf>, changed: tokio::sync::mpsc::Sender<()>) -> std::io::Result<FileWatch> {
    let (stop, wakes) = mpsc::channel();
    let notices = stop.clone();
    // Computed before returning, so that a change right after the call is not missed.
    let first = fingerprint(&files);
    std::thread::Builder::new().name("config-watch".into()).spawn(move || {
        WatchThread::new(files, first, notices).run(&wakes, &changed);
    })?;
    Ok(FileWatch { stop })
}

/// The notifications of the operating system. At most one message is pending for the thread.
#[derive(Debug, Default)]
struct ChangeNotices {
    files: Mutex<Vec<PathBuf>>,
    count: AtomicU64,
    is_waiting: AtomicBool,
}

impl ChangeNotices {
    fn set_files(&self, files: &[PathBuf]) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files.to_vec();
    }

    fn take(&self, result: notify::Result<Event>, wake: &mpsc::Sender<WatchMessage>) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if result.is_ok_and(|event| !is_relevant(&event, &files)) {
            return;
        }
        self.count.fetch_add(1, Ordering::AcqRel);
        if !self.is_waiting.swap(true, Ordering::AcqRel) {
            let _ = wake.send(WatchMessage::Notice);
        }
    }
}

/// Whether an event may have changed the content of a watched file. A file that is created, removed or renamed in the
/// same folder may: the watched file can be a link through a folder that was replaced. A change of the content of
/// another file does not.
fn is_relevant(event: &Event, files: &[PathBuf]) -> bool {
    match event.kind {
        EventKind::Access(_) => false,
        EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => {
            event.paths.is_empty() || event.paths.iter().any(|path| files.contains(path))
        }
        _ => true,
    }
}

struct WatchThread {
    files: Vec<PathBuf>,
    seen: String,
    notices: Arc<ChangeNotices>,
    system: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
}

impl WatchThread {
    fn new(files: Vec<PathBuf>, seen: String, wake: mpsc::Sender<WatchMessage>) -> Self {
        let notices = Arc::new(ChangeNotices::default());
        notices.set_files(&files);
        let taker = notices.clone();
        let system = notify::recommended_watcher(move |result| taker.take(result, &wake));
        if let Err(error) = &system {
            warn!(%error, "file change notifications are not available; polling every {POLL_INTERVAL:?} instead");
        }
        let mut watcher = Self { files, seen, notices, system: system.ok(), folders: BTreeSet::new() };
        watcher.follow();
        watcher
    }

    fn set_files(&mut self, files: Vec<PathBuf>) {
        self.notices.set_files(&files);
        self.files = files;
    }

    /// Watches the folders of the files, because editors replace files, and missing files may appear later.
    fn follow(&mut self) {
        let Some(system) = &mut self.system else { return };
        let wanted: BTreeSet<PathBuf> = self
            .files
            .iter()
            .filter_map(|file| if file.is_dir() { Some(file.as_path()) } else { file.parent() })
            .filter(|folder| folder.is_dir())
            .map(Path::to_owned)
            .collect();
        for folder in self.folders.difference(&wanted) {
            let _ = system.unwatch(folder);
        }
        for folder in wanted.difference(&self.folders) {
            if let Err(error) = system.watch(folder, RecursiveMode::NonRecursive) {
                debug!(folder = %folder.display(), %error, "this folder cannot be watched and is polled");
            }
        }
        self.folders = wanted;
    }

    fn run(mut self, wakes: &mpsc::Receiver<WatchMessage>, changed: &tokio::sync::mpsc::Sender<()>) {
        loop {
            match wakes.recv_timeout(POLL_INTERVAL) {
                Ok(WatchMessage::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(WatchMessage::Files(files)) => {
                    self.set_files(files);
                    self.follow();
                }
                Ok(WatchMessage::Read(read)) => self.compare(read.as_deref()),
                Ok(WatchMessage::Notice) => {
                    if !self.settle(wakes) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.follow(),
            }
            if changed.is_closed() {
                return;
            }
            let now = fingerprint(&self.files);
            if now == self.seen {
                continue;
            }
            let now = wait_until_stable(&self.files, now);
            if now == self.seen {
                continue;
            }
            match changed.try_send(()) {
                // If a message is already pending, its receiver will read the newest content anyway.
                Ok(()) | Err(TrySendError::Full(())) => self.seen = now,
                Err(TrySendError::Closed(())) => return,
            }
        }
    }

    /// Forgets what was seen if a reload has read something else, so that the present content is reported.
    fn compare(&mut self, read: Option<&str>) {
        if read != Some(&self.seen) {
            self.seen.clear();
        }
    }

    /// Waits until no more notifications arrive, with a limit; returns false if the watch was stopped.
    fn settle(&mut self, wakes: &mpsc::Receiver<WatchMessage>) -> bool {
        for _ in 0..MAX_WAITS {
            let before = self.notices.count.load(Ordering::Acquire);
            match wakes.recv_timeout(QUIET_PERIOD) {
                Ok(WatchMessage::Notice) => {}
                Ok(WatchMessage::Files(files)) => self.set_files(files),
                Ok(WatchMessage::Read(read)) => self.compare(read.as_deref()),
                Ok(WatchMessage::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) if self.notices.count.load(Ordering::Acquire) == before => {
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        // The files are read after this point, so the next notification must send a message again.
        self.notices.is_waiting.store(false, Ordering::Release);
        true
    }
}

/// Waits until the content of the files stays the same, and longer while a file is empty: some programs truncate a
/// file before they write it.
fn wait_until_stable(files: &[PathBuf], mut before: String) -> String {
    let is_empty =
        |file: &PathBuf| std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() == 0);
    for wait in 0..MAX_WAITS {
        std::thread::sleep(STABLE_DELAY);
        let now = fingerprint(files);
        let is_filling = wait < MAX_EMPTY_WAITS && files.iter().any(is_empty);
        if now == before && !is_filling {
            return now;
        }
        before = now;
    }
    before
}

/// A digest of the content of all files; a missing file has its own value.
pub fn fingerprint(files: &[PathBuf]) -> String {
    let mut all = String::new();
    for file in files {
        match std::fs::metadata(file) {
            Ok(about) if about.is_file() && about.len() <= crate::parse::MAX_BYTES as u64 => {
                all.push_str(&std::fs::read(file).map(|bytes| digest::of_bytes(&bytes)).unwrap_or_default());
            }
            Ok(about) if about.is_dir() => all.push_str(&names_in(file)),
            Ok(about) => all.push_str(&about.len().to_string()),
            Err(_) => all.push('-'),
        }
        all.push(';');
    }
    digest::of_bytes(all.as_bytes())
}

/// The maximum number of names of a folder that are compared.
const MAX_NAMES: usize = 10_000;

/// The names of the files in a folder, so that a new or removed file counts as a change.
fn names_in(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_NAMES);
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    names.iter().map(|name| format!("{},", name.to_string_lossy())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{AccessKind, CreateKind, DataChange, MetadataKind, RenameMode};

    #[test]
    fn content_changes_of_other_files_are_ignored() {
        let files = [PathBuf::from("/work/a.json")];
        let data = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let touched = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        let cases = [
            (data, "/work/a.json", true),
            (data, "/work/build.log", false),
            (touched, "/work/a.json", true),
            (touched, "/work/build.log", false),
            (renamed, "/work/..data", true),
            (EventKind::Create(CreateKind::File), "/work/..data", true),
            (EventKind::Access(AccessKind::Any), "/work/a.json", false),
            (EventKind::Any, "/work/build.log", true),
        ];
        for (kind, path, expected) in cases {
            let event = Event::new(kind).add_path(path.into());
            assert_eq!(is_relevant(&event, &files), expected, "{kind:?} of {path}");
        }
        assert!(is_relevant(&Event::new(data), &files), "a notification without a path");
    }

    #[test]
    fn many_notifications_leave_one_message() {
        let notices = ChangeNotices::default();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..1_000 {
            notices.take(Ok(Event::new(EventKind::Create(CreateKind::File))), &sender);
        }
        assert_eq!(receiver.try_iter().count(), 1);
        assert_eq!(notices.count.load(Ordering::Acquire), 1_000);
    }
}
