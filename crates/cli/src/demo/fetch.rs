//! Measures a file behind a URL: streams it, counts its bytes and computes its hash.

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use sha2::{Digest, Sha256};
use std::time::Duration;
use toolbooth_upstream::http::{HttpOrigin, OriginClient, SendError};

/// The timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// The timeout for the whole file.
const DEADLINE: Duration = Duration::from_secs(25);
/// The largest accepted file.
const MAX_BYTES: u64 = 1 << 30;

/// The size, hash and type of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MeasuredFile {
    pub(super) bytes: u64,
    pub(super) sha256: String,
    pub(super) mime: Option<String>,
}

/// Reads a file to its end. Messages do not contain the URL, because it may have a token.
pub(super) async fn measure(url: &str) -> Result<MeasuredFile, String> {
    match tokio::time::timeout(DEADLINE, read(url)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("the file was not read within {} s", DEADLINE.as_secs())),
    }
}

async fn read(url: &str) -> Result<MeasuredFile, String> {
    let origin = HttpOrigin::parse(url).map_err(|_| "it is not a valid file URL".to_owned())?;
    let request = Request::get(origin.path.as_str())
        .header(header::HOST, origin.authority.as_str())
        .body(Full::new(Bytes::new()))
        .map_err(|_| "it is not a valid file URL".to_owned())?;
    let sent = OriginClient::new(origin, CONNECT).send(request).await;
    let (response, _connection) = sent.map_err(|failure| {
        let (SendError::NotSent(why) | SendError::Broken(why)) = failure;
        format!("the file could not be fetched: {why}")
    })?;
    if response.status() != StatusCode::OK {
        return Err(format!("the file could not be fetched: HTTP {}", response.status().as_u16()));
    }
    let mime = response.headers().get(header::CONTENT_TYPE).and_then(|mime| mime.to_str().ok());
    let mime = mime.map(|mime| mime.chars().take(100).collect());
    let mut body = response.into_body();
    let mut hash = Sha256::new();
    let mut bytes = 0_u64;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "the connection broke".to_owned())?;
        if let Some(data) = frame.data_ref() {
            bytes += data.len() as u64;
            hash.update(data);
        }
        if bytes > MAX_BYTES {
            return Err(format!("the file is longer than {MAX_BYTES} bytes"));
        }
    }
    let sha256 = toolbooth_core::hex::encode(&hash.finalize());
    Ok(MeasuredFile { bytes, sha256, mime })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn answering(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            if let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        format!("http://{address}/files/download/1?token=secret")
    }

    #[tokio::test]
    async fn a_file_is_measured_and_errors_do_not_contain_its_url() {
        let url =
            answering("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello").await;
        let expected = MeasuredFile {
            bytes: 5,
            sha256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".into(),
            mime: Some("text/plain".into()),
        };
        assert_eq!(measure(&url).await, Ok(expected));
        let cases = [
            (answering("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n").await, "HTTP 401"),
            (answering("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello").await, "connection broke"),
            (answering("nonsense").await, "could not be fetched"),
            ("report.pdf".into(), "not a valid file URL"),
            ("file:///etc/passwd".into(), "not a valid file URL"),
        ];
        for (url, expected) in cases {
            let why = measure(&url).await.expect_err("a reason");
            assert!(why.contains(expected) && !why.contains("secret"), "{why}");
        }
    }
}
