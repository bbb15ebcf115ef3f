//! The caller of a request, and what its client declares about itself.

use crate::catalog::Tool;
use crate::compliance::Level;
use crate::json::{RawJson, with_members};
use crate::loaded_tools::LoadedTools;
use crate::persona::Persona;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use crate::names::EVERYONE;

/// Prefix of the operator's user name outside `local` mode. No credential can contain such a name, so a network user
/// with the same name as the account that runs the gateway is a different user.
pub const OPERATOR_PREFIX: &str = "operator:";

/// An authenticated user. It never contains text from a model or a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: Arc<str>,
    /// The groups the user is in.
    pub groups: Groups,
    /// Whether the user administers the gateway.
    pub admin: Admin,
    /// The persona the caller has chosen, if any.
    pub persona: Option<Arc<Persona>>,
    /// The operator's rules, if any of them hides a tool from any caller.
    pub hiding_rules: Option<Arc<dyn HidingRules>>,
    /// The compliance level of the data the caller handles, if set.
    pub compliance_level: Option<Arc<Level>>,
    /// The client session of the call, if any.
    pub session: Option<Arc<str>>,
    /// The folder that the client works in, if it is a client of the gateway's own user and said so.
    pub folder: Option<Arc<str>>,
    /// Whether the caller owns the gateway or is a guest; decides which processes it shares.
    pub kind: CallerKind,
    /// The kind of credential that identified the caller.
    pub identified_by: IdentifiedBy,
    /// Headers of the request that are forwarded to servers.
    pub forwarded: ForwardedHeaders,
}

/// Rules of the operator that hide tools from callers, whatever the arguments of a call.
pub trait HidingRules: fmt::Debug + Send + Sync {
    /// Whether a rule hides this tool from this caller.
    fn hides(&self, caller: &Caller, tool: &Tool) -> bool;

    /// Which of the rules apply to this caller. Callers with different signatures see different lists.
    fn signature(&self, caller: &Caller) -> String;
}

impl PartialEq for dyn HidingRules {
    /// Compares by identity, because patterns cannot be compared by what they match.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self, other)
    }
}

impl Eq for dyn HidingRules {}

/// Request headers that a server's `forward_headers` names. They do not identify the caller, so they are ignored
/// when callers are compared.
#[derive(Clone, Default)]
pub struct ForwardedHeaders(Option<Arc<[(String, String)]>>);

impl ForwardedHeaders {
    /// Wraps headers whose names are in lower case.
    pub fn of(headers: Vec<(String, String)>) -> Self {
        Self(Some(headers.into()))
    }

    /// The value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        let headers = self.0.as_deref()?;
        headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl PartialEq for ForwardedHeaders {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ForwardedHeaders {}

impl fmt::Debug for ForwardedHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForwardedHeaders(..)")
    }
}

/// The kind of credential that identified a caller. A call that runs later looks up its rights by it. Not secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IdentifiedBy {
    /// A name asserted by a trusted proxy, the local socket or the machine.
    #[default]
    Name,
    /// One of the gateway's own tokens, by its id.
    Token(Arc<str>),
    /// A signed token from an identity provider.
    SignedToken,
    /// The control socket, outside `local` mode: the kernel reports that the peer runs as the gateway's user or as
    /// root.
    Operator,
    /// A stored value that only another version of the gateway understands. It grants no rights.
    Other(Arc<str>),
    /// Any credential of the user, for queries about a user rather than a call. Never stored.
    Any,
}

impl fmt::Display for IdentifiedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("name"),
            Self::Token(id) => write!(f, "token:{id}"),
            Self::SignedToken => f.write_str("signed_token"),
            Self::Operator => f.write_str("operator"),
            Self::Other(text) => f.write_str(text),
            Self::Any => f.write_str("any"),
        }
    }
}

/// Parses a stored value. Unknown text does not make the row unreadable: it grants no rights.
impl FromStr for IdentifiedBy {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match (text, text.split_once(':')) {
            (_, Some(("token", id))) => Self::Token(id.into()),
            ("name", _) => Self::Name,
            ("signed_token", _) => Self::SignedToken,
            ("operator", _) => Self::Operator,
            // `any` is never stored, so it is not parsed either.
            _ => Self::Other(text.into()),
        })
    }
}

/// Whether a caller owns the gateway or is a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    /// The owner of a gateway in `local` mode, or the operator on its machine. Uses the gateway's own connections.
    Owner,
    /// Any other caller.
    Guest,
}

/// Whether a caller administers the gateway (tokens, reloads, servers, logs). It adds no tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admin {
    /// The caller is an administrator.
    Yes,
    /// The caller is not an administrator.
    No,
}

/// The groups of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Groups {
    /// Every group. For the owner of a local gateway.
    All,
    /// These groups, besides `users`.
    Named(Arc<BTreeSet<String>>),
}

impl Groups {
    /// Whether the caller is in `group`. Names are compared exactly.
    pub fn contains(&self, group: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => group == EVERYONE || names.contains(group),
        }
    }
}

impl Caller {
    /// The owner of a gateway in `local` mode.
    pub fn owner(user: impl Into<Arc<str>>) -> Self {
        Self {
            user: user.into(),
            groups: Groups::All,
            admin: Admin::Yes,
            persona: None,
            hiding_rules: None,
            compliance_level: None,
            session: None,
            folder: None,
            kind: CallerKind::Owner,
            identified_by: IdentifiedBy::Name,
            forwarded: ForwardedHeaders::default(),
        }
    }

    /// The operator on the machine, outside `local` mode: has the rights of an owner, under a name that no network user
    /// can have.
    pub fn operator(account: &str) -> Self {
        Self { identified_by: IdentifiedBy::Operator, ..Self::owner(format!("{OPERATOR_PREFIX}{account}")) }
    }

    /// A guest in these groups, without other rights.
    pub fn guest(user: impl Into<Arc<str>>, groups: impl IntoIterator<Item = String>) -> Self {
        Self {
            groups: Groups::Named(Arc::new(groups.into_iter().collect())),
            admin: Admin::No,
            kind: CallerKind::Guest,
            ..Self::owner(user)
        }
    }

    /// Whether this is the owner of a gateway in `local` mode, who is its only user.
    pub fn is_local_owner(&self) -> bool {
        self.kind == CallerKind::Owner && self.identified_by == IdentifiedBy::Name
    }

    /// Whether a user name in the configuration refers to this caller. The account name also refers to the operator on
    /// the machine, so rules for that name apply to them as well.
    pub fn is_named(&self, name: &str) -> bool {
        *self.user == *name || self.user.strip_prefix(OPERATOR_PREFIX) == Some(name)
    }

    /// The name of the chosen persona.
    pub fn persona_name(&self) -> Option<&str> {
        self.persona.as_deref().map(Persona::name)
    }
}

/// The name of a client that did not send one.
const UNNAMED: &str = "unknown";

/// Facts that a client declares about itself. Trusted for its capabilities, never for its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFacts {
    /// Its `clientInfo`, as sent.
    pub info: Option<RawJson>,
    /// Its capabilities, as an object.
    pub capabilities: RawJson,
    /// The lowest severity of log messages it wants, if any.
    pub log_level: Option<String>,
    /// The tools its session has loaded. None without a session, because such lists must not depend on earlier
    /// requests.
    pub loaded: Option<Arc<LoadedTools>>,
    /// When it is asked on a connection whose questions name no call.
    pub asked_when: AskedWhen,
}

/// The extension by which a server may continue a call as a task.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// When a client is asked on a connection that does not identify the call of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskedWhen {
    /// In its turn: its calls run one at a time on a connection, or on a spare one.
    #[default]
    InTurn,
    /// If no other call is in flight there. Its calls take no turn until the server has asked something.
    Alone,
}

impl Default for ClientFacts {
    fn default() -> Self {
        Self {
            info: None,
            capabilities: RawJson::empty_object(),
            log_level: None,
            loaded: None,
            asked_when: AskedWhen::InTurn,
        }
    }
}

impl ClientFacts {
    /// A client that has disconnected and of which only [`Self::name`] is known. Rules about its name apply; it cannot be
    /// asked.
    pub fn remembered(name: &str) -> Self {
        if name.is_empty() || name == UNNAMED {
            return Self::default().with_followed_tasks();
        }
        // The info is sent to servers, and the protocol requires a version.
        let info = RawJson::from_value(&serde_json::json!({ "name": name, "version": "unknown" }));
        Self { info: Some(info), ..Self::default() }.with_followed_tasks()
    }

    /// The same client for servers that may continue its calls as tasks, because the gateway follows them.
    pub fn with_followed_tasks(self) -> Self {
        let extensions = self.capabilities.member("extensions").filter(RawJson::is_object);
        let extensions = extensions.unwrap_or_else(RawJson::empty_object);
        let declared = with_members(&extensions, &[(TASKS_EXTENSION, RawJson::empty_object())])
            .and_then(|extensions| with_members(&self.capabilities, &[("extensions", extensions)]));
        match declared {
            Ok(capabilities) => Self { capabilities, ..self },
            Err(_) => self,
        }
    }

    /// Whether the client declared that it can follow tasks.
    pub fn has_tasks(&self) -> bool {
        let declared = self.capabilities.at(&["extensions", TASKS_EXTENSION]);
        declared.is_some_and(|declared| declared.is_object())
    }

    /// Whether the client declared a capability.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.member(capability).is_some_and(|value| value.is_object())
    }

    /// Whether its user can fill in a form. Plain `elicitation` implies forms, unless the client lists only other
    /// modes.
    pub fn can_fill_forms(&self) -> bool {
        let Some(ways) = self.capabilities.member("elicitation").filter(RawJson::is_object) else {
            return false;
        };
        let [forms, urls] = ways.holds(["form", "url"]);
        forms || !urls
    }

    /// Whether its user can be sent to a URL.
    pub fn can_open_urls(&self) -> bool {
        self.capabilities.at(&["elicitation", "url"]).is_some_and(|value| value.is_object())
    }

    /// Whether the client declared that it can answer a server request of this method. Other requests are not sent to
    /// it.
    pub fn can_answer(&self, method: &str, params: Option<&RawJson>) -> bool {
        let is_visit = || {
            let mode = params.and_then(|params| params.member("mode"));
            mode.is_some_and(|mode| mode.string().as_deref() == Some("url"))
        };
        match method {
            "elicitation/create" if is_visit() => self.can_open_urls(),
            "elicitation/create" => self.can_fill_forms(),
            "sampling/createMessage" => self.can("sampling"),
            "roots/list" => self.can("roots"),
            _ => false,
        }
    }

    /// Its name, truncated, for logs and views.
    pub fn name(&self) -> String {
        let name = self.info.as_ref().and_then(|info| info.member("name"));
        let name = name.as_ref().and_then(|name| name.string());
        name.map_or_else(|| UNNAMED.to_owned(), |name| name.chars().take(64).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remembered_client_has_its_name_and_no_capabilities() {
        for name in ["cli", "a \"quoted\" name", "unknown", ""] {
            let facts = ClientFacts::remembered(name);
            assert_eq!(facts.name(), if name.is_empty() { "unknown" } else { name });
            assert!(!facts.can("elicitation"));
        }
    }

    #[test]
    fn identification_is_parsed_as_it_was_stored() {
        let ways = [
            ("name", IdentifiedBy::Name),
            ("token:3f9a", IdentifiedBy::Token("3f9a".into())),
            ("signed_token", IdentifiedBy::SignedToken),
            ("operator", IdentifiedBy::Operator),
            // From another version, and one that is never stored.
            ("passkey:1", IdentifiedBy::Other("passkey:1".into())),
            ("any", IdentifiedBy::Other("any".into())),
        ];
        for (text, expected) in ways {
            let Ok(read) = text.parse::<IdentifiedBy>();
            assert_eq!(read.to_string(), text);
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn the_operator_is_a_separate_user_with_the_same_rules() {
        let (operator, guest) = (Caller::operator("ann"), Caller::guest("ann", []));
        assert_ne!(operator.user, guest.user);
        for caller in [&operator, &guest] {
            assert!(caller.is_named("ann") && !caller.is_named("bob"), "{caller:?}");
        }
        assert!(!guest.is_named("operator:ann") && operator.is_named("operator:ann"));
    }

    #[test]
    fn elicitation_implies_forms_unless_only_other_modes_are_listed() {
        let cases = [
            ("{}", (false, false)),
            (r#"{"elicitation":true}"#, (false, false)),
            (r#"{"elicitation":{}}"#, (true, false)),
            (r#"{"elicitation":{"form":{}}}"#, (true, false)),
            (r#"{"elicitation":{"url":{}}}"#, (false, true)),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, (true, true)),
        ];
        for (text, expected) in cases {
            let capabilities = RawJson::parse(text.to_owned()).expect("JSON");
            let facts = ClientFacts { capabilities, ..ClientFacts::default() };
            assert_eq!((facts.can_fill_forms(), facts.can_open_urls()), expected, "{text}");
        }
    }
}
