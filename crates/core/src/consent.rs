//! Consents, pins and releases: decisions about a tool that outlast one call.

use crate::names::ServerName;
use uuid::Uuid;

/// A remembered approval: the user may call this version of this tool without being asked again.
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
    /// The digest of the tool's definition. It does not cover other versions.
    pub digest: [u8; 32],
    /// Only in this session.
    pub session: Option<String>,
    /// Who gave it.
    pub granted_by: String,
    /// When it was given.
    pub created_ms: i64,
    /// When it expires.
    pub expires_ms: Option<i64>,
}

/// The call for which a consent is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsentQuery<'a> {
    /// The caller.
    pub user: &'a str,
    /// The tool's server.
    pub server: &'a ServerName,
    /// The server's own name of the tool.
    pub tool: &'a str,
    /// The digest of the tool's current definition.
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

    /// Whether a newer consent replaces this one: same user, tool and session.
    pub fn is_replaced_by(&self, newer: &Self) -> bool {
        self.user == newer.user
            && self.server == newer.server
            && self.tool == newer.tool
            && self.session == newer.session
    }
}

/// An accepted definition of a tool. A change is handled by `OnChange`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The digest of the accepted definition.
    pub digest: [u8; 32],
    /// When it was accepted.
    pub pinned_ms: i64,
    /// Who accepted it.
    pub by: String,
    /// Its text, so that a change can be shown; absent in lists, and if it is too long.
    pub definition: Option<String>,
}

/// The maximum size of a definition that is stored with a pin.
pub const MAX_PINNED_BYTES: usize = 64 * 1024;

/// A tool that was released from quarantine, in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The digest of the released definition.
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
