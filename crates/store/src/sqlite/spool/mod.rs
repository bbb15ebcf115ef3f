//! The spool: an append-only log whose records survive kill -9 at once, and a power cut after the next commit.
//!
//! A commit waits for the disk (some milliseconds), which is too long for a call that only reads. A spool record is
//! one `write` to a file (a microsecond or two): the kernel has it, so the death of this process does not lose it.
//! The writer moves audit entries to the database in its next commit, 100 ms later at most, and stores in the
//! same commit the number of the last moved entry, so that a start after a kill adds exactly the missing ones.
//!
//! Two files (segments) alternate. A segment is emptied when everything in it is in the database; the records of
//! calls that still run are written to the other segment first.

mod damage;
mod record;

pub(super) use record::SpoolRecord;

use crate::records::Intent;
use nix::fcntl::OFlag;
use record::{decode_all, encode};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use toolbooth_core::audit::{AuditEntry, AuditKind};
use uuid::Uuid;

/// The size beyond which the spool switches to the other segment, if that one can be emptied.
const SWITCH_BYTES: u64 = 1 << 20;
/// The largest size of a segment, even while the database cannot be written.
const MAX_BYTES: u64 = 64 << 20;

/// An audit entry and its number in the spool.
#[derive(Debug, Clone)]
pub(super) struct NumberedEntry {
    pub(super) number: u64,
    pub(super) entry: AuditEntry,
}

/// The spool of one database.
#[derive(Debug)]
pub(super) struct Spool(Mutex<SpoolState>);

#[derive(Debug)]
struct SpoolState {
    segments: [SpoolSegment; 2],
    active: usize,
    next: u64,
    /// Every entry up to this number is in the database.
    committed: u64,
    /// Entries that the writer has not taken yet, in order.
    waiting: VecDeque<NumberedEntry>,
    /// Calls that have begun and not ended, and the segment with their `Begun` record.
    open: HashMap<Uuid, (usize, Box<Intent>)>,
    /// Calls that ended while no segment could be written, with the number of their audit entry or 0 if they have
    /// none. Their ends are written once the database has the entry.
    unended: Vec<(u64, Uuid)>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct SpoolSegment {
    file: File,
    size: u64,
    last_note: u64,
    /// It ends with a partial record that could not be truncated yet.
    broken: bool,
}

impl SpoolSegment {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let file = options.open(path)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(PermissionsExt::from_mode(0o600))?;
        }
        let size = file.metadata()?.len();
        Ok(Self { file, size, last_note: 0, broken: false })
    }

    /// Appends all of the bytes or none of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.broken {
            self.truncate();
        }
        if self.broken || self.size + bytes.len() as u64 > MAX_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let fault = match (&self.file).write(bytes) {
            Ok(written) if written == bytes.len() => {
                self.size += bytes.len() as u64;
                return Ok(());
            }
            Ok(_) => io::ErrorKind::StorageFull.into(),
            Err(error) => error,
        };
        self.truncate();
        Err(fault)
    }

    /// Truncates a partial record that was written before the disk was full.
    fn truncate(&mut self) {
        self.broken = self.file.set_len(self.size).is_err();
    }

    fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.size, self.last_note, self.broken) = (0, 0, false);
        Ok(())
    }
}

/// The records that an earlier process left in the spool.
#[derive(Debug, Default)]
pub(super) struct SpoolLeftover {
    /// Audit entries, in order.
    pub(super) notes: Vec<NumberedEntry>,
    /// Calls that were sent and have no recorded end.
    pub(super) open: Vec<Intent>,
    /// The highest number that was used.
    pub(super) last: u64,
    /// Audit entries about parts of the spool that could not be read.
    pub(super) gaps: Vec<AuditEntry>,
}

impl Spool {
    /// Opens the spool of a database, and reads its records.
    pub(super) fn open(database: &Path) -> io::Result<(Self, SpoolLeftover)> {
        // The spool has its own folder: the database's folder may also hold the configuration, which is watched for
        // changes, and each record would wake the watcher.
        let folder = folder_of(database);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let paths = ["0", "1"].map(|name| folder.join(name));
        let segments = [SpoolSegment::open(&paths[0])?, SpoolSegment::open(&paths[1])?];
        let mut leftover = SpoolLeftover::default();
        let mut records = Vec::new();
        for (segment, path) in segments.iter().zip(&paths) {
            let mut bytes = Vec::new();
            (&segment.file).take(MAX_BYTES).read_to_end(&mut bytes)?;
            let read = decode_all(&bytes);
            if read.torn_bytes > 0 {
                tracing::warn!(bytes = read.torn_bytes, "the spool ends with an incomplete record");
            }
            if read.damaged_bytes > 0 {
                let written_ms = damage::written_ms(&segment.file)?;
                leftover.gaps.push(damage::keep(path, &bytes, read.damaged_bytes, written_ms));
            }
            records.extend(read.records);
        }
        records.sort_by_key(|(number, _)| *number);
        let mut open = HashMap::new();
        for (number, record) in records {
            leftover.last = number;
            match record {
                SpoolRecord::Begun(intent) => drop(open.insert(intent.call_id, *intent)),
                SpoolRecord::Ended(id) => drop(open.remove(&id)),
                SpoolRecord::Note(entry) => {
                    if let Some(id) = ended_by(&entry) {
                        open.remove(&id);
                    }
                    leftover.notes.push(NumberedEntry { number, entry: *entry });
                }
            }
        }
        leftover.open = open.into_values().collect();
        leftover.open.sort_by_key(|intent| intent.at_ms);
        let state = SpoolState {
            segments,
            active: 0,
            next: leftover.last + 1,
            committed: 0,
            waiting: VecDeque::new(),
            open: HashMap::new(),
            unended: Vec::new(),
            scratch: Vec::new(),
        };
        Ok((Self(Mutex::new(state)), leftover))
    }

    /// Empties the spool after its records were moved to the database; numbers continue after `last`.
    pub(super) fn begin_after(&self, last: u64) -> io::Result<()> {
        let mut state = self.state();
        state.segments.iter_mut().try_for_each(SpoolSegment::clear)?;
        (state.next, state.committed) = (last + 1, last);
        Ok(())
    }

    /// Appends an audit entry and returns the number of waiting entries. An entry that cannot be appended still waits
    /// for the database, and its call counts as open until the database has the entry.
    pub(super) fn note(&self, entry: AuditEntry) -> (usize, io::Result<()>) {
        let mut state = self.state();
        let ended = ended_by(&entry).filter(|id| state.open.contains_key(id));
        let record = SpoolRecord::Note(Box::new(entry));
        let (number, appended) = state.append(&record);
        if appended.is_ok() {
            let active = state.active;
            state.segments[active].last_note = number;
            ended.map(|id| state.open.remove(&id));
        } else {
            state.unended.extend(ended.map(|id| (number, id)));
        }
        if let SpoolRecord::Note(entry) = record {
            state.waiting.push_back(NumberedEntry { number, entry: *entry });
        }
        (state.waiting.len(), appended)
    }

    /// Records that a call is about to be sent.
    pub(super) fn begin(&self, intent: Intent) -> io::Result<()> {
        let mut state = self.state();
        state.write_ends();
        let record = SpoolRecord::Begun(Box::new(intent));
        state.append(&record).1?;
        let active = state.active;
        if let SpoolRecord::Begun(intent) = record {
            state.open.insert(intent.call_id, (active, intent));
        }
        Ok(())
    }

    /// Records the end of a call that has no audit entry.
    pub(super) fn end(&self, id: Uuid) -> io::Result<()> {
        let mut state = self.state();
        if !state.open.contains_key(&id) {
            return Ok(());
        }
        let appended = state.append(&SpoolRecord::Ended(id)).1;
        match &appended {
            Ok(()) => drop(state.open.remove(&id)),
            Err(_) => state.unended.push((0, id)),
        }
        appended
    }

    /// Takes the waiting audit entries.
    pub(super) fn take(&self) -> VecDeque<NumberedEntry> {
        std::mem::take(&mut self.state().waiting)
    }

    /// Marks all entries up to this number as stored in the database.
    pub(super) fn committed(&self, number: u64) {
        let mut state = self.state();
        state.committed = state.committed.max(number);
        state.write_ends();
    }

    /// Empties the spool if none of its records is needed. Called on shutdown.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.drop_ended();
        let committed = state.committed;
        let idle = state.open.is_empty() && state.waiting.is_empty();
        if idle && state.segments.iter().all(|segment| segment.last_note <= committed) {
            let _ = state.segments.iter_mut().try_for_each(SpoolSegment::clear);
        }
    }

    fn state(&self) -> MutexGuard<'_, SpoolState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpoolState {
    fn append(&mut self, record: &SpoolRecord) -> (u64, io::Result<()>) {
        self.switch_segment();
        let number = self.next;
        self.next += 1;
        self.scratch.clear();
        encode(number, record, &mut self.scratch);
        (number, self.segments[self.active].append(&self.scratch))
    }

    /// Writes the ends that could not be written when their calls ended. Otherwise the next start would treat these
    /// calls as interrupted, although the database has their rows.
    fn write_ends(&mut self) {
        let committed = self.committed;
        while let Some(place) = self.unended.iter().position(|(number, _)| *number <= committed) {
            let id = self.unended[place].1;
            if self.append(&SpoolRecord::Ended(id)).1.is_err() {
                return;
            }
            self.unended.swap_remove(place);
            self.open.remove(&id);
        }
    }

    /// Removes ended calls from `open` whose audit entries are in the database.
    fn drop_ended(&mut self) {
        for (number, id) in std::mem::take(&mut self.unended) {
            match number <= self.committed {
                true => drop(self.open.remove(&id)),
                false => self.unended.push((number, id)),
            }
        }
    }

    /// Switches to the other segment once this one is long and the other can be emptied.
    fn switch_segment(&mut self) {
        let (active, other) = (self.active, 1 - self.active);
        let this = &self.segments[active];
        let is_due = this.broken || this.size > SWITCH_BYTES;
        if !is_due || self.segments[other].last_note > self.committed {
            return;
        }
        let mut moved = Vec::new();
        self.scratch.clear();
        for (id, (segment, intent)) in &self.open {
            if *segment == other {
                encode(self.next, &SpoolRecord::Begun(intent.clone()), &mut self.scratch);
                self.next += 1;
                moved.push(*id);
            }
        }
        if !self.scratch.is_empty() && self.segments[active].append(&self.scratch).is_err() {
            return;
        }
        for id in moved {
            if let Some((segment, _)) = self.open.get_mut(&id) {
                *segment = active;
            }
        }
        if self.segments[other].clear().is_ok() {
            self.active = other;
        }
    }
}

/// The call that this audit entry ends.
fn ended_by(entry: &AuditEntry) -> Option<Uuid> {
    entry.call_id.filter(|_| &*entry.kind == AuditKind::Call.as_str())
}

fn folder_of(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-spool");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: u128) -> AuditEntry {
        let preview = "x".repeat(500);
        AuditEntry {
            call_id: Some(Uuid::from_u128(number)),
            arguments_preview: Some(preview.as_str().into()),
            ..AuditEntry::new(1, "call", "ann", "done")
        }
    }

    fn intent(number: u128) -> Intent {
        Intent {
            call_id: Uuid::from_u128(number),
            at_ms: 1,
            user: "ann".into(),
            server: "mail".parse().expect("a name"),
            tool: "send".into(),
            arguments_sha256: [9; 32],
            side_effect: "write".into(),
        }
    }

    #[test]
    fn reopening_returns_audit_entries_and_open_calls_but_not_ended_calls() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("db");
        let (spool, left) = Spool::open(&place).expect("opened");
        assert_eq!((left.notes.len(), left.open.len(), left.last), (0, 0, 0));
        for number in 1..=3 {
            spool.begin(intent(number)).expect("begun");
        }
        spool.note(note(1)).1.expect("noted");
        spool.end(Uuid::from_u128(2)).expect("ended");
        spool.end(Uuid::from_u128(9)).expect("never begun");
        drop(spool);
        let (spool, left) = Spool::open(&place).expect("opened again");
        assert_eq!(left.notes.iter().map(|note| note.number).collect::<Vec<_>>(), [4]);
        assert_eq!(left.open.iter().map(|intent| intent.call_id.as_u128()).collect::<Vec<_>>(), [3]);
        spool.begin_after(left.last).expect("emptied");
        spool.note(note(7)).1.expect("noted");
        let (_, left) = Spool::open(&place).expect("opened again");
        assert_eq!((left.notes.len(), left.notes[0].number), (1, 6));
    }

    // audit: one damaged record of the spool discards everything behind it, and the evidence with it.
    #[test]
    fn a_damaged_record_leaves_a_copy_and_an_audit_entry_and_other_records_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("db");
        let (spool, _) = Spool::open(&place).expect("opened");
        for number in 1..=3 {
            spool.note(note(number)).1.expect("noted");
        }
        drop(spool);
        let path = folder.path().join("db-spool/0");
        let mut bytes = std::fs::read(&path).expect("the file");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).expect("damaged");

        for attempt in 0..2 {
            let (_, left) = Spool::open(&place).expect("opened again");
            assert_eq!(left.notes.iter().map(|note| note.number).collect::<Vec<_>>(), [1, 3]);
            assert_eq!((left.last, left.gaps.len()), (3, 1));
            assert_eq!(left.gaps[0].code.as_deref(), Some("store.spool-damaged"));
            let copies: Vec<PathBuf> = std::fs::read_dir(folder.path().join("db-spool"))
                .expect("a folder")
                .map(|entry| entry.expect("a file").path())
                .filter(|path| path.to_string_lossy().contains("db-spool/0.damaged-"))
                .collect();
            assert_eq!(copies.len(), 1, "attempt {attempt}");
            assert_eq!(std::fs::read(&copies[0]).expect("the copy"), bytes);
            let mode = copies[0].metadata().expect("the copy").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    /// Makes every write to the spool fail, as on a full disk; returns the original files.
    fn fill_up(spool: &Spool) -> [File; 2] {
        spool.state().segments.each_mut().map(|segment| {
            let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
            std::mem::replace(&mut segment.file, full)
        })
    }

    fn make_room(spool: &Spool, files: [File; 2]) {
        for (segment, file) in spool.state().segments.iter_mut().zip(files) {
            segment.file = file;
        }
    }

    // audit: a full disk.
    #[test]
    fn a_call_that_ended_on_a_full_disk_is_not_open_once_the_database_has_its_row() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("db");
        let (spool, _) = Spool::open(&place).expect("opened");
        for number in 1..=3 {
            spool.begin(intent(number)).expect("begun");
        }
        let files = fill_up(&spool);
        let full = |result: io::Result<()>| {
            assert_eq!(result.expect_err("disk full").kind(), io::ErrorKind::StorageFull);
        };
        full(spool.note(note(1)).1);
        full(spool.end(Uuid::from_u128(2)));
        full(spool.begin(intent(4)));
        make_room(&spool, files);
        // The first call's row waits for the database, so its end is not written yet; the second call's end is.
        spool.begin(intent(5)).expect("begun");
        let open = |left: &SpoolLeftover| {
            let mut open: Vec<u128> = left.open.iter().map(|intent| intent.call_id.as_u128()).collect();
            open.sort_unstable();
            open
        };
        let (_, left) = Spool::open(&place).expect("opened again");
        assert_eq!(open(&left), [1, 3, 5]);
        let last = spool.take().back().expect("it waits").number;
        spool.committed(last);
        let (_, left) = Spool::open(&place).expect("opened again");
        assert_eq!((open(&left), left.gaps.len()), (vec![3, 5], 0));
    }

    #[test]
    fn close_empties_a_spool_after_the_disk_was_full() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("db");
        let (spool, _) = Spool::open(&place).expect("opened");
        spool.begin(intent(1)).expect("begun");
        let files = fill_up(&spool);
        spool.note(note(1)).1.expect_err("disk full");
        let last = spool.take().back().expect("it waits").number;
        spool.committed(last);
        make_room(&spool, files);
        spool.close();
        let (_, left) = Spool::open(&place).expect("opened again");
        assert_eq!((left.notes.len(), left.open.len(), left.last), (0, 0, 0));
    }

    #[test]
    fn a_partial_record_is_truncated_before_the_next_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("db");
        let (spool, _) = Spool::open(&place).expect("opened");
        spool.note(note(1)).1.expect("noted");
        {
            let mut state = spool.state();
            // The disk was full in the middle of a record, and the file could not be truncated.
            (&state.segments[0].file).write_all(&[7; 100]).expect("written");
            state.segments[0].broken = true;
            // The other segment cannot be emptied.
            state.segments[1].last_note = u64::MAX;
        }
        spool.note(note(2)).1.expect("noted");
        let (_, left) = Spool::open(&place).expect("opened again");
        assert_eq!(left.notes.iter().map(|note| note.number).collect::<Vec<_>>(), [1, 2]);
        assert!(left.gaps.is_empty());
    }

    #[test]
    fn segments_stay_short_while_the_database_commits_their_entries() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("db");
        let (spool, _) = Spool::open(&place).expect("opened");
        spool.begin(intent(u128::MAX)).expect("a call that runs for long");
        for number in 1..=20_000_u128 {
            spool.begin(intent(number)).expect("begun");
            spool.note(note(number)).1.expect("noted");
            if number % 100 == 0 {
                let last = spool.take().back().expect("some wait").number;
                spool.committed(last);
            }
        }
        let sizes = ["db-spool/0", "db-spool/1"]
            .map(|name| folder.path().join(name).metadata().expect("a file").len());
        assert!(sizes.iter().all(|size| *size < SWITCH_BYTES + (1 << 18)), "{sizes:?}");
        drop(spool);
        let (_, left) = Spool::open(&place).expect("opened again");
        assert_eq!(left.open.iter().map(|intent| intent.call_id.as_u128()).collect::<Vec<_>>(), [u128::MAX]);
    }

    #[test]
    fn uncommitted_entries_are_never_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("db");
        let (spool, _) = Spool::open(&place).expect("opened");
        for number in 1..=6_000 {
            spool.note(note(number)).1.expect("noted");
        }
        drop(spool);
        let (_, left) = Spool::open(&place).expect("opened again");
        assert_eq!(left.notes.len(), 6_000);
        assert!(left.notes.iter().map(|note| note.number).eq(1..=6_000));
    }
}
