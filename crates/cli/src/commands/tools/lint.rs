//! `toolbooth tools lint`: scores tool definitions and reports findings.

use crate::commands::unsupplied_names;
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Tone, line};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::lint::{LintSubject, PASS_MARK, Siblings, examine};

/// The page size: small enough that a page does not delay other requests.
const PAGE: usize = 200;
/// The largest accepted file.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The maximum number of files in one folder.
const MAX_FILES: usize = 10_000;

/// Arguments of `toolbooth tools lint`.
#[derive(Debug, Args)]
pub struct LintArguments {
    /// Only tools whose name matches; `*` matches any text.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Only tools of this server; may be given several times.
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// Minimum score, instead of `lint.min_score`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    min_score: Option<u8>,
    /// Check a file, or a folder of files, with answers to `tools/list`; needs no gateway.
    #[arg(long, value_name = "PATH", conflicts_with = "server")]
    file: Vec<PathBuf>,
}

/// Whether the tools come from files, so that no gateway is needed.
pub fn is_offline(arguments: &LintArguments) -> bool {
    !arguments.file.is_empty()
}

/// Scores the tools of files.
pub fn files(global: &GlobalOptions, arguments: &LintArguments) -> CommandResult {
    let mark = arguments.min_score.unwrap_or_else(|| configured(global));
    let mut tools = Vec::new();
    for path in &arguments.file {
        for file in files_of(path)? {
            tools.extend(scores(&file)?);
        }
    }
    show(global, arguments, mark, tools)
}

/// Scores the tools of the gateway.
pub async fn lint(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: &LintArguments,
) -> CommandResult {
    for server in &arguments.server {
        // Checked first, so that a typo in the name does not give an empty list.
        if let Err(failure) = gateway.get(&format!("/servers/{}", segment(server))).await {
            return Err(super::super::server_view::suggest(gateway, failure, server).await);
        }
    }
    gateway.connect(ServerSelection::AutoConnected).await;
    let mut tools = Vec::new();
    let (mut cursor, mut mark): (Option<String>, u8) = (None, PASS_MARK);
    loop {
        let mut path = format!("/lint?limit={PAGE}");
        arguments.server.iter().for_each(|name| path.push_str(&format!("&server={}", segment(name))));
        cursor.iter().for_each(|cursor| path.push_str(&format!("&cursor={}", segment(cursor))));
        let mut page = gateway.get(&path).await?;
        mark = page["min_score"].as_u64().and_then(|mark| mark.try_into().ok()).unwrap_or(mark);
        if let Value::Array(more) = page["tools"].take() {
            tools.extend(more);
        }
        let next = page["next_cursor"].as_str().map(str::to_owned);
        if next.is_none() || next == cursor || tools.len() >= super::MAX_TOOLS {
            break;
        }
        cursor = next;
    }
    if let Ok((_, loaded)) = gateway::load(global) {
        for sentence in unsupplied_names::find(gateway, &loaded.settings).await {
            render::complain(&format!("warning: {}\nhint: {}\n", line(&sentence), unsupplied_names::FIX));
        }
    }
    show(global, arguments, arguments.min_score.unwrap_or(mark), tools)
}

fn configured(global: &GlobalOptions) -> u8 {
    let loaded = gateway::sources(global).ok().and_then(|mut sources| {
        // An invalid configuration must not prevent the check of these files.
        toolbooth_config::load_with_trust(&mut sources).ok()
    });
    loaded.map_or(PASS_MARK, |loaded| loaded.settings.lint.min_score)
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::usage(Problem {
        code: "lint.unreadable",
        blame: Blame::Caller,
        message: format!("{} cannot be read: {why}", render::path(path)),
        hint: Some(
            "give a list of tools, an object with `tools`, or a complete answer to `tools/list`".into(),
        ),
    })
}

/// The files of a path: the file itself, or the sorted JSON files of a folder.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, CommandFailure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| unreadable(path, error))?;
    let files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let mut files: Vec<PathBuf> = files.filter(is_json).take(MAX_FILES).collect();
    files.sort();
    if files.is_empty() { Err(unreadable(path, "it has no .json file")) } else { Ok(files) }
}

/// The scores of a file's tools, in the format of `GET /lint`.
fn scores(path: &Path) -> Result<Vec<Value>, CommandFailure> {
    let length = std::fs::metadata(path).map_err(|error| unreadable(path, error))?.len();
    if length > MAX_FILE_BYTES {
        return Err(unreadable(path, format!("it has {length} bytes, over the limit of {MAX_FILE_BYTES}")));
    }
    let text = std::fs::read(path).map_err(|error| unreadable(path, error))?;
    let read = RawJson::parse(text).map_err(|error| unreadable(path, error))?;
    let listed = [&["tools"][..], &["result", "tools"]].into_iter().find_map(|place| read.at(place));
    let listed = listed.as_ref().unwrap_or(&read);
    let definitions = listed.elements().map_err(|_| unreadable(path, "it has no list of tools"))?;
    let named = read.member("server").and_then(|name| name.string().map(|name| name.into_owned()));
    let server = named.unwrap_or_else(|| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    let text = |definition: &RawJson, key: &str| {
        definition
            .member(key)
            .and_then(|text| text.string().map(|text| text.into_owned()))
            .unwrap_or_default()
    };
    let mut siblings = Siblings::default();
    for definition in &definitions {
        siblings.add(&server, &text(definition, "name"), &text(definition, "description"));
    }
    let scored = definitions.iter().map(|definition| {
        let name = text(definition, "name");
        let subject = LintSubject { server: Some(&server), name: &name, definition, label: None };
        let score = examine(&subject).beside(&subject, &siblings);
        let findings = score.findings.iter().map(|finding| {
            json!({
                "code": finding.code.as_str(), "severity": finding.severity.as_str(), "pointer": finding.pointer,
                "points": finding.points, "message": finding.message, "hint": finding.hint,
            })
        });
        let findings: Vec<Value> = findings.collect();
        json!({ "name": name, "server": server, "tool": name, "score": score.points, "findings": findings })
    });
    Ok(scored.collect())
}

/// Whether a tool passes: it has enough points and no finding is an error.
fn passes(tool: &Value, mark: u8) -> bool {
    let errors = tool["findings"].as_array().into_iter().flatten();
    tool["score"].as_u64() >= Some(mark.into())
        && !errors.into_iter().any(|finding| finding["severity"] == "error")
}

fn show(global: &GlobalOptions, arguments: &LintArguments, mark: u8, mut tools: Vec<Value>) -> CommandResult {
    if !arguments.filters.is_empty() {
        tools.retain(|tool| {
            let names = ["name", "tool"].map(|key| tool[key].as_str().unwrap_or_default());
            arguments
                .filters
                .iter()
                .any(|filter| names.iter().any(|name| toolbooth_core::wildcard::fits(filter, name)))
        });
    }
    for tool in &mut tools {
        tool["passes"] = passes(tool, mark).into();
    }
    tools.sort_by_key(|tool| (tool["passes"] == true, tool["score"].as_u64()));
    let failing = tools.iter().filter(|tool| tool["passes"] == false).count();
    let exit = if failing > 0 { Exit::Failed } else { Exit::Ok };
    if global.json {
        render::print_json(&json!({ "min_score": mark, "failing": failing, "tools": tools }));
        return Ok(exit);
    }
    render::print(&draw(&tools, mark, failing, Paint::stdout()));
    Ok(exit)
}

fn draw(tools: &[Value], mark: u8, failing: usize, paint: Paint) -> String {
    let mut out = String::new();
    for tool in tools {
        let tone = if tool["passes"] == true { Tone::Good } else { Tone::Bad };
        let score = format!("{:>3}", tool["score"].as_u64().unwrap_or_default());
        let name = line(tool["name"].as_str().unwrap_or_default());
        let apart = if tool["quarantined"] == true {
            paint.tone(Tone::Bad, "  in quarantine")
        } else {
            String::new()
        };
        out.push_str(&format!("{}  {}{apart}\n", paint.tone(tone, &score), paint.tone(Tone::Strong, &name)));
        for finding in tool["findings"].as_array().into_iter().flatten() {
            let text = |key: &str| line(finding[key].as_str().unwrap_or_default());
            let points = match finding["points"].as_i64().unwrap_or_default() {
                0 => "    ".to_owned(),
                points => format!("{points:>+4}"),
            };
            let tone = match text("severity").as_str() {
                "error" => Tone::Bad,
                "warning" => Tone::Warn,
                _ => Tone::Dim,
            };
            let place = paint.tone(Tone::Dim, &text("pointer"));
            out.push_str(&format!(
                "  {points}  {}  {} {place}\n",
                paint.tone(tone, &text("code")),
                text("message")
            ));
        }
    }
    let all = render::count(tools.len(), "tool");
    out.push_str(&match (tools.len(), failing) {
        (0, _) => "No tool matches.\n".to_owned(),
        (_, 0) => format!("\n{all}, all pass (at least {mark} of 100).\n"),
        (_, failing) => {
            let verb = if failing == 1 { "does" } else { "do" };
            format!(
                "\n{all}, {failing} {verb} not pass (at least {mark} of 100, a description, nothing hidden).\n"
            )
        }
    });
    out
}
