//! Endpoints: what answers at a path, and what the document says of it, in one entry.
//!
//! The router and the OpenAPI document are made from the same entries, so neither has anything that the
//! other has not. Until somebody reads the document, an entry is a few pointers: the router of `utoipa-axum` would
//! build all of it at every start.

use super::Rest;
use axum::Router;
use axum::routing::{MethodFilter, MethodRouter};
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::HttpMethod;

/// Who may call an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody, without a credential.
    Anybody,
    /// Every caller that the gateway has identified.
    Caller,
    /// Members of the group `auth.admin_group`.
    Administrator,
}

impl Access {
    /// The word for it in the OpenAPI document (`x-toolbooth-access`).
    pub const fn word(self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Caller => "caller",
            Self::Administrator => "administrator",
        }
    }
}

/// One handler: where it answers, how, and what is told of it.
pub struct Endpoint {
    /// The path, as the router reads it.
    pub path: fn() -> String,
    /// The methods it answers to.
    pub methods: fn() -> Vec<HttpMethod>,
    /// The handler, for one method.
    pub answers: fn(MethodFilter) -> MethodRouter<Rest>,
    /// What its attribute says, with the schemas that this needs.
    pub tells: fn() -> OpenApi,
    /// The noun it belongs to.
    pub noun: &'static str,
    /// A name that no other endpoint has.
    pub id: &'static str,
}

/// Entries for handlers that carry `#[utoipa::path]`, named as `module::handler`.
macro_rules! endpoints {
    ($($module:ident::$handler:ident),* $(,)?) => {
        &[$({
            #[derive(utoipa::OpenApi)]
            #[openapi(paths($module::$handler))]
            struct Told;
            pastey::paste! {
                $crate::rest::endpoint::Endpoint {
                    path: <$module::[<__path_ $handler>] as utoipa::Path>::path,
                    methods: <$module::[<__path_ $handler>] as utoipa::Path>::methods,
                    answers: |filter| axum::routing::on(filter, $module::$handler),
                    tells: <Told as utoipa::OpenApi>::openapi,
                    noun: stringify!($module),
                    id: concat!(stringify!($module), "_", stringify!($handler)),
                }
            }
        }),*]
    };
}
pub(crate) use endpoints;

/// The routes of these endpoints.
pub fn routes(endpoints: &[Endpoint]) -> Router<Rest> {
    endpoints.iter().fold(Router::new(), |router, endpoint| {
        let methods = (endpoint.methods)();
        methods.iter().fold(router, |router, method| {
            router.route(&(endpoint.path)(), (endpoint.answers)(filter_of(method)))
        })
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
