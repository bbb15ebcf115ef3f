//! Identifies the callers of REST requests. All routes except the open ones are behind [`identified`].

use super::RestState;
use super::problem::ProblemDocument;
use super::session_renewal::renewed;
use crate::console_cookies::{self, CookieScheme};
use crate::identify::{
    IdentifyRequest, RequestedResource, Unidentified, with_forwarded_headers, with_session,
};
use crate::peer::Ingress;
use crate::peer_info::{PeerInfo, attempt};
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CONNECTION};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use std::convert::Infallible;
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::secret::SecretText;
use toolbooth_engine::{SessionCredential, SessionUse};

/// Extracts the caller of a request.
pub struct RestCaller(pub Arc<Caller>);

/// Extracts the caller of a request and requires an administrator.
pub struct AdminCaller(pub Arc<Caller>);

/// Identifies the caller by the credential of the request, or by the session of the browser that sent it.
pub async fn identify(
    rest: &RestState,
    (headers, via): (&HeaderMap, Ingress),
    session_use: SessionUse,
) -> Result<Arc<Caller>, RequestRefusal> {
    let authenticator = &rest.front_end.authenticator;
    // In `local` mode there is nothing to steal. A token in the request takes precedence over a cookie; a proxy may
    // send an `Authorization` header of its own.
    let uses_session = !authenticator.is_local()
        && via != Ingress::Control
        && (authenticator.is_proxied() || !headers.contains_key(AUTHORIZATION));
    let session = match uses_session {
        true => {
            let public = rest.public_scheme();
            console_cookies::of_request(&rest.console_sessions, headers, public, session_use).await
        }
        false => Ok(None),
    };
    let session = session.map_err(|problem| {
        tracing::warn!("sessions of the console cannot be looked up: {}", problem.message);
        RequestRefusal::Unidentified(Unidentified::Unavailable)
    })?;
    let Some(session) = session else {
        let request = IdentifyRequest::Http { headers, resource: RequestedResource::Api, via };
        return rest.front_end.identify(request).await.map_err(RequestRefusal::Unidentified);
    };
    console_cookies::check_csrf(&session, headers, session_use).map_err(RequestRefusal::Forged)?;
    let session = renewed(rest, session).await.map_err(RequestRefusal::Unidentified)?;
    let with_token;
    let request = match &session.credential {
        SessionCredential::Token(token) => {
            with_token = with_bearer(headers, token);
            IdentifyRequest::Http { headers: &with_token, resource: RequestedResource::Api, via }
        }
        SessionCredential::IdToken(token) => {
            IdentifyRequest::Console { headers, id_token: token.expose(), via }
        }
        SessionCredential::Renewable(tokens) => {
            IdentifyRequest::Console { headers, id_token: tokens.id_token.expose(), via }
        }
        SessionCredential::Proxy => IdentifyRequest::Http { headers, resource: RequestedResource::Api, via },
    };
    let identified = match rest.front_end.identify(request).await {
        // The proxy now names another user.
        Ok(caller) if caller.user != session.user => Err(Unidentified::Missing),
        identified => identified,
    };
    if matches!(identified, Err(Unidentified::Refused(_) | Unidentified::Missing))
        && let Err(problem) =
            console_cookies::close(&rest.console_sessions, headers, rest.public_scheme()).await
    {
        tracing::warn!("a session of the console could not be ended: {}", problem.message);
    }
    identified.map_err(RequestRefusal::Unidentified)
}

impl RestState {
    /// The scheme of the setting `public_url`, by which browsers reach the gateway; `None` if it is not set.
    pub(crate) fn public_scheme(&self) -> Option<CookieScheme> {
        self.front_end.authenticator.resource().public_url.as_deref().map(CookieScheme::of)
    }
}

/// The headers of a request with the token of its session. A token that no header can carry identifies no caller.
pub fn with_bearer(headers: &HeaderMap, token: &SecretText) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove(AUTHORIZATION);
    if let Ok(mut bearer) = HeaderValue::try_from(format!("Bearer {}", token.expose())) {
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    headers
}

/// Why a request has no caller.
#[derive(Debug)]
pub enum RequestRefusal {
    /// The caller could not be identified.
    Unidentified(Unidentified),
    /// The request of a browser session lacks the CSRF token.
    Forged(Problem),
}

/// Records a refused credential and returns the response to its request.
pub fn refuse(rest: &RestState, unidentified: &Unidentified, request: &Parts) -> Response {
    let peer = request.extensions.get::<PeerInfo>();
    let source = peer.map(PeerInfo::source).unwrap_or_default();
    rest.front_end.note_refusal(unidentified, &source, &attempt(&request.method, request.uri.path()));
    unauthorized(rest, unidentified, &request.headers, request.uri.path())
}

/// Middleware that identifies the caller before the handler runs.
pub async fn identified(State(rest): State<RestState>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<PeerInfo>().cloned();
    let via = peer.as_ref().map(PeerInfo::via).unwrap_or_default();
    let identified =
        identify(&rest, (request.headers(), via), console_cookies::use_by(request.method())).await;
    if let (Ok(caller), Some(peer)) = (&identified, &peer)
        && let Err(problem) = peer.assign_to(caller)
    {
        return closing(ProblemDocument::from(problem).into_response());
    }
    match identified {
        Ok(caller) => match with_session(caller, request.headers()) {
            Ok(caller) => {
                let caller = {
                    let wanted = rest.engine().servers().wanted_headers();
                    with_forwarded_headers(wanted.as_deref().map(Vec::as_slice), caller, request.headers())
                };
                request.extensions_mut().insert(caller);
                next.run(request).await
            }
            Err(problem) => ProblemDocument::from(problem).into_response(),
        },
        Err(RequestRefusal::Unidentified(unidentified)) => {
            refuse(&rest, &unidentified, &request.into_parts().0)
        }
        Err(RequestRefusal::Forged(problem)) => {
            ProblemDocument(StatusCode::FORBIDDEN, problem).into_response()
        }
    }
}

/// Adds `Connection: close` to a response.
pub fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Extracts how a request reached the gateway.
pub struct RequestIngress(pub Ingress);

impl<S: Send + Sync> FromRequestParts<S> for RequestIngress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<PeerInfo>().map(PeerInfo::via).unwrap_or_default()))
    }
}

/// Middleware that rejects callers who are not administrators. It covers a whole table of routes, so that no handler
/// can omit the check.
pub async fn administrators_only(request: Request, next: Next) -> Response {
    match request.extensions().get::<Arc<Caller>>() {
        Some(caller) if caller.admin == Admin::Yes => next.run(request).await,
        _ => ProblemDocument::from(admin_only()).into_response(),
    }
}

/// The response to a request that could not be identified.
fn unauthorized(rest: &RestState, unidentified: &Unidentified, headers: &HeaderMap, path: &str) -> Response {
    let document = ProblemDocument(unidentified.status(), Problem::of(unidentified));
    let mut response = document.into_response();
    unidentified.set_response_headers(
        &rest.front_end.authenticator.resource(),
        headers,
        path,
        response.headers_mut(),
    );
    response
}

impl<S: Send + Sync> FromRequestParts<S> for RestCaller {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemDocument> {
        let caller = parts.extensions.get::<Arc<Caller>>().cloned();
        caller.map(Self).ok_or_else(|| {
            ProblemDocument(Unidentified::Missing.status(), Problem::of(&Unidentified::Missing))
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AdminCaller {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemDocument> {
        let RestCaller(caller) = RestCaller::from_request_parts(parts, state).await?;
        match caller.admin {
            Admin::Yes => Ok(Self(caller)),
            Admin::No => Err(admin_only().into()),
        }
    }
}

fn admin_only() -> Problem {
    Problem {
        code: "auth.admin-only",
        blame: Blame::Caller,
        message: "only an administrator may do this".into(),
        hint: Some("administrators are members of the group in `auth.admin_group`".into()),
    }
}

/// The same caller with a persona that the request names outside its headers.
pub fn with_persona(
    rest: &RestState,
    caller: Arc<Caller>,
    persona: Option<&str>,
) -> Result<Arc<Caller>, ProblemDocument> {
    let Some(persona) = persona else { return Ok(caller) };
    rest.front_end.authenticator.through(&caller, persona).map_err(|refused| Problem::of(&refused).into())
}
