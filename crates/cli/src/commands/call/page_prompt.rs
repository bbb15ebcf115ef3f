//! A server asks the user to open a page. The address is printed, never opened.

use super::asked_question::AskedQuestion;
use crate::prompter::Prompter;
use crate::render::{Paint, Tone};
use serde_json::json;

/// Shows the address, and asks whether the user has finished there.
pub(super) async fn at_terminal(asked: &AskedQuestion, prompter: &Prompter) -> String {
    let paint = Paint::stderr();
    let (url, host) = asked.address();
    let prompt = format!(
        "{}\n  {url}\nThe page is on {}. Open it only if you trust that host.\nHave you opened it and finished there? [y/N] ",
        paint.tone(Tone::Strong, &asked.message()),
        paint.tone(Tone::Strong, &host),
    );
    let action = match prompter.read(&prompt).await {
        None => "cancel",
        Some(typed) if matches!(typed.trim(), "y" | "Y" | "yes") => "accept",
        Some(_) => "decline",
    };
    json!({ "action": action }).to_string()
}
