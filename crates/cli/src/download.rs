//! Downloads one document, with limits on size, time and redirects.

use crate::failure::{CommandFailure, FaultReport};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use std::time::Duration;
use toolbooth_upstream::http::{HttpOrigin, OriginClient, SendError};

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
    for _ in 0..=MAX_REDIRECTS {
        let (document, elsewhere) = fetch(&url, max_bytes).await?;
        let Some(place) = elsewhere else { return Ok(document) };
        if url.starts_with("https://") && !place.starts_with("https://") {
            return Err("it redirects to a URL that is not encrypted".into());
        }
        url = place;
    }
    Err("it redirects too often".into())
}

/// One request, and the absolute URL that its answer redirects to.
async fn fetch(url: &str, max_bytes: usize) -> Result<(DownloadedDocument, Option<String>), String> {
    let origin = HttpOrigin::parse(url).map_err(|error| error.to_string())?;
    let request = Request::builder()
        .method(Method::GET)
        .uri(origin.path.as_str())
        .header(header::HOST, origin.authority.as_str())
        .header(header::ACCEPT, "application/json, application/yaml, text/yaml, */*;q=0.5")
        .header(header::USER_AGENT, concat!("toolbooth/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::new()))
        .map_err(|_| "the URL is not valid".to_owned())?;
    let (scheme, authority) = (origin.scheme.clone(), origin.authority.clone());
    let client = OriginClient::new(origin, CONNECT);
    let (response, _connection) = client.send(request).await.map_err(|failure| match failure {
        SendError::NotSent(why) | SendError::Broken(why) => why,
    })?;
    let status = response.status();
    let place =
        response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok()).map(str::to_owned);
    let elsewhere = place.filter(|_| status.is_redirection()).map(|place| match place {
        place if place.contains("://") => place,
        place => format!("{scheme}://{authority}/{}", place.trim_start_matches('/')),
    });
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
