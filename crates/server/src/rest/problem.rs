//! Problems as RFC 9457 problem documents.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, Uri, header};
use serde::Serialize;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_wire::RpcError;
use utoipa::ToSchema;

/// The media type of problem documents.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// A problem document (RFC 9457): what went wrong, who can fix it, and what to do next.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProblemView {
    /// A URN with the fault code.
    #[schema(example = "urn:toolbooth:fault:tool.unknown")]
    r#type: String,
    /// One sentence for people.
    title: String,
    /// The HTTP status code.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The fault code. Codes are stable; `toolbooth explain CODE` describes them.
    #[schema(example = "tool.unknown")]
    code: &'static str,
    /// Who can fix it: `caller`, `gateway` or `upstream`.
    blame: &'static str,
    /// What to try next.
    hint: Option<String>,
}

/// A problem with its HTTP status.
pub struct ProblemDocument(pub StatusCode, pub Problem);

impl From<Problem> for ProblemDocument {
    fn from(problem: Problem) -> Self {
        let status = match (problem.code, problem.blame) {
            (
                "call.unknown-tool"
                | "call.unknown"
                | "call.no-question"
                | "prompt.unknown"
                | "resource.unknown"
                | "server.unknown"
                | "token.unknown"
                | "tool.unknown"
                | "tool.not-quarantined"
                | "request.not-found"
                | "approval.unknown"
                | "plan.unknown"
                | "plan.no-such-step"
                | "skill.unknown"
                | "consent.unknown"
                | "file.unknown"
                | "dead-letter.unknown"
                | "job.unknown"
                | "job.unknown-run"
                | "job.unknown-criterion"
                | "task.unknown"
                | "stats.unknown-client"
                | "llm.not-configured"
                | "llm.unknown-model",
                _,
            ) => StatusCode::NOT_FOUND,
            ("call.refused" | "call.compliance" | "persona.unknown" | "auth.admin-only", _) => {
                StatusCode::FORBIDDEN
            }
            ("trust.local-only" | "trust.owner-only" | "servers.local-only" | "servers.owner-only", _) => {
                StatusCode::FORBIDDEN
            }
            ("trust.changed" | "servers.exists" | "servers.changed", _) => StatusCode::CONFLICT,
            ("call.rejected" | "call.approval-timeout" | "approval.not-yours" | "call.rights-gone", _) => {
                StatusCode::FORBIDDEN
            }
            ("call.already-decided" | "call.answer-too-late" | "call.already-run" | "call.cancelled", _) => {
                StatusCode::CONFLICT
            }
            (
                "dead-letter.retrying"
                | "dead-letter.over"
                | "dead-letter.may-have-happened"
                | "dead-letter.no-copy",
                _,
            ) => StatusCode::CONFLICT,
            (
                "job.taken"
                | "job.bad-transition"
                | "job.changed"
                | "job.no-schedule"
                | "job.in-manifest"
                | "job.running"
                | "job.not-held"
                | "job.not-ready"
                | "task.bad-transition"
                | "task.dependency-open"
                | "task.of-run",
                _,
            ) => StatusCode::CONFLICT,
            ("job.bad-signature", _) => StatusCode::UNAUTHORIZED,
            ("job.not-owner", _) => StatusCode::FORBIDDEN,
            ("job.busy", _) => StatusCode::SERVICE_UNAVAILABLE,
            ("file.too-large" | "request.too-large", _) => StatusCode::PAYLOAD_TOO_LARGE,
            ("request.encoded-body" | "request.not-json", _) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ("request.too-slow", _) => StatusCode::REQUEST_TIMEOUT,
            ("request.too-many-connections", _) => StatusCode::SERVICE_UNAVAILABLE,
            ("request.bad-method", _) => StatusCode::METHOD_NOT_ALLOWED,
            ("files.quota" | "tool.changed-again", _) => StatusCode::CONFLICT,
            ("events.too-many-streams", _) => StatusCode::TOO_MANY_REQUESTS,
            ("llm.too-many-turns" | "sampling.over-budget" | "sampling.too-often", _) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            (
                "llm.bad-answer" | "llm.cut-off" | "llm.rate-limited" | "llm.refused" | "llm.timeout"
                | "llm.unreachable",
                _,
            ) => StatusCode::BAD_GATEWAY,
            ("blobs.full", _) => StatusCode::INSUFFICIENT_STORAGE,
            ("store.unreachable", _) => StatusCode::SERVICE_UNAVAILABLE,
            ("call.timeout", _) => StatusCode::GATEWAY_TIMEOUT,
            ("call.over-rate" | "call.too-many-held" | "call.too-many-questions", _) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            ("call.no-healthy-provider" | "call.queue-full" | "call.deferred" | "call.rights-unknown", _) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            (_, Blame::Caller) => StatusCode::BAD_REQUEST,
            (_, Blame::Upstream) => StatusCode::BAD_GATEWAY,
            (_, Blame::Gateway) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, problem)
    }
}

impl ProblemDocument {
    /// The document.
    pub fn view(self) -> ProblemView {
        let Self(status, problem) = self;
        ProblemView {
            r#type: format!("urn:toolbooth:fault:{}", problem.code),
            title: problem.message,
            status: status.as_u16(),
            code: problem.code,
            blame: problem.blame.as_str(),
            hint: problem.hint,
        }
    }
}

impl IntoResponse for ProblemDocument {
    fn into_response(self) -> Response {
        let status = self.0;
        let document = self.view();
        let text = serde_json::to_string(&document).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response();
        if status == StatusCode::REQUEST_TIMEOUT {
            // The rest of the request is not read.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The response for an unknown path.
pub async fn not_found(uri: Uri) -> ProblemDocument {
    Problem {
        code: "request.not-found",
        blame: Blame::Caller,
        message: format!("{} does not exist", uri.path()),
        hint: Some("the MCP endpoint is /mcp; /docs lists all other endpoints".into()),
    }
    .into()
}

/// The response for a method that the path does not support. The router adds the `Allow` header.
pub async fn bad_method(method: Method, uri: Uri) -> ProblemDocument {
    Problem {
        code: "request.bad-method",
        blame: Blame::Caller,
        message: format!("{} does not support {method}", uri.path()),
        hint: Some("the `Allow` header lists the supported methods; see also /openapi.json".into()),
    }
    .into()
}

/// The error for a server that answered with one.
pub fn server_error(error: &RpcError) -> Problem {
    Problem {
        code: "call.server-error",
        blame: Blame::Upstream,
        message: format!("the server answered with error {}: {}", error.code, error.message),
        hint: None,
    }
}

/// The error for an unknown server.
pub fn unknown_server(name: &str) -> ProblemDocument {
    Problem {
        code: "server.unknown",
        blame: Blame::Caller,
        message: format!("there is no server `{name}`"),
        hint: Some("`toolbooth servers` lists them".into()),
    }
    .into()
}
