//! Asks the operator's hooks about a call: after the policies have let it run, and after its result is shaped.

use super::pipeline::CallPipeline;
use super::record::CallRecord;
use crate::answer::Answer;
use crate::hooks::{CallHook, HookDecision, HookMoment, HookedCall};
use crate::terms::Terms;
use std::sync::Arc;
use toolbooth_core::call::{CallFault, Judged, Judgement, Sealed, judge};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{Member, ObjectWriter, RawJson, with_members};
use uuid::Uuid;

/// The `_meta` key for the notes of hooks.
const NOTES: &str = "toolbooth/notes";

impl CallPipeline {
    /// Asks the hooks about a call that would run now, and notes the arguments that they changed.
    pub(super) async fn apply_pre_hooks(
        &self,
        judgement: Judgement,
        record: &mut CallRecord,
    ) -> Result<Judgement, CallFault> {
        let judged = match judgement {
            Judgement::Run(judged) if self.has_pre_hooks(&judged.draft().tool) => judged,
            other => return Ok(other),
        };
        let hooked = Box::pin(self.ask_pre_hooks(judged, record.id())).await?;
        record.note_draft(match &hooked {
            Judgement::Run(judged) => judged.draft(),
            Judgement::Ask(waiting) | Judgement::Queue(waiting) => waiting.draft(),
        });
        Ok(hooked)
    }

    /// Asks the hooks before a call. A hook may refuse it, or change its public arguments: they are checked against the
    /// schema and judged again, so that an edit cannot get around a rule or an approval.
    pub(in crate::call) async fn ask_pre_hooks(
        &self,
        judged: Judged,
        id: Uuid,
    ) -> Result<Judgement, CallFault> {
        let terms: Arc<Terms> = self.terms.load_full();
        let tool = judged.draft().tool.clone();
        let mut judged = judged;
        for hook in terms.hooks.before(&tool) {
            let draft = judged.draft();
            let call =
                HookedCall { id, caller: &draft.caller, tool: &draft.tool, arguments: &draft.arguments };
            let decision = hook.decide(call, HookMoment::PreCall).await;
            let edited = match decision {
                HookDecision::Continue | HookDecision::Annotate(_) => continue,
                HookDecision::Deny(reason) => return Err(refused(&tool, hook, &reason)),
                HookDecision::Modify(arguments) => judged.edited(&arguments),
            };
            judged = match edited {
                Ok(draft) => match judge(draft, &terms.policies)? {
                    Judgement::Run(judged) => judged,
                    waits => return Ok(waits),
                },
                Err(unfit) => {
                    let (judged, fault) = *unfit;
                    if let HookDecision::Deny(reason) = hook.failed(&fault.to_string()) {
                        return Err(refused(&tool, hook, &reason));
                    }
                    judged
                }
            };
        }
        Ok(Judgement::Run(judged))
    }

    /// Whether a hook is asked before calls of a tool.
    pub(in crate::call) fn has_pre_hooks(&self, tool: &Tool) -> bool {
        self.terms.load().hooks.before(tool).next().is_some()
    }

    /// Whether a hook is asked after calls of a tool. Its result must be read whole then.
    pub(super) fn has_post_hooks(&self, tool: &Tool) -> bool {
        self.terms.load().hooks.after(tool).next().is_some()
    }

    /// Asks the hooks after a call. A hook may add a note to the result, or withhold it.
    pub(super) async fn ask_post_hooks(
        &self,
        call: &Sealed,
        id: Uuid,
        answer: Answer,
    ) -> Result<Answer, Problem> {
        let answer = match answer {
            Answer::Long { long, era, facts } => {
                Answer::Result { result: long.whole(), era, facts, warnings: Vec::new() }
            }
            answer => answer,
        };
        let Answer::Result { mut result, era, mut facts, warnings } = answer else { return Ok(answer) };
        let terms: Arc<Terms> = self.terms.load_full();
        let mut notes: Vec<RawJson> = Vec::new();
        for hook in terms.hooks.after(call.tool()) {
            let hooked = HookedCall {
                id,
                caller: call.caller(),
                tool: call.tool(),
                arguments: call.public_arguments(),
            };
            let decision = match hook.decide(hooked, HookMoment::PostCall(&result)).await {
                HookDecision::Modify(_) => {
                    hook.failed("its answer: a `post_call` hook cannot modify arguments")
                }
                decision => decision,
            };
            match decision {
                HookDecision::Continue | HookDecision::Modify(_) => {}
                HookDecision::Annotate(note) => {
                    let mut entry = ObjectWriter::default();
                    entry.text("hook", &hook.name).text("note", &note);
                    notes.push(entry.finish());
                }
                HookDecision::Deny(reason) => {
                    let reason = format!("its result was withheld by the hook `{}`: {reason}", hook.name);
                    let fault = CallFault::Refused { name: call.tool().exposed.to_string(), reason };
                    return Err(Problem::of(&fault));
                }
            }
        }
        if !notes.is_empty() {
            result = noted(&result, &notes);
            facts.has_extras = true;
        }
        Ok(Answer::Result { result, era, facts, warnings })
    }
}

fn refused(tool: &Tool, hook: &CallHook, reason: &str) -> CallFault {
    let reason = format!("the hook `{}` says: {reason}", hook.name);
    CallFault::Refused { name: tool.exposed.to_string(), reason }
}

/// The result with further notes in its `_meta`. Notes that are there are those of a tool behind the called one: notes
/// of a server are removed when its answer is read.
fn noted(result: &RawJson, notes: &[RawJson]) -> RawJson {
    let mut meta = ObjectWriter::default();
    let before = result.member("_meta").and_then(|meta| meta.members().ok()).unwrap_or_default();
    let earlier = before.iter().find(|member| member.key == NOTES);
    let earlier = earlier.and_then(|member| member.value.elements().ok()).unwrap_or_default();
    let list: Vec<&str> = earlier.iter().chain(notes).map(RawJson::as_str).collect();
    let list = RawJson::trusted(format!("[{}]", list.join(",")));
    for Member { key, value } in before.iter().filter(|member| member.key != NOTES) {
        meta.raw(key, value);
    }
    meta.raw(NOTES, &list);
    with_members(result, &[("_meta", meta.finish())]).unwrap_or_else(|_| result.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_added_to_the_metadata() {
        let note = RawJson::trusted(r#"{"hook":"h","note":"n"}"#);
        let cases = [
            (r#"{"content":[]}"#, r#"{"content":[],"_meta":{"toolbooth/notes":[{"hook":"h","note":"n"}]}}"#),
            (
                r#"{"_meta":{"a":1.0},"content":[]}"#,
                r#"{"_meta":{"a":1.0,"toolbooth/notes":[{"hook":"h","note":"n"}]},"content":[]}"#,
            ),
            (
                r#"{"_meta":{"toolbooth/notes":[{"hook":"g"}]}}"#,
                r#"{"_meta":{"toolbooth/notes":[{"hook":"g"},{"hook":"h","note":"n"}]}}"#,
            ),
        ];
        for (given, expected) in cases {
            let given = RawJson::parse(given.to_owned()).expect("JSON");
            assert_eq!(noted(&given, std::slice::from_ref(&note)).as_str(), expected);
        }
    }
}
