//! Fields that are a boolean, or a map of details.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A boolean, or a map of details.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SwitchOr<M> {
    Switch(bool),
    Map(M),
}

/// A map that may be replaced by a boolean.
pub(crate) trait SwitchMap {
    /// The accepted forms, for error messages.
    const EXPECTED: &'static str;
}

impl<'de, M: SwitchMap + Deserialize<'de>> Deserialize<'de> for SwitchOr<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SwitchVisitor(PhantomData))
    }
}

struct SwitchVisitor<M>(PhantomData<M>);

impl<'de, M: SwitchMap + Deserialize<'de>> Visitor<'de> for SwitchVisitor<M> {
    type Value = SwitchOr<M>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(M::EXPECTED)
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<SwitchOr<M>, E> {
        Ok(SwitchOr::Switch(on))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SwitchOr<M>, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(SwitchOr::Map)
    }
}
