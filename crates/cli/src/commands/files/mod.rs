//! `toolbooth files`: files that tools can be given by name, and what tools have made.

mod transfer;

use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::reach::Reach;
use crate::remote::segment;
use crate::render::{self, Cell, Paint, Table, Tone, ago, line};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How many files a list shows unless more are asked for.
const USUAL: u32 = 100;

/// What about files.
#[derive(Debug, Args)]
#[command(after_help = "\
A file without a session is in all of your sessions; a name used again is a new version.
For example:
  toolbooth files put report.csv
  toolbooth call files_size filename=report.csv
  toolbooth files get report.csv -o -")]
pub struct FilesArguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// The session that the files belong to.
    #[arg(long, global = true, value_name = "NAME")]
    session: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List your files, newest first (the default).
    #[command(visible_alias = "list")]
    Ls {
        /// Only versions of this name.
        name: Option<String>,
        /// How many.
        #[arg(long, value_name = "N", default_value_t = USUAL, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Upload files; - is standard input.
    Put {
        /// The files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Another name than the file's own; for one file.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// What it is, for those who see it in a list.
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// Fetch a file.
    Get {
        /// Its name, which means the newest version, or its id.
        #[arg(value_name = "NAME|ID")]
        file: String,
        /// Where to write it; - is standard output. Its own name here, unless you say.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove files.
    Rm {
        /// A name, which means all its versions, or an id.
        #[arg(required = true, value_name = "NAME|ID")]
        files: Vec<String>,
    },
}

impl FilesArguments {
    /// Whether anything is to be read from standard input.
    pub fn reads_input(&self) -> bool {
        let is_input = |file: &PathBuf| file.as_os_str() == "-";
        matches!(&self.action, Some(Action::Put { files, .. }) if files.iter().any(is_input))
    }
}

/// Runs `toolbooth files`.
pub fn run(global: &Global, what: FilesArguments) -> Outcome {
    in_runtime(async {
        let reach = Reach::open_lasting(global).await?;
        let outcome = within(&reach, global, what).await;
        reach.close().await;
        outcome
    })
}

/// The same at a gateway that is open already.
pub async fn within(reach: &Reach, global: &Global, what: FilesArguments) -> Outcome {
    let session = what.session.as_deref();
    match what.action.unwrap_or(Action::Ls { name: None, limit: USUAL }) {
        Action::Ls { name, limit } => list(reach, global, session, name.as_deref(), limit).await,
        Action::Put { files, name, description } => {
            let about = transfer::About { name, session, description };
            transfer::put(reach, global, &files, &about).await
        }
        Action::Get { file, output } => {
            let found = find(reach, session, &file).await?;
            transfer::get(reach, global, &found, output).await
        }
        Action::Rm { files } => remove(reach, global, session, &files).await,
    }
}

/// `KEY=VALUE` parts of a query, those that are there.
fn query(parts: &[(&str, Option<&str>)]) -> String {
    let parts = parts.iter().filter_map(|(key, value)| Some(format!("{key}={}", segment((*value)?))));
    parts.collect::<Vec<_>>().join("&")
}

async fn listed(
    reach: &Reach,
    session: Option<&str>,
    name: Option<&str>,
    limit: u32,
) -> Result<Vec<Value>, Failure> {
    let query = query(&[("session", session), ("name", name), ("limit", Some(&limit.to_string()))]);
    let answer = reach.get(&format!("/files?{query}")).await?;
    Ok(answer["files"].as_array().cloned().unwrap_or_default())
}

async fn list(
    reach: &Reach,
    global: &Global,
    session: Option<&str>,
    name: Option<&str>,
    limit: u32,
) -> Outcome {
    let files = listed(reach, session, name, limit).await?;
    if global.json {
        render::print_json(&json!({ "files": files }));
        return Ok(Exit::Ok);
    }
    if files.is_empty() {
        render::print("There are no files. `toolbooth files put FILE` uploads one.\n");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NAME", "VERSION", "SIZE", "TYPE", "FROM", "SESSION", "CAME", "ID"])
        .numbers(1)
        .numbers(2);
    for file in &files {
        let text = |key: &str| file[key].as_str().unwrap_or_default();
        let from = match text("origin") {
            "artifact" => format!("{}.{}", text("server"), text("tool")),
            _ => "upload".to_owned(),
        };
        table.row([
            Cell::toned(text("name"), Tone::Strong),
            file["version"].to_string().into(),
            size(file["size_bytes"].as_u64().unwrap_or_default()).into(),
            text("mime").into(),
            from.into(),
            text("session").into(),
            ago(file["created_ms"].as_i64().unwrap_or_default()).into(),
            Cell::toned(text("id"), Tone::Dim),
        ]);
    }
    render::print(&table.draw(Paint::stdout()));
    Ok(Exit::Ok)
}

/// A size as people read it.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64;
    let mut unit = "";
    for next in UNITS {
        if amount < 1023.95 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    format!("{amount:.1} {unit}")
}

/// The file that a name or an id means.
async fn find(reach: &Reach, session: Option<&str>, file: &str) -> Result<Value, Failure> {
    if is_id(file) {
        return reach.get(&format!("/files/{}", segment(file))).await;
    }
    let found = listed(reach, session, Some(file), 1000).await?;
    // As a call would find it: the session's own first, then what all sessions share.
    let meant = |file: &&Value| file["session"].as_str() == session;
    let first = found.iter().find(meant).or_else(|| found.iter().find(|file| file["session"].is_null()));
    first.cloned().ok_or_else(|| unknown(file, session, &found))
}

fn is_id(text: &str) -> bool {
    let shape = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(shape)
}

fn unknown(file: &str, session: Option<&str>, elsewhere: &[Value]) -> Failure {
    let place = session.map_or_else(String::new, |session| format!(" in the session `{}`", line(session)));
    let message = format!("there is no file `{}`{place}", line(file));
    let failure = Failure::misuse("file.unknown", message, Some("`toolbooth files ls` shows your files"));
    let failure = Failure { exit: Exit::Failed, ..failure };
    match elsewhere.iter().find_map(|file| file["session"].as_str()) {
        Some(other) => {
            failure.hint(format!("one of this name is in another session: --session {}", line(other)))
        }
        None => failure,
    }
}

async fn remove(reach: &Reach, global: &Global, session: Option<&str>, files: &[String]) -> Outcome {
    let mut removed = Vec::new();
    for file in files {
        let found = find(reach, session, file).await?;
        let versions = match is_id(file) {
            true => vec![found],
            false => {
                let name = found["name"].as_str();
                let all = listed(reach, found["session"].as_str(), name, 1000).await?;
                all.into_iter().filter(|other| other["session"] == found["session"]).collect()
            }
        };
        for version in &versions {
            let id = version["id"].as_str().unwrap_or_default();
            removed.push(reach.delete(&format!("/files/{}", segment(id))).await?);
        }
        if !global.json {
            let versions = render::count(versions.len(), "version");
            render::print(&format!("{} is gone ({versions}).\n", line(file)));
        }
    }
    if global.json {
        render::print_json(&json!({ "removed": removed }));
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (262_144_000, "250.0 MiB"),
            (5_000_000_000, "4.7 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn ids_are_told_from_names() {
        assert!(is_id("01a1de93-0a4b-73f3-b494-d0636a86ce78"));
        for name in
            ["report.pdf", "", "01a1de93-0a4b-73f3-b494-d0636a86ce7", "01a1de93_0a4b-73f3-b494-d0636a86ce78"]
        {
            assert!(!is_id(name), "{name}");
        }
    }
}
