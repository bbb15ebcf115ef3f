//! Assembles the tool calls that a model requests from their chunks.

use super::error::LlmError;
use serde::Deserialize;
use serde_json::Value;

/// Maximum number of calls per turn.
const MAX_CALLS: usize = 64;
/// Maximum length of one call's arguments.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// Maximum length of a name or id.
const MAX_NAME_BYTES: usize = 256;

/// A tool call that a model requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that the result refers to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them. They should be a JSON object, but are not checked.
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
    /// A string; some endpoints send the object itself.
    #[serde(default)]
    arguments: Option<Value>,
}

/// Tool calls that are being received.
#[derive(Debug, Default)]
pub(super) struct ToolCallBuilder {
    partial: Vec<(Option<u64>, ToolCall)>,
}

impl ToolCallBuilder {
    /// Adds a chunk. Some endpoints number the calls, some repeat the same number, and some send none.
    pub(super) fn take(&mut self, piece: CallPiece) -> Result<(), LlmError> {
        let CallPiece { index, id, function } = piece;
        let id = id.filter(|id| !id.is_empty());
        let name = function.as_ref().and_then(|function| function.name.as_deref()).unwrap_or_default();
        let place = match (index, &id) {
            (Some(_), id) => self.partial.iter().rposition(|(known, call)| {
                *known == index && id.as_ref().is_none_or(|id| call.id.is_empty() || call.id == *id)
            }),
            (None, Some(id)) => self.partial.iter().position(|(_, call)| call.id == *id),
            (None, None) if name.is_empty() => self.partial.len().checked_sub(1),
            (None, None) => None,
        };
        let place = match place {
            Some(place) => place,
            None if self.partial.len() >= MAX_CALLS => return Err(LlmError::TooLong),
            None => {
                let call = ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
                self.partial.push((index, call));
                self.partial.len() - 1
            }
        };
        let call = &mut self.partial[place].1;
        if let Some(id) = id {
            call.id = id;
        }
        call.name.push_str(name);
        match function.and_then(|function| function.arguments) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => call.arguments.push_str(&text),
            Some(whole) => call.arguments = whole.to_string(),
        }
        let too_long =
            call.id.len().max(call.name.len()) > MAX_NAME_BYTES || call.arguments.len() > MAX_ARGUMENT_BYTES;
        if too_long { Err(LlmError::TooLong) } else { Ok(()) }
    }

    /// The complete calls, each with a name and an id.
    pub(super) fn finish(self) -> Result<Vec<ToolCall>, LlmError> {
        let calls = self.partial.into_iter().enumerate().map(|(number, (_, mut call))| {
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

    fn assemble(pieces: &[&str]) -> String {
        let mut calls = ToolCallBuilder::default();
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
    fn chunks_of_different_endpoints_are_assembled() {
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
            // All calls have the same number.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
                    r#"{"index":0,"id":"b","function":{"name":"y","arguments":"{}"}}"#,
                ],
                "a x({}); b y({})",
            ),
            // No numbers, and the arguments are an object.
            (
                &[
                    r#"{"id":"a","function":{"name":"x","arguments":{"n":1}}}"#,
                    r#"{"id":"b","function":{"name":"y"}}"#,
                ],
                r#"a x({"n":1}); b y()"#,
            ),
            // Neither numbers nor ids.
            (
                &[r#"{"function":{"name":"x","arguments":"{"}}"#, r#"{"function":{"arguments":"}"}}"#],
                "call_0 x({})",
            ),
            // The id is repeated in every chunk.
            (
                &[
                    r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}"#,
                    r#"{"index":0,"id":"a","function":{"arguments":"}"}}"#,
                ],
                "a x({})",
            ),
        ];
        for (pieces, expected) in cases {
            assert_eq!(assemble(pieces), expected);
        }
    }

    #[test]
    fn the_number_of_calls_is_limited() {
        let mut calls = ToolCallBuilder::default();
        let piece = |number: usize| {
            serde_json::from_str(&format!(r#"{{"index":{number},"function":{{"name":"x"}}}}"#)).expect("JSON")
        };
        for number in 0..MAX_CALLS {
            assert_eq!(calls.take(piece(number)), Ok(()));
        }
        assert_eq!(calls.take(piece(MAX_CALLS)), Err(LlmError::TooLong));
    }
}
