//! Files over REST: uploads, lists, contents, and the temporary URLs for tools.

mod deliver;
mod form;
mod headers;
mod range;
mod upload;

pub use deliver::{__path_content, __path_download, __path_download_named, __path_frame};
pub use deliver::{content, download, download_named, frame};
pub use upload::{__path_put, put};

use super::RestState;
use super::auth::RestCaller;
use super::extract::{self, NoQuery, PathParam, QueryParams};
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_core::file::{FileOrigin, FileRow};
use toolbooth_engine::{Act, CallerFiles, FileProblem, FileQuery, MAX_FILES_PAGE};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// Default number of files per page.
const DEFAULT_PAGE: u32 = 100;

/// A file.
#[derive(Debug, Serialize, ToSchema)]
pub struct FileView {
    id: String,
    name: String,
    version: u32,
    mime: String,
    size_bytes: u64,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// `upload` or `artifact`.
    origin: &'static str,
    /// The call that produced an artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// How the console shows it; absent for files that can only be downloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    viewer: Option<&'static str>,
    created_ms: i64,
}

fn view(file: FileRow) -> FileView {
    let viewer = file.shown_with();
    let FileRow { id, user: _, session, name, version, mime, size_bytes, sha256, origin, .. } = file;
    let kind = origin.as_str();
    let (call, server, tool) = match origin {
        FileOrigin::Upload => (None, None, None),
        FileOrigin::Artifact { call, server, tool } => {
            (Some(call.to_string()), Some(server.to_string()), Some(tool))
        }
    };
    FileView {
        id: id.to_string(),
        name: name.into(),
        version,
        mime,
        size_bytes,
        sha256: extract::hex(&sha256),
        session,
        origin: kind,
        call,
        server,
        tool,
        description: file.description,
        viewer,
        created_ms: file.created_ms,
    }
}

/// A page of files.
#[derive(Debug, Serialize, ToSchema)]
pub struct FileList {
    files: Vec<FileView>,
    /// The value of `before` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Filters for a list of files.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FileListQuery {
    /// Only files of this session.
    session: Option<String>,
    /// Only files with this name.
    name: Option<String>,
    /// The `next` of the previous page.
    before: Option<String>,
    /// Maximum number of files. Values out of range are clamped.
    limit: Option<u32>,
}

/// Lists the caller's files, newest first.
#[utoipa::path(
    get,
    path = "/files",
    params(FileListQuery),
    responses((status = 200, description = "A page of files.", body = FileList))
)]
pub async fn list(
    State(files): State<Arc<CallerFiles>>,
    RestCaller(caller): RestCaller,
    QueryParams(query): QueryParams<FileListQuery>,
) -> Result<Json<FileList>, ProblemDocument> {
    let FileListQuery { session, name, before, limit } = query;
    let before = match before.map(|before| before.parse::<Uuid>()) {
        Some(Err(_)) => {
            return Err(extract::bad_query("`before` must be the `next` of the previous page".into()).into());
        }
        Some(Ok(before)) => Some(before),
        None => None,
    };
    let limit = limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_FILES_PAGE);
    let session = session.or_else(|| caller.session.as_deref().map(str::to_owned));
    let query = FileQuery { session, name, before, limit: Some(limit) };
    let files = files.list(&caller, query).await.map_err(problem)?;
    let full = files.len() == limit as usize;
    let next = files.last().filter(|_| full).map(|file| file.id.to_string());
    Ok(Json(FileList { files: files.into_iter().map(view).collect(), next }))
}

/// Shows the metadata of a file.
#[utoipa::path(
    get,
    path = "/files/{id}",
    params(("id" = String, Path, description = "The id of the file.")),
    responses((status = 200, description = "The file.", body = FileView), (status = 404, description = "`file.unknown`."))
)]
pub async fn show(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<FileView>, ProblemDocument> {
    Ok(Json(view(own_file(&rest, &caller, &id).await?)))
}

/// One of the caller's files.
async fn own_file(rest: &RestState, caller: &Caller, id: &str) -> Result<FileRow, ProblemDocument> {
    let id = id.parse().map_err(|_| problem(FileProblem::Unknown))?;
    rest.engine().files().get(caller, id).await.map_err(problem)
}

/// Deletes a file.
#[utoipa::path(
    delete,
    path = "/files/{id}",
    params(("id" = String, Path, description = "The id of the file.")),
    responses((status = 200, description = "The deleted file.", body = FileView), (status = 404, description = "`file.unknown`."))
)]
pub async fn remove(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    PathParam(id): PathParam<String>,
    _: NoQuery,
) -> Result<Json<FileView>, ProblemDocument> {
    let id: Uuid = id.parse().map_err(|_| problem(FileProblem::Unknown))?;
    let file = rest.engine().files().remove(&caller, id).await.map_err(problem)?;
    let act = Act { user: Some(&file.user), ..Act::new(AuditKind::File, &caller.user, "deleted") };
    let details =
        [("file", &*id.to_string()), ("name", file.name.as_str()), ("sha256", &extract::hex(&file.sha256))];
    rest.engine().audit().record_act(act.with(&details)).await?;
    Ok(Json(view(file)))
}

/// A file fault as a problem document.
fn problem(fault: impl Fault) -> ProblemDocument {
    Problem::of(&fault).into()
}
