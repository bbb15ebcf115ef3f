//! Sessions of the web console: a token is exchanged for a cookie that scripts cannot read.
//!
//! The gateway keeps the token in memory and identifies each request of the session with it, so that a revoked or
//! expired token ends the session. A cookie is sent by the browser on its own, so requests that change something must
//! also carry the session's CSRF token, which only the console's own page can read. Only REST accepts the cookie;
//! `/mcp` does not.

use http::header::{AUTHORIZATION, COOKIE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::time::Instant;
use toolbooth_core::fault::{Blame, Problem};

/// The header with the CSRF token.
pub static CSRF_HEADER: HeaderName = HeaderName::from_static("x-toolbooth-csrf");
/// How long a session lasts without a request.
pub const IDLE: Duration = Duration::from_secs(8 * 3600);
/// How long a session lasts at most.
pub const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The name of the cookie over HTTPS. Browsers accept the prefix only from this host, over HTTPS, for all paths.
const SECURE_COOKIE: &str = "__Host-toolbooth";
/// The maximum number of sessions, and of those of one user; the oldest one of the user ends first.
const MAX_SESSIONS: usize = 10_000;
const MAX_OF_USER: usize = 32;
/// The maximum number of session cookies in a request that are looked up.
const MAX_COOKIES: usize = 64;

/// The open sessions.
#[derive(Debug, Default)]
pub struct ConsoleSessions {
    /// By the digest of the cookie, so that a lookup does not leak how much of a guess was right.
    open: Mutex<HashMap<[u8; 32], ConsoleSession>>,
}

/// How the requests of a session are identified.
#[derive(Debug, Clone)]
pub enum SessionCredential {
    /// By the token that the session was opened with: an `Authorization` header.
    Token(HeaderValue),
    /// By the proxy that names the user of each request.
    Proxy,
}

/// What a session is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionUse {
    /// A request that only reads.
    Read,
    /// A request that may change something.
    Change,
    /// A stream that is still open. It does not keep the session alive.
    Recheck,
}

impl SessionUse {
    /// The use by a request with this method.
    pub fn of(method: &Method) -> Self {
        if matches!(*method, Method::GET | Method::HEAD) { Self::Read } else { Self::Change }
    }
}

/// A session of the console.
#[derive(Debug, Clone)]
pub struct ConsoleSession {
    /// The user who opened it.
    pub user: Arc<str>,
    /// The CSRF token.
    pub csrf: Arc<str>,
    credential: SessionCredential,
    started: Instant,
    last_used: Instant,
}

/// The scheme by which a browser reaches the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieScheme {
    /// The browser sends the cookie over HTTPS only.
    Https,
    /// For loopback addresses and private networks.
    Http,
}

impl ConsoleSession {
    /// How long it lasts if it is not used again.
    pub fn left(&self) -> Duration {
        let now = Instant::now();
        let idle = IDLE.saturating_sub(now.duration_since(self.last_used));
        idle.min(LIFETIME.saturating_sub(now.duration_since(self.started)))
    }

    /// The headers of a request with the credential of the session.
    pub fn identified(&self, headers: &HeaderMap) -> HeaderMap {
        let mut headers = headers.clone();
        if let SessionCredential::Token(token) = &self.credential {
            headers.insert(AUTHORIZATION, token.clone());
        }
        headers
    }

    /// Refuses a request that may change something and lacks the CSRF token.
    pub fn check_csrf(&self, headers: &HeaderMap, session_use: SessionUse) -> Result<(), Problem> {
        if session_use != SessionUse::Change {
            return Ok(());
        }
        let mut given = headers.get_all(&CSRF_HEADER).iter();
        let is_right = given.next().is_some_and(|token| token.as_bytes().ct_eq(self.csrf.as_bytes()).into());
        match is_right && given.next().is_none() {
            true => Ok(()),
            false => Err(Problem {
                code: "auth.csrf",
                blame: Blame::Caller,
                message: "this request of a browser session has no valid CSRF token".into(),
                hint: Some(
                    "reload the page; programs send `Authorization: Bearer TOKEN` instead of a cookie".into(),
                ),
            }),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.last_used) >= IDLE || now.duration_since(self.started) >= LIFETIME
    }
}

impl ConsoleSessions {
    /// Opens a session; returns it with the secret of its cookie. `None` if the system has no random numbers.
    pub fn open(&self, user: &Arc<str>, credential: SessionCredential) -> Option<(String, ConsoleSession)> {
        let (secret, csrf) = (random_text()?, random_text()?);
        let now = Instant::now();
        let session = ConsoleSession {
            user: user.clone(),
            csrf: csrf.into(),
            credential,
            started: now,
            last_used: now,
        };
        let mut open = self.lock();
        open.retain(|_, session| !session.is_over(now));
        let mine = open.values().filter(|session| session.user == *user).count();
        if mine >= MAX_OF_USER || open.len() >= MAX_SESSIONS {
            let candidates = open.iter().filter(|(_, session)| mine < MAX_OF_USER || session.user == *user);
            let oldest = candidates.min_by_key(|(_, session)| session.last_used).map(|(key, _)| *key);
            oldest.and_then(|key| open.remove(&key));
        }
        open.insert(key_of(&secret), session.clone());
        Some((secret, session))
    }

    /// The session of a request.
    pub fn of_request(&self, headers: &HeaderMap, session_use: SessionUse) -> Option<ConsoleSession> {
        if !headers.contains_key(COOKIE) {
            return None;
        }
        let keys = keys_of(headers);
        let now = Instant::now();
        let mut open = self.lock();
        for key in keys {
            let Some(session) = open.get_mut(&key) else { continue };
            if session.is_over(now) {
                open.remove(&key);
                continue;
            }
            if session_use != SessionUse::Recheck {
                session.last_used = now;
            }
            return Some(session.clone());
        }
        None
    }

    /// Ends the session of a request.
    pub fn close(&self, headers: &HeaderMap) {
        let keys = keys_of(headers);
        let mut open = self.lock();
        for key in keys {
            open.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], ConsoleSession>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of `Set-Cookie` that stores the secret of a session, or that removes it (`None`).
pub fn set_cookie(headers: &HeaderMap, scheme: CookieScheme, secret: Option<&str>) -> Option<HeaderValue> {
    let name = match scheme {
        CookieScheme::Https => SECURE_COOKIE.to_owned(),
        CookieScheme::Http => plain_cookie(headers),
    };
    let (value, age) = secret.map_or(("", 0), |secret| (secret, LIFETIME.as_secs()));
    let secure = if scheme == CookieScheme::Https { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The name of the cookie over plain HTTP. Cookies do not distinguish ports, so the name does: several gateways may
/// run on one machine.
fn plain_cookie(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.is_empty());
    let port = port.filter(|port| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()));
    format!("toolbooth-{}", port.unwrap_or("80"))
}

/// The digests of the session cookies of a request. Another page of the machine may have added one of its own. Beside
/// the cookie of HTTPS the plain one does not count: other hosts of the domain can set that.
fn keys_of(headers: &HeaderMap) -> Vec<[u8; 32]> {
    let plain = plain_cookie(headers);
    let cookies = || {
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        texts.flat_map(|text| text.split(';')).filter_map(|cookie| cookie.trim().split_once('='))
    };
    // All cookies are searched for it, so that other hosts cannot hide it behind many cookies of theirs.
    let is_secure = cookies().any(|(name, _)| name == SECURE_COOKIE);
    let wanted = if is_secure { SECURE_COOKIE } else { plain.as_str() };
    let chosen = cookies().filter(|(name, _)| *name == wanted).take(MAX_COOKIES);
    chosen.map(|(_, secret)| key_of(secret)).collect()
}

fn key_of(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// 256 random bits in hexadecimal.
fn random_text() -> Option<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    let mut text = String::with_capacity(64);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1:8665"));
        headers.insert(COOKIE, HeaderValue::from_str(cookie).expect("ASCII"));
        headers
    }

    fn opened(sessions: &ConsoleSessions, user: &str) -> (HeaderMap, ConsoleSession) {
        let token = HeaderValue::from_static("Bearer tb_secret");
        let (secret, session) = sessions.open(&user.into(), SessionCredential::Token(token)).expect("random");
        (request(&format!("theme=dark; toolbooth-8665={secret}")), session)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_is_not_used_and_at_the_latest_after_a_day() {
        let sessions = ConsoleSessions::default();
        let (idle, _) = opened(&sessions, "ann");
        let (busy, _) = opened(&sessions, "ann");
        for _ in 0..5 {
            tokio::time::advance(IDLE / 2).await;
            let found = sessions.of_request(&busy, SessionUse::Read).map(|session| session.user);
            assert_eq!(found, Some("ann".into()));
            // An open stream alone does not keep a session alive.
            sessions.of_request(&idle, SessionUse::Recheck);
        }
        assert!(sessions.of_request(&idle, SessionUse::Read).is_none());
        tokio::time::advance(IDLE / 2).await;
        assert!(sessions.of_request(&busy, SessionUse::Read).is_none(), "a day has passed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_has_a_limited_number_of_sessions() {
        let sessions = ConsoleSessions::default();
        let (first, _) = opened(&sessions, "ann");
        let (of_bob, _) = opened(&sessions, "bob");
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..MAX_OF_USER {
            opened(&sessions, "ann");
        }
        assert!(sessions.of_request(&first, SessionUse::Read).is_none());
        assert!(sessions.of_request(&of_bob, SessionUse::Read).is_some());
        assert_eq!(sessions.lock().len(), MAX_OF_USER + 1);
    }

    #[tokio::test]
    async fn only_the_cookie_of_this_port_or_of_https_counts() {
        let sessions = ConsoleSessions::default();
        let (secret, _) = sessions.open(&"ann".into(), SessionCredential::Proxy).expect("random");
        let cases = [
            (format!("toolbooth-8665={secret}"), true),
            (format!("toolbooth-8665=other; toolbooth-8665={secret}"), true),
            (format!("__Host-toolbooth={secret}"), true),
            (format!("toolbooth-9999={secret}"), false),
            (format!("toolbooth-8665={secret}0"), false),
            ("toolbooth-8665=".into(), false),
            (secret.clone(), false),
        ];
        for (cookie, is_found) in cases {
            assert_eq!(
                sessions.of_request(&request(&cookie), SessionUse::Read).is_some(),
                is_found,
                "{cookie}"
            );
        }
        sessions.close(&request(&format!("toolbooth-8665={secret}")));
        assert!(
            sessions.of_request(&request(&format!("toolbooth-8665={secret}")), SessionUse::Read).is_none()
        );
    }

    #[tokio::test]
    async fn beside_the_cookie_of_https_the_plain_one_does_not_count() {
        let sessions = ConsoleSessions::default();
        let (planted, _) = sessions.open(&"eve".into(), SessionCredential::Proxy).expect("random");
        let (secret, _) = sessions.open(&"ann".into(), SessionCredential::Proxy).expect("random");
        let user = |cookie: String| {
            sessions.of_request(&request(&cookie), SessionUse::Read).map(|session| session.user.to_string())
        };
        let both = format!("toolbooth-8665={planted}; __Host-toolbooth={secret}");
        assert_eq!(user(both.clone()).as_deref(), Some("ann"));
        assert_eq!(user(format!("toolbooth-8665={planted}; __Host-toolbooth=gone")), None);
        let many = format!("toolbooth-8665={planted}; ").repeat(MAX_COOKIES + 1);
        assert_eq!(user(format!("{many}__Host-toolbooth={secret}")).as_deref(), Some("ann"));
        sessions.close(&request(&both));
        assert_eq!(user(format!("toolbooth-8665={planted}")).as_deref(), Some("eve"));
        assert_eq!(user(format!("__Host-toolbooth={secret}")), None);
    }

    #[tokio::test]
    async fn a_request_that_changes_something_needs_the_csrf_token_once() {
        let (mut headers, session) = opened(&ConsoleSessions::default(), "ann");
        assert!(session.check_csrf(&headers, SessionUse::of(&Method::GET)).is_ok());
        assert!(session.check_csrf(&headers, SessionUse::of(&Method::POST)).is_err());
        headers.insert(&CSRF_HEADER, HeaderValue::from_static("guess"));
        assert!(session.check_csrf(&headers, SessionUse::of(&Method::DELETE)).is_err());
        headers.insert(&CSRF_HEADER, HeaderValue::from_str(&session.csrf).expect("ASCII"));
        assert!(session.check_csrf(&headers, SessionUse::of(&Method::PUT)).is_ok());
        headers.append(&CSRF_HEADER, HeaderValue::from_str(&session.csrf).expect("ASCII"));
        assert!(session.check_csrf(&headers, SessionUse::of(&Method::PUT)).is_err());
    }

    #[test]
    fn the_cookie_is_hidden_from_scripts_and_other_sites() {
        let headers = request("a=b");
        let shown = |scheme, secret| set_cookie(&headers, scheme, secret).expect("ASCII");
        assert_eq!(
            shown(CookieScheme::Https, Some("x")),
            "__Host-toolbooth=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=86400; Secure"
        );
        assert_eq!(
            shown(CookieScheme::Http, None),
            "toolbooth-8665=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        );
    }
}
