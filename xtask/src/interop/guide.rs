//! Follows the guide for authors of tool servers: writes its snippets to files and runs its commands.

use super::{
    report::InteropReport,
    script::{CommandOutput, output},
    stage::InteropStage,
};
use crate::setup::Setup;
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use std::{fs, process::Command, time::Duration};

const PAGE: &str = "docs/guide/write-a-tool-server.md";
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Follows the page from top to bottom.
pub fn follow(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let page = fs::read_to_string(stage.root.join(PAGE)).context(PAGE)?;
    let blocks = fences(&page);
    let joined = |language: &str| {
        let texts = blocks.iter().filter(|block| block.language == language).map(|block| block.text.as_str());
        texts.collect::<Vec<_>>().join("\n\n")
    };
    fs::write(stage.file("notes.py"), joined("python"))?;
    fs::write(stage.file("mcp.json"), joined("json"))?;
    if let Some(other) =
        blocks.iter().find(|block| !["python", "json", "console"].contains(&block.language.as_str()))
    {
        bail!("cannot run snippets in {:?}", other.language);
    }
    let gateway = stage.gateway_of("guide", stage.file("mcp.json"))?;
    let mut running = None;
    for command in commands(&joined("console")) {
        // The page's gateway, on a free port.
        if command.line == "toolbooth serve --mcp-config mcp.json" {
            running = Some(stage.serve_with(&gateway, &["notes_count_words"], &setup.second)?);
            continue;
        }
        report.check(&format!("guide: {}", command.line), || {
            let mut bash = Command::new("bash");
            gateway.add_to_path(stage.isolate(&mut bash))?.args(["-c", &command.line]);
            command.compare(&output(&mut bash, COMMAND_TIMEOUT)?)
        });
    }
    running.context("the page does not start a gateway")?.end(Signal::SIGTERM)
}

struct Fence {
    language: String,
    text: String,
}

/// The fenced blocks of a page.
fn fences(page: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut open: Option<Fence> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => fences.extend(open.take()),
            (Some(language), None) => {
                open = Some(Fence { language: language.trim().to_owned(), text: String::new() });
            }
            (None, Some(fence)) => {
                fence.text.push_str(line);
                fence.text.push('\n');
            }
            (None, None) => {}
        }
    }
    fences
}

#[derive(Debug, PartialEq, Eq)]
struct GuideCommand {
    line: String,
    expected: Vec<String>,
}

/// The commands of a console block, with their expected output.
fn commands(text: &str) -> Vec<GuideCommand> {
    let mut commands: Vec<GuideCommand> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => {
                commands.push(GuideCommand { line: command.to_owned(), expected: Vec::new() })
            }
            (None, Some(command)) if !line.is_empty() => command.expected.push(line.to_owned()),
            (None, _) => {}
        }
    }
    commands
}

impl GuideCommand {
    /// Checks that the command succeeded and printed the expected lines in order; `…` stands for any text.
    fn compare(&self, output: &CommandOutput) -> Result<()> {
        let printed = format!("{}{}", output.stdout, output.stderr);
        ensure!(output.status.success(), "{}: {}", output.status, printed.trim());
        let mut rest = output.stdout.as_str();
        for part in self.expected.iter().flat_map(|line| line.split('…')).filter(|part| !part.is_empty()) {
            let at = rest.find(part).with_context(|| format!("{part:?} is not in: {}", printed.trim()))?;
            rest = &rest[at + part.len()..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_blocks_and_commands() {
        let page = "x\n```python\na = 1\n```\ny\n```console\n$ one\nseen …\n$ two\n```\n";
        let blocks = fences(page);
        assert_eq!((blocks[0].language.as_str(), blocks[0].text.as_str()), ("python", "a = 1\n"));
        let expected = [
            GuideCommand { line: "one".into(), expected: vec!["seen …".into()] },
            GuideCommand { line: "two".into(), expected: Vec::new() },
        ];
        assert_eq!(commands(&blocks[1].text), expected);
    }
}
