//! `POST /files`: a file as the request body or in a form.

use super::super::RestState;
use super::super::auth::RestCaller;
use super::super::extract::{self, QueryParams};
use super::super::problem::ProblemDocument;
use super::form::{FormEntry, FormError, UploadForm};
use super::{FileView, problem, view};
use crate::pace::is_too_slow;
use axum::Json;
use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use serde::Deserialize;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::file::{FileOrigin, FileRow};
use toolbooth_engine::{CallerFiles, FileProblem, NewFile};
use utoipa::{IntoParams, ToSchema};

/// Maximum size of a form in addition to its file.
const FORM_BYTES: u64 = 1 << 20;
/// How much of a rejected upload is read at least; otherwise as much as an accepted one may have.
const DRAIN_BYTES: u64 = 8 << 20;
/// How long a rejected upload is read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Examples of valid uploads.
const EXAMPLE: &str =
    "curl -F file=@report.pdf URL/files, or curl --data-binary @report.pdf 'URL/files?name=report.pdf'";

/// Metadata of an upload. In a form, text fields with these names before the file set the same.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct UploadParams {
    /// The name of the file.
    #[param(example = "report.txt")]
    name: Option<String>,
    /// The session that it belongs to.
    session: Option<String>,
    /// A description of the file.
    description: Option<String>,
    /// The preferred viewer for the file.
    viewer: Option<String>,
}

/// An upload as a form. The text fields must precede the file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the fields of the form, for the OpenAPI document")]
struct FileForm {
    name: Option<String>,
    session: Option<String>,
    description: Option<String>,
    viewer: Option<String>,
    #[schema(format = Binary, content_media_type = "application/octet-stream")]
    file: String,
}

/// Uploads a file, as the request body or in a form.
#[utoipa::path(
    post,
    path = "/files",
    params(UploadParams),
    request_body(
        content((Vec<u8> = "application/octet-stream"), (FileForm = "multipart/form-data")),
        description = "The content of the file.",
    ),
    responses(
        (status = 201, description = "The file.", body = FileView, headers(("Location" = String, description = "The path of the file."))),
        (status = 400, description = "`file.bad-name`, or the form is not valid."),
        (status = 409, description = "`file.too-many`."),
        (status = 413, description = "`file.too-large`."),
        (status = 507, description = "`blobs.full`."),
    )
)]
pub async fn put(
    State(rest): State<RestState>,
    RestCaller(caller): RestCaller,
    QueryParams(params): QueryParams<UploadParams>,
    request: Request<Body>,
) -> Result<Response, ProblemDocument> {
    let (head, body) = request.into_parts();
    let files = rest.engine().files();
    let limit_bytes = files.terms().max_bytes;
    let declared =
        head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    // A form is a little longer than its file. The actual size is checked while reading.
    if declared.is_some_and(|declared: u64| declared > limit_bytes.saturating_add(FORM_BYTES)) {
        return Err(problem(FileProblem::TooLarge { limit_bytes }));
    }
    let source = UploadBody { body: Arc::new(Mutex::new(body.into_data_stream())), stalled: Arc::default() };
    let taken = take(files, caller, params, &head.headers, &source).await;
    let file = match taken {
        Ok(file) => file,
        Err(_) if source.stalled.load(Ordering::Relaxed) => return Err(extract::too_slow().into()),
        Err(refused) => {
            tokio::spawn(drain(source, limit_bytes.max(DRAIN_BYTES)));
            let mut response = ProblemDocument::from(refused).into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return Ok(response);
        }
    };
    let location = HeaderValue::from_str(&format!("/files/{}", file.id));
    let mut response = (StatusCode::CREATED, Json(view(file))).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn take(
    files: &CallerFiles,
    caller: Arc<Caller>,
    params: UploadParams,
    headers: &HeaderMap,
    source: &UploadBody,
) -> Result<FileRow, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if is_form(kind) {
        let form = UploadForm::new(kind, source.chunks()).map_err(bad_form)?;
        return from_form(files, caller, params, form).await;
    }
    let UploadParams { name, session, description, viewer } = params;
    let caller = extract::in_session(caller, session.as_deref())?;
    let name = name.or_else(|| disposition_name(headers)).unwrap_or_default();
    // `curl --data-binary` sends this type with every body, so it says nothing about the file.
    let mime = Some(kind).filter(|kind| !kind.starts_with("application/x-www-form-urlencoded"));
    let mime = mime.map(str::to_owned);
    let new = NewFile { name, mime, origin: FileOrigin::Upload, description, viewer };
    files.put(&caller, new, source.chunks()).await.map_err(|fault| Problem::of(&fault))
}

async fn from_form(
    files: &CallerFiles,
    caller: Arc<Caller>,
    mut params: UploadParams,
    mut form: UploadForm,
) -> Result<FileRow, Problem> {
    let mut kept: Option<(FileRow, Arc<Caller>)> = None;
    let outcome = loop {
        match form.next().await {
            Err(fault) => break Err(bad_form(fault)),
            Ok(None) => break Ok(()),
            Ok(Some(FormEntry::Text(field, text))) => match field.as_str() {
                "name" => params.name = Some(text),
                "session" => params.session = Some(text),
                "description" => params.description = Some(text),
                "viewer" => params.viewer = Some(text),
                other => {
                    let known = "the form has an unknown field; expected `file`, `name`, `session`, `description` or `viewer`";
                    tracing::debug!(field = other, "{known}");
                    break Err(extract::bad_body(known.into(), EXAMPLE));
                }
            },
            Ok(Some(FormEntry::File(_))) if kept.is_some() => {
                break Err(extract::bad_body("the form has more than one file".into(), EXAMPLE));
            }
            Ok(Some(FormEntry::File(field))) => {
                let UploadParams { name, session, description, viewer } = std::mem::take(&mut params);
                let caller = match extract::in_session(caller.clone(), session.as_deref()) {
                    Ok(caller) => caller,
                    Err(problem) => break Err(problem),
                };
                let name = name.or_else(|| field.file_name().map(str::to_owned)).unwrap_or_default();
                let mime = field.content_type().map(ToString::to_string);
                let new = NewFile { name, mime, origin: FileOrigin::Upload, description, viewer };
                match files.put(&caller, new, *field).await {
                    Ok(file) => kept = Some((file, caller)),
                    Err(fault) => break Err(Problem::of(&fault)),
                }
            }
        }
    };
    match (outcome, kept) {
        (Ok(()), Some((file, _))) => Ok(file),
        (Ok(()), None) => Err(extract::bad_body("the form has no file".into(), EXAMPLE)),
        (Err(problem), Some((file, caller))) => {
            // The form is invalid after the file, so the file is removed: a form is accepted as a whole or not at all.
            let _ = files.remove(&caller, file.id).await;
            Err(problem)
        }
        (Err(problem), None) => Err(problem),
    }
}

fn is_form(kind: &str) -> bool {
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("multipart/form-data")
}

fn bad_form(fault: FormError) -> Problem {
    extract::bad_body(fault.to_string(), EXAMPLE)
}

/// The file name in `Content-Disposition`, for uploads as the request body.
fn disposition_name(headers: &HeaderMap) -> Option<String> {
    let disposition = headers.get(header::CONTENT_DISPOSITION)?.to_str().ok()?;
    let (_, name) = disposition.split_once("filename=")?;
    let name = match name.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => name.split(';').next()?,
    };
    Some(name.trim().to_owned())
}

/// A request body that is read by the upload and, if that fails, by the drain.
struct UploadBody {
    body: Arc<Mutex<BodyDataStream>>,
    /// Whether the client sent it too slowly.
    stalled: Arc<AtomicBool>,
}

impl UploadBody {
    /// The chunks of the body. The connection enforces its deadlines.
    fn chunks(&self) -> BoxStream<'static, io::Result<Bytes>> {
        let next = async |(body, stalled): (Arc<Mutex<BodyDataStream>>, Arc<AtomicBool>)| {
            let chunk = poll_fn(|cx| lock(&body).poll_next_unpin(cx)).await?;
            if chunk.as_ref().is_err_and(|error| is_too_slow(error)) {
                stalled.store(true, Ordering::Relaxed);
            }
            Some((chunk.map_err(io::Error::other), (body, stalled)))
        };
        stream::unfold((self.body.clone(), self.stalled.clone()), next).boxed()
    }
}

fn lock(body: &Mutex<BodyDataStream>) -> MutexGuard<'_, BodyDataStream> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a limited rest of a rejected upload, so that its client gets to read the response: closing the connection
/// while the client still writes would discard it.
async fn drain(source: UploadBody, bytes: u64) {
    let rest = async {
        let mut left = bytes;
        while let Some(Ok(chunk)) = poll_fn(|cx| lock(&source.body).poll_next_unpin(cx)).await {
            left = left.saturating_sub(chunk.len() as u64);
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
}
