//! Signed requests of other systems that start jobs.

use super::extract::{self, JsonBody, NoQuery, PathParam, run_to_completion};
use super::jobs::JobRunBody;
use super::problem::ProblemDocument;
use axum::Json;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use std::sync::Arc;
use toolbooth_engine::Jobs;
use utoipa::ToSchema;

const RUN: &str = "send {\"arguments\": {}}, or an empty body";

/// A run that an external request started.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExternalRunView {
    /// The id of the run.
    run: String,
    status: &'static str,
}

/// Starts a job that accepts external requests.
///
/// The header `Toolbooth-Signature: t=SECONDS,v1=HEX` holds the HMAC-SHA256 of the seconds, a dot and the body, with the
/// job's key. A signature is valid for five minutes and works once.
#[utoipa::path(
    post,
    path = "/job-requests/{id}",
    params(
        ("id" = String, Path, description = "The address of the job; `GET /jobs/{name}?include=webhook` shows it."),
        ("toolbooth-signature" = Option<String>, Header, description = "The signature of the body."),
    ),
    request_body(content = JobRunBody, description = "Optional."),
    responses(
        (status = 202, description = "The run, which has started.", body = ExternalRunView),
        (status = 401, description = "`job.bad-signature`: the address, the signature or its time is wrong."),
        (status = 409, description = "`job.bad-transition`, `job.running` or `job.not-ready`."),
    )
)]
pub async fn start(
    State(jobs): State<Arc<Jobs>>,
    PathParam(id): PathParam<String>,
    _: NoQuery,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<ExternalRunView>), ProblemDocument> {
    let signed = headers.get("toolbooth-signature").and_then(|value| value.to_str().ok());
    let signed = signed.unwrap_or_default().to_owned();
    let JobRunBody { arguments } = extract::body(&body, RUN)?;
    let work = async move { jobs.run_external(&id, &signed, &body, arguments.unwrap_or_default()).await };
    let run = run_to_completion(work).await?;
    Ok((StatusCode::ACCEPTED, Json(ExternalRunView { run: run.id.to_string(), status: run.state.as_str() })))
}
