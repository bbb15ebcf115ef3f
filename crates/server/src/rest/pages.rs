//! The browsable API documentation: three bundled files that load nothing from elsewhere.

use super::extract::{NoQuery, PathParam};
use super::problem::{ProblemDocument, not_found};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Uri, header};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Shows the API documentation in a browser.
#[utoipa::path(
    get,
    path = "/docs",
    responses((status = 200, description = "The page.", body = String, content_type = "text/html"))
)]
pub async fn docs(_: NoQuery) -> Response {
    page("text/html; charset=utf-8", include_str!("docs/docs.html"))
}

/// Returns a file of the documentation page: `docs.js` or `docs.css`.
#[utoipa::path(
    get,
    path = "/docs/{file}",
    params(("file" = String, Path, description = "The file.", example = "docs.css")),
    responses(
        (status = 200, description = "The file.", content(
            (String = "text/css"),
            (String = "text/javascript"),
        )),
        (status = 404, description = "`request.not-found`."),
    )
)]
pub async fn docs_file(
    PathParam(file): PathParam<String>,
    _: NoQuery,
    uri: Uri,
) -> Result<Response, ProblemDocument> {
    match file.as_str() {
        "docs.css" => Ok(page("text/css; charset=utf-8", include_str!("docs/docs.css"))),
        "docs.js" => Ok(page("text/javascript; charset=utf-8", include_str!("docs/docs.js"))),
        _ => Err(not_found(uri).await),
    }
}

fn page(kind: &'static str, text: &'static str) -> Response {
    let mut response = text.into_response();
    let fixed = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
