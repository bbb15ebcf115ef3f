//! What stays mapped: once the gateway has started, the code that only starting needed is let go of.
//!
//! Starting touches most of the binary here and there (settings, schemas, the store's migrations, TLS), and the
//! system maps what lies around each touched page. It would count as the gateway's memory for as long as it runs.
//! Let go of, it stays in the system's cache of files, and what is needed again is mapped again, page by page.

use nix::sys::mman::{MmapAdvise, madvise};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Lets go of all mapped code.
pub fn let_go_of_start() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for (start, length) in clean_code(&maps) {
        let Some(start) = NonNull::new(std::ptr::without_provenance_mut::<c_void>(start)) else { continue };
        // SAFETY: the range is a private mapping of a file, executable and not writable, and no page of it differs
        // from the file: the system says so in the list it was taken from. Such pages are read from the file again
        // when they are touched, so nothing that the program can see changes.
        #[allow(unsafe_code, reason = "there is no safe way to say this to the system")]
        let _ = unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED) };
    }
}

/// The mappings that hold code from files, as it stands there. One that a debugger wrote into is not among them.
fn clean_code(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(first), second) = (words.next(), words.next()) else { continue };
        if let Some(key) = first.strip_suffix(':') {
            if key == "Private_Dirty"
                && let Some(range) = candidate.take()
                && second == Some("0")
            {
                found.push(range);
            }
            continue;
        }
        let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
        candidate = range(first).filter(|_| second == Some("r-xp") && is_file);
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
    fn only_untouched_code_of_files_is_let_go_of() {
        let smaps = "\
1000-3000 r--p 00000000 fd:00 7   /bin/x
Private_Dirty:         0 kB
3000-8000 r-xp 00002000 fd:00 7   /bin/x
Rss:                  20 kB
Private_Clean:        20 kB
Private_Dirty:         0 kB
8000-9000 rw-p 00007000 fd:00 7   /bin/x
Private_Dirty:         4 kB
a000-b000 r-xp 00000000 fd:00 8   /lib/y.so
Private_Dirty:         4 kB
c000-d000 r-xp 00000000 00:00 0   [vdso]
Private_Dirty:         0 kB
e000-f000 r-xp 00000000 00:00 0
Private_Dirty:         0 kB
";
        assert_eq!(clean_code(smaps), [(0x3000, 0x5000)]);
    }

    #[test]
    fn the_program_goes_on() {
        let_go_of_start();
        assert_eq!("still here".len(), 10);
    }
}
