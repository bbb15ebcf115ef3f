//! Errors between the gateway and an authorization server.

use toolbooth_core::fault::{Blame, Fault};

/// A request got no usable response. Details of the failure are logged by the sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// No connection, or it was lost.
    #[error("no connection")]
    Unreachable,
    /// The request timed out.
    #[error("the request timed out")]
    TimedOut,
    /// The body exceeds the size limit.
    #[error("the answer is too long")]
    TooLarge,
    /// The server is temporarily unavailable: a server error, or too many requests.
    #[error("it answered with status {0}")]
    Failing(u16),
    /// The host's address is outside the request's [`NetworkReach`](super::NetworkReach).
    #[error("the address is not allowed")]
    Blocked,
}

/// The authorization page or the assertion source returned nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizeError {
    /// The page could not be shown.
    #[error("the browser could not be opened")]
    NoBrowser,
    /// The person did not finish in time.
    #[error("the login was not finished in time")]
    TimedOut,
    /// The person closed the page or stopped the command.
    #[error("the login was cancelled")]
    Cancelled,
    /// No assertion was issued for the gateway.
    #[error("no assertion was issued for the gateway")]
    NoAssertion,
}

/// Authorization for a server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// A URL that is not HTTPS or is invalid.
    #[error("the {what} `{url}` is not an https URL")]
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
    /// No usable HTTP response.
    #[error("`{host}` did not answer: {cause}")]
    Unreachable {
        /// The host.
        host: String,
        /// The cause.
        cause: HttpError,
    },
    /// The server's metadata describes another resource.
    #[error("the server `{server}` published the metadata of another resource, `{resource}`")]
    ResourceMismatch {
        /// The server as configured.
        server: String,
        /// The resource it named.
        resource: String,
    },
    /// The server does not name an authorization server.
    #[error("the server `{server}` requires a token but names no authorization server")]
    NoAuthorizationServer {
        /// The server as configured.
        server: String,
    },
    /// The authorization server's metadata is missing or unusable.
    #[error("the authorization server `{issuer}` publishes no usable metadata: {what}")]
    BadMetadata {
        /// The authorization server.
        issuer: String,
        /// What is missing.
        what: &'static str,
    },
    /// The metadata describes another issuer.
    #[error("the metadata of the authorization server `{expected}` names another issuer, `{found}`")]
    IssuerMismatch {
        /// The requested issuer.
        expected: String,
        /// The issuer in the metadata.
        found: String,
    },
    /// PKCE with S256 is not supported.
    #[error("the authorization server `{issuer}` does not support PKCE with S256")]
    NoPkce {
        /// The authorization server.
        issuer: String,
    },
    /// The gateway has no client id there and cannot register.
    #[error("the authorization server `{issuer}` accepts only registered clients, and none is configured")]
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
        /// The current authorization server.
        now: String,
    },
    /// A person is required, and there is no way to ask one.
    #[error("the server `{server}` needs a login")]
    NeedsLogin {
        /// The server as configured.
        server: String,
    },
    /// The login page returned nothing.
    #[error("the login did not finish: {0}")]
    LoginFailed(#[from] AuthorizeError),
    /// The authorization response does not match the request.
    #[error("the login's response was rejected: {what}")]
    BadResponse {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The authorization server denied the request.
    #[error("the authorization server `{issuer}` denied the login ({error})")]
    Denied {
        /// The authorization server.
        issuer: String,
        /// Its error code.
        error: String,
    },
    /// The token endpoint refused the request.
    #[error("the authorization server `{issuer}` issued no token ({error})")]
    TokenRefused {
        /// The authorization server.
        issuer: String,
        /// Its error code.
        error: String,
    },
    /// The redirect URI is not on the machine of the person who signs in.
    #[error("the redirect URI `{0}` is not on the local machine")]
    BadRedirect(String),
    /// No sign-in was started, or it has ended.
    #[error("no sign-in to this server is in progress")]
    NoSignIn,
    /// The operating system gave no randomness.
    #[error("the system provides no random numbers")]
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
            Self::InsecureUrl { .. } => "tokens are sent over https only, except to this machine itself",
            Self::BlockedAddress { .. } => {
                "a server on a public network may not direct the gateway into a private one"
            }
            Self::ResourceMismatch { .. } => "check that `url` is the published address of the server",
            Self::NoClient { .. } => "register a client there and set `oauth.client_id`",
            Self::RegistrationRefused { .. } => "register a client manually and set `oauth.client_id`",
            Self::IssuerChanged { .. } => {
                "if the change is intended, register a client at the new one, set its id, and log in again"
            }
            Self::NeedsLogin { .. } | Self::LoginFailed(_) | Self::Denied { .. } => {
                "`toolbooth servers login NAME` signs in"
            }
            Self::NoSignIn => "`toolbooth servers login NAME` starts one",
            Self::BadRedirect(_) => "use an http URL on 127.0.0.1",
            Self::TokenRefused { .. } => "check the client id and secret, then log in again",
            _ => return None,
        };
        Some(hint.into())
    }
}

/// Makes foreign text fit for a message: one line of limited length.
pub(super) fn clip(text: &str) -> String {
    const LIMIT: usize = 160;
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(LIMIT).collect();
    if text.chars().nth(LIMIT).is_some() {
        shown.push('…');
    }
    shown
}

/// A foreign error code, or a fixed text if it does not look like one.
pub(super) fn error_code(text: &str) -> String {
    let looks_like_one = (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if looks_like_one { text.into() } else { "no readable reason".into() }
}
