//! Requests to an identity provider: its metadata, and the endpoints that the metadata names.

use bytes::Bytes;
use http::header::ACCEPT;
use http::{Request, StatusCode};
use serde::de::DeserializeOwned;
use toolbooth_upstream::oauth::{HttpFetch, NetworkReach};

/// The metadata of an issuer, which must name the issuer itself.
pub(super) async fn metadata<T: DeserializeOwned>(http: &dyn HttpFetch, issuer: &str) -> Result<T, String> {
    let base = url::Url::parse(issuer).map_err(|_| "the issuer is not a URL".to_owned())?;
    let path = base.path().trim_end_matches('/');
    let at = |place: String| {
        let mut url = base.clone();
        url.set_path(&place);
        url.set_query(None);
        url.to_string()
    };
    let places = [
        at(format!("{path}/.well-known/openid-configuration")),
        at(format!("/.well-known/oauth-authorization-server{path}")),
    ];
    let mut last = String::new();
    for place in places {
        let document = get::<serde_json::Value>(http, &place, NetworkReach::Configured).await;
        match document {
            Ok(document) if document["issuer"] != *issuer => {
                last = "its metadata names another issuer".into();
            }
            Ok(document) => match serde_json::from_value(document) {
                Ok(metadata) => return Ok(metadata),
                Err(_) => last = "its metadata has an unexpected format".into(),
            },
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// Checks an endpoint that the metadata of an issuer names, and determines which addresses it may have.
pub(super) fn endpoint(issuer: &str, name: &str, endpoint: &str) -> Result<(url::Url, NetworkReach), String> {
    let base = url::Url::parse(issuer).map_err(|_| "the issuer is not a URL".to_owned())?;
    let url = url::Url::parse(endpoint).map_err(|_| format!("`{name}` is not a URL"))?;
    let at_home = url.origin() == base.origin();
    if url.scheme() != "https" && !at_home {
        return Err(format!("`{name}` is not https"));
    }
    // Another host was chosen by the issuer, not by the operator: it must not reach private networks.
    Ok((url, if at_home { NetworkReach::Configured } else { NetworkReach::Public }))
}

/// Fetches a JSON document.
pub(super) async fn get<T: DeserializeOwned>(
    http: &dyn HttpFetch,
    url: &str,
    reach: NetworkReach,
) -> Result<T, String> {
    let request = Request::get(url).header(ACCEPT, "application/json").extension(reach).body(Bytes::new());
    let request = request.map_err(|_| "its URL is not valid".to_owned())?;
    let response = http.fetch(request).await.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status().as_u16()));
    }
    serde_json::from_slice(response.body()).map_err(|_| "the response has an unexpected format".to_owned())
}
