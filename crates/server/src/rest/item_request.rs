//! Requests that act on one item, such as `POST /approvals/{id}/approve`.

use super::RestState;
use super::auth::RestCaller;
use super::extract::{JsonBody, NoQuery, PathParam};
use super::problem::ProblemDocument;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use std::sync::Arc;
use toolbooth_core::caller::Caller;

/// Extracts a request that acts on one item. It has no query; its body is JSON or empty.
pub struct ItemRequest {
    /// The caller.
    pub caller: Arc<Caller>,
    /// The id in the path, as sent.
    pub id: String,
    /// The body, as sent.
    pub body: Bytes,
}

impl FromRequest<RestState> for ItemRequest {
    type Rejection = ProblemDocument;

    async fn from_request(request: Request, rest: &RestState) -> Result<Self, ProblemDocument> {
        let (mut parts, body) = request.into_parts();
        let RestCaller(caller) = RestCaller::from_request_parts(&mut parts, rest).await?;
        let PathParam(id) = PathParam::from_request_parts(&mut parts, rest).await?;
        NoQuery::from_request_parts(&mut parts, rest).await?;
        let JsonBody(body) = JsonBody::from_request(Request::from_parts(parts, body), rest).await?;
        Ok(Self { caller, id, body })
    }
}
