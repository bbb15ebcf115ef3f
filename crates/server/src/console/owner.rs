//! Tells the browser of the owner from other programs, in `local` mode: the routes of `toolbooth console`.
//!
//! These routes are for that command and for the console's own page, and not part of the API.

use super::sign_in_log::source_of;
use crate::console_cookies::{ConsoleCookie, CookieScheme};
use crate::identify::{IdentifyRequest, RequestedResource};
use crate::owner_browsers::{BROWSER_LIFETIME, CODE_LIFETIME, is_own_page};
use crate::peer::Ingress;
use crate::peer_info::PeerInfo;
use crate::rest::{JsonBody, NoQuery, ProblemDocument, RestState, body, refuse, trust_local_only};
use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, ORIGIN, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use toolbooth_core::audit::AuditKind;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::{Act, RefusedAttempt};

const EXAMPLE: &str = "send {\"code\": \"…\"}";

/// The answer to `toolbooth console`.
#[derive(Serialize)]
struct OwnerCodeView {
    /// The code; absent if callers identify themselves, so that the console has a sign-in of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// How long the code is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
    /// The setting `public_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_url: Option<String>,
}

/// The code that a page exchanges.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnerCodeBody {
    #[serde(default)]
    code: String,
}

/// Whether a browser is the owner's.
#[derive(Serialize)]
struct OwnerBrowserView {
    owner: bool,
}

/// Makes a code for `toolbooth console`. Only the control socket reaches it.
pub(super) async fn code(
    State(rest): State<RestState>,
    _: NoQuery,
    request: Request,
) -> Result<Response, ProblemDocument> {
    let (parts, _) = request.into_parts();
    if via_of(&parts.extensions) != Ingress::Control {
        record_refusal(&rest, &source_of(&parts.extensions), "POST /console/owner-code");
        let message = "codes for the console are made only for `toolbooth console`, over the control socket";
        return Err(refused("auth.owner-code", message));
    }
    let public_url = rest.front_end.authenticator.resource().public_url.clone();
    let code = match rest.is_owners_alone() {
        true => Some(rest.owner_browsers.make_code()?.expose().to_owned()),
        false => None,
    };
    let seconds_left = code.as_ref().map(|_| CODE_LIFETIME.as_secs());
    Ok(unstored(Json(OwnerCodeView { code, seconds_left, public_url })))
}

/// Shows whether this browser is the owner's.
pub(super) async fn show(State(rest): State<RestState>, headers: HeaderMap, _: NoQuery) -> Response {
    let owner = rest.is_owners_alone() && rest.owner_browsers.has_cookie(&headers);
    unstored(Json(OwnerBrowserView { owner }))
}

/// Exchanges a code for the cookie of the owner's browser.
pub(super) async fn open(
    State(rest): State<RestState>,
    _: NoQuery,
    request: Request,
) -> Result<Response, ProblemDocument> {
    let (parts, content) = request.into_parts();
    if !rest.is_owners_alone() {
        return Err(trust_local_only().into());
    }
    if !is_own_page(&parts.headers) {
        return Err(refused(
            "auth.csrf",
            "only the console's own page can use a code of `toolbooth console`",
        ));
    }
    let mut copy = Request::new(content);
    copy.headers_mut().clone_from(&parts.headers);
    let JsonBody(text) = JsonBody::from_request(copy, &rest).await?;
    let OwnerCodeBody { code } = body(&text, EXAMPLE)?;
    let (via, source) = (via_of(&parts.extensions), source_of(&parts.extensions));
    let Some(secret) = rest.owner_browsers.exchange(&code)? else {
        if let Some(throttled) = rest.front_end.authenticator.note_failed_login(via, &code) {
            return Ok(refuse(&rest, &throttled, &parts));
        }
        record_refusal(&rest, &source, "POST /console/owner");
        return Err(refused("auth.owner-code", "this code was used before, has expired, or is not valid"));
    };
    let no_headers = HeaderMap::new();
    let request = IdentifyRequest::Http { headers: &no_headers, resource: RequestedResource::Api, via };
    let caller = match rest.front_end.identify(request).await {
        Ok(caller) => caller,
        Err(unidentified) => return Ok(refuse(&rest, &unidentified, &parts)),
    };
    // If its audit row cannot be written, the browser does not get the cookie.
    let act = Act::new(AuditKind::Session, &caller.user, "signed-in");
    let act = act.with(&[("method", "owner-code"), ("source", &source)]);
    rest.engine().audit().record_act(act).await?;
    let origin = parts.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()).unwrap_or_default();
    let value = Some((secret.expose(), BROWSER_LIFETIME));
    let cookie = ConsoleCookie::Owner.set(&parts.headers, CookieScheme::of(origin), value);
    let mut response = unstored(Json(OwnerBrowserView { owner: cookie.is_some() }));
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

fn via_of(extensions: &http::Extensions) -> Ingress {
    extensions.get::<PeerInfo>().map(PeerInfo::via).unwrap_or_default()
}

/// Records a bad code. Repetitions from one address are counted, not written one by one.
fn record_refusal(rest: &RestState, source: &str, attempt: &str) {
    let code = "auth.owner-code";
    rest.engine().audit().record_refusal(RefusedAttempt { code, source, user: None, attempt });
}

fn refused(code: &'static str, message: &str) -> ProblemDocument {
    let hint =
        "run `toolbooth console` as the user who runs the gateway, and open the address that it prints";
    let problem = Problem { code, blame: Blame::Caller, message: message.into(), hint: Some(hint.into()) };
    ProblemDocument(StatusCode::FORBIDDEN, problem)
}

/// A response that no cache stores.
fn unstored(view: impl IntoResponse) -> Response {
    let mut response = view.into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
