//! Content hashes that do not depend on the order of keys.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use toolbooth_core::hex;

/// The SHA-256, in hexadecimal, of a value with its keys sorted.
pub(crate) fn of(value: &Json) -> String {
    let mut canonical = String::new();
    write(&mut canonical, value);
    of_bytes(canonical.as_bytes())
}

/// The SHA-256, in hexadecimal, of bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}

fn write(out: &mut String, value: &Json) {
    match value {
        Json::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in members {
                out.push_str(&Json::from(key.as_str()).to_string());
                out.push(':');
                write(out, value);
                out.push(',');
            }
            out.push('}');
        }
        Json::Array(elements) => {
            out.push('[');
            for element in elements {
                write(out, element);
                out.push(',');
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}
