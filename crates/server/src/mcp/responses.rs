//! HTTP responses of the MCP endpoint.

use crate::body::ResponseBody;
use crate::event_stream;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use std::collections::VecDeque;
use std::io;
use toolbooth_wire::Id;
use toolbooth_wire::codes::RpcError;
use toolbooth_wire::envelope::write_error;

pub(super) fn json(status: StatusCode, chunks: VecDeque<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Chunks(chunks));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn failure(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<ResponseBody> {
    json(status, VecDeque::from([write_error(id, error)]))
}

pub(super) fn events(
    stream: impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Response<ResponseBody> {
    event_stream::response(ResponseBody::stream(stream))
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
