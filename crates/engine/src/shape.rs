//! Stage 9, shape: what a tool returned becomes what its caller is shown.
//!
//! Almost every result needs nothing: one glance at its text tells, and it goes on as it came, a long one in the
//! pieces it came in. What is looked into further is not on the way of the others.

use crate::answer::{Answer, ResultFacts};
use crate::engine::Engine;
use crate::shelf::Maker;
use crate::terms::{Inspecting, ResultTerms, Terms};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use toolbooth_core::call::{Sealed, Warning};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::result::glance::{OVERLAP, glance};
use toolbooth_core::result::inspect::annotated;
use toolbooth_core::result::{Artifact, Glance, Inspection, Kept, Rules, echo};
use toolbooth_upstream::CallLink;
use toolbooth_wire::Era;
use uuid::Uuid;

/// The longest structured content that is held against its schema.
const MAX_CHECKED: usize = 32 << 10;

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
        let brought = link.take_artifacts();
        let mut finished = match answer {
            Answer::Result { result, era, facts, warnings } => Finished { result, era, facts, warnings },
            Answer::Long { long, era, facts } => {
                let is_short = long.length() <= budget && brought.is_empty();
                if is_short && looking.narrow(glance_at_pieces(long.pieces())).is_plain() {
                    return Ok(Answer::Long { long, era, facts });
                }
                Finished { result: long.whole(), era, facts, warnings: Vec::new() }
            }
            Answer::Error(error) => return Ok(Answer::Error(quiet(error))),
            Answer::InputRequired { requests, state, server } => {
                let requests = requests.map(|asked| echo::redacted(&asked).unwrap_or(asked));
                return Ok(Answer::InputRequired { requests, state, server });
            }
            held @ Answer::Held { .. } => return Ok(held),
        };
        if looking == Looking::All && !finished.facts.is_error {
            finished.warnings.extend(broken_output(call.tool(), &finished.result));
        }
        let seen = looking.narrow(glance(finished.result.as_bytes()));
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

/// Says so if structured content breaks the tool's own schema. Content too long to be checked at every call, like
/// long results that stay in pieces, is left to the reader.
fn broken_output(tool: &Tool, result: &RawJson) -> Option<Warning> {
    let [structured] = result.pick(["structuredContent"]);
    let structured = structured.filter(|text| text.len() <= MAX_CHECKED)?;
    tool.output_objection(&result.share(structured)).map(|found| Warning::Output(found.to_string()))
}

/// Looks at a result in pieces; words that stand across two of them are seen, too.
fn glance_at_pieces(pieces: &[Bytes]) -> Glance {
    let mut seen = Glance::default();
    let mut seam = BytesMut::with_capacity(2 * OVERLAP);
    for piece in pieces {
        seam.extend_from_slice(&piece[..piece.len().min(OVERLAP)]);
        seen = seen.further(piece).further(&seam);
        // A piece may be shorter than a word: what came before it still counts.
        let tail = &piece[piece.len().saturating_sub(OVERLAP)..];
        if piece.len() >= OVERLAP {
            seam.clear();
            seam.extend_from_slice(tail);
        } else if seam.len() > OVERLAP {
            let _ = seam.split_to(seam.len() - OVERLAP);
        }
    }
    seen
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_across_pieces_of_any_length_are_seen() {
        let text =
            br#"{"content":[{"type":"text","text":"xxxxxxxxxxxxxx"},{"type": "image","data":"AA=="}]}"#;
        for size in 1..text.len() {
            let pieces: Vec<Bytes> = text.chunks(size).map(Bytes::copy_from_slice).collect();
            assert!(glance_at_pieces(&pieces).media, "by {size}");
        }
    }
}
