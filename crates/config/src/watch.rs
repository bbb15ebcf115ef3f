//! Watching files: the system's notices where they come, a slow look where they do not, and the content decides.

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

/// How long a file must be quiet: editors write several times.
const QUIET: Duration = Duration::from_millis(150);
/// How long files must hold the same before they are read.
const REST: Duration = Duration::from_millis(100);
/// How often an empty file is waited for.
const EMPTY_WAITS: usize = 15;
/// How often a folder without rest is waited for before it is looked at all the same.
const MAX_WAITS: usize = 20;
/// How often files are looked at on mounts that send no notices.
const SLOW_LOOK: Duration = Duration::from_secs(5);

/// Watches files until it is dropped.
#[derive(Debug)]
pub struct Watch {
    stop: mpsc::Sender<Wake>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread may be gone already.
        let _ = self.stop.send(Wake::Stop);
    }
}

impl Watch {
    /// Looks at other files from now on, as after a reload that found new ones.
    pub fn set_files(&self, files: Vec<PathBuf>) {
        let _ = self.stop.send(Wake::Files(files));
    }
}

enum Wake {
    Notice,
    Files(Vec<PathBuf>),
    Stop,
}

/// Sends one message whenever the content of any file changed. A message that is still waiting is not doubled.
pub fn watch(files: Vec<PathBuf>, changed: tokio::sync::mpsc::Sender<()>) -> std::io::Result<Watch> {
    let (stop, wakes) = mpsc::channel();
    let notices = stop.clone();
    // Taken before returning, so that a change right after the call is not missed.
    let first = fingerprint(&files);
    std::thread::Builder::new().name("config-watch".into()).spawn(move || {
        Lookout::new(files, first, notices).run(&wakes, &changed);
    })?;
    Ok(Watch { stop })
}

/// What the system told. However much that is, one message waits for the thread.
#[derive(Debug, Default)]
struct Notices {
    files: Mutex<Vec<PathBuf>>,
    count: AtomicU64,
    is_waiting: AtomicBool,
}

impl Notices {
    fn set_files(&self, files: &[PathBuf]) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files.to_vec();
    }

    fn take(&self, told: notify::Result<Event>, wake: &mpsc::Sender<Wake>) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_ok_and(|event| !is_of_interest(&event, &files)) {
            return;
        }
        self.count.fetch_add(1, Ordering::AcqRel);
        if !self.is_waiting.swap(true, Ordering::AcqRel) {
            let _ = wake.send(Wake::Notice);
        }
    }
}

/// Whether an event may have changed what a file holds. Whatever comes, goes or is renamed beside it may: the file can
/// be a link through a folder that was exchanged. What a neighbour's content does is its own affair.
fn is_of_interest(event: &Event, files: &[PathBuf]) -> bool {
    match event.kind {
        EventKind::Access(_) => false,
        EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => {
            event.paths.is_empty() || event.paths.iter().any(|path| files.contains(path))
        }
        _ => true,
    }
}

struct Lookout {
    files: Vec<PathBuf>,
    seen: String,
    notices: Arc<Notices>,
    system: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
}

impl Lookout {
    fn new(files: Vec<PathBuf>, seen: String, wake: mpsc::Sender<Wake>) -> Self {
        let notices = Arc::new(Notices::default());
        notices.set_files(&files);
        let taker = notices.clone();
        let system = notify::recommended_watcher(move |told| taker.take(told, &wake));
        if let Err(error) = &system {
            warn!(%error, "the system does not tell about changed files; looking every {SLOW_LOOK:?} instead");
        }
        let mut watcher = Self { files, seen, notices, system: system.ok(), folders: BTreeSet::new() };
        watcher.follow();
        watcher
    }

    fn set_files(&mut self, files: Vec<PathBuf>) {
        self.notices.set_files(&files);
        self.files = files;
    }

    /// Folders are watched rather than files: editors replace a file, and a missing one may come.
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
                debug!(folder = %folder.display(), %error, "this folder is looked at slowly");
            }
        }
        self.folders = wanted;
    }

    fn run(mut self, wakes: &mpsc::Receiver<Wake>, changed: &tokio::sync::mpsc::Sender<()>) {
        loop {
            match wakes.recv_timeout(SLOW_LOOK) {
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Wake::Files(files)) => {
                    self.set_files(files);
                    self.follow();
                }
                Ok(Wake::Notice) => {
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
            let now = at_rest(&self.files, now);
            if now == self.seen {
                continue;
            }
            match changed.try_send(()) {
                // Kept as unseen when the listener is full: it will look at the newest content anyway.
                Ok(()) | Err(TrySendError::Full(())) => self.seen = now,
                Err(TrySendError::Closed(())) => return,
            }
        }
    }

    /// Waits until nothing more comes, but not for ever; false when it is time to stop.
    fn settle(&mut self, wakes: &mpsc::Receiver<Wake>) -> bool {
        for _ in 0..MAX_WAITS {
            let before = self.notices.count.load(Ordering::Acquire);
            match wakes.recv_timeout(QUIET) {
                Ok(Wake::Notice) => {}
                Ok(Wake::Files(files)) => self.set_files(files),
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) if self.notices.count.load(Ordering::Acquire) == before => {
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        // From here on the next notice wakes again; the files are read after this.
        self.notices.is_waiting.store(false, Ordering::Release);
        true
    }
}

/// Waits until files hold the same twice in a row, and longer while one of them is empty: some programs save by
/// emptying a file first and filling it afterwards.
fn at_rest(files: &[PathBuf], mut before: String) -> String {
    let is_empty =
        |file: &PathBuf| std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() == 0);
    for wait in 0..MAX_WAITS {
        std::thread::sleep(REST);
        let now = fingerprint(files);
        let is_filling = wait < EMPTY_WAITS && files.iter().any(is_empty);
        if now == before && !is_filling {
            return now;
        }
        before = now;
    }
    before
}

/// What all files hold now; a missing one counts as that.
fn fingerprint(files: &[PathBuf]) -> String {
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

/// The most names of a folder that are looked at.
const MAX_NAMES: usize = 10_000;

/// What stands in a folder: a file that comes or goes is a change, what files hold is looked at elsewhere.
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
    fn a_neighbours_content_is_its_own_affair() {
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
            assert_eq!(is_of_interest(&event, &files), expected, "{kind:?} of {path}");
        }
        assert!(is_of_interest(&Event::new(data), &files), "a notice that names nothing");
    }

    #[test]
    fn a_storm_leaves_one_message() {
        let notices = Notices::default();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..1_000 {
            notices.take(Ok(Event::new(EventKind::Create(CreateKind::File))), &sender);
        }
        assert_eq!(receiver.try_iter().count(), 1);
        assert_eq!(notices.count.load(Ordering::Acquire), 1_000);
    }
}
