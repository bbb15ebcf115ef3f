//! Who calls, and what their client said about itself.

use crate::call::policy::RuleBook;
use crate::compliance::Level;
use crate::exposure::Loaded;
use crate::json::RawJson;
use crate::persona::Persona;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The group every authenticated caller is in.
pub const EVERYONE: &str = "users";

/// Begins the user name of the operator at the machine outside `local` mode. No credential can name such a user, so
/// that a network user who is called like the account that runs the gateway is another person.
pub const OPERATOR_PREFIX: &str = "operator:";

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
    /// The control socket, outside `local` mode: the kernel said that the peer is the gateway's own user, or root.
    Operator,
    /// A way that only another version of the gateway knows, as it was stored. It gives no rights.
    Other(Arc<str>),
    /// Any credential of the user: for questions about a user that are not about one call. It is never kept.
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

/// Reads what was stored. An unknown text does not make its row unreadable: the row's call has no rights.
impl FromStr for IdentifiedBy {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match (text, text.split_once(':')) {
            (_, Some(("token", id))) => Self::Token(id.into()),
            ("name", _) => Self::Name,
            ("signed_token", _) => Self::SignedToken,
            ("operator", _) => Self::Operator,
            // `any` is never stored, so it is not read either.
            _ => Self::Other(text.into()),
        })
    }
}

/// Whether a caller is the person who runs the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The owner of a gateway in `local` mode, or its operator at the machine: uses the gateway's own connections.
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

    /// The operator at the machine, outside `local` mode: the rights of an owner, under a name that no network user
    /// can have.
    pub fn operator(account: &str) -> Self {
        Self { identified_by: IdentifiedBy::Operator, ..Self::owner(format!("{OPERATOR_PREFIX}{account}")) }
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

    /// Whether the configuration means this caller by a user's name. It means the operator at the machine by the name
    /// of the account, so that rules for that name hold for them as well.
    pub fn is_named(&self, name: &str) -> bool {
        *self.user == *name || self.user.strip_prefix(OPERATOR_PREFIX) == Some(name)
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

    /// Whether the client declared that it can answer a server's question of this method. It is asked nothing else.
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
    fn ways_of_identification_are_read_as_they_were_stored() {
        let ways = [
            ("name", IdentifiedBy::Name),
            ("token:3f9a", IdentifiedBy::Token("3f9a".into())),
            ("signed_token", IdentifiedBy::SignedToken),
            ("operator", IdentifiedBy::Operator),
            // Of another version, and one that is never stored.
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
    fn the_operator_is_another_person_whom_the_same_rules_mean() {
        let (operator, guest) = (Caller::operator("ann"), Caller::guest("ann", []));
        assert_ne!(operator.user, guest.user);
        for caller in [&operator, &guest] {
            assert!(caller.is_named("ann") && !caller.is_named("bob"), "{caller:?}");
        }
        assert!(!guest.is_named("operator:ann") && operator.is_named("operator:ann"));
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
