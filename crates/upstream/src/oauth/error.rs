//! What can go wrong between the gateway and an authorization server.

use toolbooth_core::fault::{Blame, Fault};

/// A request got no usable answer. Details of the failure belong in the log of whoever sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// No connection, or it broke.
    #[error("no connection")]
    Unreachable,
    /// The deadline passed.
    #[error("no answer in time")]
    TimedOut,
    /// The body was longer than allowed.
    #[error("the answer is too long")]
    TooLarge,
    /// It is out of order for now: a server error, or too many requests.
    #[error("it answered with status {0}")]
    Failing(u16),
    /// The host's address lies outside the request's [`Reach`](super::Reach).
    #[error("the address is not allowed")]
    Blocked,
}

/// Nothing came back from the authorization page, or from whoever stands in for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizeError {
    /// The page could not be shown.
    #[error("the browser could not be opened")]
    NoBrowser,
    /// The person did not finish.
    #[error("nobody finished the login in time")]
    TimedOut,
    /// The person closed the page or stopped the command.
    #[error("the login was cancelled")]
    Cancelled,
    /// Whoever vouches for the gateway did not.
    #[error("no assertion was given for the gateway")]
    NoAssertion,
}

/// Authorization toward a server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// A URL that is not HTTPS, or not usable at all.
    #[error("the {what} `{url}` is not an https address")]
    InsecureUrl {
        /// Which URL.
        what: &'static str,
        /// The URL, shortened.
        url: String,
    },
    /// A URL that points into a private network.
    #[error("the {what} points to `{host}`, an address inside a private network")]
    BlockedAddress {
        /// Which URL.
        what: &'static str,
        /// Its host.
        host: String,
    },
    /// No usable HTTP answer.
    #[error("`{host}` did not answer: {cause}")]
    Unreachable {
        /// Who was asked.
        host: String,
        /// Why there is no answer.
        cause: HttpError,
    },
    /// The server's metadata speaks for another resource.
    #[error("the server `{server}` published the metadata of another resource, `{resource}`")]
    ResourceMismatch {
        /// The server as configured.
        server: String,
        /// The resource it named.
        resource: String,
    },
    /// Nothing says where tokens come from.
    #[error("the server `{server}` asks for a token but names no authorization server")]
    NoAuthorizationServer {
        /// The server as configured.
        server: String,
    },
    /// Authorization server metadata that is missing or unusable.
    #[error("the authorization server `{issuer}` publishes no usable metadata: {what}")]
    BadMetadata {
        /// The authorization server.
        issuer: String,
        /// What is missing.
        what: &'static str,
    },
    /// Metadata that speaks for another issuer.
    #[error("the metadata of the authorization server `{expected}` names another issuer, `{found}`")]
    IssuerMismatch {
        /// Whose metadata was asked for.
        expected: String,
        /// Whose it says it is.
        found: String,
    },
    /// PKCE with S256 is not offered.
    #[error("the authorization server `{issuer}` does not support PKCE with S256")]
    NoPkce {
        /// The authorization server.
        issuer: String,
    },
    /// The gateway has no client id there and cannot get one.
    #[error("the authorization server `{issuer}` accepts only clients that it knows, and none is configured")]
    NoClient {
        /// The authorization server.
        issuer: String,
    },
    /// Dynamic registration failed.
    #[error("the authorization server `{issuer}` refused to register this gateway ({error})")]
    RegistrationRefused {
        /// The authorization server.
        issuer: String,
        /// Its error code.
        error: String,
    },
    /// The configured client belongs to another authorization server.
    #[error("the server now uses the authorization server `{now}`, but its client id was used with `{was}`")]
    IssuerChanged {
        /// The authorization server that knows the client.
        was: String,
        /// The one named now.
        now: String,
    },
    /// Only a person can go on, and there is no way to ask one.
    #[error("the server `{server}` needs a login")]
    NeedsLogin {
        /// The server as configured.
        server: String,
    },
    /// The login page brought nothing back.
    #[error("the login did not finish: {0}")]
    LoginFailed(#[from] AuthorizeError),
    /// An authorization response that is not an answer to our request.
    #[error("the login's answer was rejected: {what}")]
    BadResponse {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The authorization server said no.
    #[error("the authorization server `{issuer}` denied the login ({error})")]
    Denied {
        /// The authorization server.
        issuer: String,
        /// Its error code.
        error: String,
    },
    /// The token endpoint said no.
    #[error("the authorization server `{issuer}` issued no token ({error})")]
    TokenRefused {
        /// The authorization server.
        issuer: String,
        /// Its error code.
        error: String,
    },
    /// The page was to come back to somewhere else than the machine of whoever signs in.
    #[error("`{0}` is no address on the machine of whoever signs in")]
    BadRedirect(String),
    /// A sign-in was to be finished that nobody began, or that ended meanwhile.
    #[error("no sign-in to this server is under way")]
    NoSignIn,
    /// The operating system gave no randomness.
    #[error("no randomness is available")]
    NoRandomness,
}

impl Fault for OAuthError {
    fn code(&self) -> &'static str {
        match self {
            Self::InsecureUrl { .. } => "oauth.insecure-url",
            Self::BlockedAddress { .. } => "oauth.blocked-address",
            Self::Unreachable { .. } => "oauth.unreachable",
            Self::ResourceMismatch { .. } => "oauth.resource-mismatch",
            Self::NoAuthorizationServer { .. } => "oauth.no-authorization-server",
            Self::BadMetadata { .. } => "oauth.bad-metadata",
            Self::IssuerMismatch { .. } => "oauth.issuer-mismatch",
            Self::NoPkce { .. } => "oauth.no-pkce",
            Self::NoClient { .. } => "oauth.no-client",
            Self::RegistrationRefused { .. } => "oauth.registration-refused",
            Self::IssuerChanged { .. } => "oauth.issuer-changed",
            Self::NeedsLogin { .. } => "oauth.needs-login",
            Self::LoginFailed(_) => "oauth.login-failed",
            Self::BadResponse { .. } => "oauth.bad-response",
            Self::Denied { .. } => "oauth.denied",
            Self::TokenRefused { .. } => "oauth.token-refused",
            Self::BadRedirect(_) => "oauth.bad-redirect",
            Self::NoSignIn => "oauth.no-sign-in",
            Self::NoRandomness => "oauth.no-randomness",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::NoClient { .. }
            | Self::IssuerChanged { .. }
            | Self::NeedsLogin { .. }
            | Self::LoginFailed(_)
            | Self::NoRandomness => Blame::Gateway,
            Self::Denied { .. } | Self::BadRedirect(_) | Self::NoSignIn => Blame::Caller,
            _ => Blame::Upstream,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InsecureUrl { .. } => "tokens travel over https only, except to this machine itself",
            Self::BlockedAddress { .. } => {
                "a server on the open network may not send the gateway into a private one"
            }
            Self::ResourceMismatch { .. } => {
                "check that `url` is the address that the server was published under"
            }
            Self::NoClient { .. } => "register a client there and give its id as `oauth.client_id`",
            Self::RegistrationRefused { .. } => {
                "register a client by hand and give its id as `oauth.client_id`"
            }
            Self::IssuerChanged { .. } => {
                "if the move is real, register a client at the new one, give its id, and log in again"
            }
            Self::NeedsLogin { .. } | Self::LoginFailed(_) | Self::Denied { .. } => {
                "`toolbooth servers login NAME` signs in"
            }
            Self::NoSignIn => "`toolbooth servers login NAME` begins one",
            Self::BadRedirect(_) => "give an http address on 127.0.0.1",
            Self::TokenRefused { .. } => "check the client id and secret, then log in again",
            _ => return None,
        };
        Some(hint.into())
    }
}

/// Foreign text made fit for a message: one line, of bounded length.
pub(super) fn clip(text: &str) -> String {
    const LIMIT: usize = 160;
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(LIMIT).collect();
    if text.chars().nth(LIMIT).is_some() {
        shown.push('…');
    }
    shown
}

/// A foreign error code; whatever does not look like one is not repeated.
pub(super) fn error_code(text: &str) -> String {
    let looks_like_one = (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if looks_like_one { text.into() } else { "no readable reason".into() }
}
