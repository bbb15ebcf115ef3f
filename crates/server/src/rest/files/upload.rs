//! `POST /files`: a file as the body itself, or in a form.

use super::super::Rest;
use super::super::asked::{self, Asked};
use super::super::problem::ProblemDocument;
use super::super::who::Who;
use super::form::{Entry, Form, FormFault};
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
use toolbooth_engine::{FileProblem, Files, NewFile};
use utoipa::{IntoParams, ToSchema};

/// How much longer than its file a form may be.
const FORM_BYTES: u64 = 1 << 20;
/// How much of a refused upload is still taken, at least; else as much as would have been taken of a right one.
const DRAIN_BYTES: u64 = 8 << 20;
/// How long it is taken.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);
/// What a right upload looks like.
const EXAMPLE: &str =
    "curl -F file=@report.pdf URL/files, or curl --data-binary @report.pdf 'URL/files?name=report.pdf'";

/// What may be said about an upload in its address; in a form, fields of these names before the file say it too.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The file's name.
    #[param(example = "report.txt")]
    name: Option<String>,
    /// The conversation that it belongs to.
    session: Option<String>,
    /// What it is.
    description: Option<String>,
    /// What shows it best.
    viewer: Option<String>,
}

/// An upload as a form. Its text fields come before its file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "what a form may hold, for the document")]
struct FileForm {
    name: Option<String>,
    session: Option<String>,
    description: Option<String>,
    viewer: Option<String>,
    #[schema(format = Binary, content_media_type = "application/octet-stream")]
    file: String,
}

/// Uploads a file, as the body itself or in a form.
#[utoipa::path(
    post,
    path = "/files",
    params(About),
    request_body(
        content((Vec<u8> = "application/octet-stream"), (FileForm = "multipart/form-data")),
        description = "The content.",
    ),
    responses(
        (status = 201, description = "The file.", body = FileView, headers(("Location" = String, description = "Where it is."))),
        (status = 400, description = "`file.bad-name`, or a form that cannot be read."),
        (status = 409, description = "`file.too-many`."),
        (status = 413, description = "`file.too-large`."),
        (status = 507, description = "`blobs.full`."),
    )
)]
pub async fn put(
    State(rest): State<Rest>,
    Who(caller): Who,
    Asked(about): Asked<About>,
    request: Request<Body>,
) -> Result<Response, ProblemDocument> {
    let (head, body) = request.into_parts();
    let files = rest.door.engine.files();
    let limit_bytes = files.terms().max_bytes;
    let declared =
        head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    // A form is a little longer than its file; what it is in truth shows as it comes.
    if declared.is_some_and(|declared: u64| declared > limit_bytes.saturating_add(FORM_BYTES)) {
        return Err(problem(FileProblem::TooLarge { limit_bytes }));
    }
    let source = Source { body: Arc::new(Mutex::new(body.into_data_stream())), stalled: Arc::default() };
    let taken = take(files, caller, about, &head.headers, &source).await;
    let file = match taken {
        Ok(file) => file,
        Err(_) if source.stalled.load(Ordering::Relaxed) => return Err(asked::too_slow().into()),
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
    files: &Files,
    caller: Arc<Caller>,
    about: About,
    headers: &HeaderMap,
    source: &Source,
) -> Result<FileRow, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if is_form(kind) {
        let form = Form::new(kind, source.pieces()).map_err(bad_form)?;
        return from_form(files, caller, about, form).await;
    }
    let About { name, session, description, viewer } = about;
    let caller = asked::in_session(caller, session.as_deref())?;
    let name = name.or_else(|| said_name(headers)).unwrap_or_default();
    // What `curl --data-binary` says of every body is no kind of file.
    let mime = Some(kind).filter(|kind| !kind.starts_with("application/x-www-form-urlencoded"));
    let mime = mime.map(str::to_owned);
    let new = NewFile { name, mime, origin: FileOrigin::Upload, description, viewer };
    files.put(&caller, new, source.pieces()).await.map_err(|fault| Problem::of(&fault))
}

async fn from_form(
    files: &Files,
    caller: Arc<Caller>,
    mut about: About,
    mut form: Form,
) -> Result<FileRow, Problem> {
    let mut kept: Option<(FileRow, Arc<Caller>)> = None;
    let outcome = loop {
        match form.next().await {
            Err(fault) => break Err(bad_form(fault)),
            Ok(None) => break Ok(()),
            Ok(Some(Entry::Text(field, text))) => match field.as_str() {
                "name" => about.name = Some(text),
                "session" => about.session = Some(text),
                "description" => about.description = Some(text),
                "viewer" => about.viewer = Some(text),
                other => {
                    let known = "the form has a field that is none of `file`, `name`, `session`, `description`, `viewer`";
                    tracing::debug!(field = other, "{known}");
                    break Err(asked::bad_body(known.into(), EXAMPLE));
                }
            },
            Ok(Some(Entry::File(_))) if kept.is_some() => {
                break Err(asked::bad_body("the form has more than one file".into(), EXAMPLE));
            }
            Ok(Some(Entry::File(field))) => {
                let About { name, session, description, viewer } = std::mem::take(&mut about);
                let caller = match asked::in_session(caller.clone(), session.as_deref()) {
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
        (Ok(()), None) => Err(asked::bad_body("the form has no file".into(), EXAMPLE)),
        (Err(problem), Some((file, caller))) => {
            // What came after the file takes it back: a form is kept whole or not at all.
            let _ = files.remove(&caller, file.id).await;
            Err(problem)
        }
        (Err(problem), None) => Err(problem),
    }
}

fn is_form(kind: &str) -> bool {
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("multipart/form-data")
}

fn bad_form(fault: FormFault) -> Problem {
    asked::bad_body(fault.to_string(), EXAMPLE)
}

/// The name in a `Content-Disposition`, for bodies that are the file itself.
fn said_name(headers: &HeaderMap) -> Option<String> {
    let said = headers.get(header::CONTENT_DISPOSITION)?.to_str().ok()?;
    let (_, name) = said.split_once("filename=")?;
    let name = match name.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => name.split(';').next()?,
    };
    Some(name.trim().to_owned())
}

/// A body that two may read: whoever takes the file in, and whoever sees to the rest when that fails.
struct Source {
    body: Arc<Mutex<BodyDataStream>>,
    /// Whether it came too slowly.
    stalled: Arc<AtomicBool>,
}

impl Source {
    /// What comes. The connection sees to it that it comes in time.
    fn pieces(&self) -> BoxStream<'static, io::Result<Bytes>> {
        let next = async |(body, stalled): (Arc<Mutex<BodyDataStream>>, Arc<AtomicBool>)| {
            let piece = poll_fn(|cx| lock(&body).poll_next_unpin(cx)).await?;
            if piece.as_ref().is_err_and(|error| is_too_slow(error)) {
                stalled.store(true, Ordering::Relaxed);
            }
            Some((piece.map_err(io::Error::other), (body, stalled)))
        };
        stream::unfold((self.body.clone(), self.stalled.clone()), next).boxed()
    }
}

fn lock(body: &Mutex<BodyDataStream>) -> MutexGuard<'_, BodyDataStream> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a bounded rest of a refused upload, so that its sender gets to read the refusal: closing a
/// connection on somebody who still writes would throw it away.
async fn drain(source: Source, bytes: u64) {
    let rest = async {
        let mut left = bytes;
        while let Some(Ok(piece)) = poll_fn(|cx| lock(&source.body).poll_next_unpin(cx)).await {
            left = left.saturating_sub(piece.len() as u64);
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_PATIENCE, rest).await;
}
