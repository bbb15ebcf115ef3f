//! What stays mapped: once the gateway has started, what only starting needed of the binary and of the heap is let go of.
//!
//! Starting touches most of the binary here and there (settings, schemas, the store's migrations, TLS), and the
//! system maps what lies around each touched page. It would count as the gateway's memory for as long as it runs.
//! Let go of, it stays in the system's cache of files, and what is needed again is mapped again, page by page.
//! Reading what servers offer needs several times the memory that the catalog has afterwards; the allocator would keep
//! it for later.

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use nix::sys::mman::{MmapAdvise, madvise};
use std::ffi::{c_long, c_void};
use std::ptr::NonNull;

/// How many milliseconds mimalloc keeps free pages (`mi_option_purge_delay`, which the crate has no name for).
const PURGE_DELAY: mi_option_t = 15;

/// How long the allocator keeps what is free when nobody says otherwise.
pub struct Keeping(c_long);

/// From now on free pages are given back at once: a list of thousands of tools is read, taken apart and written down within
/// milliseconds, and what each step needed would still count during the next.
pub fn keep_nothing() -> Keeping {
    // SAFETY: neither takes a pointer, and the option may be changed at any time.
    #[allow(unsafe_code, reason = "there is no safe way to say this to the allocator")]
    unsafe {
        let usual = mi_option_get(PURGE_DELAY);
        mi_option_set(PURGE_DELAY, 0);
        Keeping(usual)
    }
}

/// Free pages are kept for a while again: calls need them the next moment.
pub fn keep_as_usual(Keeping(usual): Keeping) {
    // SAFETY: it takes no pointer, and the option may be changed at any time.
    #[allow(unsafe_code, reason = "there is no safe way to say this to the allocator")]
    unsafe {
        mi_option_set(PURGE_DELAY, usual);
    }
}

/// Lets go of memory that nobody uses, and of all that is mapped of the binary and its libraries and stands in their
/// files as it is.
pub fn let_go_of_start() {
    give_back_heap();
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for (start, length) in unchanged(&maps) {
        let Some(start) = NonNull::new(std::ptr::without_provenance_mut::<c_void>(start)) else { continue };
        // SAFETY: the range is a private mapping of a file, not writable, and no page of it was ever copied to be
        // changed: the system says so in the list it was taken from. Such pages are read from the file again when
        // they are touched, so nothing that the program can see changes.
        #[allow(unsafe_code, reason = "there is no safe way to say this to the system")]
        let _ = unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED) };
    }
}

/// Gives free pages back to the system: of mimalloc's heaps that of the calling thread, and SQLite's.
pub fn give_back_heap() {
    // SAFETY: it takes no pointer and touches nothing but memory that is free.
    #[allow(unsafe_code, reason = "there is no safe way to say this to the allocator")]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    };
    // SQLite asks the system's allocator for its memory.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it takes no pointer and touches nothing but memory that is free, under the allocator's own locks.
        #[allow(unsafe_code, reason = "there is no safe way to say this to the allocator")]
        let _ = unsafe { nix::libc::malloc_trim(0) };
    }
}

/// The mappings of files that cannot be written to and have no page of their own. What the loader or a debugger
/// wrote into has some, and is not among them. (A page that is "dirty" may only be on its way to disk.)
fn unchanged(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(first), second) = (words.next(), words.next()) else { continue };
        if let Some(key) = first.strip_suffix(':') {
            if key == "Anonymous"
                && let Some(range) = candidate.take()
                && second == Some("0")
            {
                found.push(range);
            }
            continue;
        }
        let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
        candidate = range(first).filter(|_| matches!(second, Some("r-xp" | "r--p")) && is_file);
    }
    found
}

fn range(text: &str) -> Option<(usize, usize)> {
    let (start, end) = text.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchanged_parts_of_files_are_let_go_of() {
        let smaps = "\
1000-3000 r--p 00000000 fd:00 7   /bin/x
Private_Dirty:         8 kB
Anonymous:             0 kB
3000-8000 r-xp 00002000 fd:00 7   /bin/x
Rss:                  20 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
8000-9000 rw-p 00007000 fd:00 7   /bin/x
Anonymous:             0 kB
9000-a000 r--p 00008000 fd:00 7   /bin/x
Anonymous:             4 kB
a000-b000 r-xp 00000000 fd:00 8   /lib/y.so
Anonymous:             4 kB
c000-d000 r-xp 00000000 00:00 0   [vdso]
Anonymous:             0 kB
e000-f000 r-xp 00000000 00:00 0
Anonymous:             0 kB
";
        assert_eq!(unchanged(smaps), [(0x1000, 0x2000), (0x3000, 0x5000)]);
    }

    #[test]
    fn free_pages_are_kept_as_usual_afterwards() {
        let now = || {
            // SAFETY: it takes no pointer.
            #[allow(unsafe_code, reason = "there is no safe way to ask the allocator")]
            unsafe {
                mi_option_get(PURGE_DELAY)
            }
        };
        let usual = now();
        assert!(usual > 0, "the option is another one: {usual}");
        let keeping = keep_nothing();
        assert_eq!(now(), 0);
        keep_as_usual(keeping);
        assert_eq!(now(), usual);
    }

    #[test]
    fn the_program_goes_on() {
        let kept: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        drop(vec![1_u8; 32 << 20]);
        let_go_of_start();
        assert!(kept.iter().zip(0..).all(|(text, number)| *text == number.to_string()));
    }
}
