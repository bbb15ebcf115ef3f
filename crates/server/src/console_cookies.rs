//! The cookies of the console: which session a request belongs to, and its CSRF token.
//!
//! A token is exchanged for a cookie that scripts cannot read. A cookie is sent by the browser on its own, so requests
//! that change something must also carry the session's CSRF token, which only the console's own page can read. Only REST
//! accepts the cookie; `/mcp` does not. The sessions themselves are in the store (`toolbooth_engine::ConsoleSessions`).

use http::header::{COOKIE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::time::Duration;
use subtle::ConstantTimeEq;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::{ConsoleSession, ConsoleSessions, LOGIN_LIFETIME, SessionUse};

/// The header with the CSRF token.
pub static CSRF_HEADER: HeaderName = HeaderName::from_static("x-toolbooth-csrf");
/// The maximum number of session cookies in a request that are looked up.
const MAX_COOKIES: usize = 16;

/// A cookie of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleCookie {
    /// The secret of a session. Requests that other sites cause do not carry it (`SameSite=Strict`). The page itself is
    /// public, so it works after a link or a redirect from another site, too.
    Session,
    /// The sealed record of a sign-in at the identity provider, which is under way. The provider sends the browser back
    /// with a redirect, so this cookie must be sent with navigations from other sites (`SameSite=Lax`).
    Login,
    /// The secret of a browser that the owner of a gateway in `local` mode opened (`SameSite=Strict`).
    Owner,
}

/// The scheme by which a browser reaches the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieScheme {
    /// The browser sends the cookie over HTTPS only.
    Https,
    /// For loopback addresses and private networks.
    Http,
}

impl CookieScheme {
    /// The scheme of an origin or a URL.
    pub fn of(url: &str) -> Self {
        let scheme = url.get(..8).unwrap_or_default();
        if scheme.eq_ignore_ascii_case("https://") { Self::Https } else { Self::Http }
    }
}

impl ConsoleCookie {
    /// The name over HTTPS. Browsers accept the prefix only from this host, over HTTPS, for all paths.
    fn secure_name(self) -> &'static str {
        match self {
            Self::Session => "__Host-toolbooth",
            Self::Login => "__Host-toolbooth-login",
            Self::Owner => "__Host-toolbooth-owner",
        }
    }

    /// The name over plain HTTP. Cookies do not distinguish ports, so the name does: several gateways may run on one
    /// machine.
    fn plain_name(self, headers: &HeaderMap) -> String {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.is_empty());
        let port = port.filter(|port| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = match self {
            Self::Session => "toolbooth",
            Self::Login => "toolbooth-login",
            Self::Owner => "toolbooth-owner",
        };
        format!("{name}-{}", port.unwrap_or("80"))
    }

    /// The value of `Set-Cookie` that stores a value for some time, or that removes it (`None`).
    pub fn set(
        self,
        headers: &HeaderMap,
        scheme: CookieScheme,
        value: Option<(&str, Duration)>,
    ) -> Option<HeaderValue> {
        let (name, secure) = match scheme {
            CookieScheme::Https => (self.secure_name().to_owned(), "; Secure"),
            CookieScheme::Http => (self.plain_name(headers), ""),
        };
        let (value, age) = value.map_or(("", 0), |(value, age)| (value, age.as_secs()));
        let same_site = match self {
            Self::Session | Self::Owner => "Strict",
            Self::Login => "Lax",
        };
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site}; Max-Age={age}{secure}");
        let mut value = HeaderValue::try_from(text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The value of `Set-Cookie` for a sign-in that begins.
    pub fn begin_login(headers: &HeaderMap, scheme: CookieScheme, sealed: &str) -> Option<HeaderValue> {
        Self::Login.set(headers, scheme, Some((sealed, LOGIN_LIFETIME)))
    }

    /// The values of this cookie in a request. Another page of the machine may have added one of its own. If browsers
    /// reach the gateway over HTTPS (`public`), or if the cookie of HTTPS is present, the plain one does not count: other
    /// hosts of the domain can set that.
    pub fn values(self, headers: &HeaderMap, public: Option<CookieScheme>) -> Vec<String> {
        if !headers.contains_key(COOKIE) {
            return Vec::new();
        }
        let plain = self.plain_name(headers);
        let cookies = || {
            let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
            texts.flat_map(|text| text.split(';')).filter_map(|cookie| cookie.trim().split_once('='))
        };
        // All cookies are searched for it, so that other hosts cannot hide it behind many cookies of theirs.
        let is_secure =
            public == Some(CookieScheme::Https) || cookies().any(|(name, _)| name == self.secure_name());
        let wanted = if is_secure { self.secure_name() } else { plain.as_str() };
        let chosen = cookies().filter(|(name, _)| *name == wanted).take(MAX_COOKIES);
        chosen.map(|(_, value)| value.to_owned()).collect()
    }
}

/// The use of a session by a request with this method.
pub fn use_by(method: &Method) -> SessionUse {
    if matches!(*method, Method::GET | Method::HEAD) { SessionUse::Read } else { SessionUse::Change }
}

/// The session of a request. `public` is the scheme of the setting `public_url`.
pub async fn of_request(
    sessions: &ConsoleSessions,
    headers: &HeaderMap,
    public: Option<CookieScheme>,
    session_use: SessionUse,
) -> Result<Option<ConsoleSession>, Problem> {
    for secret in ConsoleCookie::Session.values(headers, public) {
        if let Some(session) = sessions.find(&secret, session_use).await? {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

/// Ends the session of a request.
pub async fn close(
    sessions: &ConsoleSessions,
    headers: &HeaderMap,
    public: Option<CookieScheme>,
) -> Result<(), Problem> {
    for secret in ConsoleCookie::Session.values(headers, public) {
        sessions.end(&secret).await?;
    }
    Ok(())
}

/// Refuses a request of a session that may change something and lacks the CSRF token.
pub fn check_csrf(
    session: &ConsoleSession,
    headers: &HeaderMap,
    session_use: SessionUse,
) -> Result<(), Problem> {
    if session_use != SessionUse::Change {
        return Ok(());
    }
    let expected = session.csrf.expose().as_bytes();
    let mut given = headers.get_all(&CSRF_HEADER).iter();
    let is_right = given.next().is_some_and(|token| token.as_bytes().ct_eq(expected).into());
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

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::secret::SecretText;
    use toolbooth_engine::SessionCredential;

    fn request(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1:8665"));
        headers.insert(COOKIE, HeaderValue::from_str(cookie).expect("ASCII"));
        headers
    }

    fn values(cookie: &str) -> Vec<String> {
        ConsoleCookie::Session.values(&request(cookie), None)
    }

    #[test]
    fn only_the_cookie_of_this_port_or_of_https_counts() {
        let cases: [(&str, &[&str]); 6] = [
            ("theme=dark; toolbooth-8665=s", &["s"]),
            ("toolbooth-8665=other; toolbooth-8665=s", &["other", "s"]),
            ("__Host-toolbooth=s", &["s"]),
            ("toolbooth-9999=s", &[]),
            ("toolbooth-login-8665=s; __Host-toolbooth-login=s", &[]),
            ("s", &[]),
        ];
        for (cookie, expected) in cases {
            assert_eq!(values(cookie), expected, "{cookie}");
        }
        let all = request("toolbooth-8665=a; toolbooth-login-8665=b; toolbooth-owner-8665=c");
        assert_eq!(ConsoleCookie::Login.values(&all, None), ["b"]);
        assert_eq!(ConsoleCookie::Owner.values(&all, None), ["c"]);
    }

    #[test]
    fn behind_https_only_cookies_of_this_host_count() {
        let cases: [(&str, Option<CookieScheme>, &[&str]); 5] = [
            ("toolbooth-8665=planted", Some(CookieScheme::Https), &[]),
            ("toolbooth-8665=planted; __Host-toolbooth=s", Some(CookieScheme::Https), &["s"]),
            ("toolbooth-8665=s", Some(CookieScheme::Http), &["s"]),
            ("toolbooth-8665=s", None, &["s"]),
            // A proxy with TLS, without the setting `public_url`.
            ("__Host-toolbooth=s", None, &["s"]),
        ];
        for (cookie, public, expected) in cases {
            assert_eq!(
                ConsoleCookie::Session.values(&request(cookie), public),
                expected,
                "{cookie} {public:?}"
            );
        }
        let planted = request("toolbooth-login-8665=planted");
        assert!(ConsoleCookie::Login.values(&planted, Some(CookieScheme::Https)).is_empty());
    }

    #[test]
    fn beside_the_cookie_of_https_the_plain_one_does_not_count() {
        assert_eq!(values("toolbooth-8665=planted; __Host-toolbooth=s"), ["s"]);
        let many = "toolbooth-8665=planted; ".repeat(MAX_COOKIES + 1);
        assert_eq!(values(&format!("{many}__Host-toolbooth=s")), ["s"]);
        assert_eq!(values(&many).len(), MAX_COOKIES);
    }

    #[test]
    fn a_request_that_changes_something_needs_the_csrf_token_once() {
        let session = ConsoleSession {
            user: "ann".into(),
            secret: SecretText::plain("secret"),
            csrf: SecretText::plain("right"),
            credential: SessionCredential::Proxy,
            left: Duration::ZERO,
            left_at_most: Duration::ZERO,
        };
        let mut headers = request("a=b");
        let check = |headers: &HeaderMap, method| check_csrf(&session, headers, use_by(&method)).is_ok();
        assert!(check(&headers, Method::GET));
        assert!(!check(&headers, Method::POST));
        headers.insert(&CSRF_HEADER, HeaderValue::from_static("guess"));
        assert!(!check(&headers, Method::DELETE));
        headers.insert(&CSRF_HEADER, HeaderValue::from_static("right"));
        assert!(check(&headers, Method::PUT));
        headers.append(&CSRF_HEADER, HeaderValue::from_static("right"));
        assert!(!check(&headers, Method::PUT));
    }

    #[test]
    fn the_cookie_is_hidden_from_scripts_and_other_sites() {
        let headers = request("a=b");
        let day = Duration::from_secs(86_400);
        let session = |scheme, value| ConsoleCookie::Session.set(&headers, scheme, value).expect("ASCII");
        assert_eq!(
            session(CookieScheme::Https, Some(("x", day))),
            "__Host-toolbooth=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=86400; Secure"
        );
        assert_eq!(
            session(CookieScheme::Http, None),
            "toolbooth-8665=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        );
        assert_eq!(
            ConsoleCookie::Owner.set(&headers, CookieScheme::Http, Some(("x", day))).expect("ASCII"),
            "toolbooth-owner-8665=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=86400"
        );
        assert_eq!(
            ConsoleCookie::begin_login(&headers, CookieScheme::Https, "x").expect("ASCII"),
            "__Host-toolbooth-login=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure"
        );
    }
}
