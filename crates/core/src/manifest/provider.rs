//! Providers of a tool, as written in a manifest.

use crate::names::ServerName;
use crate::secret::SecretText;
use std::time::Duration;

/// One provider of a tool. Its identity is its position in the list, so one kind may occur twice.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSpec {
    /// Distinguishes it from the tool's other providers and is stable while the entry is: `mcp:github`, `http:1`.
    pub id: String,
    /// Its kind.
    pub kind: ProviderKind,
    /// Lower values are tried first.
    pub priority: i64,
    /// How often it is checked while idle; zero means never.
    pub health_check_interval: Duration,
    /// Credentials it needs besides those of the tool.
    pub auth: Option<super::AuthHints>,
    /// Maps the tool's arguments to the provider's.
    pub arguments: Option<Mapping>,
    /// Maps the provider's result to the tool's.
    pub result: Option<Mapping>,
}

/// The kind of a provider.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderKind {
    /// A tool of a configured server.
    Mcp {
        /// The server.
        server: ServerName,
        /// Its own name for the tool.
        tool: String,
    },
    /// A request to an HTTP service.
    Http(Box<HttpRequest>),
    /// A tool that is built into the gateway, by name.
    Builtin(String),
    /// A language model that answers in the tool's place.
    OpenAi {
        /// The model; absent means the configured one.
        model: Option<String>,
        /// The system prompt.
        prompt: Option<String>,
    },
    /// An unknown kind; it never serves a call and reports an error.
    Unknown(String),
}

/// The template of a request to an HTTP service. `{name}` is an argument of the call: one value, one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRequest {
    /// The method.
    pub method: HttpMethod,
    /// The URL, with `{name}` in path segments and in the query.
    pub url: SecretText,
    /// Headers set by the operator; they may contain secrets.
    pub headers: Vec<(String, SecretText)>,
    /// Query parameters; absent with GET means every argument that is not used elsewhere.
    pub query: Option<Vec<(String, String)>>,
    /// The body; absent means the arguments as JSON if the method has a body.
    pub body: Option<Mapping>,
    /// Whether the host may resolve to private networks or this machine.
    pub allow_private: bool,
}

/// The method of an HTTP provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the methods are the documentation")]
pub enum HttpMethod {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

/// A template that maps one JSON value to another. A string that is only `{path}` (or `$path`) is replaced by the value
/// at that path, with its type; a `{path}` within a longer string by its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping(pub serde_json::Value);
