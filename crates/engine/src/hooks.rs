//! Hooks: programs and HTTP endpoints of the operator that are asked before and after calls.
//!
//! A hook reads one JSON object `{event, call, user, server, tool, arguments, result?}` and answers with
//! `{decision, reason?, arguments?, note?}`. It sees the caller's own arguments only, never those that the gateway
//! supplies. Without a valid answer in time, its `on_error` decides.

use bytes::Bytes;
use serde::Deserialize;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Tool, ToolPatterns};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_upstream::http::PostTarget;
use uuid::Uuid;

/// The largest answer of a hook, in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
/// The largest result that a hook is shown, in bytes. It gets only the size of a longer one.
const MAX_RESULT_BYTES: usize = 1 << 20;
/// The longest reason or note, in characters.
const MAX_TEXT_CHARS: usize = 1_000;
/// The number of hook programs that run at the same time; others wait, within their time.
const MAX_PROGRAMS: usize = 32;
/// The exit code by which a program refuses, with the reason on standard error.
const REFUSED: i32 = 2;

static PROGRAMS: Semaphore = Semaphore::const_new(MAX_PROGRAMS);

/// The hooks of a gateway.
#[derive(Debug, Default)]
pub struct CallHooks {
    /// Asked before calls, in this order.
    pub pre_call: Vec<CallHook>,
    /// Asked after calls, in this order.
    pub post_call: Vec<CallHook>,
}

/// A hook.
#[derive(Debug)]
pub struct CallHook {
    /// Its name, for messages.
    pub name: String,
    /// The tools whose calls it sees; empty means all.
    pub tools: ToolPatterns,
    /// How it is asked.
    pub program: HookProgram,
    /// How long it may take.
    pub timeout: Duration,
    /// What happens if it fails.
    pub on_error: OnHookError,
}

/// How a hook is asked.
#[derive(Debug)]
pub enum HookProgram {
    /// A program reads the question on standard input and prints the answer.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// Its whole environment.
        environment: Vec<(OsString, OsString)>,
    },
    /// The question is posted to a URL.
    Url(PostTarget),
}

/// What happens if a hook fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHookError {
    /// The call is refused, or its result is withheld.
    Deny,
    /// The call goes on.
    Allow,
}

/// The decision of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookDecision {
    /// The call goes on.
    Continue,
    /// The call goes on with these arguments.
    Modify(RawJson),
    /// The call is refused, or its result is withheld; the reason.
    Deny(String),
    /// The result gets this note.
    Annotate(String),
}

/// The point at which a hook is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HookMoment<'a> {
    /// Before the call.
    PreCall,
    /// After the call, with its result.
    PostCall(&'a RawJson),
}

/// A call that hooks are asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HookedCall<'a> {
    pub(crate) id: Uuid,
    pub(crate) caller: &'a Caller,
    pub(crate) tool: &'a Tool,
    /// The caller's own arguments.
    pub(crate) arguments: &'a RawJson,
}

/// The answer of a hook, as it writes it.
#[derive(Deserialize)]
struct HookAnswer {
    decision: HookWord,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    arguments: Option<RawJson>,
    #[serde(default)]
    note: Option<String>,
}

/// The decisions that a hook can write.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum HookWord {
    Continue,
    Modify,
    Deny,
    Annotate,
}

impl CallHooks {
    /// The hooks that are asked before calls of a tool.
    pub(crate) fn before<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a CallHook> {
        self.pre_call.iter().filter(move |hook| hook.sees(tool))
    }

    /// The hooks that are asked after calls of a tool.
    pub(crate) fn after<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a CallHook> {
        self.post_call.iter().filter(move |hook| hook.sees(tool))
    }
}

impl CallHook {
    /// Whether it sees the calls of a tool. The gateway's own tools have no hooks.
    fn sees(&self, tool: &Tool) -> bool {
        !tool.server.is_own() && (self.tools.is_empty() || self.tools.match_any(tool))
    }

    /// Asks the hook. If it fails, `on_error` decides.
    pub(crate) async fn decide(&self, call: HookedCall<'_>, moment: HookMoment<'_>) -> HookDecision {
        let question = question(call, moment);
        let asked = tokio::time::timeout(self.timeout, self.ask(question)).await;
        let failure = match asked {
            Ok(Ok(decision)) => return decision,
            Ok(Err(failure)) => failure,
            Err(_) => format!("it did not answer within {} ms", self.timeout.as_millis()),
        };
        self.failed(&failure)
    }

    /// The decision after a failure.
    pub(crate) fn failed(&self, failure: &str) -> HookDecision {
        tracing::warn!(hook = %self.name, "the hook `{}` failed: {failure}", self.name);
        match self.on_error {
            OnHookError::Allow => HookDecision::Continue,
            OnHookError::Deny => HookDecision::Deny("it failed".into()),
        }
    }

    async fn ask(&self, question: RawJson) -> Result<HookDecision, String> {
        match &self.program {
            HookProgram::Url(target) => {
                let answer = target.ask(question.bytes().clone(), self.timeout).await;
                decision(&answer.map_err(|error| error.to_string())?)
            }
            HookProgram::Command { command, environment } => run(command, environment, &question).await,
        }
    }
}

/// The question that a hook is asked.
fn question(call: HookedCall<'_>, moment: HookMoment<'_>) -> RawJson {
    let mut question = ObjectWriter::default();
    let event = match moment {
        HookMoment::PreCall => "pre_call",
        HookMoment::PostCall(_) => "post_call",
    };
    question.text("event", event).text("call", &call.id.to_string()).text("user", &call.caller.user);
    question.text("server", call.tool.server_name().as_str()).text("tool", &call.tool.exposed);
    question.raw("arguments", call.arguments);
    if let HookMoment::PostCall(result) = moment {
        let length = result.as_bytes().len();
        match length <= MAX_RESULT_BYTES {
            true => question.raw("result", result),
            false => question.number("result_bytes", length as u64),
        };
    }
    question.finish()
}

/// Runs a program. Its standard error is the reason of a refusal, and goes to the log otherwise.
async fn run(
    command: &[String],
    environment: &[(OsString, OsString)],
    question: &RawJson,
) -> Result<HookDecision, String> {
    let Some((program, arguments)) = command.split_first() else { return Err("it has no program".into()) };
    let _slot = PROGRAMS.acquire().await.map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("`{program}` could not be started: {error}"))?;
    let (Some(mut input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("it has no pipes".into());
    };
    let writing = async move {
        // A program that needs no input may end before it has read it.
        let _ = input.write_all(question.as_bytes()).await;
    };
    let reading = read_bounded(output);
    let reading_errors = read_bounded(errors);
    let ((), answer, errors) = tokio::join!(writing, reading, reading_errors);
    let status = child.wait().await.map_err(|error| error.to_string())?;
    let message = String::from_utf8_lossy(&errors).trim().to_owned();
    match status.code() {
        Some(0) => decision(&answer),
        Some(REFUSED) => Ok(HookDecision::Deny(shortened(&message).unwrap_or_else(|| "it refused".into()))),
        code => Err(format!("it ended with {code:?}: {}", shortened(&message).unwrap_or_default())),
    }
}

async fn read_bounded(source: impl tokio::io::AsyncRead + Unpin) -> Bytes {
    let mut read = Vec::new();
    // Output that was read before an error is checked like any answer.
    let _ = source.take(MAX_ANSWER_BYTES).read_to_end(&mut read).await;
    read.into()
}

/// Reads the answer of a hook.
fn decision(answer: &Bytes) -> Result<HookDecision, String> {
    let answer: HookAnswer =
        serde_json::from_slice(answer).map_err(|error| format!("its answer: {error}"))?;
    let text = |text: Option<String>| text.as_deref().and_then(shortened);
    match answer.decision {
        HookWord::Continue => Ok(HookDecision::Continue),
        HookWord::Deny => Ok(HookDecision::Deny(text(answer.reason).unwrap_or_else(|| "it refused".into()))),
        HookWord::Modify => match answer.arguments {
            Some(arguments) if arguments.is_object() => Ok(HookDecision::Modify(arguments)),
            _ => Err("its answer: `modify` needs `arguments`, an object".into()),
        },
        HookWord::Annotate => match text(answer.note) {
            Some(note) => Ok(HookDecision::Annotate(note)),
            None => Err("its answer: `annotate` needs a `note`".into()),
        },
    }
}

/// A text of a hook, up to the limit; `None` if it is empty.
fn shortened(text: &str) -> Option<String> {
    let text: String = text.trim().chars().take(MAX_TEXT_CHARS).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_strictly() {
        let cases = [
            (r#"{"decision":"continue"}"#, Ok(HookDecision::Continue)),
            (r#"{"decision":"deny","reason":" no "}"#, Ok(HookDecision::Deny("no".into()))),
            (r#"{"decision":"deny"}"#, Ok(HookDecision::Deny("it refused".into()))),
            (r#"{"decision":"annotate","note":"seen"}"#, Ok(HookDecision::Annotate("seen".into()))),
            (
                r#"{"decision":"modify","arguments":{"a":1.0}}"#,
                Ok(HookDecision::Modify(RawJson::trusted(r#"{"a":1.0}"#))),
            ),
            (r#"{"decision":"modify","arguments":[1]}"#, Err(())),
            (r#"{"decision":"modify"}"#, Err(())),
            (r#"{"decision":"annotate"}"#, Err(())),
            (r#"{"decision":"maybe"}"#, Err(())),
            ("{}", Err(())),
            ("", Err(())),
        ];
        for (answer, expected) in cases {
            let read = decision(&Bytes::from_static(answer.as_bytes())).map_err(|_| ());
            assert_eq!(read, expected, "{answer}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn programs_decide_by_their_output_or_exit_code() {
        let cases = [
            (r#"cat >/dev/null; echo '{"decision":"continue"}'"#, Ok(HookDecision::Continue)),
            ("echo no >&2; exit 2", Ok(HookDecision::Deny("no".into()))),
            ("exit 1", Err(())),
            ("exit 0", Err(())),
        ];
        let environment = std::env::vars_os().filter(|(name, _)| name == "PATH").collect::<Vec<_>>();
        for (script, expected) in cases {
            let command = ["sh", "-c", script].map(str::to_owned);
            let decided = run(&command, &environment, &RawJson::empty_object()).await.map_err(|_| ());
            assert_eq!(decided, expected, "{script}");
        }
        let missing = run(&["no-such-program-here".to_owned()], &[], &RawJson::empty_object()).await;
        assert!(missing.is_err_and(|error| error.contains("no-such-program-here")));
    }

    fn hook(script: &str, on_error: OnHookError) -> CallHook {
        let environment = std::env::vars_os().filter(|(name, _)| name == "PATH").collect();
        CallHook {
            name: "h".into(),
            tools: ToolPatterns::default(),
            program: HookProgram::Command {
                command: ["sh", "-c", script].map(str::to_owned).into(),
                environment,
            },
            timeout: Duration::from_millis(300),
            on_error,
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_hook_without_an_answer_in_time_fails_as_configured() {
        for (on_error, expected) in [(OnHookError::Allow, Ok(())), (OnHookError::Deny, Err(()))] {
            let hook = hook("sleep 60", on_error);
            let asked = tokio::time::timeout(hook.timeout, hook.ask(RawJson::empty_object())).await;
            assert!(asked.is_err(), "it does not answer");
            let decided = match hook.failed("late") {
                HookDecision::Continue => Ok(()),
                _ => Err(()),
            };
            assert_eq!(decided, expected);
        }
    }
}
