//! Releases the memory that only startup needed: mapped pages of the binary and free pages of the heap.
//!
//! Startup touches much of the binary (settings, schemas, the store's migrations, TLS), and the system also maps the
//! pages around each touched page. They would count as memory of the gateway as long as it runs. After the release
//! they stay in the page cache, and pages that are needed again are mapped again one by one.
//! Reading the tool lists needs several times the memory of the final catalog, and the allocator would keep it.

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use nix::sys::mman::{MmapAdvise, madvise};
use std::ffi::{c_long, c_void};
use std::ptr::NonNull;

/// How many milliseconds mimalloc keeps free pages (`mi_option_purge_delay`, which the crate has no name for).
const PURGE_DELAY: mi_option_t = 15;

/// The allocator's default purge delay.
pub struct DefaultPurgeDelay(c_long);

/// Sets the purge delay to zero: a list of thousands of tools is read, parsed and stored within milliseconds, and free
/// pages of one step would still count during the next.
pub fn disable_purge_delay() -> DefaultPurgeDelay {
    // SAFETY: neither takes a pointer, and the option may be changed at any time.
    #[allow(unsafe_code, reason = "the allocator has no safe interface for this")]
    unsafe {
        let usual = mi_option_get(PURGE_DELAY);
        mi_option_set(PURGE_DELAY, 0);
        DefaultPurgeDelay(usual)
    }
}

/// Restores the default purge delay, because calls reuse free pages soon.
pub fn restore_purge_delay(DefaultPurgeDelay(usual): DefaultPurgeDelay) {
    // SAFETY: it takes no pointer, and the option may be changed at any time.
    #[allow(unsafe_code, reason = "the allocator has no safe interface for this")]
    unsafe {
        mi_option_set(PURGE_DELAY, usual);
    }
}

/// Releases free heap memory, and the unchanged mapped pages of the binary and its libraries.
pub fn release_startup_memory() {
    release_free_heap();
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for (start, length) in unchanged(&maps) {
        let Some(start) = NonNull::new(std::ptr::without_provenance_mut::<c_void>(start)) else { continue };
        // SAFETY: the range is a private, read-only mapping of a file, and by the kernel's list none of its pages was
        // ever modified. The kernel reads such pages from the file again when they are touched, so the program sees
        // no change.
        #[allow(unsafe_code, reason = "madvise has no safe interface")]
        let _ = unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED) };
    }
}

/// Returns free pages to the system: those of the calling thread's mimalloc heap, and those of SQLite.
pub fn release_free_heap() {
    // SAFETY: it takes no pointer and touches nothing but memory that is free.
    #[allow(unsafe_code, reason = "the allocator has no safe interface for this")]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    };
    // SQLite uses the system's allocator.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it takes no pointer and touches nothing but memory that is free, under the allocator's own locks.
        #[allow(unsafe_code, reason = "the allocator has no safe interface for this")]
        let _ = unsafe { nix::libc::malloc_trim(0) };
    }
}

/// The read-only file mappings without anonymous pages. Mappings that the loader or a debugger wrote to have
/// anonymous pages. ("Dirty" pages may only be waiting for write-back.)
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
    fn only_unchanged_file_mappings_are_released() {
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
    fn the_default_purge_delay_is_restored() {
        let now = || {
            // SAFETY: it takes no pointer.
            #[allow(unsafe_code, reason = "the allocator has no safe interface for this")]
            unsafe {
                mi_option_get(PURGE_DELAY)
            }
        };
        let usual = now();
        assert!(usual > 0, "this is not the purge delay: {usual}");
        let purge_delay = disable_purge_delay();
        assert_eq!(now(), 0);
        restore_purge_delay(purge_delay);
        assert_eq!(now(), usual);
    }

    #[test]
    fn the_program_still_runs_after_the_release() {
        let kept: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        drop(vec![1_u8; 32 << 20]);
        release_startup_memory();
        assert!(kept.iter().zip(0..).all(|(text, number)| *text == number.to_string()));
    }
}
