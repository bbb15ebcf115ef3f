//! `toolbooth tools lint`: how well tools tell what they are for, and what is odd about them.

use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::own::Wanted;
use crate::reach::Reach;
use crate::remote::segment;
use crate::render::{self, Paint, Tone, line};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::lint::{PASS_MARK, Siblings, Subject, examine};

/// How many tools one question returns: few enough that nobody else has to wait for it.
const PAGE: usize = 200;
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The most files of one folder.
const MAX_FILES: usize = 10_000;

/// Which tools, and how good they have to be.
#[derive(Debug, Args)]
pub struct LintArguments {
    /// Only tools whose name fits; `*` stands for anything.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Only tools of this server; may be given several times.
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// The pass mark, instead of `lint.min_score`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    min_score: Option<u8>,
    /// Look at a file, or a folder of files, with answers to `tools/list`; no gateway is needed.
    #[arg(long, value_name = "PATH", conflicts_with = "server")]
    file: Vec<PathBuf>,
}

/// Whether the tools can be looked at without a gateway.
pub fn is_offline(arguments: &LintArguments) -> bool {
    !arguments.file.is_empty()
}

/// Scores the tools of files.
pub fn files(global: &Global, arguments: &LintArguments) -> Outcome {
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
pub async fn lint(reach: &Reach, global: &Global, arguments: &LintArguments) -> Outcome {
    for server in &arguments.server {
        // Asked first, so that a slip in the name is not an empty list.
        if let Err(failure) = reach.get(&format!("/servers/{}", segment(server))).await {
            return Err(super::super::servers::suggest(reach, failure, server).await);
        }
    }
    reach.connect(Wanted::Started).await;
    let mut tools = Vec::new();
    let (mut cursor, mut mark): (Option<String>, u8) = (None, PASS_MARK);
    loop {
        let mut path = format!("/lint?limit={PAGE}");
        arguments.server.iter().for_each(|name| path.push_str(&format!("&server={}", segment(name))));
        cursor.iter().for_each(|cursor| path.push_str(&format!("&cursor={}", segment(cursor))));
        let mut page = reach.get(&path).await?;
        mark = page["min_score"].as_u64().and_then(|mark| mark.try_into().ok()).unwrap_or(mark);
        if let Value::Array(more) = page["tools"].take() {
            tools.extend(more);
        }
        let next = page["next_cursor"].as_str().map(str::to_owned);
        if next.is_none() || next == cursor || tools.len() >= super::MOST {
            break;
        }
        cursor = next;
    }
    show(global, arguments, arguments.min_score.unwrap_or(mark), tools)
}

fn configured(global: &Global) -> u8 {
    let loaded = gateway::sources(global).ok().and_then(|mut sources| {
        // A configuration that cannot be read has nothing to do with these files.
        toolbooth_config::load_with_trust(&mut sources).ok()
    });
    loaded.map_or(PASS_MARK, |loaded| loaded.settings.lint.min_score)
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::usage(Problem {
        code: "lint.unreadable",
        blame: Blame::Caller,
        message: format!("{} cannot be read: {why}", render::path(path)),
        hint: Some("give a list of tools, an object with `tools`, or a whole answer to `tools/list`".into()),
    })
}

/// The files of a path: itself, or what a folder holds, by name.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| unreadable(path, error))?;
    let files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let mut files: Vec<PathBuf> = files.filter(is_json).take(MAX_FILES).collect();
    files.sort();
    if files.is_empty() { Err(unreadable(path, "it holds no .json file")) } else { Ok(files) }
}

/// The scores of a file's tools, in the shape of `GET /lint`.
fn scores(path: &Path) -> Result<Vec<Value>, Failure> {
    let length = std::fs::metadata(path).map_err(|error| unreadable(path, error))?.len();
    if length > MAX_FILE_BYTES {
        return Err(unreadable(path, format!("it has {length} bytes, over the limit of {MAX_FILE_BYTES}")));
    }
    let text = std::fs::read(path).map_err(|error| unreadable(path, error))?;
    let read = RawJson::parse(text).map_err(|error| unreadable(path, error))?;
    let listed = [&["tools"][..], &["result", "tools"]].into_iter().find_map(|place| read.at(place));
    let listed = listed.as_ref().unwrap_or(&read);
    let definitions = listed.elements().map_err(|_| unreadable(path, "there is no list of tools in it"))?;
    let said = read.member("server").and_then(|name| name.string().map(|name| name.into_owned()));
    let server = said.unwrap_or_else(|| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    let text = |definition: &RawJson, key: &str| {
        definition
            .member(key)
            .and_then(|text| text.string().map(|text| text.into_owned()))
            .unwrap_or_default()
    };
    let mut siblings = Siblings::default();
    for definition in &definitions {
        siblings.note(&server, &text(definition, "name"), &text(definition, "description"));
    }
    let scored = definitions.iter().map(|definition| {
        let name = text(definition, "name");
        let subject = Subject { server: Some(&server), name: &name, definition, label: None };
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

/// Whether a tool of this shape passes: by its points, and without an error among its findings.
fn passes(tool: &Value, mark: u8) -> bool {
    let errors = tool["findings"].as_array().into_iter().flatten();
    tool["score"].as_u64() >= Some(mark.into())
        && !errors.into_iter().any(|finding| finding["severity"] == "error")
}

fn show(global: &Global, arguments: &LintArguments, mark: u8, mut tools: Vec<Value>) -> Outcome {
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
