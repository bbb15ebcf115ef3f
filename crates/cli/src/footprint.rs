//! Releases the heap memory that only startup needed.
//!
//! Reading the tool lists needs several times the memory of the final catalog, and the allocator would keep it.

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use std::ffi::c_long;

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

#[cfg(test)]
mod tests {
    use super::*;

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
        release_free_heap();
        assert!(kept.iter().zip(0..).all(|(text, number)| *text == number.to_string()));
    }
}
