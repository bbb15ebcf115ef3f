//! The global allocator: mimalloc, without an explicit alignment if its natural alignment is enough.
//!
//! The `mimalloc` crate always passes an alignment. That path takes three times the instructions, and for blocks of
//! several kilobytes, such as futures, it allocates more than needed and marks the page for slower frees.

use libmimalloc_sys::{mi_malloc, mi_realloc, mi_zalloc};
use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};

/// The natural alignment of mimalloc: blocks of at least this size are aligned to it.
const NATURAL: usize = 16;

/// See docs/adr/0011-allocator.md.
pub struct Allocator;

fn is_natural(size: usize, align: usize) -> bool {
    align <= NATURAL && align <= size
}

// SAFETY: every pointer comes from mimalloc, and all its functions accept each other's blocks. Blocks have at least the
// requested size, and the requested alignment: naturally, or through the crate, which passes the alignment.
#[allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_natural(layout.size(), layout.align()) {
            // SAFETY: every size is valid.
            unsafe { mi_malloc(layout.size()).cast() }
        } else {
            // SAFETY: the caller upholds the same contract.
            unsafe { MiMalloc.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_natural(layout.size(), layout.align()) {
            // SAFETY: every size is valid.
            unsafe { mi_zalloc(layout.size()).cast() }
        } else {
            // SAFETY: the caller upholds the same contract.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the same contract.
        unsafe { MiMalloc.dealloc(place, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_natural(size, layout.align()) {
            // SAFETY: the caller guarantees that the block is from this allocator.
            unsafe { mi_realloc(place.cast(), size).cast() }
        } else {
            // SAFETY: the caller upholds the same contract.
            unsafe { MiMalloc.realloc(place, layout, size) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "the allocator is called directly")]
    fn blocks_are_aligned_and_keep_their_content_when_they_grow() {
        for align in [1, 2, 4, 8, 16, 32, 64, 128, 4096] {
            for size in [1, 7, 8, 9, 15, 16, 17, 24, 40, 100, 1000, 1025, 4095, 5000, 9000, 70_000, 2_000_000]
            {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: every block is written before it is read, and freed once with its current layout.
                unsafe {
                    let place = Allocator.alloc_zeroed(layout);
                    assert!(!place.is_null() && place.addr().is_multiple_of(align), "{layout:?}");
                    assert!(
                        std::slice::from_raw_parts(place, size).iter().all(|byte| *byte == 0),
                        "{layout:?}"
                    );
                    place.write_bytes(7, size);
                    let place = Allocator.realloc(place, layout, size * 2);
                    assert!(!place.is_null() && place.addr().is_multiple_of(align), "{layout:?}, grown");
                    assert!(
                        std::slice::from_raw_parts(place, size).iter().all(|byte| *byte == 7),
                        "{layout:?}"
                    );
                    Allocator.dealloc(place, Layout::from_size_align(size * 2, align).expect("a layout"));
                    let place = Allocator.alloc(layout);
                    assert!(!place.is_null() && place.addr().is_multiple_of(align), "{layout:?}");
                    place.write_bytes(7, size);
                    Allocator.dealloc(place, layout);
                }
            }
        }
    }
}
