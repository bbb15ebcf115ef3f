//! Events: records of what happened. An event names things and never contains their content: no arguments, no results,
//! nothing that the gateway supplied.

mod id;
mod kind;
mod read;
mod signature;

pub use id::{EventId, InvalidEventId};
pub use kind::{EventAudience, EventKind, EventKinds, UnknownEventKind};
pub use signature::signature;

use crate::json::{ObjectWriter, RawJson};
use crate::names::ServerName;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The maximum number of facts of an event.
const MAX_FACTS: usize = 8;
/// The maximum length of one text in an event.
const MAX_TEXT_BYTES: usize = 256;

/// Something that happened. Its texts are shared, and it is serialized only when it is read, because most events are
/// never read.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The kind.
    pub kind: EventKind,
    /// The time; set when the event is stored.
    pub at_ms: i64,
    /// The user who caused it or whom it concerns.
    pub user: Option<Arc<str>>,
    /// The server it concerns.
    pub server: Option<Arc<str>>,
    /// The server's own name of the tool, or the requested name if there is no such tool.
    pub tool: Option<Arc<str>>,
    /// The call, or held call.
    pub call: Option<Uuid>,
    /// How long it took.
    pub duration: Option<Duration>,
    /// The outcome.
    pub outcome: Option<&'static str>,
    /// The code of the fault, if any.
    pub code: Option<Cow<'static, str>>,
    /// Further details.
    pub facts: Option<Box<Vec<(&'static str, FactValue)>>>,
}

/// The value of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactValue {
    /// A short text.
    Text(Box<str>),
    /// A number.
    Number(u64),
    /// A number that is not a whole one, as JSON.
    Decimal(Box<str>),
    /// Short names.
    Names(Box<[Box<str>]>),
}

impl FactValue {
    /// A JSON number; `None` for other values.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is whole and in range"
    )]
    pub fn number(value: &RawJson) -> Option<Self> {
        let number = value.as_str().parse::<f64>().ok().filter(|number| number.is_finite())?;
        // Up to 2^53, every whole number is exact.
        let is_whole = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
        Some(if is_whole { Self::Number(number as u64) } else { Self::Decimal(number.to_string().into()) })
    }

    /// A list of names, each of them truncated.
    pub fn names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        Self::Names(names.map(|name| short(name).into()).collect())
    }
}

impl From<u64> for FactValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for FactValue {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<u32> for FactValue {
    fn from(number: u32) -> Self {
        Self::Number(u64::from(number))
    }
}

impl From<&str> for FactValue {
    fn from(text: &str) -> Self {
        Self::Text(short(text).into())
    }
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

impl Event {
    /// An event with only a kind.
    pub fn new(kind: EventKind) -> Self {
        Self {
            kind,
            at_ms: 0,
            user: None,
            server: None,
            tool: None,
            call: None,
            duration: None,
            outcome: None,
            code: None,
            facts: None,
        }
    }

    /// Sets the user.
    pub fn user(mut self, user: impl Into<Arc<str>>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the server.
    pub fn server(mut self, server: &ServerName) -> Self {
        self.server = Some(server.shared());
        self
    }

    /// Sets the tool, by its server's own name.
    pub fn tool(mut self, tool: impl Into<Arc<str>>) -> Self {
        self.tool = Some(tool.into());
        self
    }

    /// Sets the tool to a requested name, which may have any length.
    pub fn asked_for(mut self, name: &str) -> Self {
        self.tool = Some(short(name).into());
        self
    }

    /// Sets the call or held call.
    pub fn call(mut self, call: Uuid) -> Self {
        self.call = Some(call);
        self
    }

    /// Sets the duration.
    pub fn took(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// Sets the outcome.
    pub fn outcome(mut self, outcome: &'static str) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// Sets the fault's code.
    pub fn code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Adds a fact. Texts are truncated and the number of facts is limited, so that events stay small.
    pub fn with(mut self, key: &'static str, value: impl Into<FactValue>) -> Self {
        let facts = self.facts.get_or_insert_default();
        if facts.len() < MAX_FACTS {
            facts.push((key, value.into()));
        }
        self
    }

    /// The event as JSON, on one line.
    pub fn json(&self, id: EventId) -> RawJson {
        let mut writer = ObjectWriter::with_capacity(320);
        writer.text("id", &id.to_string()).text("type", self.kind.as_str());
        writer.raw("at_ms", &RawJson::trusted(self.at_ms.to_string()));
        for (key, value) in [("user", &self.user), ("server", &self.server), ("tool", &self.tool)] {
            if let Some(value) = value {
                writer.text(key, value);
            }
        }
        if let Some(call) = self.call {
            writer.text("call", &call.to_string());
        }
        if let Some(duration) = self.duration {
            let ms = format!("{:.3}", duration.as_secs_f64() * 1e3);
            writer.raw("duration_ms", &RawJson::trusted(ms));
        }
        if let Some(outcome) = self.outcome {
            writer.text("outcome", outcome);
        }
        if let Some(code) = &self.code {
            writer.text("code", code);
        }
        if let Some(facts) = &self.facts {
            writer.object("data", |data| {
                for (key, value) in facts.iter() {
                    match value {
                        FactValue::Text(text) => data.text(key, text),
                        FactValue::Number(number) => data.number(key, *number),
                        FactValue::Decimal(number) => data.raw(key, &RawJson::trusted(number.to_string())),
                        FactValue::Names(names) => data.raw(key, &RawJson::from_value(names)),
                    };
                }
            });
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_small_and_readable() {
        let server: ServerName = "mail".parse().expect("a name");
        let event = Event::new(EventKind::ToolResult)
            .user("ann")
            .server(&server)
            .tool("send")
            .call(Uuid::nil())
            .took(Duration::from_micros(1_234))
            .outcome("failed")
            .code("call.timeout")
            .with("attempts", 2_u64)
            .with("why", "é\n\"");
        expect_test::expect![[r#"{"id":"000000ff-7","type":"tool.result","at_ms":0,"user":"ann","server":"mail","tool":"send","call":"00000000-0000-0000-0000-000000000000","duration_ms":1.234,"outcome":"failed","code":"call.timeout","data":{"attempts":2,"why":"é\n\""}}"#]]
        .assert_eq(event.json(EventId { run: 255, number: 7 }).as_str());
        assert!(size_of::<Event>() <= 168, "{}", size_of::<Event>());
    }

    #[test]
    fn numbers_and_names_are_json() {
        let number = |text: &str| FactValue::number(&RawJson::trusted(text.to_owned()));
        let event = Event::new(EventKind::ToolProgress)
            .with("progress", number("1.0").expect("a number"))
            .with("total", number("2.5").expect("a number"))
            .with("artifacts", FactValue::names(["a \"b\"", "c"].into_iter()));
        let json = event.json(EventId { run: 0, number: 1 });
        assert!(
            json.as_str().ends_with(r#""data":{"progress":1,"total":2.5,"artifacts":["a \"b\"","c"]}}"#),
            "{json}"
        );
        assert_eq!((number("\"1\""), number("1e999"), number("null")), (None, None, None));
    }

    #[test]
    fn texts_and_facts_are_limited() {
        let mut event = Event::new(EventKind::ToolSearch).asked_for(&"é".repeat(1_000));
        for _ in 0..20 {
            event = event.with("query", "x".repeat(10_000).as_str());
        }
        assert!(event.json(EventId { run: 0, number: 1 }).as_bytes().len() < 4_000);
    }
}
