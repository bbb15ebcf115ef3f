//! Why an HTTP request got no response.

/// Why a request got no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendError {
    /// The request was not sent.
    NotSent(String),
    /// The server may have received it.
    Broken(String),
}
