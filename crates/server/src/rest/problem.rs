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

/// The statuses of codes for which the blame does not decide.
const STATUSES: &[(StatusCode, &[&str])] = &[
    (StatusCode::UNAUTHORIZED, &["job.bad-signature"]),
    (
        StatusCode::FORBIDDEN,
        &[
            "approval.not-yours",
            "auth.admin-only",
            "call.approval-timeout",
            "call.compliance",
            "call.refused",
            "call.rejected",
            "call.rights-gone",
            "job.not-owner",
            "persona.unknown",
            "servers.local-only",
            "servers.owner-only",
            "trust.local-only",
            "trust.owner-only",
        ],
    ),
    (
        StatusCode::NOT_FOUND,
        &[
            "approval.unknown",
            "call.no-question",
            "call.unknown",
            "call.unknown-tool",
            "consent.unknown",
            "dead-letter.unknown",
            "file.unknown",
            "job.unknown",
            "job.unknown-criterion",
            "job.unknown-run",
            "llm.not-configured",
            "llm.unknown-model",
            "plan.no-such-step",
            "plan.unknown",
            "prompt.unknown",
            "request.not-found",
            "resource.unknown",
            "server.unknown",
            "skill.unknown",
            "stats.unknown-client",
            "task.unknown",
            "token.unknown",
            "tool.not-quarantined",
            "tool.unknown",
        ],
    ),
    (StatusCode::METHOD_NOT_ALLOWED, &["request.bad-method"]),
    (StatusCode::REQUEST_TIMEOUT, &["request.too-slow"]),
    (
        StatusCode::CONFLICT,
        &[
            "call.already-decided",
            "call.already-run",
            "call.answer-too-late",
            "call.cancelled",
            "dead-letter.may-have-happened",
            "dead-letter.no-copy",
            "dead-letter.over",
            "dead-letter.retrying",
            "files.quota",
            "job.bad-transition",
            "job.changed",
            "job.in-manifest",
            "job.no-schedule",
            "job.not-held",
            "job.not-ready",
            "job.running",
            "job.taken",
            "servers.changed",
            "servers.exists",
            "task.bad-transition",
            "task.dependency-open",
            "task.of-run",
            "tool.changed-again",
            "trust.changed",
        ],
    ),
    (StatusCode::PAYLOAD_TOO_LARGE, &["file.too-large", "request.too-large"]),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, &["request.encoded-body", "request.not-json"]),
    (
        StatusCode::TOO_MANY_REQUESTS,
        &[
            "call.over-rate",
            "call.too-many-held",
            "call.too-many-questions",
            "events.too-many-streams",
            "llm.too-many-turns",
            "sampling.over-budget",
            "sampling.too-often",
        ],
    ),
    (
        StatusCode::BAD_GATEWAY,
        &[
            "llm.bad-answer",
            "llm.cut-off",
            "llm.rate-limited",
            "llm.refused",
            "llm.timeout",
            "llm.unreachable",
        ],
    ),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        &[
            "call.deferred",
            "call.no-healthy-provider",
            "call.queue-full",
            "call.rights-unknown",
            "job.busy",
            "request.too-many-connections",
            "store.unreachable",
        ],
    ),
    (StatusCode::GATEWAY_TIMEOUT, &["call.timeout"]),
    (StatusCode::INSUFFICIENT_STORAGE, &["blobs.full"]),
];

impl From<Problem> for ProblemDocument {
    fn from(problem: Problem) -> Self {
        let listed = STATUSES.iter().find(|(_, codes)| codes.contains(&problem.code));
        let status = match (listed, problem.blame) {
            (Some((status, _)), _) => *status,
            (None, Blame::Caller) => StatusCode::BAD_REQUEST,
            (None, Blame::Upstream) => StatusCode::BAD_GATEWAY,
            (None, Blame::Gateway) => StatusCode::INTERNAL_SERVER_ERROR,
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
