//! A call that a person must decide: asked here where somebody sits at a terminal, else named by its id.

use super::super::approvals::{agree, decline, read_ended, settled};
use super::{Came, arguments};
use crate::arguments::Global;
use crate::desk::Desk;
use crate::exit::Exit;
use crate::failure::{Failure, Trouble};
use crate::reach::Reach;
use crate::render::{self, Paint, Tone, line, plain};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;
use std::process::Command;

/// A call that was held, as the gateway answers it.
#[derive(Debug, Deserialize, Serialize)]
pub struct Held {
    /// Its id.
    pub held: String,
    /// Why: `approval` or `plan`.
    pub kind: String,
    /// What to do about it.
    pub message: String,
}

/// Whether the caller has said yes beforehand.
#[derive(Debug, Clone, Copy)]
pub enum Consent<'a> {
    /// With `--yes`; what is asked in person is asked at the desk all the same.
    Given(&'a Desk),
    /// They are asked here, if they are there.
    Asked(&'a Desk),
}

enum Reply {
    Yes,
    Edited(String),
    No,
    /// They went away.
    None,
}

impl Held {
    /// Tells the id on standard output, and the rest on standard error.
    pub fn print(&self, global: &Global) -> Exit {
        if global.json {
            render::print_json(self);
        } else {
            render::complain(&format!("{}\n", render::wrap(&plain(&self.message), 0)));
            render::print(&format!("{}\n", line(&self.held)));
        }
        Exit::Held
    }
}

/// A held call that nobody will ever find: the gateway of this command forgets it now.
pub fn forgotten(held: &Held) -> Failure {
    Failure::new(
        Exit::Failed,
        Trouble {
            code: "call.not-kept".to_owned(),
            blame: "gateway".to_owned(),
            message: format!("the call needs a person, and there is nowhere to keep it ({})", held.kind),
            hint: Some("another command uses the store just now; try again, or run `toolbooth serve`".into()),
        },
    )
}

/// How many questions one call may lead to: its own, and those of the tool behind it.
const MOST_QUESTIONS: usize = 6;

/// Answers a held call as its caller, if the caller may; otherwise it stays held. What the tool behind it asks is
/// another question, which is answered in the same way.
pub async fn settle(reach: &Reach, mut held: Held, consent: Consent<'_>) -> Result<Came, Failure> {
    for _ in 0..MOST_QUESTIONS {
        let body = match answer(reach, held, consent).await? {
            Came::Answered(body) => body,
            came => return Ok(came),
        };
        let Some(next) = read_ended(&body)?.next() else { return Ok(Came::Answered(body)) };
        let message = format!("the tool behind it waits for approval as {next}");
        held = Held { held: next, kind: "approval".to_owned(), message };
    }
    Ok(Came::Held(held))
}

async fn answer(reach: &Reach, held: Held, consent: Consent<'_>) -> Result<Came, Failure> {
    if held.kind != "approval" || matches!(consent, Consent::Asked(desk) if !desk.is_attended()) {
        return Ok(Came::Held(held));
    }
    let id = held.held.clone();
    let shown = reach.get(&format!("/approvals/{id}")).await?;
    // Somebody else must answer; a yes from here would count for nothing.
    if shown["state"] == "pending" && shown["yours"] != true {
        return Ok(Came::Held(held));
    }
    let desk = match consent {
        Consent::Asked(desk) => desk,
        // What was said beforehand does not count: they are asked now, if they are there.
        Consent::Given(desk) if shown["answerer"] == "in_person" => desk,
        Consent::Given(_) => {
            agree(reach, &id, None).await?;
            return settled(reach, &id, None).await.map(Came::Answered);
        }
    };
    if !desk.is_attended() {
        return Ok(Came::Held(held));
    }
    loop {
        let answered = match ask(&shown, desk).await {
            Reply::None => return Ok(Came::Held(held)),
            Reply::No => decline(reach, &id, None).await.map(drop),
            Reply::Yes => agree(reach, &id, None).await,
            Reply::Edited(text) => match agree(reach, &id, Some(&text)).await {
                Err(failure) if failure.trouble.code == "call.invalid-arguments" => {
                    render::complain(&render::failure(&failure, Paint::stderr()));
                    continue;
                }
                answered => answered,
            },
        };
        match answered {
            // Somebody else was faster, and their answer stands.
            Err(failure) if failure.trouble.code == "call.already-decided" => {}
            answered => answered?,
        }
        return settled(reach, &id, None).await.map(Came::Answered);
    }
}

/// Shows what is asked and reads an answer.
async fn ask(held: &Value, desk: &Desk) -> Reply {
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
        let Some(said) = desk.read("Run it? [y/N/e(dit)] ").await else { return Reply::None };
        match said.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Reply::Yes,
            "" | "n" | "no" => return Reply::No,
            "e" | "edit" => match edit(arguments.clone()).await {
                Ok(text) => return Reply::Edited(text),
                Err(failure) => render::complain(&render::failure(&failure, paint)),
            },
            _ => {}
        }
    }
}

/// Lets the caller change arguments in their editor, on a thread of its own: a gateway inside this process goes on.
async fn edit(text: String) -> Result<String, Failure> {
    let edited = tokio::task::spawn_blocking(move || edit_here(&text)).await;
    edited.unwrap_or_else(|_| Err(Failure::misuse("usage.editor", "the editor did not end well", None)))
}

fn edit_here(text: &str) -> Result<String, Failure> {
    let wrong =
        |why: String| Failure::misuse("usage.editor", why, Some("set EDITOR to your editor's command"));
    let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let editor = editor.into_iter().find(|command| !command.trim().is_empty()).unwrap_or_else(|| "vi".into());
    let file = tempfile::Builder::new().prefix("toolbooth-").suffix(".json").tempfile();
    let mut file = file.map_err(|error| wrong(format!("there is no room for a file to edit: {error}")))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.flush());
    written.map_err(|error| wrong(format!("there is no room for a file to edit: {error}")))?;
    // By a shell, since the setting may hold options.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file.path());
    match command.status() {
        Ok(status) if status.success() => arguments::read(&format!("@{}", file.path().display())),
        Ok(_) => Err(wrong(format!("`{}` did not end well", line(&editor)))),
        Err(error) => Err(wrong(format!("`{}` cannot be run: {error}", line(&editor)))),
    }
}
