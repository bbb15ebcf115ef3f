//! Consents, pins and releases: what people said about a tool that outlasts one call.

use crate::names::ServerName;
use uuid::Uuid;

/// A remembered approval: this user may use this version of this tool without being asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// The consent.
    pub id: Uuid,
    /// Whose calls it covers.
    pub user: String,
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The tool's definition at that time; another one is another tool.
    pub digest: [u8; 32],
    /// Only in this session.
    pub session: Option<String>,
    /// Who gave it.
    pub granted_by: String,
    /// When it was given.
    pub created_ms: i64,
    /// From when on it no longer counts.
    pub expires_ms: Option<i64>,
}

/// The call that a consent is looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsentQuery<'a> {
    /// Who calls.
    pub user: &'a str,
    /// The tool's server.
    pub server: &'a ServerName,
    /// The server's own name of the tool.
    pub tool: &'a str,
    /// The tool's definition now.
    pub digest: &'a [u8; 32],
    /// The session of the call.
    pub session: Option<&'a str>,
}

impl Consent {
    /// Whether the consent covers a call at `now_ms`.
    pub fn covers(&self, call: &ConsentQuery<'_>, now_ms: i64) -> bool {
        self.user == call.user
            && self.server == *call.server
            && self.tool == call.tool
            && self.digest == *call.digest
            && (self.session.is_none() || self.session.as_deref() == call.session)
            && self.expires_ms.is_none_or(|expires_ms| expires_ms > now_ms)
    }

    /// Whether a newer consent takes this one's place: same user, tool and session.
    pub fn is_replaced_by(&self, newer: &Self) -> bool {
        self.user == newer.user
            && self.server == newer.server
            && self.tool == newer.tool
            && self.session == newer.session
    }
}

/// The definition of a tool that somebody has seen and accepted; a change of it is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The accepted definition.
    pub digest: [u8; 32],
    /// When it was accepted.
    pub pinned_ms: i64,
    /// Who accepted it.
    pub by: String,
    /// Its text, so that a change can be shown; absent where it was too long to be kept, and in lists.
    pub definition: Option<String>,
}

/// The longest definition that is kept with a pin.
pub const MAX_PINNED_BYTES: usize = 64 * 1024;

/// A tool that was let out of quarantine, in the version that it had then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The definition that was released.
    pub digest: [u8; 32],
    /// When it was released.
    pub released_ms: i64,
    /// Who released it.
    pub by: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consent_covers_one_user_tool_version_and_time() {
        let (mail, web): (ServerName, ServerName) = ("mail".parse().expect("a"), "web".parse().expect("b"));
        let consent = |session: Option<&str>, expires_ms| Consent {
            id: Uuid::nil(),
            user: "ann".into(),
            server: mail.clone(),
            tool: "send".into(),
            digest: [1; 32],
            session: session.map(Into::into),
            granted_by: "ann".into(),
            created_ms: 0,
            expires_ms,
        };
        let query =
            ConsentQuery { user: "ann", server: &mail, tool: "send", digest: &[1; 32], session: None };
        let in_session = |session| ConsentQuery { session: Some(session), ..query };
        let cases = [
            (consent(None, None), query, true),
            (consent(None, None), in_session("s1"), true),
            (consent(Some("s1"), None), in_session("s1"), true),
            (consent(Some("s1"), None), in_session("s2"), false),
            (consent(Some("s1"), None), query, false),
            (consent(None, Some(11)), query, true),
            (consent(None, Some(10)), query, false),
            (consent(None, None), ConsentQuery { user: "bo", ..query }, false),
            (consent(None, None), ConsentQuery { server: &web, ..query }, false),
            (consent(None, None), ConsentQuery { tool: "read", ..query }, false),
            (consent(None, None), ConsentQuery { digest: &[2; 32], ..query }, false),
        ];
        for (consent, query, expected) in cases {
            assert_eq!(consent.covers(&query, 10), expected, "{consent:?} {query:?}");
        }
    }
}
