//! Boxing futures without a copy through the stack.

use std::pin::Pin;

/// Boxes a future and constructs it inside its box. `Box::pin` constructs it on the stack and copies it,
/// which for large futures moves kilobytes of uninitialised memory.
#[inline(always)]
pub fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}
