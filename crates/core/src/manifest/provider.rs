//! Providers of a tool, as written in a manifest.

use super::AuthHints;
use crate::names::ServerName;
use crate::secret::SecretText;
use crate::skill::Skill;
use std::sync::Arc;
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
    /// Credentials it needs; if it declares none, those of the tool may apply, see [`ProviderSpec::credentials`].
    pub auth: Option<AuthHints>,
    /// Maps the tool's arguments to the provider's.
    pub arguments: Option<Mapping>,
    /// Maps the provider's result to the tool's.
    pub result: Option<Mapping>,
}

impl ProviderSpec {
    /// The credentials that decide whether it can serve: its own, or else those of the tool. A tool of a server and a
    /// built-in tool have their credentials where they run.
    pub fn credentials<'a>(&'a self, tool: Option<&'a AuthHints>) -> Option<&'a AuthHints> {
        if let Some(own) = self.auth.as_ref().filter(|auth| !auth.envs.is_empty()) {
            return Some(own);
        }
        match self.kind {
            ProviderKind::Mcp { .. } | ProviderKind::Builtin(_) | ProviderKind::Skill(_) => None,
            ProviderKind::Http(_) | ProviderKind::OpenAi { .. } | ProviderKind::Unknown(_) => tool,
        }
    }
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
    /// A skill, whose steps the gateway runs.
    Skill(Arc<Skill>),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn credentials_of_the_tool_apply_to_services_without_their_own() {
        let tool = AuthHints::read(&json!({ "required": true, "envs": ["A"] }));
        let own = AuthHints::read(&json!({ "required": true, "envs": ["B"] }));
        let mcp = || ProviderKind::Mcp { server: "s".parse().expect("a name"), tool: "t".into() };
        let model = || ProviderKind::OpenAi { model: None, prompt: None };
        let cases = [
            (mcp(), None, None),
            (ProviderKind::Builtin("demo.echo".into()), None, None),
            (model(), None, Some("A")),
            (model(), Some(AuthHints::default()), Some("A")),
            (model(), Some(own.clone()), Some("B")),
            (mcp(), Some(own), Some("B")),
        ];
        for (kind, auth, expected) in cases {
            let spec = ProviderSpec {
                id: "p".into(),
                kind,
                priority: 0,
                health_check_interval: Duration::ZERO,
                auth,
                arguments: None,
                result: None,
            };
            let needed = spec.credentials(Some(&tool)).map(|auth| auth.envs[0].name.as_str());
            assert_eq!(needed, expected, "{spec:?}");
        }
    }
}
