//! Downloads one document, with limits on size, time and redirects.

use crate::failure::{CommandFailure, FaultReport};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_upstream::http::{HttpOrigin, OriginClient, SendError};
use toolbooth_upstream::oauth::NetworkReach;
use url::Url;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the whole download may take.
const TOTAL: Duration = Duration::from_secs(30);
/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 3;

/// A downloaded document.
pub struct DownloadedDocument {
    /// The HTTP status.
    pub status: StatusCode,
    /// The content.
    pub body: Bytes,
    /// The URL that it was read from, after redirects.
    pub url: String,
}

/// Downloads a document of at most `max_bytes`. An answer with an error status is returned as well.
pub async fn download(url: &str, max_bytes: usize) -> Result<DownloadedDocument, CommandFailure> {
    let work = follow(url, max_bytes);
    match tokio::time::timeout(TOTAL, work).await {
        Ok(done) => done.map_err(|why| failed(url, &why)),
        Err(_) => Err(failed(url, &format!("no answer within {} s", TOTAL.as_secs()))),
    }
}

async fn follow(url: &str, max_bytes: usize) -> Result<DownloadedDocument, String> {
    let mut url = url.to_owned();
    // The user named the first host; it may redirect only to networks that it is in itself.
    let mut reach = NetworkReach::Configured;
    for _ in 0..=MAX_REDIRECTS {
        let origin = HttpOrigin::parse(&url).map_err(|error| error.to_string())?;
        let addresses = addresses(&origin, reach).await?;
        if reach == NetworkReach::Configured {
            let own = addresses.iter().map(|address| NetworkReach::of(address.ip())).min();
            reach = own.unwrap_or(NetworkReach::Public);
        }
        let client = OriginClient::pinned(origin.clone(), addresses, CONNECT);
        let (document, elsewhere) = fetch(&url, &origin, &client, max_bytes).await?;
        let Some(place) = elsewhere else { return Ok(document) };
        if url.starts_with("https://") && !place.starts_with("https://") {
            return Err("it redirects to a URL that is not encrypted".into());
        }
        url = place;
    }
    Err("it redirects too often".into())
}

/// The addresses of a host that may be connected to.
async fn addresses(origin: &HttpOrigin, reach: NetworkReach) -> Result<Vec<SocketAddr>, String> {
    let host = origin.authority.host().trim_start_matches('[').trim_end_matches(']');
    let resolved = tokio::net::lookup_host((host, origin.port())).await;
    let resolved = resolved.map_err(|_| format!("the address of `{host}` is not known"))?;
    let allowed: Vec<SocketAddr> = resolved.filter(|address| reach.allows(address.ip())).collect();
    match allowed.is_empty() {
        true => Err(format!("it redirects to `{host}`, which is on this machine or in a private network")),
        false => Ok(allowed),
    }
}

/// The URL that a `Location` header means, which may be relative to the URL of the request.
fn redirect_target(url: &str, place: &str) -> Result<String, String> {
    let target = Url::parse(url).and_then(|url| url.join(place));
    target.map(String::from).map_err(|_| "it redirects to a URL that is not valid".to_owned())
}

/// One request, and the absolute URL that its answer redirects to.
async fn fetch(
    url: &str,
    origin: &HttpOrigin,
    client: &Arc<OriginClient>,
    max_bytes: usize,
) -> Result<(DownloadedDocument, Option<String>), String> {
    let request = Request::builder()
        .method(Method::GET)
        .uri(origin.path.as_str())
        .header(header::HOST, origin.authority.as_str())
        .header(header::ACCEPT, "application/json, application/yaml, text/yaml, */*;q=0.5")
        .header(header::USER_AGENT, concat!("toolbooth/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::new()))
        .map_err(|_| "the URL is not valid".to_owned())?;
    let (response, _connection) = client.send(request).await.map_err(|failure| match failure {
        SendError::NotSent(why) | SendError::Broken(why) => why,
    })?;
    let status = response.status();
    let place = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
    let elsewhere = match place.filter(|_| status.is_redirection()) {
        Some(place) => Some(redirect_target(url, place)?),
        None => None,
    };
    let body = Limited::new(response.into_body(), max_bytes).collect().await;
    let body = body.map_err(|_| format!("it ended early, or has more than {max_bytes} bytes"))?.to_bytes();
    Ok((DownloadedDocument { status, body, url: url.to_owned() }, elsewhere))
}

fn failed(url: &str, why: &str) -> CommandFailure {
    CommandFailure::failed(FaultReport {
        code: "download.failed".to_owned(),
        blame: "upstream".to_owned(),
        message: format!("`{url}` cannot be downloaded: {why}"),
        hint: Some("check the URL and the network connection".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_may_be_relative() {
        let cases = [
            ("other.json", "https://a.example/v1/other.json"),
            ("/other.json", "https://a.example/other.json"),
            ("//b.example/x", "https://b.example/x"),
            ("https://b.example/x", "https://b.example/x"),
        ];
        for (place, expected) in cases {
            let found = redirect_target("https://a.example/v1/openapi.json", place);
            assert_eq!(found.as_deref(), Ok(expected), "{place}");
        }
        assert!(redirect_target("https://a.example/", "http://[").is_err());
    }

    // Security review: a public document could lead `servers add openapi --yes` to a host of the private network.
    #[tokio::test]
    async fn a_redirect_stays_in_the_networks_of_the_first_host() {
        use NetworkReach::{Configured, Loopback, Public, Site};
        let cases = [
            ("http://127.0.0.1:9/x", Configured, true),
            ("http://127.0.0.1:9/x", Loopback, true),
            ("http://127.0.0.1:9/x", Site, false),
            ("http://127.0.0.1:9/x", Public, false),
            ("http://[::1]:9/x", Public, false),
            ("http://10.0.0.1/x", Public, false),
            ("http://10.0.0.1/x", Site, true),
            ("http://169.254.169.254/x", Loopback, false),
            ("http://8.8.8.8/x", Public, true),
        ];
        for (url, reach, is_allowed) in cases {
            let origin = HttpOrigin::parse(url).expect("a URL");
            let found = addresses(&origin, reach).await;
            assert_eq!(found.is_ok(), is_allowed, "{url} within {reach:?}: {found:?}");
        }
    }
}
