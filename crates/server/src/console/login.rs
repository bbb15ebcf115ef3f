//! Sign-in at the identity provider: OpenID Connect, authorization code flow with PKCE.
//!
//! `/console/login` leads the browser to the provider, and the provider leads it back to `/console/login/callback`, where
//! the gateway exchanges the code for an ID token and opens a session. The record of the sign-in is in a cookie of the
//! browser, so an answer that another browser asked for is refused. Neither page accepts an address to return to: the
//! browser always ends at the console.

use super::session::FETCH_SITE;
use super::{login_page, session, sign_in_log};
use crate::console_cookies::{ConsoleCookie, CookieScheme};
use crate::identify::oidc::{LoginAnswer, LoginError};
use crate::identify::{IdentifyRequest, Unidentified};
use crate::peer::Ingress;
use crate::peer_info::PeerInfo;
use crate::rest::{ProblemDocument, RestState, session_credential};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_engine::{LoginFault, PendingLogin};

/// The path of the page to which the provider leads the browser back, below the URL of the gateway.
const CALLBACK: &str = "/console/login/callback";

/// Why a user was not signed in.
enum LoginRefusal {
    /// The sign-in failed.
    Login(LoginError),
    /// The user is known, but may not use the gateway now.
    Caller(Unidentified),
    /// The gateway failed.
    Gateway(Problem),
}

impl From<LoginError> for LoginRefusal {
    fn from(error: LoginError) -> Self {
        Self::Login(error)
    }
}

impl From<Problem> for LoginRefusal {
    fn from(problem: Problem) -> Self {
        Self::Gateway(problem)
    }
}

impl From<LoginFault> for LoginRefusal {
    fn from(fault: LoginFault) -> Self {
        match fault {
            LoginFault::Foreign => Self::Login(LoginError::Foreign),
            LoginFault::Over => Self::Login(LoginError::Over),
            LoginFault::Failed(problem) => Self::Gateway(problem),
        }
    }
}

impl From<Unidentified> for LoginRefusal {
    fn from(unidentified: Unidentified) -> Self {
        match unidentified {
            Unidentified::Refused(_) | Unidentified::Missing => Self::Login(LoginError::BadIdToken),
            Unidentified::Unavailable => Self::Login(LoginError::Unreachable),
            other => Self::Caller(other),
        }
    }
}

/// Leads the browser to the identity provider.
pub(super) async fn begin(State(rest): State<RestState>, headers: HeaderMap) -> Response {
    // A page of another site could sign its visitors in without their will; it only leads them to the console.
    let site = headers.get(&FETCH_SITE).map(HeaderValue::as_bytes);
    if site.is_some_and(|site| !matches!(site, b"same-origin" | b"none")) {
        return redirect(HeaderValue::from_static("./"), &[]);
    }
    match begun(&rest, &headers).await {
        Ok(response) => response,
        Err(refusal) => refused(&refusal, "./"),
    }
}

async fn begun(rest: &RestState, headers: &HeaderMap) -> Result<Response, LoginRefusal> {
    let authenticator = &rest.front_end.authenticator;
    let client = authenticator.console_client().ok_or(LoginError::NotConfigured)?;
    let base = authenticator.resource().base(headers).ok_or(LoginError::NotConfigured)?;
    let scheme = CookieScheme::of(&base);
    let new = rest.console_logins.begin(format!("{base}{CALLBACK}")).await?;
    let url = client.authorization_url(&new).await?;
    let location = HeaderValue::try_from(url).map_err(|_| LoginError::Unreachable)?;
    let cookie = ConsoleCookie::begin_login(headers, scheme, &new.sealed);
    Ok(redirect(location, &[cookie]))
}

/// Completes a sign-in: the provider has led the browser back.
pub(super) async fn finish(State(rest): State<RestState>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let mut refusal = match finished(&rest, &parts).await {
        Ok(response) => return response,
        Err(refusal) => refusal,
    };
    // An answer that does not belong to the sign-in of this browser does not end it.
    let ends_sign_in = !matches!(refusal, LoginRefusal::Login(LoginError::Foreign));
    let authenticator = &rest.front_end.authenticator;
    if is_bad_answer(&refusal)
        && let Some(throttled) =
            authenticator.note_failed_login(via_of(&parts), parts.uri.query().unwrap_or_default())
    {
        refusal = LoginRefusal::Caller(throttled);
    }
    if let Some(code) = audited_code(&refusal) {
        sign_in_log::record_failure(&rest, code, &sign_in_log::source_of(&parts.extensions));
    }
    let mut response = refused(&refusal, "../");
    let resource = authenticator.resource();
    if let LoginRefusal::Caller(unidentified) = &refusal {
        let path = parts.uri.path();
        unidentified.set_response_headers(&resource, &parts.headers, path, response.headers_mut());
    }
    if ends_sign_in {
        let base = resource.base(&parts.headers).unwrap_or_default();
        let cookie = ConsoleCookie::Login.set(&parts.headers, CookieScheme::of(&base), None);
        cookie.and_then(|cookie| response.headers_mut().insert(SET_COOKIE, cookie));
    }
    response
}

async fn finished(rest: &RestState, parts: &Parts) -> Result<Response, LoginRefusal> {
    let headers = &parts.headers;
    let authenticator = &rest.front_end.authenticator;
    let client = authenticator.console_client().ok_or(LoginError::NotConfigured)?;
    let answer = LoginAnswer::read(parts.uri.query().unwrap_or_default())?;
    let login = open_record(rest, headers, &answer.state).await?;
    let via = via_of(parts);
    let turn = match authenticator.is_throttled(via) {
        true => Some(client.throttled_turn().await?),
        false => None,
    };
    let tokens = client.exchange(answer, &login).await?;
    drop(turn);

    let clock = rest.engine().clock();
    let expires = authenticator.check_login(tokens.id_token.expose(), &login.nonce, clock).await?;
    // The session has neither persona nor compliance level; each of its requests names its own.
    let no_headers = HeaderMap::new();
    let request = IdentifyRequest::Console { headers: &no_headers, id_token: tokens.id_token.expose(), via };
    let caller = rest.front_end.identify(request).await?;
    rest.console_logins.complete(&login).await?;

    let scheme = CookieScheme::of(&login.redirect_uri);
    let credential = session_credential(tokens, expires);
    let (_, cookie) = session::begin(rest, parts, &caller.user, credential, scheme).await?;
    let cookies = [cookie, ConsoleCookie::Login.set(headers, scheme, None)];
    Ok(redirect(HeaderValue::from_static("../"), &cookies))
}

/// The record of the sign-in that this browser began with this `state`.
async fn open_record(
    rest: &RestState,
    headers: &HeaderMap,
    state: &str,
) -> Result<PendingLogin, LoginRefusal> {
    let mut refusal = LoginFault::Foreign;
    for sealed in ConsoleCookie::Login.values(headers, rest.public_scheme()) {
        match rest.console_logins.open(&sealed, state).await {
            Ok(login) => return Ok(login),
            Err(LoginFault::Foreign) => {}
            Err(fault) => refusal = fault,
        }
    }
    Err(refusal.into())
}

/// How a request reached the gateway.
fn via_of(parts: &Parts) -> Ingress {
    parts.extensions.get::<PeerInfo>().map(PeerInfo::via).unwrap_or_default()
}

/// Whether a browser brought an answer that the gateway or the provider did not accept, which counts as a bad credential.
fn is_bad_answer(refusal: &LoginRefusal) -> bool {
    matches!(
        refusal,
        LoginRefusal::Login(
            LoginError::Foreign | LoginError::Over | LoginError::CodeRefused { .. } | LoginError::BadIdToken
        )
    )
}

/// The code of the audit row of a failed sign-in. A failure of the gateway or of the provider is in the log only.
fn audited_code(refusal: &LoginRefusal) -> Option<&'static str> {
    match refusal {
        LoginRefusal::Login(LoginError::NotConfigured | LoginError::Unreachable)
        | LoginRefusal::Gateway(_) => None,
        LoginRefusal::Login(error) => Some(error.code()),
        LoginRefusal::Caller(unidentified) => Some(unidentified.code()),
    }
}

/// A page with the reason. `console` is the relative path of the console.
fn refused(refusal: &LoginRefusal, console: &'static str) -> Response {
    let (status, problem) = match refusal {
        LoginRefusal::Login(error) => (status_of(error), Problem::of(error)),
        LoginRefusal::Caller(unidentified) => (unidentified.status(), Problem::of(unidentified)),
        LoginRefusal::Gateway(problem) => (ProblemDocument::from(problem.clone()).0, problem.clone()),
    };
    login_page::failed(status, &problem, console)
}

fn status_of(error: &LoginError) -> StatusCode {
    match error {
        LoginError::NotConfigured => StatusCode::NOT_FOUND,
        LoginError::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        LoginError::Foreign | LoginError::Over => StatusCode::BAD_REQUEST,
        LoginError::Denied { .. } | LoginError::BadIdToken => StatusCode::FORBIDDEN,
        LoginError::CodeRefused { .. } => StatusCode::BAD_GATEWAY,
    }
}

/// A redirect that is not cached and whose target does not learn the present address, which may contain a code.
fn redirect(location: HeaderValue, cookies: &[Option<HeaderValue>]) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for cookie in cookies.iter().flatten() {
        headers.append(SET_COOKIE, cookie.clone());
    }
    response
}
