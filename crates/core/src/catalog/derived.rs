//! Data that another crate derives from the catalog. It is kept with the part that it was derived from, and dropped
//! with it.

use std::any::Any;
use std::sync::{Arc, OnceLock};

/// One value that another crate computes on first use, for example a search index. The catalog does not depend on its
/// type.
#[derive(Debug, Default)]
pub struct DerivedData(OnceLock<Arc<dyn Any + Send + Sync>>);

impl DerivedData {
    /// The value. It is computed by the first call; others wait for it.
    pub fn get_or_compute<T: Any + Send + Sync>(&self, mut compute: impl FnMut() -> T) -> Arc<T> {
        let data = self.0.get_or_init(|| Arc::new(compute())).clone();
        // A second user with a type of its own gets a value that is not kept.
        data.downcast().unwrap_or_else(|_| Arc::new(compute()))
    }

    /// Whether the value has been computed.
    pub fn is_computed(&self) -> bool {
        self.0.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_computed_once_and_shared() {
        let derived = DerivedData::default();
        assert!(!derived.is_computed());
        let first = derived.get_or_compute(|| "index".to_owned());
        let second: Arc<String> = derived.get_or_compute(|| unreachable!("it is already computed"));
        assert!(derived.is_computed() && Arc::ptr_eq(&first, &second));
        assert_eq!(*derived.get_or_compute(|| 7_u8), 7, "another type does not replace it");
        assert!(Arc::ptr_eq(&first, &derived.get_or_compute(String::new)));
    }
}
