//! The answer to a call or another request.

use toolbooth_core::call::Warning;
use toolbooth_core::held::{HeldCall, HeldKind};
use toolbooth_core::json::{JsonCursor, RawJson, TokenKind};
use toolbooth_wire::long::{LongMember, LongResult};
use toolbooth_wire::{Era, RpcError};
use uuid::Uuid;

/// The code of a call that was made but whose outcome could not be recorded.
pub(crate) const UNRECORDED: &str = "call.unrecorded";

/// Facts about a result, from one scan of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResultFacts {
    /// The tool reported an error.
    pub is_error: bool,
    /// Its structured content is not an object.
    pub odd_structure: bool,
    /// It has `_meta`, or members that only modern clients know.
    pub has_extras: bool,
    /// It is a task of the server, not yet a result.
    pub is_task: bool,
}

impl ResultFacts {
    /// The facts of a long result, which was already scanned.
    pub(crate) fn of_long(long: &LongResult) -> Self {
        let has = |key: &str| long.member(key).is_some();
        let is_error = long.member("isError").is_some_and(|member| member.kind == TokenKind::True);
        let odd = |member: &LongMember| !matches!(member.kind, TokenKind::ObjectStart | TokenKind::Null);
        Self {
            is_error,
            odd_structure: long.member("structuredContent").is_some_and(odd),
            has_extras: has("resultType") || has("ttlMs") || has("cacheScope"),
            is_task: false,
        }
    }
}

/// The members of a result that decide how it is handled, as raw text.
pub(crate) struct ResultScan<'a> {
    kind: Option<&'a str>,
    is_error: Option<&'a str>,
    structured: Option<&'a str>,
    has_extras: bool,
    /// Whether its `_meta` may contain keys that are reserved for the gateway.
    pub(crate) may_be_forged: bool,
    /// A member that distinguishes a question from a finished result and occurs more than once.
    pub(crate) repeated_key: Option<&'static str>,
}

/// The members of a result that decide how it is handled.
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

/// The kind of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResultKind {
    /// A result.
    Finished,
    /// A task of the server that leads to the result.
    Task,
    /// Questions for the client.
    InputRequired,
    /// A kind that this gateway does not know.
    Unknown(String),
}

impl<'a> ResultScan<'a> {
    /// Scans a result once. Nothing is found in one that is not an object.
    pub(crate) fn of(result: &'a RawJson) -> Self {
        let text = result.as_str();
        let mut found: [Option<&'a str>; DECISIVE.len()] = [None; DECISIVE.len()];
        let (mut repeated_key, mut has_meta_twice) = (None, false);
        JsonCursor::new(text, 0).each_member(|spot| {
            if let Some(index) = DECISIVE.iter().position(|key| *key == spot.key)
                && found[index].replace(text.get(spot.value).unwrap_or_default()).is_some()
            {
                match DECISIVE[index] {
                    "_meta" => has_meta_twice = true,
                    key @ ("resultType" | "inputRequests" | "requestState") => repeated_key = Some(key),
                    _ => {}
                }
            }
        });
        // `null` counts as absent.
        let [kind, is_error, structured, meta, ttl, scope, ..] =
            found.map(|value| value.filter(|text| *text != "null"));
        let has_extras = kind.or(meta).or(ttl).or(scope).is_some() || !result.is_object();
        let signs = ["toolbooth", "subscriptionId", "related-task", "\\"];
        // In any letter case, because a client may compare names without regard to it.
        let says = |meta: &str, sign: &str| {
            meta.as_bytes().windows(sign.len()).any(|part| part.eq_ignore_ascii_case(sign.as_bytes()))
        };
        let is_reserved = |meta: &str| signs.iter().any(|sign| says(meta, sign));
        let may_be_forged = has_meta_twice || meta.is_some_and(is_reserved);
        Self { kind, is_error, structured, has_extras, may_be_forged, repeated_key }
    }

    pub(crate) fn kind(&self) -> ResultKind {
        match self.kind {
            None | Some("\"complete\"") => ResultKind::Finished,
            Some("\"input_required\"") => ResultKind::InputRequired,
            Some(spelled) => match serde_json::from_str::<String>(spelled).as_deref() {
                Ok("complete") => ResultKind::Finished,
                Ok("task") => ResultKind::Task,
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
            is_task: self.kind() == ResultKind::Task,
        }
    }
}

/// An answer, which the front end writes in its client's era.
#[derive(Debug)]
pub enum Answer {
    /// A finished result, as the server sent it.
    Result {
        /// The result.
        result: RawJson,
        /// The era of the server.
        era: Era,
        /// Facts about it.
        facts: ResultFacts,
        /// Warnings for the caller; usually none.
        warnings: Vec<Warning>,
    },
    /// A long finished result that can be passed on in pieces: it has no `_meta` and needs no changes.
    Long {
        /// The result.
        long: LongResult,
        /// The era of the server.
        era: Era,
        /// Facts about it.
        facts: ResultFacts,
    },
    /// The server has questions for the client first.
    InputRequired {
        /// The questions, by the server's keys.
        requests: Option<RawJson>,
        /// The server's own request state.
        state: Option<RawJson>,
        /// The server that asks.
        server: String,
    },
    /// The call was not made yet: it waits for an approval, or is a step of a plan.
    Held {
        /// The held call.
        id: Uuid,
        /// The text for the model.
        text: String,
        /// Whether it waits for an approval or is a step of a plan.
        kind: HeldKind,
    },
    /// The server's own error.
    Error(RpcError),
}

impl Answer {
    /// A call whose approval takes longer than its client waits, or that was approved and runs without this request.
    pub(crate) fn held(held: &HeldCall) -> Self {
        let runs_elsewhere = format!(
            "`{}` was approved as {id} and runs, or has run, without this request. Do not call it again: `toolbooth approvals show {id}` shows the result.",
            held.exposed,
            id = held.id
        );
        let waits = format!(
            "`{}` waits for approval as {id}: {reason}. It was not run. When it is approved (`toolbooth approvals approve {id}`), it runs; `toolbooth approvals show {id}` shows the result.",
            held.exposed,
            id = held.id,
            reason = held.question.trim_end_matches('.'),
        );
        let text = if held.claimed_ms.is_some() { runs_elsewhere } else { waits };
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

    /// Adds warnings, if the answer can carry them.
    pub(crate) fn with_warnings(mut self, about: &[Warning]) -> Self {
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
