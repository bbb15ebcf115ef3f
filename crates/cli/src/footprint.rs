//! Releases the heap memory that only startup needed.
//!
//! Reading the tool lists needs several times the memory of the final catalog, and the allocator would keep it.

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
    fn the_program_still_runs_after_the_release() {
        let kept: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        drop(vec![1_u8; 32 << 20]);
        release_free_heap();
        assert!(kept.iter().zip(0..).all(|(text, number)| *text == number.to_string()));
    }
}
