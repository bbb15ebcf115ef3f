//! A call that needs approval: asks the caller at the terminal, or prints the id of the held call.

use super::super::approvals::{approve_call, read_status, reject_call, wait_for_end};
use super::super::call_arguments;
use super::CallResponse;
use crate::editor_handle::EditedLine;
use crate::exit::Exit;
use crate::failure::{CommandFailure, FaultReport};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::prompter::Prompter;
use crate::render::{self, Paint, Tone, line, plain};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;
use std::process::Command;

/// The gateway's answer for a held call.
#[derive(Debug, Deserialize, Serialize)]
pub struct HeldAnswer {
    /// Id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Id of the held call.
    pub held: String,
    /// Reason: `approval` or `plan`.
    pub kind: String,
    /// Next steps, for the user.
    pub message: String,
}

/// Whether the caller has consented beforehand.
#[derive(Debug, Clone, Copy)]
pub enum CallerConsent<'a> {
    /// Consent was given with `--yes`. Approvals that must be given in person are still asked for.
    Given(&'a Prompter),
    /// The caller is asked, if they are at a terminal.
    Asked(&'a Prompter),
}

enum ApprovalReply {
    Yes,
    Edited(String),
    No,
    /// Ctrl+C.
    Interrupted,
    /// No answer: the input ended.
    None,
}

impl HeldAnswer {
    /// Prints the id to standard output and the message to standard error.
    pub fn print(&self, global: &GlobalOptions) -> Exit {
        if global.json {
            render::print_json(self);
        } else {
            render::complain(&format!("{}\n", render::wrap(&plain(&self.message), 0)));
            render::print(&format!("{}\n", line(&self.held)));
        }
        Exit::Held
    }
}

/// The failure of a held call in a temporary store: it is lost when the command ends.
pub fn not_stored(held: &HeldAnswer) -> CommandFailure {
    CommandFailure::new(
        Exit::Failed,
        FaultReport {
            code: "call.not-kept".to_owned(),
            blame: "gateway".to_owned(),
            message: format!("the call needs approval, but it cannot be stored ({})", held.kind),
            hint: Some("another command is using the store; try again, or run `toolbooth serve`".into()),
        },
    )
}

/// The maximum number of approvals for one call: its own, and those of the tool behind it.
const MAX_APPROVALS: usize = 6;

/// Decides a held call as its caller, if the caller may; otherwise it stays held. If the tool behind it needs approval
/// too, that held call is decided in the same way.
pub async fn settle(
    gateway: &GatewayHandle,
    mut held: HeldAnswer,
    consent: CallerConsent<'_>,
) -> Result<CallResponse, CommandFailure> {
    for _ in 0..MAX_APPROVALS {
        let body = match answer(gateway, held, consent).await? {
            CallResponse::Answered(body) => body,
            response => return Ok(response),
        };
        let Some(next) = read_status(&body)?.next() else { return Ok(CallResponse::Answered(body)) };
        let message = format!("the tool behind it waits for approval as {next}");
        held = HeldAnswer { call: None, held: next, kind: "approval".to_owned(), message };
    }
    Ok(CallResponse::Held(held))
}

async fn answer(
    gateway: &GatewayHandle,
    held: HeldAnswer,
    consent: CallerConsent<'_>,
) -> Result<CallResponse, CommandFailure> {
    if held.kind != "approval" || matches!(consent, CallerConsent::Asked(prompter) if !prompter.is_attended())
    {
        return Ok(CallResponse::Held(held));
    }
    let id = held.held.clone();
    let shown = gateway.get(&format!("/approvals/{id}")).await?;
    // Another person must decide; an approval from this caller would be refused.
    if shown["state"] == "pending" && shown["yours"] != true {
        return Ok(CallResponse::Held(held));
    }
    let prompter = match consent {
        CallerConsent::Asked(prompter) => prompter,
        // Consent beforehand does not count here: the caller is asked now, if they are at a terminal.
        CallerConsent::Given(prompter) if shown["answerer"] == "in_person" => prompter,
        CallerConsent::Given(_) => {
            approve_call(gateway, &id, None).await?;
            return wait_for_end(gateway, &id, None).await.map(CallResponse::Answered);
        }
    };
    if !prompter.is_attended() {
        return Ok(CallResponse::Held(held));
    }
    loop {
        let answered = match ask(&shown, prompter).await {
            ApprovalReply::None => return Ok(CallResponse::Held(held)),
            ApprovalReply::No => reject_call(gateway, &id, None).await.map(drop),
            ApprovalReply::Interrupted => reject_interrupted(gateway, &id).await,
            ApprovalReply::Yes => approve_call(gateway, &id, None).await,
            ApprovalReply::Edited(text) => match approve_call(gateway, &id, Some(&text)).await {
                Err(failure) if failure.fault.code == "call.invalid-arguments" => {
                    render::complain(&render::failure(&failure, Paint::stderr()));
                    continue;
                }
                answered => answered,
            },
        };
        match answered {
            // Another person decided first, and their decision is final.
            Err(failure) if failure.fault.code == "call.already-decided" => {}
            answered => answered?,
        }
        return wait_for_end(gateway, &id, None).await.map(CallResponse::Answered);
    }
}

/// Rejects the held call after Ctrl+C. If that fails, says that the call can still be approved.
async fn reject_interrupted(gateway: &GatewayHandle, id: &str) -> Result<(), CommandFailure> {
    match reject_call(gateway, id, Some("interrupted with Ctrl+C")).await {
        Ok(_) => Ok(()),
        // The decision of another person is final.
        Err(failure) if failure.fault.code == "call.already-decided" => Err(failure),
        Err(failure) => {
            let held = format!("the call is still held; `toolbooth approvals reject {id}` rejects it");
            Err(failure.hint(held))
        }
    }
}

/// Shows the held call and reads the caller's answer.
async fn ask(held: &Value, prompter: &Prompter) -> ApprovalReply {
    let paint = Paint::stderr();
    let text = |key: &str| held[key].as_str().map(line).unwrap_or_default();
    let arguments = serde_json::to_string_pretty(&held["arguments"]).unwrap_or_default();
    render::complain(&format!(
        "{}\n\n  {}  {}\n{}\n",
        text("question"),
        paint.tone(Tone::Strong, &text("name")),
        paint.tone(Tone::Dim, &text("side_effect")),
        render::framed(&arguments)
    ));
    loop {
        let answer = match prompter.ask("Run it? [y/N/e(dit)] ").await {
            EditedLine::Line(answer) => answer,
            EditedLine::Interrupted => return ApprovalReply::Interrupted,
            EditedLine::End => return ApprovalReply::None,
        };
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return ApprovalReply::Yes,
            "" | "n" | "no" => return ApprovalReply::No,
            "e" | "edit" => match edit(arguments.clone()).await {
                Ok(text) => return ApprovalReply::Edited(text),
                Err(failure) => render::complain(&render::failure(&failure, paint)),
            },
            _ => {}
        }
    }
}

/// Lets the caller change the arguments in their editor, on a separate thread so that an embedded gateway keeps running.
async fn edit(text: String) -> Result<String, CommandFailure> {
    let edited = tokio::task::spawn_blocking(move || edit_here(&text)).await;
    edited.unwrap_or_else(|_| Err(CommandFailure::misuse("usage.editor", "the editor failed", None)))
}

fn edit_here(text: &str) -> Result<String, CommandFailure> {
    let wrong = |why: String| {
        CommandFailure::misuse("usage.editor", why, Some("set EDITOR to your editor's command"))
    };
    let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let editor = editor.into_iter().find(|command| !command.trim().is_empty()).unwrap_or_else(|| "vi".into());
    let file = tempfile::Builder::new().prefix("toolbooth-").suffix(".json").tempfile();
    let mut file = file.map_err(|error| wrong(format!("cannot create a file to edit: {error}")))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.flush());
    written.map_err(|error| wrong(format!("cannot write the file to edit: {error}")))?;
    // Run by a shell, because the setting may contain options.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file.path());
    match command.status() {
        Ok(status) if status.success() => call_arguments::read(&format!("@{}", file.path().display())),
        Ok(_) => Err(wrong(format!("`{}` failed", line(&editor)))),
        Err(error) => Err(wrong(format!("`{}` cannot be run: {error}", line(&editor)))),
    }
}
