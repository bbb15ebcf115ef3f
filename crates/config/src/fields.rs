//! Deserialization and serialization of common field types: secrets, seconds, and single values in place of lists.

use crate::read::{ONE_OR_MANY, SECRET};
use crate::secrets::{HIDDEN, hide};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use toolbooth_core::secret::SecretText;

/// A string field that may contain `${NAME}`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SecretField(pub SecretText);

struct SecretVisitor {
    scalars: Scalars,
}

/// Whether numbers and booleans are accepted as strings.
#[derive(Clone, Copy, PartialEq)]
enum Scalars {
    Refused,
    Accepted,
}

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = SecretText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretText, E> {
        Ok(SecretText::plain(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<SecretText, A::Error> {
        // An ordinary list also arrives here, but does not have the two strings of a template and its value.
        if parts.size_hint() != Some(2) {
            return Err(de::Error::invalid_type(de::Unexpected::Seq, &self));
        }
        let template: String = parts.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let value: String = parts.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
        Ok(SecretText::expanded(template, value))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SecretText, E> {
        self.scalar(de::Unexpected::Unsigned(number), number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<SecretText, E> {
        self.scalar(de::Unexpected::Signed(number), number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<SecretText, E> {
        self.scalar(de::Unexpected::Float(number), number.to_string())
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<SecretText, E> {
        self.scalar(de::Unexpected::Bool(truth), truth.to_string())
    }
}

impl SecretVisitor {
    fn scalar<E: de::Error>(self, found: de::Unexpected<'_>, text: String) -> Result<SecretText, E> {
        match self.scalars {
            Scalars::Accepted => Ok(SecretText::plain(text)),
            Scalars::Refused => Err(E::invalid_type(found, &self)),
        }
    }
}

impl<'de> Deserialize<'de> for SecretField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = SecretVisitor { scalars: Scalars::Refused };
        deserializer.deserialize_newtype_struct(SECRET, visitor).map(Self)
    }
}

/// A value of `env` or `headers`: numbers and booleans are converted to strings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScalarField(pub SecretText);

impl<'de> Deserialize<'de> for ScalarField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = SecretVisitor { scalars: Scalars::Accepted };
        deserializer.deserialize_newtype_struct(SECRET, visitor).map(Self)
    }
}

/// Fields of type `SecretText`: read with their value, serialized as their template.
pub(crate) mod secret {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(text: &SecretText, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text.shown())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretText, D::Error> {
        SecretField::deserialize(deserializer).map(|field| hide(field.0))
    }
}

/// Fields of type `Option<SecretText>` whose literal value is shown, such as URLs, with the secrets in it masked.
pub(crate) mod text_option {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        text: &Option<SecretText>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        text.as_ref().map(SecretText::shown).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SecretText>, D::Error> {
        Ok(Option::<SecretField>::deserialize(deserializer)?
            .map(|field| crate::secrets::hide_in_address(field.0)))
    }
}

/// Fields of type `Option<SecretText>`.
pub(crate) mod secret_option {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        text: &Option<SecretText>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match text {
            Some(text) => secret::serialize(text, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SecretText>, D::Error> {
        Ok(Option::<SecretField>::deserialize(deserializer)?.map(|field| hide(field.0)))
    }
}

/// Maps from names to secrets.
pub(crate) mod secret_map {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        map: &BTreeMap<String, SecretText>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            map.iter().map(|(name, text)| {
                (name, if text.shown() == text.expose() { HIDDEN } else { text.shown() })
            }),
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, SecretText>, D::Error> {
        let map = BTreeMap::<String, ScalarField>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(name, field)| (name, hide(field.0))).collect())
    }
}

/// The maximum duration of any setting: one day.
const MAX_SECONDS: f64 = 86_400.0;

/// A duration: a number of seconds, or a string such as `500ms`, `30s`, `5m`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seconds(pub Duration);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_f64(SecondsVisitor).map(Self)
    }
}

struct SecondsVisitor;

impl SecondsVisitor {
    fn of<E: de::Error>(self, seconds: f64) -> Result<Duration, E> {
        if (0.0..=MAX_SECONDS).contains(&seconds) {
            return Ok(Duration::from_secs_f64(seconds));
        }
        Err(E::custom("expected a number of seconds from 0 to 86400"))
    }
}

impl Visitor<'_> for SecondsVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of seconds")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Duration, E> {
        self.of(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Duration, E> {
        self.of(number as f64)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Duration, E> {
        self.of(number)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number = text[..digits].parse::<f64>().ok();
        let unit = match text[digits..].trim() {
            "ms" => Some(0.001),
            "s" | "" => Some(1.0),
            "m" | "min" => Some(60.0),
            "h" => Some(3600.0),
            _ => None,
        };
        match (number, unit) {
            (Some(number), Some(unit)) => self.of(number * unit),
            _ => Err(E::invalid_type(de::Unexpected::Str(text), &self)),
        }
    }
}

fn show_seconds<S: Serializer>(time: Duration, serializer: S) -> Result<S::Ok, S::Error> {
    if time.subsec_nanos() == 0 {
        return serializer.serialize_u64(time.as_secs());
    }
    serializer.serialize_f64(time.as_secs_f64())
}

/// Fields of type `Duration`.
pub(crate) mod seconds {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        show_seconds(*time, serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Seconds::deserialize(deserializer).map(|field| field.0)
    }
}

/// Fields of type `Option<Duration>`.
pub(crate) mod seconds_option {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => show_seconds(*time, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Seconds>::deserialize(deserializer)?.map(|field| field.0))
    }
}

/// A single value or a list of values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Vec<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = parts.next_element()? {
                    items.push(item);
                }
                Ok(items)
            }
        }
        deserializer.deserialize_newtype_struct(ONE_OR_MANY, ItemsVisitor(std::marker::PhantomData)).map(Self)
    }
}

/// The JSON Schema of a string or a list of strings.
pub(crate) enum TextOrTexts {}

impl schemars::JsonSchema for TextOrTexts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TextOrTexts".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        })
    }
}

/// The JSON Schema of a duration.
pub(crate) enum Time {}

impl schemars::JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                { "type": "number", "minimum": 0, "maximum": 86400 },
                { "type": "string", "pattern": "^[0-9.]+ *(ms|s|m|min|h)?$" }
            ]
        })
    }
}

/// Lists that may be written as a single value.
pub(crate) mod one_or_many {
    use super::*;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        items: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        items.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        OneOrMany::<T>::deserialize(deserializer).map(|field| field.0)
    }
}
