//! Faults as RFC 9457 problem documents.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri, header};
use serde_json::json;
use toolbooth_core::fault::{Blame, Problem};

/// A fault on its way out.
pub struct ProblemDocument(pub StatusCode, pub Problem);

impl From<Problem> for ProblemDocument {
    fn from(problem: Problem) -> Self {
        let status = match (problem.code, problem.blame) {
            (
                "call.unknown-tool"
                | "server.unknown"
                | "token.unknown"
                | "tool.unknown"
                | "request.not-found"
                | "approval.unknown"
                | "plan.unknown"
                | "plan.no-such-step"
                | "consent.unknown"
                | "file.unknown"
                | "dead-letter.unknown",
                _,
            ) => StatusCode::NOT_FOUND,
            ("call.refused" | "call.compliance" | "persona.unknown" | "auth.admin-only", _) => {
                StatusCode::FORBIDDEN
            }
            ("call.rejected" | "call.approval-timeout" | "approval.not-yours" | "call.rights-gone", _) => {
                StatusCode::FORBIDDEN
            }
            ("call.already-decided" | "call.answer-too-late" | "call.already-run", _) => StatusCode::CONFLICT,
            (
                "dead-letter.retrying"
                | "dead-letter.over"
                | "dead-letter.may-have-happened"
                | "dead-letter.no-copy",
                _,
            ) => StatusCode::CONFLICT,
            ("file.too-large", _) => StatusCode::PAYLOAD_TOO_LARGE,
            ("file.too-many", _) => StatusCode::CONFLICT,
            ("events.too-many-streams", _) => StatusCode::TOO_MANY_REQUESTS,
            ("blobs.full", _) => StatusCode::INSUFFICIENT_STORAGE,
            ("call.timeout", _) => StatusCode::GATEWAY_TIMEOUT,
            ("call.over-rate", _) => StatusCode::TOO_MANY_REQUESTS,
            ("call.no-healthy-provider" | "call.queue-full", _) => StatusCode::SERVICE_UNAVAILABLE,
            (_, Blame::Caller) => StatusCode::BAD_REQUEST,
            (_, Blame::Upstream) => StatusCode::BAD_GATEWAY,
            (_, Blame::Gateway) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, problem)
    }
}

impl IntoResponse for ProblemDocument {
    fn into_response(self) -> Response {
        let Self(status, problem) = self;
        let document = json!({
            "type": format!("urn:toolbooth:fault:{}", problem.code),
            "title": problem.message,
            "status": status.as_u16(),
            "code": problem.code,
            "blame": problem.blame.as_str(),
            "hint": problem.hint,
        });
        (status, [(header::CONTENT_TYPE, "application/problem+json")], document.to_string()).into_response()
    }
}

/// A path that leads nowhere.
pub async fn not_found(uri: Uri) -> ProblemDocument {
    Problem {
        code: "request.not-found",
        blame: Blame::Caller,
        message: format!("there is nothing at {}", uri.path()),
        hint: Some("the MCP endpoint is /mcp; /servers and /tools answer too".into()),
    }
    .into()
}

/// A server nobody knows.
pub fn unknown_server(name: &str) -> ProblemDocument {
    Problem {
        code: "server.unknown",
        blame: Blame::Caller,
        message: format!("there is no server `{name}`"),
        hint: Some("`toolbooth servers` lists them".into()),
    }
    .into()
}
