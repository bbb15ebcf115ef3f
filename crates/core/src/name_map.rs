//! Maps keyed by names, for lookups on every call.

/// A map keyed by names. It uses a fast hash with a random seed: the names are short, and their number is limited
/// because they were admitted before.
pub type NameMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// The hasher of [`NameMap`].
pub type NameHasher = foldhash::fast::RandomState;
