//! Endpoints: each entry has a handler and its OpenAPI description.
//!
//! The router and the OpenAPI document are built from the same entries, so they cannot differ. An entry is a few
//! function pointers until the document is requested; `utoipa-axum` would build the whole document at every start.

use super::RestState;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use std::pin::Pin;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::HttpMethod;

/// Who may call an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everyone, without a credential.
    Public,
    /// All identified callers.
    Caller,
    /// Members of the group `auth.admin_group`.
    Administrator,
}

impl Access {
    /// The value of `x-toolbooth-access` in the OpenAPI document.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Caller => "caller",
            Self::Administrator => "administrator",
        }
    }
}

/// A handler with its extractors behind one function type. The router compiles its own code once for this type, instead of
/// once for every handler, which was a tenth of the crate's code.
pub type ErasedHandler = fn(Request, RestState) -> Pin<Box<dyn Future<Output = Response> + Send>>;

/// One handler with its path, methods and description.
pub struct Endpoint {
    /// The path in the router's syntax.
    pub path: fn() -> String,
    /// The methods that it supports.
    pub methods: fn() -> Vec<HttpMethod>,
    /// The handler.
    pub handle: ErasedHandler,
    /// The OpenAPI description with the schemas that it uses.
    pub openapi: fn() -> OpenApi,
    /// The tag of the endpoint.
    pub noun: &'static str,
    /// The unique operation id.
    pub id: &'static str,
}

/// Builds entries for handlers with `#[utoipa::path]`, given as `module::handler`.
macro_rules! endpoints {
    ($($module:ident::$handler:ident),* $(,)?) => {
        &[$({
            #[derive(utoipa::OpenApi)]
            #[openapi(paths($module::$handler))]
            struct EndpointDoc;
            pastey::paste! {
                $crate::rest::endpoint::Endpoint {
                    path: <$module::[<__path_ $handler>] as utoipa::Path>::path,
                    methods: <$module::[<__path_ $handler>] as utoipa::Path>::methods,
                    handle: |request, rest| axum::handler::Handler::call($module::$handler, request, rest),
                    openapi: <EndpointDoc as utoipa::OpenApi>::openapi,
                    noun: stringify!($module),
                    id: concat!(stringify!($module), "_", stringify!($handler)),
                }
            }
        }),*]
    };
}
pub(crate) use endpoints;

/// The router of these endpoints.
pub fn routes(endpoints: &[Endpoint]) -> Router<RestState> {
    endpoints.iter().fold(Router::new(), |router, endpoint| {
        let methods = (endpoint.methods)();
        let handle = endpoint.handle;
        let handler = move |State(rest): State<RestState>, request: Request| handle(request, rest);
        methods
            .iter()
            .fold(router, |router, method| router.route(&(endpoint.path)(), on(filter_of(method), handler)))
    })
}

fn filter_of(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
    }
}
