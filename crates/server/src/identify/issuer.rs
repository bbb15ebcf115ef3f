//! Requests to an identity provider: its metadata, and the endpoints that the metadata names.

use bytes::Bytes;
use http::header::ACCEPT;
use http::{Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use std::time::SystemTime;
use toolbooth_upstream::http::sent_at;
use toolbooth_upstream::oauth::{HttpFetch, NetworkReach};

/// Maximum length of a foreign text in a reason, in characters.
const MAX_SHOWN: usize = 200;

/// A JSON document, and when its server sent it by its own clock, if it says so.
pub(super) struct DatedDocument<T> {
    pub(super) content: T,
    pub(super) sent: Option<SystemTime>,
}

/// The metadata of an issuer, which must name the issuer itself.
pub(super) async fn metadata<T: DeserializeOwned>(http: &dyn HttpFetch, issuer: &str) -> Result<T, String> {
    dated_metadata(http, issuer).await.map(|found| found.content)
}

/// The metadata of an issuer, and when it was sent.
pub(super) async fn dated_metadata<T: DeserializeOwned>(
    http: &dyn HttpFetch,
    issuer: &str,
) -> Result<DatedDocument<T>, String> {
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
    let (mut wrong, mut absent) = (None, String::new());
    for place in places {
        let document = dated::<serde_json::Value>(http, &place, NetworkReach::Configured).await;
        match document {
            Ok(found) if found.content["issuer"] != *issuer => {
                let named = shown(&found.content["issuer"].to_string());
                wrong = Some(format!("its metadata names another issuer: {named}"));
            }
            Ok(found) => match serde_json::from_value(found.content) {
                Ok(content) => return Ok(DatedDocument { content, sent: found.sent }),
                Err(_) => wrong = Some("its metadata has an unexpected format".into()),
            },
            Err(why) => absent = why,
        }
    }
    // A document that is wrong says more than one that is absent.
    Err(wrong.unwrap_or(absent))
}

/// A foreign text as one short line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
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
    dated(http, url, reach).await.map(|found| found.content)
}

/// Fetches a JSON document, and reads when it was sent.
pub(super) async fn dated<T: DeserializeOwned>(
    http: &dyn HttpFetch,
    url: &str,
    reach: NetworkReach,
) -> Result<DatedDocument<T>, String> {
    let response = fetch(http, url, reach).await?;
    let content = serde_json::from_slice(response.body());
    let content = content.map_err(|_| "the response has an unexpected format".to_owned())?;
    Ok(DatedDocument { content, sent: sent_at(response.headers()) })
}

async fn fetch(http: &dyn HttpFetch, url: &str, reach: NetworkReach) -> Result<Response<Bytes>, String> {
    let request = Request::get(url).header(ACCEPT, "application/json").extension(reach).body(Bytes::new());
    let request = request.map_err(|_| "its URL is not valid".to_owned())?;
    let response = http.fetch(request).await.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status().as_u16()));
    }
    Ok(response)
}
