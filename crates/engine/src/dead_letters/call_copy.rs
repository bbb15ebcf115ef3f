//! The sealed copy of a call in a dead letter: what a replay needs besides the caller and the tool.

use toolbooth_core::json::RawJson;

/// The first byte of a copy with a client name. JSON text never begins with it: earlier versions sealed the arguments
/// alone.
const WITH_CLIENT: u8 = 1;

/// The copy of a call in its dead letter, before it is sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallCopy {
    /// The name of the client; empty in letters of earlier versions.
    pub(super) client: String,
    /// The caller's own arguments.
    pub(super) arguments: RawJson,
}

impl CallCopy {
    /// The bytes to seal: a format byte, the client's name, a zero byte, the arguments.
    pub(super) fn write(&self) -> Vec<u8> {
        let arguments = self.arguments.as_bytes();
        let mut text = Vec::with_capacity(self.client.len() + arguments.len() + 2);
        text.push(WITH_CLIENT);
        // The zero byte ends the name, so the name cannot contain one.
        text.extend(self.client.bytes().filter(|byte| *byte != 0));
        text.push(0);
        text.extend_from_slice(arguments);
        text
    }

    /// Reads sealed bytes; `None` if they are not a copy of a call.
    pub(super) fn read(text: Vec<u8>) -> Option<Self> {
        let Some((&WITH_CLIENT, rest)) = text.split_first() else {
            let arguments = RawJson::parse(text).ok()?;
            return Some(Self { client: String::new(), arguments });
        };
        let end = rest.iter().position(|byte| *byte == 0)?;
        let client = String::from_utf8(rest[..end].to_vec()).ok()?;
        let arguments = RawJson::parse(rest[end + 1..].to_vec()).ok()?;
        Some(Self { client, arguments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_round_trip_and_earlier_ones_have_no_client() {
        let arguments = RawJson::parse(r#"{"note":"hi"}"#).expect("JSON");
        for client in ["cursor", "", "a \"quoted\" näme"] {
            let copy = CallCopy { client: client.to_owned(), arguments: arguments.clone() };
            assert_eq!(CallCopy::read(copy.write()), Some(copy), "{client}");
        }
        let earlier = CallCopy::read(arguments.as_bytes().to_vec());
        assert_eq!(earlier, Some(CallCopy { client: String::new(), arguments: arguments.clone() }));
        let odd = CallCopy { client: "a\0b".to_owned(), arguments: arguments.clone() };
        assert_eq!(CallCopy::read(odd.write()), Some(CallCopy { client: "ab".to_owned(), arguments }));
        for damaged in [&b""[..], b"\x01", b"\x01name", b"\x01name\0", b"\x01\xff\0{}", b"no JSON"] {
            assert_eq!(CallCopy::read(damaged.to_vec()), None, "{damaged:?}");
        }
    }
}
