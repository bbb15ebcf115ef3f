//! Stage 9, shape: turns a tool's result into what its caller gets.
//!
//! Almost every result needs no changes: one scan of its text shows that, and it is passed on as it arrived, a long
//! one in its pieces. Everything else happens in `reshape`, off the fast path.
//!
//! `reshape` works in two steps: `Inspection` and `Spill` (`core/result`) find what must leave the result, each part
//! is stored as a file (`files/artifacts.rs`), and then the result is written without the stored parts. A part that
//! cannot be stored stays in the result.

use super::pipeline::CallPipeline;
use crate::answer::{Answer, ResultFacts};
use crate::files::ArtifactOrigin;
use crate::terms::{ResultInspection, ResultTerms, Terms};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use toolbooth_core::call::{Sealed, Warning};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::result::inspect::annotated;
use toolbooth_core::result::prescan::{OVERLAP, prescan};
use toolbooth_core::result::{Artifact, Inspection, Prescan, Rules, StoredArtifact, echo};
use toolbooth_upstream::CallLink;
use toolbooth_wire::Era;
use uuid::Uuid;

/// The longest structured content that is validated against its schema, in bytes.
const MAX_VALIDATED_BYTES: usize = 32 << 10;

/// A finished result that is being shaped.
struct ShapedResult {
    result: RawJson,
    era: Era,
    facts: ResultFacts,
    warnings: Vec<Warning>,
}

impl ShapedResult {
    fn answer(self) -> Answer {
        let Self { result, era, facts, warnings } = self;
        Answer::Result { result, era, facts, warnings }
    }
}

impl CallPipeline {
    /// Shapes the answer of a call.
    pub(crate) async fn shape(
        &self,
        call: &Sealed,
        id: Uuid,
        answer: Answer,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        let terms = self.terms.load();
        let depth = InspectionDepth::of(&terms.results, call);
        if depth == InspectionDepth::Skipped {
            return Ok(answer);
        }
        let budget = terms.results.budget.map_or(usize::MAX, |budget| budget.bytes);
        let attached = link.take_artifacts();
        let mut finished = match answer {
            Answer::Result { result, era, facts, warnings } => ShapedResult { result, era, facts, warnings },
            Answer::Long { long, era, facts } => {
                let is_short = long.length() <= budget && attached.is_empty();
                if is_short && depth.narrow(prescan_pieces(long.pieces())).is_plain() {
                    return Ok(Answer::Long { long, era, facts });
                }
                ShapedResult { result: long.whole(), era, facts, warnings: Vec::new() }
            }
            Answer::Error(error) => return Ok(Answer::Error(redact_error(error))),
            Answer::InputRequired { requests, state, server } => {
                let requests = requests.map(|asked| echo::redacted(&asked).unwrap_or(asked));
                return Ok(Answer::InputRequired { requests, state, server });
            }
            held @ Answer::Held { .. } => return Ok(held),
        };
        if depth == InspectionDepth::Full && !finished.facts.is_error {
            finished.warnings.extend(invalid_output(call.tool(), &finished.result));
        }
        let seen = depth.narrow(prescan(finished.result.as_bytes()));
        if seen.is_plain() && attached.is_empty() && finished.result.as_bytes().len() <= budget {
            return Ok(finished.answer());
        }
        let terms = self.terms.load().clone();
        Ok(Box::pin(self.reshape(call, id, finished, seen, attached, terms)).await)
    }

    /// The slow path: parts of the result must be stored as files, cut or removed.
    async fn reshape(
        &self,
        call: &Sealed,
        id: Uuid,
        mut finished: ShapedResult,
        seen: Prescan,
        attached: Vec<Artifact>,
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
        let made_by =
            ArtifactOrigin { caller: call.caller(), call: id, server: tool.server_name(), tool: &tool.name };
        let mut kept: Vec<StoredArtifact> = Vec::new();
        let mut display = None;
        let mut media: Vec<Option<String>> = Vec::new();
        for artifact in attached.iter().take(results.max_artifacts) {
            match self.files.store_artifact(&made_by, artifact).await {
                Ok(file) => kept.push(file),
                Err(reason) => Warning::add_artifact(&mut finished.warnings, &artifact.name, &reason),
            }
        }
        if let Some(inspection) = Inspection::of(&finished.result, seen, &rules) {
            let outcomes = self.store_artifacts(&made_by, inspection.artifacts()).await;
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
            let outcomes = self.store_artifacts(&made_by, spill.artifacts()).await;
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

    async fn store_artifacts(
        &self,
        made_by: &ArtifactOrigin<'_>,
        artifacts: &[Artifact],
    ) -> Vec<Result<StoredArtifact, String>> {
        let mut outcomes = Vec::with_capacity(artifacts.len());
        for artifact in artifacts {
            outcomes.push(self.files.store_artifact(made_by, artifact).await);
        }
        outcomes
    }
}

/// How thoroughly results are inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InspectionDepth {
    /// Not at all.
    Skipped,
    /// Only for their length and for file tokens of this call.
    Length,
    /// For everything.
    Full,
}

impl InspectionDepth {
    fn of(terms: &ResultTerms, call: &Sealed) -> Self {
        if call.tool().server.is_own() {
            return Self::Skipped;
        }
        match (terms.inspection, terms.budget) {
            (ResultInspection::Yes, _) => Self::Full,
            (ResultInspection::No, Some(_)) => Self::Length,
            // A file token that was sent to the server is always looked for.
            (ResultInspection::No, None) if call.carries_file_token() => Self::Length,
            (ResultInspection::No, None) => Self::Skipped,
        }
    }

    fn narrow(self, seen: Prescan) -> Prescan {
        match self {
            Self::Full => seen,
            Self::Length | Self::Skipped => {
                Prescan { echo: seen.echo, forged: seen.forged, ..Prescan::default() }
            }
        }
    }
}

/// A warning if the structured content violates the tool's output schema. Long content is not validated, because that
/// would take too long for every call.
fn invalid_output(tool: &Tool, result: &RawJson) -> Option<Warning> {
    let [structured] = result.pick(["structuredContent"]);
    let structured = structured.filter(|text| text.len() <= MAX_VALIDATED_BYTES)?;
    tool.output_objection(&result.share(structured)).map(|found| Warning::Output(found.to_string()))
}

/// Scans a result in pieces. Words across the border of two pieces are found, too.
fn prescan_pieces(pieces: &[Bytes]) -> Prescan {
    let mut seen = Prescan::default();
    let mut seam = BytesMut::with_capacity(2 * OVERLAP);
    for piece in pieces {
        seam.extend_from_slice(&piece[..piece.len().min(OVERLAP)]);
        seen = seen.extended(piece).extended(&seam);
        // A piece may be shorter than a word, so the end of earlier pieces is kept.
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

/// A server's error with file tokens redacted.
fn redact_error(mut error: toolbooth_wire::RpcError) -> toolbooth_wire::RpcError {
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
    fn words_across_pieces_of_any_length_are_found() {
        let text =
            br#"{"content":[{"type":"text","text":"xxxxxxxxxxxxxx"},{"type": "image","data":"AA=="}]}"#;
        for size in 1..text.len() {
            let pieces: Vec<Bytes> = text.chunks(size).map(Bytes::copy_from_slice).collect();
            assert!(prescan_pieces(&pieces).media, "by {size}");
        }
    }
}
