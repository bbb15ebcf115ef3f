//! What serves a tool: one of its providers, as written.

use crate::names::ServerName;
use crate::secret::SecretText;
use std::time::Duration;

/// One provider of a tool. Its identity is its place in the list, so one kind may stand twice.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSpec {
    /// Tells it from the tool's others, and stays the same while the entry does: `mcp:github`, `http:1`.
    pub id: String,
    /// What it is.
    pub kind: ProviderKind,
    /// Lower goes first.
    pub priority: i64,
    /// How often it is looked at when nobody calls; zero means never.
    pub health_check_interval: Duration,
    /// What it needs besides what the tool needs.
    pub auth: Option<super::AuthHints>,
    /// From the tool's arguments to the provider's.
    pub arguments: Option<Mapping>,
    /// From the provider's result to the tool's.
    pub result: Option<Mapping>,
}

/// What a provider is.
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
        /// The model; the configured one where absent.
        model: Option<String>,
        /// What it is told before the call.
        prompt: Option<String>,
    },
    /// A kind that this gateway does not know; it serves nothing and says so.
    Unknown(String),
}

/// A request to an HTTP service, as a template. `{name}` is an argument of the call: one value, one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRequest {
    /// How it asks.
    pub method: HttpMethod,
    /// The address, with `{name}` in path segments and in the query.
    pub url: SecretText,
    /// Headers of the operator's; they may hold secrets.
    pub headers: Vec<(String, SecretText)>,
    /// Parameters put into the query; absent with GET means every argument that is not used elsewhere.
    pub query: Option<Vec<(String, String)>>,
    /// What is sent; absent means the arguments as JSON where the method takes a body.
    pub body: Option<Mapping>,
}

/// How an HTTP provider asks.
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

/// How one JSON value becomes another: a value in which a text of the form `{path}` (or `$path`) alone stands for
/// what is found there, with its type, and a `{path}` within a text for its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping(pub serde_json::Value);
