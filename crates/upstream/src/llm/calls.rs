//! Calls that a model asks for, put together from their pieces.

use super::error::LlmError;
use serde::Deserialize;
use serde_json::Value;

/// The most calls of one turn.
const MOST: usize = 64;
/// The longest arguments of one call.
const LONGEST: usize = 1 << 20;
/// The longest name or id that is taken.
const LONGEST_NAME: usize = 256;

/// A call that a model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// What the answer is to refer to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments as the model wrote them: meant to be a JSON object, but nobody has looked.
    pub arguments: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallPiece {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionPiece>,
}

#[derive(Debug, Deserialize)]
struct FunctionPiece {
    #[serde(default)]
    name: Option<String>,
    /// A text; some endpoints give the object itself.
    #[serde(default)]
    arguments: Option<Value>,
}

/// Calls that are coming.
#[derive(Debug, Default)]
pub(super) struct Calls {
    coming: Vec<(Option<u64>, ToolCall)>,
}

impl Calls {
    /// Takes a piece. Endpoints differ: some number the calls, some repeat one number, some give neither.
    pub(super) fn take(&mut self, piece: CallPiece) -> Result<(), LlmError> {
        let CallPiece { index, id, function } = piece;
        let id = id.filter(|id| !id.is_empty());
        let name = function.as_ref().and_then(|function| function.name.as_deref()).unwrap_or_default();
        let place = match (index, &id) {
            (Some(_), id) => self.coming.iter().rposition(|(known, call)| {
                *known == index && id.as_ref().is_none_or(|id| call.id.is_empty() || call.id == *id)
            }),
            (None, Some(id)) => self.coming.iter().position(|(_, call)| call.id == *id),
            (None, None) if name.is_empty() => self.coming.len().checked_sub(1),
            (None, None) => None,
        };
        let place = match place {
            Some(place) => place,
            None if self.coming.len() >= MOST => return Err(LlmError::TooLong),
            None => {
                let call = ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
                self.coming.push((index, call));
                self.coming.len() - 1
            }
        };
        let call = &mut self.coming[place].1;
        if let Some(id) = id {
            call.id = id;
        }
        call.name.push_str(name);
        match function.and_then(|function| function.arguments) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => call.arguments.push_str(&text),
            Some(whole) => call.arguments = whole.to_string(),
        }
        let too_long = call.id.len().max(call.name.len()) > LONGEST_NAME || call.arguments.len() > LONGEST;
        if too_long { Err(LlmError::TooLong) } else { Ok(()) }
    }

    /// The calls, each with a name and an id.
    pub(super) fn finish(self) -> Result<Vec<ToolCall>, LlmError> {
        let calls = self.coming.into_iter().enumerate().map(|(number, (_, mut call))| {
            if call.name.is_empty() {
                return Err(LlmError::BadAnswer);
            }
            if call.id.is_empty() {
                call.id = format!("call_{number}");
            }
            Ok(call)
        });
        calls.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_together(pieces: &[&str]) -> String {
        let mut calls = Calls::default();
        for piece in pieces {
            calls.take(serde_json::from_str(piece).expect("JSON")).expect("a piece");
        }
        let calls = calls.finish().expect("calls");
        calls
            .iter()
            .map(|call| format!("{} {}({})", call.id, call.name, call.arguments))
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn endpoints_stream_calls_in_their_own_ways() {
        let cases: [(&[&str], &str); 5] = [
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"x","arguments":""}}"#,
                    r#"{"index":0,"function":{"arguments":"{\"n\""}}"#,
                    r#"{"index":1,"id":"b","function":{"name":"y","arguments":"{}"}}"#,
                    r#"{"index":0,"function":{"arguments":":1}"}}"#,
                ],
                r#"a x({"n":1}); b y({})"#,
            ),
            // Every call has the same number.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
                    r#"{"index":0,"id":"b","function":{"name":"y","arguments":"{}"}}"#,
                ],
                "a x({}); b y({})",
            ),
            // None has a number, and the arguments are an object.
            (
                &[
                    r#"{"id":"a","function":{"name":"x","arguments":{"n":1}}}"#,
                    r#"{"id":"b","function":{"name":"y"}}"#,
                ],
                r#"a x({"n":1}); b y()"#,
            ),
            // Neither number nor id.
            (
                &[r#"{"function":{"name":"x","arguments":"{"}}"#, r#"{"function":{"arguments":"}"}}"#],
                "call_0 x({})",
            ),
            // The id is repeated with every piece.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}"#,
                    r#"{"index":0,"id":"a","function":{"arguments":"}"}}"#,
                ],
                "a x({})",
            ),
        ];
        for (pieces, expected) in cases {
            assert_eq!(put_together(pieces), expected);
        }
    }

    #[test]
    fn calls_are_bounded() {
        let mut calls = Calls::default();
        let piece = |number: usize| {
            serde_json::from_str(&format!(r#"{{"index":{number},"function":{{"name":"x"}}}}"#)).expect("JSON")
        };
        for number in 0..MOST {
            assert_eq!(calls.take(piece(number)), Ok(()));
        }
        assert_eq!(calls.take(piece(MOST)), Err(LlmError::TooLong));
    }
}
