//! `toolbooth files`: uploaded files and the artifacts of tools.

mod transfer;

use super::on_gateway;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, ago, line};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The default length of a list.
const DEFAULT_LIMIT: u32 = 100;

/// Arguments of `toolbooth files`.
#[derive(Debug, Args)]
#[command(after_help = "\
A file without a session is available in all of your sessions; uploading a name again creates a new version.
For example:
  toolbooth files put report.csv
  toolbooth call files_size filename=report.csv
  toolbooth files get report.csv -o -")]
pub struct FilesArguments {
    #[command(subcommand)]
    action: Option<FilesAction>,
    /// Session of the files.
    #[arg(long, global = true, value_name = "NAME")]
    session: Option<String>,
}

#[derive(Debug, Subcommand)]
enum FilesAction {
    /// List your files, newest first (the default).
    #[command(visible_alias = "list")]
    Ls {
        /// Only versions of this name.
        name: Option<String>,
        /// Maximum number of files.
        #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Upload files; - is standard input.
    Put {
        /// Files to upload.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Name to use instead of the file's own; for a single file.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Description, shown in lists.
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// Download a file.
    Get {
        /// Name of the file, for its newest version, or an id.
        #[arg(value_name = "NAME|ID")]
        file: String,
        /// File to write; - is standard output. Default: its own name in the current folder.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove files.
    Rm {
        /// Name of a file, for all its versions, or an id.
        #[arg(required = true, value_name = "NAME|ID")]
        files: Vec<String>,
    },
}

impl FilesArguments {
    /// Whether a file comes from standard input.
    pub fn reads_input(&self) -> bool {
        let is_input = |file: &PathBuf| file.as_os_str() == "-";
        matches!(&self.action, Some(FilesAction::Put { files, .. }) if files.iter().any(is_input))
    }
}

/// Runs `toolbooth files`.
pub fn run(global: &GlobalOptions, arguments: FilesArguments) -> CommandResult {
    on_gateway(GatewayHandle::open_persistent(global), async |gateway| {
        within(gateway, global, arguments).await
    })
}

/// Runs the command on an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: FilesArguments,
) -> CommandResult {
    let session = arguments.session.as_deref();
    match arguments.action.unwrap_or(FilesAction::Ls { name: None, limit: DEFAULT_LIMIT }) {
        FilesAction::Ls { name, limit } => list(gateway, global, session, name.as_deref(), limit).await,
        FilesAction::Put { files, name, description } => {
            let about = transfer::UploadDetails { name, session, description };
            transfer::put(gateway, global, &files, &about).await
        }
        FilesAction::Get { file, output } => {
            let found = find(gateway, session, &file).await?;
            transfer::get(gateway, global, &found, output).await
        }
        FilesAction::Rm { files } => remove(gateway, global, session, &files).await,
    }
}

/// Builds a query string from the parts that have a value.
fn query(parts: &[(&str, Option<&str>)]) -> String {
    let parts = parts.iter().filter_map(|(key, value)| Some(format!("{key}={}", segment((*value)?))));
    parts.collect::<Vec<_>>().join("&")
}

async fn listed(
    gateway: &GatewayHandle,
    session: Option<&str>,
    name: Option<&str>,
    limit: u32,
) -> Result<Vec<Value>, CommandFailure> {
    let query = query(&[("session", session), ("name", name), ("limit", Some(&limit.to_string()))]);
    let answer = gateway.get(&format!("/files?{query}")).await?;
    Ok(answer["files"].as_array().cloned().unwrap_or_default())
}

async fn list(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    session: Option<&str>,
    name: Option<&str>,
    limit: u32,
) -> CommandResult {
    let files = listed(gateway, session, name, limit).await?;
    if global.json {
        render::print_json(&json!({ "files": files }));
        return Ok(Exit::Ok);
    }
    if files.is_empty() {
        render::print("There are no files. `toolbooth files put FILE` uploads one.\n");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NAME", "VERSION", "SIZE", "TYPE", "FROM", "SESSION", "CREATED", "ID"])
        .numbers(1)
        .numbers(2);
    for file in &files {
        let text = |key: &str| file[key].as_str().unwrap_or_default();
        let from = match text("origin") {
            "artifact" => format!("{}.{}", text("server"), text("tool")),
            _ => "upload".to_owned(),
        };
        table.row([
            TableCell::toned(text("name"), Tone::Strong),
            file["version"].to_string().into(),
            size(file["size_bytes"].as_u64().unwrap_or_default()).into(),
            text("mime").into(),
            from.into(),
            text("session").into(),
            ago(file["created_ms"].as_i64().unwrap_or_default()).into(),
            TableCell::toned(text("id"), Tone::Dim),
        ]);
    }
    render::print(&table.draw(Paint::stdout()));
    Ok(Exit::Ok)
}

/// Formats a size with a binary unit.
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

/// Finds a file by name or id.
async fn find(gateway: &GatewayHandle, session: Option<&str>, file: &str) -> Result<Value, CommandFailure> {
    if is_id(file) {
        return gateway.get(&format!("/files/{}", segment(file))).await;
    }
    let found = listed(gateway, session, Some(file), 1000).await?;
    // As in a call: files of the session first, then files without a session.
    let of_session = |file: &&Value| file["session"].as_str() == session;
    let first = found.iter().find(of_session).or_else(|| found.iter().find(|file| file["session"].is_null()));
    first.cloned().ok_or_else(|| unknown(file, session, &found))
}

fn is_id(text: &str) -> bool {
    let shape = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(shape)
}

fn unknown(file: &str, session: Option<&str>, elsewhere: &[Value]) -> CommandFailure {
    let place = session.map_or_else(String::new, |session| format!(" in the session `{}`", line(session)));
    let message = format!("there is no file `{}`{place}", line(file));
    let failure =
        CommandFailure::misuse("file.unknown", message, Some("`toolbooth files ls` shows your files"));
    let failure = CommandFailure { exit: Exit::Failed, ..failure };
    match elsewhere.iter().find_map(|file| file["session"].as_str()) {
        Some(other) => {
            failure.hint(format!("another session has a file with this name: --session {}", line(other)))
        }
        None => failure,
    }
}

async fn remove(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    session: Option<&str>,
    files: &[String],
) -> CommandResult {
    let mut removed = Vec::new();
    for file in files {
        let found = find(gateway, session, file).await?;
        let versions = match is_id(file) {
            true => vec![found],
            false => {
                let name = found["name"].as_str();
                let all = listed(gateway, found["session"].as_str(), name, 1000).await?;
                all.into_iter().filter(|other| other["session"] == found["session"]).collect()
            }
        };
        for version in &versions {
            let id = version["id"].as_str().unwrap_or_default();
            removed.push(gateway.delete(&format!("/files/{}", segment(id))).await?);
        }
        if !global.json {
            let versions = render::count(versions.len(), "version");
            render::print(&format!("Removed {} ({versions}).\n", line(file)));
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
    fn ids_are_distinguished_from_names() {
        assert!(is_id("01a1de93-0a4b-73f3-b494-d0636a86ce78"));
        for name in
            ["report.pdf", "", "01a1de93-0a4b-73f3-b494-d0636a86ce7", "01a1de93_0a4b-73f3-b494-d0636a86ce78"]
        {
            assert!(!is_id(name), "{name}");
        }
    }
}
