//! Writes a plan as a bash script of `toolbooth call` lines.
//!
//! Text from a model or a caller is quoted for the shell, or is in a comment on one line.

use super::plan::TaskPlan;
use serde_json::Value;
use std::fmt::Write;

/// The maximum length of an option's value.
pub(super) const LONGEST_OPTION: usize = 1_000;
/// The maximum length of a script's name, without its extension.
const LONGEST_NAME: usize = 40;
/// The maximum length of a comment.
const LONGEST_COMMENT: usize = 300;

const FLAGS: [(&str, &str); 4] = [
    ("env_file", "--env-file"),
    ("config_overrides", "--config-overrides"),
    ("llm_config", "--llm-config"),
    ("mcp_config", "--mcp-config"),
];

/// Options of every call in the script.
#[derive(Debug, Default)]
pub(super) struct ScriptOptions(Vec<(&'static str, String)>);

impl ScriptOptions {
    /// Parses the options from the arguments of `plan_task`.
    pub(super) fn read(arguments: &Value) -> Result<Self, String> {
        let mut options = Vec::new();
        for (argument, flag) in FLAGS {
            match &arguments[argument] {
                Value::Null => {}
                Value::String(value)
                    if value.chars().count() <= LONGEST_OPTION && !value.contains(char::is_control) =>
                {
                    options.push((flag, value.clone()));
                }
                _ => return Err(format!("`{argument}` must be the name of a file or folder")),
            }
        }
        Ok(Self(options))
    }
}

/// The script.
pub(super) fn write(task: &str, plan: &TaskPlan, options: &ScriptOptions) -> String {
    let mut text = String::from("#!/usr/bin/env bash\n");
    let _ = writeln!(text, "# {}", comment(task));
    text.push_str("# Each line is one call, and the first that fails ends the script. TOOLBOOTH names another program.\n");
    text.push_str("set -euo pipefail\n\n");
    let flags: String = options.0.iter().map(|(flag, value)| format!(" {flag} {}", quoted(value))).collect();
    let _ = writeln!(text, "toolbooth=(\"${{TOOLBOOTH:-toolbooth}}\"{flags})");
    for (index, step) in plan.steps.iter().enumerate() {
        let why = if step.why.trim().is_empty() { step.tool.as_str() } else { step.why.as_str() };
        let _ = writeln!(text, "\n# {}. {}", index + 1, comment(why));
        // JSON strings have no raw line breaks, so all others can be replaced.
        let arguments = step.arguments.as_str().replace(['\n', '\r'], " ");
        let _ =
            writeln!(text, "\"${{toolbooth[@]}}\" call {} --args {}", quoted(&step.tool), quoted(&arguments));
    }
    text
}

/// A file name for a plan, from the words of its task.
pub(super) fn file_name(task: &str) -> String {
    let mut name = String::new();
    for letter in task.to_lowercase().chars() {
        match letter {
            'a'..='z' | '0'..='9' => name.push(letter),
            _ if !name.ends_with('-') && !name.is_empty() => name.push('-'),
            _ => {}
        }
        if name.len() >= LONGEST_NAME {
            break;
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "plan".into() } else { name.into() }
}

/// Quotes a word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text that cannot leave its comment.
fn comment(text: &str) -> String {
    let plain = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    plain.take(LONGEST_COMMENT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_the_task() {
        let cases = [
            ("Hash a word, then echo it!", "hash-a-word-then-echo-it"),
            ("  ../../etc/passwd ", "etc-passwd"),
            ("日本", "plan"),
            (&"x".repeat(99), &"x".repeat(40)),
        ];
        for (task, expected) in cases {
            assert_eq!(file_name(task), expected, "{task}");
        }
    }

    #[test]
    fn options_are_names_of_files() {
        for bad in [serde_json::json!({"env_file": 3}), serde_json::json!({"mcp_config": "a\nb"})] {
            assert!(ScriptOptions::read(&bad).is_err(), "{bad}");
        }
    }
}
