//! Sign-in to the console: exchanges a token for a session cookie, shows the session, and ends it.
//!
//! These routes are for the console's own page and not part of the API. Programs send their token with each request.

use super::sign_in_log::{self, SessionChange};
use crate::console_cookies::{self, ConsoleCookie, CookieScheme};
use crate::identify::{COMPLIANCE_HEADER, IdentifyRequest, PERSONA_HEADER, RequestedResource, Unidentified};
use crate::peer_info::PeerInfo;
use crate::rest::{
    JsonBody, NoQuery, ProblemDocument, RestState, body, refuse, run_to_completion, with_bearer,
};
use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CACHE_CONTROL, ORIGIN, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::SystemTime;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::secret::SecretText;
use toolbooth_engine::{ConsoleSession, SessionCredential, SessionUse};

/// The site of the page that a browser's request comes from.
pub(super) static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const EXAMPLE: &str = "send {\"token\": \"…\"}";

/// The body of a sign-in.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInBody {
    /// A token of the gateway or of its identity provider. In `header` mode the proxy names the user instead.
    token: Option<String>,
}

/// How callers identify themselves, and the session of this browser.
#[derive(Serialize)]
struct ConsoleSignInView {
    /// `auth.mode`.
    mode: &'static str,
    session: Option<SessionView>,
    /// The identity provider at which users can sign in, with the page `/console/login`.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    /// Where a user who has just signed out can also sign out at the identity provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_sign_out: Option<String>,
}

/// A session as its own page sees it.
#[derive(Serialize)]
struct SessionView {
    user: Arc<str>,
    /// The value of the header `X-Toolbooth-CSRF`.
    csrf: String,
    /// When the session ends if it is not used again.
    seconds_left: u64,
}

impl From<ConsoleSession> for SessionView {
    fn from(session: ConsoleSession) -> Self {
        let seconds_left = session.left.as_secs();
        Self { user: session.user, csrf: session.csrf.expose().to_owned(), seconds_left }
    }
}

/// Shows whether this browser has a session.
pub(super) async fn show(
    State(rest): State<RestState>,
    headers: HeaderMap,
    _: NoQuery,
) -> Result<Response, ProblemDocument> {
    let session = match rest.front_end.authenticator.is_local() {
        true => None,
        false => {
            let (sessions, public) = (&rest.console_sessions, rest.public_scheme());
            console_cookies::of_request(sessions, &headers, public, SessionUse::Read).await?
        }
    };
    Ok(answer(&rest, session, None))
}

/// Opens a session for the user of a token, or for the user that the proxy names.
pub(super) async fn open(
    State(rest): State<RestState>,
    request: Request,
) -> Result<Response, ProblemDocument> {
    let (parts, content) = request.into_parts();
    let scheme = scheme_of_own_page(&parts.headers, cookie_scheme(&rest))?;
    let mut copy = Request::new(content);
    copy.headers_mut().clone_from(&parts.headers);
    let JsonBody(text) = JsonBody::from_request(copy, &rest).await?;
    let SignInBody { token } = body(&text, EXAMPLE)?;
    let authenticator = &rest.front_end.authenticator;
    if authenticator.is_local() {
        return Ok(answer(&rest, None, None));
    }
    let mut headers = parts.headers.clone();
    // A session is opened without a persona and a compliance level; each request names its own.
    headers.remove(&PERSONA_HEADER);
    headers.remove(&COMPLIANCE_HEADER);
    let credential = if authenticator.is_proxied() {
        SessionCredential::Proxy
    } else {
        let Some(bearer) = token.as_deref().map(str::trim).filter(|token| !token.is_empty()) else {
            return Ok(refuse(&rest, &Unidentified::Missing, &parts));
        };
        let token = SecretText::expanded("${token}", bearer);
        headers = with_bearer(&headers, &token);
        if !headers.contains_key(AUTHORIZATION) {
            return Ok(refuse(&rest, &Unidentified::refused("it cannot be sent in a header"), &parts));
        }
        SessionCredential::Token(token)
    };
    let via = parts.extensions.get::<PeerInfo>().map(PeerInfo::via).unwrap_or_default();
    let request = IdentifyRequest::Http { headers: &headers, resource: RequestedResource::Api, via };
    let caller = match rest.front_end.identify(request).await {
        Ok(caller) => caller,
        Err(unidentified) => return Ok(refuse(&rest, &unidentified, &parts)),
    };
    let (session, cookie) = begin(&rest, &parts, &caller.user, (credential, None), scheme).await?;
    Ok(answer(&rest, Some(session), cookie))
}

/// Begins a session of a user who was identified, and returns it with its cookie. `credential` comes with the time at
/// which it ends.
pub(super) async fn begin(
    rest: &RestState,
    parts: &Parts,
    user: &Arc<str>,
    credential: (SessionCredential, Option<SystemTime>),
    scheme: CookieScheme,
) -> Result<(ConsoleSession, Option<HeaderValue>), Problem> {
    // A second sign-in replaces the first one, so that an old cookie does not stay valid.
    console_cookies::close(&rest.console_sessions, &parts.headers, rest.public_scheme()).await?;
    let (credential, ends) = credential;
    let (secret, session) = rest.console_sessions.open(user, credential, ends).await?;
    // If its audit row cannot be written, the sign-in fails: the browser does not get the cookie.
    let who = (&*session.user, &session.credential);
    let source = sign_in_log::source_of(&parts.extensions);
    sign_in_log::record(rest, SessionChange::SignedIn, who, &source).await?;
    let value = Some((secret.expose(), session.left_at_most));
    let cookie = ConsoleCookie::Session.set(&parts.headers, scheme, value);
    Ok((session, cookie))
}

/// Ends the session of this browser.
pub(super) async fn close(
    State(rest): State<RestState>,
    _: NoQuery,
    request: Request,
) -> Result<Response, ProblemDocument> {
    let (parts, _) = request.into_parts();
    let headers = parts.headers;
    let public = cookie_scheme(&rest);
    let scheme = scheme_of_own_page(&headers, public)?;
    let mut view = view(&rest, None);
    let sessions = &rest.console_sessions;
    let found = console_cookies::of_request(sessions, &headers, public, SessionUse::Change).await?;
    if let Some(session) = found {
        let forged = |problem| ProblemDocument(StatusCode::FORBIDDEN, problem);
        console_cookies::check_csrf(&session, &headers, SessionUse::Change).map_err(forged)?;
        let is_of_provider =
            matches!(session.credential, SessionCredential::IdToken(_) | SessionCredential::Renewable(_));
        let source = sign_in_log::source_of(&parts.extensions);
        run_to_completion(sign_out(rest.clone(), headers.clone(), session, source)).await?;
        if is_of_provider {
            view.provider_sign_out = provider_sign_out(&rest, &headers).await;
        }
    }
    Ok(respond(&view, ConsoleCookie::Session.set(&headers, scheme, None)))
}

/// Ends a session and writes the audit row, also if the browser does not wait for the answer.
async fn sign_out(
    rest: RestState,
    headers: HeaderMap,
    session: ConsoleSession,
    source: String,
) -> Result<(), Problem> {
    console_cookies::close(&rest.console_sessions, &headers, rest.public_scheme()).await?;
    let who = (&*session.user, &session.credential);
    sign_in_log::record(&rest, SessionChange::SignedOut, who, &source).await
}

/// The page at which a user who signed in at the identity provider can sign out there.
async fn provider_sign_out(rest: &RestState, headers: &HeaderMap) -> Option<String> {
    let client = rest.front_end.authenticator.console_client()?;
    let base = rest.front_end.authenticator.resource().base(headers)?;
    client.end_session_url(&format!("{base}/console/")).await
}

fn answer(rest: &RestState, session: Option<ConsoleSession>, cookie: Option<HeaderValue>) -> Response {
    respond(&view(rest, session), cookie)
}

fn view(rest: &RestState, session: Option<ConsoleSession>) -> ConsoleSignInView {
    let authenticator = &rest.front_end.authenticator;
    ConsoleSignInView {
        mode: authenticator.mode_name(),
        session: session.map(SessionView::from),
        provider: authenticator.console_client().map(|client| client.provider_name().to_owned()),
        provider_sign_out: None,
    }
}

fn respond(view: &ConsoleSignInView, cookie: Option<HeaderValue>) -> Response {
    let mut response = Json(view).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The scheme that cookies must have. In `local` mode there are none.
fn cookie_scheme(rest: &RestState) -> Option<CookieScheme> {
    rest.public_scheme().filter(|_| !rest.front_end.authenticator.is_local())
}

/// The scheme of the console's own page. The guard has checked that the Origin is one that may call the gateway; for
/// a session it must also be the gateway's own, and browsers name the Origin of every such request. If `public_url` is
/// HTTPS, the page must be, too: no cookie of plain HTTP is accepted then.
fn scheme_of_own_page(
    headers: &HeaderMap,
    public: Option<CookieScheme>,
) -> Result<CookieScheme, ProblemDocument> {
    let refused = |message: &str, hint: &str| {
        let (code, blame) = ("auth.csrf", Blame::Caller);
        let problem = Problem { code, blame, message: message.into(), hint: Some(hint.into()) };
        Err(ProblemDocument(StatusCode::FORBIDDEN, problem))
    };
    let site = headers.get(&FETCH_SITE).map(HeaderValue::as_bytes);
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let Some(origin) = origin.filter(|_| site.is_none_or(|site| site == b"same-origin")) else {
        return refused(
            "only the console's own page can sign in with a cookie",
            "programs send `Authorization: Bearer TOKEN` with each request",
        );
    };
    match (CookieScheme::of(origin), public) {
        (CookieScheme::Http, Some(CookieScheme::Https)) => refused(
            "users of the console sign in over HTTPS, because `public_url` is an HTTPS address",
            "open the console at the address in `public_url`",
        ),
        (scheme, _) => Ok(scheme),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_for_the_consoles_own_page() {
        let cases = [
            (Some("http://127.0.0.1:8665"), None, Some(CookieScheme::Http)),
            (Some("https://booth.example"), Some("same-origin"), Some(CookieScheme::Https)),
            (Some("https://app.example"), Some("same-site"), None),
            (None, Some("none"), None),
            (None, None, None),
        ];
        for (origin, site, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in [("origin", origin), ("sec-fetch-site", site)] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(scheme_of_own_page(&headers, None).ok(), expected, "{origin:?} {site:?}");
            let behind_https = scheme_of_own_page(&headers, Some(CookieScheme::Https)).ok();
            assert_eq!(behind_https, expected.filter(|scheme| *scheme == CookieScheme::Https), "{origin:?}");
        }
    }
}
