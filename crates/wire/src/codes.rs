//! JSON-RPC error codes, and the error object.

use bytes::BytesMut;
use toolbooth_core::json::{RawJson, write_string};

/// The text was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but not a JSON-RPC message.
pub const INVALID_REQUEST: i64 = -32600;
/// The method is not known.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong; in the modern era also an unknown tool, prompt or resource.
pub const INVALID_PARAMS: i64 = -32602;
/// An internal error.
pub const INTERNAL_ERROR: i64 = -32603;
/// Legacy only: the resource does not exist.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// Legacy only: URL elicitation is needed first.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// Modern: headers and body do not match.
pub const HEADER_MISMATCH: i64 = -32020;
/// Modern: the client did not declare a capability that is needed.
pub const MISSING_CAPABILITY: i64 = -32021;
/// Modern: the protocol version is not supported.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// Toolbooth's own: a server behind the gateway failed. Outside the range that JSON-RPC and MCP reserve.
pub const UPSTREAM_FAILED: i64 = -31000;
/// Toolbooth's own: refused by policy.
pub const REFUSED: i64 = -31001;
/// Toolbooth's own: the call timed out.
pub const TIMED_OUT: i64 = -31002;

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// One of the codes above, or a server's own.
    pub code: i64,
    /// One sentence.
    pub message: String,
    /// Additional data of the sender.
    pub data: Option<RawJson>,
}

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds data to the error.
    pub fn with_data(mut self, data: RawJson) -> Self {
        self.data = Some(data);
        self
    }

    /// Whether only modern servers send this code.
    pub fn is_modern(&self) -> bool {
        matches!(self.code, HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION)
    }

    /// Reads an error object; `None` if it has no code.
    pub fn from_raw(error: &RawJson) -> Option<Self> {
        let code = error.member("code")?.read::<i64>().ok()?;
        let message = error.member("message");
        let message = message.as_ref().and_then(RawJson::string).unwrap_or_default().into_owned();
        Some(Self { code, message, data: error.member("data") })
    }

    /// The error object.
    pub fn to_raw(&self) -> RawJson {
        let mut out = BytesMut::with_capacity(64 + self.message.len());
        self.write(&mut out);
        RawJson::trusted(out.freeze())
    }

    /// Appends the error object.
    pub fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(format!("{{\"code\":{},\"message\":", self.code).as_bytes());
        write_string(out, &self.message);
        if let Some(data) = &self.data {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(data.as_bytes());
        }
        out.extend_from_slice(b"}");
    }
}
