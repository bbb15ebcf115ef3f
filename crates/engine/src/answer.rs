//! What a call or an inquiry came to.

use toolbooth_core::call::Warning;
use toolbooth_core::cursor::Cursor;
use toolbooth_core::held::{HeldCall, HeldKind};
use toolbooth_core::json::RawJson;
use toolbooth_core::tokens::TokenKind;
use toolbooth_wire::long::{LongMember, LongResult};
use toolbooth_wire::{Era, RpcError};
use uuid::Uuid;

/// What one look at a result showed, so that nobody has to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResultFacts {
    /// The tool says that it failed.
    pub is_error: bool,
    /// It has structured content that is no object.
    pub odd_structure: bool,
    /// It has `_meta`, or members that only modern clients know.
    pub has_extras: bool,
}

impl ResultFacts {
    /// The facts of a long result, which has been read already.
    pub(crate) fn of_long(long: &LongResult) -> Self {
        let has = |key: &str| long.member(key).is_some();
        let is_error = long.member("isError").is_some_and(|member| member.kind == TokenKind::True);
        let odd = |member: &LongMember| !matches!(member.kind, TokenKind::ObjectStart | TokenKind::Null);
        Self {
            is_error,
            odd_structure: long.member("structuredContent").is_some_and(odd),
            has_extras: has("resultType") || has("ttlMs") || has("cacheScope"),
        }
    }
}

/// The members of a result that decide what becomes of it, as they are spelled.
pub(crate) struct ResultLook<'a> {
    kind: Option<&'a str>,
    is_error: Option<&'a str>,
    structured: Option<&'a str>,
    has_extras: bool,
    /// Whether its `_meta` may hold members under the gateway's own names.
    pub(crate) may_be_forged: bool,
    /// A member that tells a question from a finished result, and stands there more than once.
    pub(crate) asks_twice: Option<&'static str>,
}

/// Members of a result that decide what becomes of it.
const DECISIVE: [&str; 8] = [
    "resultType",
    "isError",
    "structuredContent",
    "_meta",
    "ttlMs",
    "cacheScope",
    "inputRequests",
    "requestState",
];

/// What a result says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResultKind {
    /// A result, or a task that stands for one.
    Finished,
    /// Questions to the client.
    InputRequired,
    /// Something this gateway does not know.
    Unknown(String),
}

impl<'a> ResultLook<'a> {
    /// One look at a result. One that is no object shows nothing.
    pub(crate) fn of(result: &'a RawJson) -> Self {
        let text = result.as_str();
        let mut found: [Option<&'a str>; DECISIVE.len()] = [None; DECISIVE.len()];
        let (mut asks_twice, mut has_meta_twice) = (None, false);
        Cursor::new(text, 0).each_spot(|spot| {
            if let Some(index) = DECISIVE.iter().position(|key| *key == spot.key)
                && found[index].replace(text.get(spot.value).unwrap_or_default()).is_some()
            {
                match DECISIVE[index] {
                    "_meta" => has_meta_twice = true,
                    key @ ("resultType" | "inputRequests" | "requestState") => asks_twice = Some(key),
                    _ => {}
                }
            }
        });
        // What is `null` is as good as absent.
        let [kind, is_error, structured, meta, ttl, scope, ..] =
            found.map(|value| value.filter(|text| *text != "null"));
        let has_extras = kind.or(meta).or(ttl).or(scope).is_some() || !result.is_object();
        let signs = ["toolbooth", "subscriptionId", "\\"];
        // In any letter case: a client may compare names without regard to it.
        let says = |meta: &str, sign: &str| {
            meta.as_bytes().windows(sign.len()).any(|part| part.eq_ignore_ascii_case(sign.as_bytes()))
        };
        let is_reserved = |meta: &str| signs.iter().any(|sign| says(meta, sign));
        let may_be_forged = has_meta_twice || meta.is_some_and(is_reserved);
        Self { kind, is_error, structured, has_extras, may_be_forged, asks_twice }
    }

    pub(crate) fn kind(&self) -> ResultKind {
        match self.kind {
            None | Some("\"complete\"" | "\"task\"") => ResultKind::Finished,
            Some("\"input_required\"") => ResultKind::InputRequired,
            Some(spelled) => match serde_json::from_str::<String>(spelled).as_deref() {
                Ok("complete" | "task") => ResultKind::Finished,
                Ok("input_required") => ResultKind::InputRequired,
                Ok(other) => ResultKind::Unknown(other.chars().take(64).collect()),
                Err(_) => ResultKind::Unknown(spelled.chars().take(64).collect()),
            },
        }
    }

    pub(crate) fn facts(&self) -> ResultFacts {
        ResultFacts {
            is_error: self.is_error == Some("true"),
            odd_structure: self.structured.is_some_and(|value| !value.starts_with('{')),
            has_extras: self.has_extras,
        }
    }
}

/// An answer for a door to write down in its client's era.
#[derive(Debug)]
pub enum Answer {
    /// A finished result, as the server gave it.
    Result {
        /// The result.
        result: RawJson,
        /// The era of the server that gave it.
        era: Era,
        /// What was seen in it.
        facts: ResultFacts,
        /// What the caller should know besides; mostly nothing.
        warnings: Vec<Warning>,
    },
    /// A long finished result that was proven plain: it has no `_meta`, and nothing in it asks for anything.
    Long {
        /// The result.
        long: LongResult,
        /// The era of the server that gave it.
        era: Era,
        /// What was seen in it.
        facts: ResultFacts,
    },
    /// The server wants to ask the client first.
    InputRequired {
        /// The questions, by the server's keys.
        requests: Option<RawJson>,
        /// The server's own state.
        state: Option<RawJson>,
        /// The server that asks.
        server: String,
    },
    /// The call was not made yet: it waits for a person, or stands in a plan.
    Held {
        /// The held call.
        id: Uuid,
        /// What the model is told.
        text: String,
        /// Whether it is a step of a plan.
        kind: HeldKind,
    },
    /// The server's own error.
    Error(RpcError),
}

impl Answer {
    /// A call that waits for a person longer than its client does.
    pub(crate) fn held(held: &HeldCall) -> Self {
        let text = format!(
            "`{}` waits for approval as {id}. It was not run. Once somebody has approved it (`toolbooth approvals approve {id}`) it runs, and `toolbooth approvals show {id}` shows what came of it.",
            held.exposed,
            id = held.id
        );
        Self::Held { id: held.id, text, kind: HeldKind::Approval }
    }

    /// A call that became a step of a plan.
    pub(crate) fn queued(held: &HeldCall, plan: Uuid, step: u32) -> Self {
        let text = format!(
            "queued as step {step} of plan {plan}. `{}` was not run and need not be called again: a person reads the plan and runs it.",
            held.exposed
        );
        Self::Held { id: held.id, text, kind: HeldKind::Plan }
    }

    /// The same answer, with warnings where it can carry them.
    pub(crate) fn warning(mut self, about: &[Warning]) -> Self {
        if let Self::Long { long, era, facts } = &self
            && !about.is_empty()
        {
            self = Self::Result { result: long.whole(), era: *era, facts: *facts, warnings: Vec::new() };
        }
        if let Self::Result { warnings, .. } = &mut self
            && !about.is_empty()
        {
            warnings.extend_from_slice(about);
        }
        self
    }
}
