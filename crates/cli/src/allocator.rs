//! The allocator: mimalloc, asked the short way wherever its natural alignment will do.
//!
//! The crate's own face names an alignment each time. That takes three times the instructions, and for what is larger
//! than some kilobytes, as futures are, it asks for more than is needed and marks the page for slower frees.

use libmimalloc_sys::{mi_malloc, mi_realloc, mi_zalloc};
use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};

/// Everything mimalloc gives out stands at a multiple of this, if it is at least as large.
const NATURAL: usize = 16;

/// See docs/adr/0011-allocator.md.
pub struct Allocator;

fn is_natural(size: usize, align: usize) -> bool {
    align <= NATURAL && align <= size
}

// SAFETY: every pointer comes from mimalloc, whose functions all free and grow each other's; what is given out is as
// large as asked, and aligned as asked: naturally, or by the crate's own face, which names the alignment.
#[allow(unsafe_code, reason = "there is no safe way to be an allocator")]
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_natural(layout.size(), layout.align()) {
            // SAFETY: any size may be asked for.
            unsafe { mi_malloc(layout.size()).cast() }
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_natural(layout.size(), layout.align()) {
            // SAFETY: any size may be asked for.
            unsafe { mi_zalloc(layout.size()).cast() }
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.dealloc(place, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_natural(size, layout.align()) {
            // SAFETY: the place is mimalloc's, as the caller promises.
            unsafe { mi_realloc(place.cast(), size).cast() }
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { MiMalloc.realloc(place, layout, size) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "an allocator is tried by hand")]
    fn what_is_given_out_is_aligned_whole_and_kept_when_it_grows() {
        for align in [1, 2, 4, 8, 16, 32, 64, 128, 4096] {
            for size in [1, 7, 8, 9, 15, 16, 17, 24, 40, 100, 1000, 1025, 4095, 5000, 9000, 70_000, 2_000_000]
            {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: all of it is written before it is read, and freed once with the layout it has by then.
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
