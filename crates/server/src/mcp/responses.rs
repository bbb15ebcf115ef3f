//! HTTP responses of the MCP endpoint.

use crate::body::ResponseBody;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use std::collections::VecDeque;
use std::io;
use toolbooth_wire::Id;
use toolbooth_wire::codes::RpcError;
use toolbooth_wire::envelope::write_error;

fn with_type(status: StatusCode, kind: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(super) fn json(status: StatusCode, chunks: VecDeque<Bytes>) -> Response<ResponseBody> {
    with_type(status, "application/json", ResponseBody::Chunks(chunks))
}

pub(super) fn failure(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<ResponseBody> {
    json(status, VecDeque::from([write_error(id, error)]))
}

pub(super) fn events(
    stream: impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Response<ResponseBody> {
    let mut response = with_type(StatusCode::OK, "text/event-stream", ResponseBody::stream(stream));
    let headers = response.headers_mut();
    headers.insert("cache-control", HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Adds `Connection: close` to a response.
pub(super) fn closing(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn plain(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    response
}
