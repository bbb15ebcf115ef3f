//! Boxes for futures.

use std::pin::Pin;

/// Boxes a future, and makes it in its box. `Box::pin` makes it on the stack and copies all of its room into the box,
/// kilobytes of which nothing stands in yet.
#[inline(always)]
pub fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}
