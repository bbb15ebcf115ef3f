//! Who asks over REST. Every route but the open ones lies behind [`identified`], so none can forget to ask.

use super::Rest;
use super::problem::ProblemDocument;
use crate::converse::{Visitor, attempt};
use crate::identify::{Knock, Unidentified, carrying, in_conversation};
use crate::peer::Via;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use std::convert::Infallible;
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::fault::{Blame, Problem};

/// The caller of a request.
pub struct Who(pub Arc<Caller>);

/// The caller of a request that only those who look after the gateway may make.
pub struct Keeper(pub Arc<Caller>);

/// Finds out who asks before anything else is looked at.
pub async fn identified(State(rest): State<Rest>, mut request: Request, next: Next) -> Response {
    let visitor = request.extensions().get::<Visitor>().cloned();
    let via = visitor.as_ref().map(Visitor::via).unwrap_or_default();
    let knock = Knock::Http { headers: request.headers(), persona: None, via };
    let identified = rest.door.identify(knock).await;
    if let (Ok(caller), Some(visitor)) = (&identified, &visitor)
        && let Err(problem) = visitor.known_as(caller)
    {
        return closing(ProblemDocument::from(problem).into_response());
    }
    match identified {
        Ok(caller) => match in_conversation(caller, request.headers()) {
            Ok(caller) => {
                let caller = {
                    let wanted = rest.door.engine.wanted_headers();
                    carrying(wanted.as_deref().map(Vec::as_slice), caller, request.headers())
                };
                request.extensions_mut().insert(caller);
                next.run(request).await
            }
            Err(problem) => ProblemDocument::from(problem).into_response(),
        },
        Err(unidentified) => {
            let source = visitor.as_ref().map(Visitor::source).unwrap_or_default();
            rest.door.note_refusal(&unidentified, &source, &attempt(request.method(), request.uri().path()));
            turned_away(&rest, &unidentified, request.headers(), request.uri().path())
        }
    }
}

/// The same answer, after which the connection ends.
pub fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// How a request reached the gateway.
pub struct By(pub Via);

impl<S: Send + Sync> FromRequestParts<S> for By {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Visitor>().map(Visitor::via).unwrap_or_default()))
    }
}

/// Refuses everybody but administrators. It stands before a whole table of routes, so that no handler can forget it.
pub async fn administrators_only(request: Request, next: Next) -> Response {
    match request.extensions().get::<Arc<Caller>>() {
        Some(caller) if caller.admin == Admin::Yes => next.run(request).await,
        _ => ProblemDocument::from(admin_only()).into_response(),
    }
}

/// Says why a request was not let in.
pub fn turned_away(rest: &Rest, unidentified: &Unidentified, headers: &HeaderMap, path: &str) -> Response {
    let document = ProblemDocument(unidentified.status(), Problem::of(unidentified));
    let mut response = document.into_response();
    unidentified.stamp(&rest.door.identity.resource(), headers, path, response.headers_mut());
    response
}

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemDocument> {
        let caller = parts.extensions.get::<Arc<Caller>>().cloned();
        caller.map(Self).ok_or_else(|| {
            ProblemDocument(Unidentified::Missing.status(), Problem::of(&Unidentified::Missing))
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Keeper {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemDocument> {
        let Who(caller) = Who::from_request_parts(parts, state).await?;
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
        hint: Some("administrators are the members of the group `auth.admin_group`".into()),
    }
}

/// The same caller through a persona that the request names besides its headers.
pub fn through(
    rest: &Rest,
    caller: Arc<Caller>,
    persona: Option<&str>,
) -> Result<Arc<Caller>, ProblemDocument> {
    let Some(persona) = persona else { return Ok(caller) };
    rest.door.identity.through(&caller, persona).map_err(|refused| Problem::of(&refused).into())
}
