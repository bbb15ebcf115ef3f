//! Uploads and downloads files as streams.

use super::query;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::progress::TransferProgress;
use crate::remote_gateway::{GatewayReply, segment};
use crate::render::{self, line};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use toolbooth_core::file::FileName;

/// The size of a read buffer.
const PIECE: usize = 64 * 1024;

/// Metadata of an upload.
pub(super) struct UploadDetails<'a> {
    pub(super) name: Option<String>,
    pub(super) session: Option<&'a str>,
    pub(super) description: Option<String>,
}

pub(super) async fn put(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    files: &[PathBuf],
    about: &UploadDetails<'_>,
) -> CommandResult {
    if files.len() > 1 && about.name.is_some() {
        return Err(CommandFailure::misuse("usage.name", "--name is for one file", None));
    }
    let mut kept = Vec::new();
    for path in files {
        let file = put_one(gateway, path, about).await?;
        if !global.json {
            let text = |key: &str| file[key].as_str().map(line).unwrap_or_default();
            let size = super::size(file["size_bytes"].as_u64().unwrap_or_default());
            render::print(&format!("{} version {} ({size}) {}\n", text("name"), file["version"], text("id")));
        }
        kept.push(file);
    }
    if global.json {
        render::print_json(&json!({ "files": kept }));
    }
    Ok(Exit::Ok)
}

async fn put_one(
    gateway: &GatewayHandle,
    path: &Path,
    about: &UploadDetails<'_>,
) -> Result<Value, CommandFailure> {
    let is_input = path.as_os_str() == "-";
    let own = path.file_name().filter(|_| !is_input).map(|name| name.to_string_lossy().into_owned());
    if !is_input && path.is_dir() {
        return Err(unreadable(path, &io::ErrorKind::IsADirectory.into()));
    }
    let name = about.name.clone().or(own).ok_or_else(|| {
        CommandFailure::misuse(
            "usage.name",
            "a file from standard input needs a name",
            Some("give --name NAME"),
        )
    })?;
    let progress = |length| TransferProgress::new(format!("uploading {}", line(&name)), length);
    let (length, body) = match is_input {
        true => (None, pieces(tokio::io::stdin(), progress(None))),
        false => {
            let file = tokio::fs::File::open(path).await.map_err(|error| unreadable(path, &error))?;
            let facts = file.metadata().await.map_err(|error| unreadable(path, &error))?;
            let length = facts.is_file().then_some(facts.len());
            (length, pieces(file, progress(length)))
        }
    };
    let about =
        [("name", Some(&*name)), ("session", about.session), ("description", about.description.as_deref())];
    let answer = gateway.stream(Method::POST, &format!("/files?{}", query(&about)), length, body).await?;
    read(&GatewayReply::of(answer).await.body)
}

fn pieces(source: impl AsyncRead + Send + Unpin + 'static, progress: TransferProgress) -> Body {
    let next = async move |(mut source, progress): (_, TransferProgress)| {
        let mut piece = BytesMut::with_capacity(PIECE);
        match AsyncReadExt::read_buf(&mut source, &mut piece).await {
            Ok(0) => None,
            Ok(read) => {
                progress.add(read);
                Some((Ok(piece.freeze()), (source, progress)))
            }
            Err(error) => Some((Err::<Bytes, io::Error>(error), (source, progress))),
        }
    };
    Body::from_stream(stream::unfold((source, progress), next))
}

pub(super) async fn get(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    file: &Value,
    output: Option<PathBuf>,
) -> CommandResult {
    let text = |key: &str| file[key].as_str().unwrap_or_default();
    let total = file["size_bytes"].as_u64();
    let to = match output {
        Some(path) => path,
        None => {
            // The name comes from another machine, so it is sanitised again.
            let name = FileName::made_safe(text("name")).ok_or_else(|| taken(Path::new("-")))?;
            let path = PathBuf::from(String::from(name));
            if path.exists() {
                return Err(taken(&path));
            }
            path
        }
    };
    let path = format!("/files/{}/content", segment(text("id")));
    let answer = gateway.stream(Method::GET, &path, None, Body::empty()).await?;
    let mut content = answer.into_body().into_data_stream();
    let progress = TransferProgress::new(format!("downloading {}", line(text("name"))), total);
    let mut target = DownloadTarget::open(&to).await?;
    let mut hash = Sha256::new();
    while let Some(piece) = content.next().await {
        let piece = piece.map_err(|_| broken("the connection broke"))?;
        progress.add(piece.len());
        hash.update(&piece);
        target.write(&piece).await?;
    }
    drop(progress);
    let found = toolbooth_core::hex::encode(&hash.finalize());
    if found != text("sha256") {
        return Err(broken("its SHA-256 does not match"));
    }
    let to = target.finish().await?;
    match to {
        Some(path) if global.json => render::print_json(&json!({ "file": file, "path": path })),
        Some(path) => {
            render::print(&format!("{} ({})\n", render::path(&path), super::size(total.unwrap_or_default())))
        }
        None => {}
    }
    Ok(Exit::Ok)
}

/// The target of a download: standard output, or a file that appears when it is complete.
enum DownloadTarget {
    Output(tokio::io::Stdout),
    File { draft: tempfile::NamedTempFile, file: tokio::fs::File, path: PathBuf },
}

impl DownloadTarget {
    async fn open(path: &Path) -> Result<Self, CommandFailure> {
        if path.as_os_str() == "-" {
            return Ok(Self::Output(tokio::io::stdout()));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let draft = tempfile::Builder::new().prefix(".toolbooth").tempfile_in(folder);
        let draft = draft.map_err(|error| unwritable(path, &error))?;
        let file = draft.reopen().map_err(|error| unwritable(path, &error))?;
        Ok(Self::File { draft, file: file.into(), path: path.to_owned() })
    }

    async fn write(&mut self, piece: &[u8]) -> Result<(), CommandFailure> {
        match self {
            Self::Output(output) => {
                output.write_all(piece).await.map_err(|error| unwritable(Path::new("-"), &error))
            }
            Self::File { file, path, .. } => {
                file.write_all(piece).await.map_err(|error| unwritable(path, &error))
            }
        }
    }

    async fn finish(self) -> Result<Option<PathBuf>, CommandFailure> {
        match self {
            Self::Output(mut output) => {
                output.flush().await.map_err(|error| unwritable(Path::new("-"), &error))?;
                Ok(None)
            }
            Self::File { draft, mut file, path } => {
                file.flush().await.map_err(|error| unwritable(&path, &error))?;
                draft.persist(&path).map_err(|error| unwritable(&path, &error.error))?;
                Ok(Some(path))
            }
        }
    }
}

fn failed(code: &'static str, message: String, hint: Option<&str>) -> CommandFailure {
    CommandFailure { exit: Exit::Failed, ..CommandFailure::misuse(code, message, hint) }
}

fn unreadable(path: &Path, error: &io::Error) -> CommandFailure {
    failed("usage.file", format!("{} cannot be read: {}", render::path(path), error.kind()), None)
}

fn unwritable(path: &Path, error: &io::Error) -> CommandFailure {
    failed("usage.file", format!("{} cannot be written: {}", render::path(path), error.kind()), None)
}

fn taken(path: &Path) -> CommandFailure {
    let message = format!("{} already exists", render::path(path));
    failed("usage.file", message, Some("write to another file with -o FILE, or to standard output with -o -"))
}

fn broken(why: &str) -> CommandFailure {
    failed("file.cut-short", format!("the download failed: {why}"), Some("try again"))
}
