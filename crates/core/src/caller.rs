//! Who calls, and what their client said about itself.

use crate::call::policy::RuleBook;
use crate::compliance::Level;
use crate::exposure::Loaded;
use crate::json::RawJson;
use crate::persona::Persona;
use crate::words::NoSuchWord;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The group every authenticated caller is in.
pub const EVERYONE: &str = "users";

/// Somebody whose identity a door has established. Nothing a model or a server writes ends up here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: Arc<str>,
    /// The groups the user is in.
    pub groups: Groups,
    /// Whether the user looks after the gateway.
    pub admin: Admin,
    /// The view the caller has chosen, if any.
    pub persona: Option<Arc<Persona>>,
    /// The operator's rules, where any of them hides anything from anybody.
    pub veil: Option<Arc<RuleBook>>,
    /// The level of data the caller handles, if one is named.
    pub compliance_level: Option<Arc<Level>>,
    /// The client session the call belongs to, if there is one.
    pub session: Option<Arc<str>>,
    /// How the caller's processes are told from other callers'.
    pub standing: Standing,
    /// What the caller was identified by.
    pub identified_by: IdentifiedBy,
    /// What the request brought for servers that want it.
    pub carried: Carried,
}

/// Headers of a caller's request that some server's `forward_headers` names. They say nothing about who calls, so
/// callers are the same whatever their requests carry.
#[derive(Clone, Default)]
pub struct Carried(Option<Arc<[(String, String)]>>);

impl Carried {
    /// These headers, their names in lower case.
    pub fn of(headers: Vec<(String, String)>) -> Self {
        Self(Some(headers.into()))
    }

    /// The value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        let headers = self.0.as_deref()?;
        headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl PartialEq for Carried {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Carried {}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carried(..)")
    }
}

/// What a caller was identified by: where the rights of a call that runs later are looked up. It is not secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IdentifiedBy {
    /// A name that a trusted proxy, the local socket or the machine itself vouches for.
    #[default]
    Name,
    /// One of the gateway's own tokens, by its id.
    Token(Arc<str>),
    /// A signed token of an identity provider.
    SignedToken,
    /// Any credential of the user: for questions about a user that are not about one call. It is never kept.
    Any,
}

impl fmt::Display for IdentifiedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("name"),
            Self::Token(id) => write!(f, "token:{id}"),
            Self::SignedToken => f.write_str("signed_token"),
            Self::Any => f.write_str("any"),
        }
    }
}

impl FromStr for IdentifiedBy {
    type Err = NoSuchWord;

    fn from_str(text: &str) -> Result<Self, NoSuchWord> {
        match text.split_once(':') {
            Some(("token", id)) => Ok(Self::Token(id.into())),
            None if text == "name" => Ok(Self::Name),
            None if text == "signed_token" => Ok(Self::SignedToken),
            _ => Err(NoSuchWord { kind: "way of identification" }),
        }
    }
}

/// Whether a caller is the person who runs the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The owner of a gateway in `local` mode: uses the gateway's own connections.
    Owner,
    /// Anybody else.
    Guest,
}

/// Whether a caller looks after the gateway: tokens, reloads, servers, logs. It adds no tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admin {
    /// The caller does.
    Yes,
    /// The caller only uses it.
    No,
}

/// The groups of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Groups {
    /// Every group: the owner of a local gateway.
    All,
    /// These, besides `users`.
    Named(Arc<BTreeSet<String>>),
}

impl Groups {
    /// Whether the caller is in `group`. Names compare exactly.
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
            veil: None,
            compliance_level: None,
            session: None,
            standing: Standing::Owner,
            identified_by: IdentifiedBy::Name,
            carried: Carried::default(),
        }
    }

    /// Somebody else, in these groups and with no other rights.
    pub fn guest(user: impl Into<Arc<str>>, groups: impl IntoIterator<Item = String>) -> Self {
        Self {
            groups: Groups::Named(Arc::new(groups.into_iter().collect())),
            admin: Admin::No,
            standing: Standing::Guest,
            ..Self::owner(user)
        }
    }

    /// The name of the chosen view.
    pub fn persona_name(&self) -> Option<&str> {
        self.persona.as_deref().map(Persona::name)
    }
}

/// The name of a client that gave none.
const UNNAMED: &str = "unknown";

/// What a client said about itself. Believed for what it can take, never for who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFacts {
    /// Its description of itself, as it sent it.
    pub info: Option<RawJson>,
    /// What it can do: an object.
    pub capabilities: RawJson,
    /// The least severe log message it wants, if any.
    pub log_level: Option<String>,
    /// What its session has loaded; a client without a session has none, as its lists may not vary by what it did.
    pub loaded: Option<Arc<Loaded>>,
}

impl Default for ClientFacts {
    fn default() -> Self {
        Self { info: None, capabilities: RawJson::empty_object(), log_level: None, loaded: None }
    }
}

impl ClientFacts {
    /// A client that is gone, of which only [`Self::name`] is known: rules about it hold, and it can do nothing.
    pub fn remembered(name: &str) -> Self {
        if name.is_empty() || name == UNNAMED {
            return Self::default();
        }
        // Servers are told the info, and the protocol demands a version.
        let info = RawJson::from_value(&serde_json::json!({ "name": name, "version": "unknown" }));
        Self { info: Some(info), ..Self::default() }
    }

    /// Whether the client declared a capability.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.member(capability).is_some_and(|value| value.is_object())
    }

    /// Whether its user can be asked to fill a form in: elicitation as such means that, unless the client names other
    /// ways alone.
    pub fn can_fill_forms(&self) -> bool {
        let Some(ways) = self.capabilities.member("elicitation").filter(RawJson::is_object) else {
            return false;
        };
        let [forms, urls] = ways.holds(["form", "url"]);
        forms || !urls
    }

    /// Whether its user can be sent to an address.
    pub fn can_open_urls(&self) -> bool {
        self.capabilities.at(&["elicitation", "url"]).is_some_and(|value| value.is_object())
    }

    /// Its name, cut to a sane length, for logs and views.
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
    fn elicitation_means_forms_unless_other_ways_are_named_alone() {
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
