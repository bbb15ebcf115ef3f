//! Parses arguments into a tree strictly: a key that appears twice in one object is an error.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Parses a text into a tree. serde_json itself limits the depth.
pub(super) fn read(text: &[u8]) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    StrictReader.deserialize(&mut reader)
}

struct StrictReader;

impl<'de> DeserializeSeed<'de> for StrictReader {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictReader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(StrictReader)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(MemberKey(key)) = map.next_key()? {
            let value = map.next_value_seed(StrictReader)?;
            if let Some(twice) = members.get(&key).map(|_| super::fault::shortened(&key, 64)) {
                return Err(A::Error::custom(format_args!("the key {twice:?} appears twice in one object")));
            }
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[derive(Deserialize)]
struct MemberKey(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_parses_like_serde_json_but_refuses_duplicate_keys() {
        let text = r#"{"a":[1,-2,1.5,"é\n",true,null,{"b":{}}],"c":18446744073709551615}"#;
        let plain: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(read(text.as_bytes()).expect("JSON"), plain);
        for twice in [r#"{"a":1,"a":2}"#, r#"{"x":[{"a":1,"\u0061":2}]}"#] {
            let error = read(twice.as_bytes()).expect_err("refused").to_string();
            assert!(error.contains(r#"the key "a" appears twice"#), "{error}");
        }
        assert!(read("[".repeat(500).as_bytes()).is_err());
    }
}
