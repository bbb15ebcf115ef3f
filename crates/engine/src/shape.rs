//! Stage 9, shape: what a tool returned becomes what its caller is shown.
//!
//! Almost every result needs nothing: one glance at its text tells, and it goes on as it came, also when it
//! came unread. What is looked into further is not on the way of the others.

use crate::answer::{Answer, ResultFacts, ResultLook};
use crate::engine::Engine;
use crate::shelf::Maker;
use crate::terms::{Inspecting, ResultTerms, Terms};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::sync::Arc;
use toolbooth_core::call::{Sealed, Warning};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::result::glance::{OVERLAP, glance};
use toolbooth_core::result::inspect::annotated;
use toolbooth_core::result::{Artifact, Glance, Inspection, Kept, Rules, echo};
use toolbooth_upstream::{CallLink, ResultStream, UpstreamError};
use toolbooth_wire::Era;
use toolbooth_wire::meta::of_a_server;
use uuid::Uuid;

/// A finished result on its way through the stage.
struct Finished {
    result: RawJson,
    era: Era,
    facts: ResultFacts,
    warnings: Vec<Warning>,
}

impl Finished {
    fn answer(self) -> Answer {
        let Self { result, era, facts, warnings } = self;
        Answer::Result { result, era, facts, warnings }
    }
}

impl Engine {
    /// Shapes the answer of a call.
    pub(crate) async fn shape(
        &self,
        call: &Sealed,
        id: Uuid,
        answer: Answer,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        let terms = self.terms();
        let looking = Looking::of(&terms.results, call);
        if looking == Looking::Not {
            return Ok(answer);
        }
        let budget = terms.results.budget.map_or(usize::MAX, |budget| budget.bytes);
        let finished = match answer {
            Answer::Result { result, era, facts, warnings } => Finished { result, era, facts, warnings },
            Answer::Stream { stream, era } => {
                drop(terms);
                match Box::pin(held_back(stream, era, budget, looking)).await? {
                    Came::Plain(stream) => return Ok(Answer::Stream { stream, era }),
                    Came::Whole(finished) => finished,
                }
            }
            Answer::Error(error) => return Ok(Answer::Error(quiet(error))),
            Answer::InputRequired { requests, state, server } => {
                let requests = requests.map(|asked| echo::redacted(&asked).unwrap_or(asked));
                return Ok(Answer::InputRequired { requests, state, server });
            }
            held @ Answer::Held { .. } => return Ok(held),
        };
        let seen = looking.narrow(glance(finished.result.as_bytes()));
        let brought = link.take_artifacts();
        if seen.is_plain() && brought.is_empty() && finished.result.as_bytes().len() <= budget {
            return Ok(finished.answer());
        }
        let terms = self.terms().clone();
        Ok(Box::pin(self.reshape(call, id, finished, seen, brought, terms)).await)
    }

    /// The rare way: something in the result is to be kept, cut or taken out.
    async fn reshape(
        &self,
        call: &Sealed,
        id: Uuid,
        mut finished: Finished,
        seen: Glance,
        brought: Vec<Artifact>,
        terms: Arc<Terms>,
    ) -> Answer {
        let results = &terms.results;
        if seen.echo
            && let Some(clean) = echo::redacted(&finished.result)
        {
            finished.result = clean;
        }
        let tool = call.tool();
        let hex = id.simple().to_string();
        let stem = format!("{}-{}", tool.exposed, &hex[hex.len() - 6..]);
        let output_schema = tool.definition.member("outputSchema").filter(RawJson::is_object);
        let rules = Rules {
            stem: &stem,
            output_schema: output_schema.as_ref(),
            max_artifacts: results.max_artifacts,
            max_bytes: results.max_artifact_bytes,
            hosts: &results.iframe_hosts,
        };
        let maker = Maker { caller: call.caller(), call: id, server: tool.server_name(), tool: &tool.name };
        let mut kept: Vec<Kept> = Vec::new();
        let mut display = None;
        let mut media: Vec<Option<String>> = Vec::new();
        for artifact in brought.iter().take(results.max_artifacts) {
            match self.keep(&maker, artifact).await {
                Ok(file) => kept.push(file),
                Err(reason) => Warning::add_artifact(&mut finished.warnings, &artifact.name, &reason),
            }
        }
        if let Some(inspection) = Inspection::of(&finished.result, seen, &rules) {
            let outcomes = self.keep_all(&maker, inspection.artifacts()).await;
            media = inspection.media_names(&outcomes);
            let shaped = inspection.finish(&outcomes, &rules);
            kept.extend(outcomes.into_iter().filter_map(Result::ok));
            finished.result = shaped.result;
            finished.warnings.extend(shaped.warnings);
            display = shaped.display;
        }
        if let Some(budget) = results.budget
            && let Some(spill) = budget.spill(&finished.result, &stem, &media)
        {
            let outcomes = self.keep_all(&maker, spill.artifacts()).await;
            let (result, warnings) = spill.finish(&outcomes, output_schema.as_ref());
            kept.extend(outcomes.into_iter().filter_map(Result::ok));
            finished.result = result;
            finished.warnings.extend(warnings);
        }
        finished.facts.has_extras |= !kept.is_empty() || display.is_some();
        finished.facts.odd_structure &= finished.result.member("structuredContent").is_some();
        finished.result = annotated(finished.result, &kept, display.as_ref());
        finished.answer()
    }

    async fn keep_all(&self, maker: &Maker<'_>, artifacts: &[Artifact]) -> Vec<Result<Kept, String>> {
        let mut outcomes = Vec::with_capacity(artifacts.len());
        for artifact in artifacts {
            outcomes.push(self.keep(maker, artifact).await);
        }
        outcomes
    }
}

/// How far results are looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looking {
    /// Not at all.
    Not,
    /// Only for their length, and for tokens of this call.
    Length,
    /// For all.
    All,
}

impl Looking {
    fn of(terms: &ResultTerms, call: &Sealed) -> Self {
        if call.tool().server.is_own() {
            return Self::Not;
        }
        match (terms.inspecting, terms.budget) {
            (Inspecting::Yes, _) => Self::All,
            (Inspecting::No, Some(_)) => Self::Length,
            // A token that went to the server is looked for, whatever else is off.
            (Inspecting::No, None) if call.carries_file_token() => Self::Length,
            (Inspecting::No, None) => Self::Not,
        }
    }

    fn narrow(self, seen: Glance) -> Glance {
        match self {
            Self::All => seen,
            Self::Length | Self::Not => Glance { echo: seen.echo, forged: seen.forged, ..Glance::default() },
        }
    }
}

/// What a result that came unread turned out to be.
enum Came {
    /// Nothing that needs a look: it may go on as it came.
    Plain(ResultStream),
    /// The whole of it.
    Whole(Finished),
}

/// Holds a long result back until it is known whether it may go on unread: up to its budget, and no longer.
async fn held_back(stream: ResultStream, era: Era, budget: usize, looking: Looking) -> Result<Came, Problem> {
    let ResultStream { length, mut body } = stream;
    let mut held: Vec<Bytes> = Vec::new();
    let mut total = 0;
    let mut seen = Glance::default();
    let mut tail = BytesMut::new();
    // One brace of the envelope comes with it.
    let is_long = |size: usize| size > budget.saturating_add(1);
    let known = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut must_read = is_long(known);
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| Problem::of(&error))?;
        total += chunk.len();
        if !must_read {
            // Words that stand across two chunks are seen, too.
            tail.extend_from_slice(&chunk[..chunk.len().min(OVERLAP)]);
            seen = seen.further(&chunk).further(&tail);
            tail.clear();
            tail.extend_from_slice(&chunk[chunk.len().saturating_sub(OVERLAP)..]);
            must_read = is_long(total);
        }
        held.push(chunk);
    }
    if !must_read && looking.narrow(seen).is_plain() {
        let body = futures_util::stream::iter(held.into_iter().map(Ok::<_, UpstreamError>));
        return Ok(Came::Plain(ResultStream { length, body: Box::pin(body) }));
    }
    let mut text = BytesMut::with_capacity(total);
    held.into_iter().for_each(|chunk| text.extend_from_slice(&chunk));
    // The first value; the rest is the end of the envelope.
    let result = RawJson::first_of(text).map_err(|_| unreadable())?;
    let look = ResultLook::of(&result);
    let facts = look.facts();
    let result = if look.may_be_forged { of_a_server(result.clone()) } else { result };
    Ok(Came::Whole(Finished { result, era, facts, warnings: Vec::new() }))
}

/// A server's own error, without what it must not tell.
fn quiet(mut error: toolbooth_wire::RpcError) -> toolbooth_wire::RpcError {
    if let Some(clean) = echo::redacted(&RawJson::from_value(&error.message)) {
        error.message = clean.string().unwrap_or_default().into_owned();
    }
    if let Some(clean) = error.data.as_ref().and_then(echo::redacted) {
        error.data = Some(clean);
    }
    error
}

fn unreadable() -> Problem {
    Problem {
        code: "server.bad-answer",
        blame: toolbooth_core::fault::Blame::Upstream,
        message: "the server's answer is no JSON".into(),
        hint: None,
    }
}
