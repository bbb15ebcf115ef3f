//! Maps by names that every call looks up.

/// A map by names. Hashed with a seed that nobody outside knows, but for speed: the names are short, and what stands
/// in such a map was admitted before, in bounded numbers.
pub type NameMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// What [`NameMap`] hashes with.
pub type NameHasher = foldhash::fast::RandomState;
