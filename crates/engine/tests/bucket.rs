//! The contract tests of blob storage, in an S3 bucket. `cargo xtask test` starts an S3 server and sets
//! `TOOLBOOTH_TEST_S3` to its URL; without it these tests are skipped.
#![cfg(feature = "s3")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

#[path = "../../store/tests/store/blob_promises.rs"]
mod blob_promises;

use blob_promises::*;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolbooth_core::secret::SecretText;
use toolbooth_engine::files::open_bucket;
use toolbooth_store::blobs::{Blobs, Bucket};

const SERVER: &str = "TOOLBOOTH_TEST_S3";

/// A bucket, created if necessary, with a separate prefix for each test.
async fn bucket(promise: &str) -> Option<Blobs> {
    let Ok(endpoint) = std::env::var(SERVER) else {
        eprintln!("{SERVER} is not set, so this test is skipped");
        return None;
    };
    let host = endpoint.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = tokio::net::TcpStream::connect(host).await.expect("the server is there");
    let request =
        format!("PUT /toolbooth HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream.read_to_end(&mut Vec::new()).await.expect("answered");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let secret = |text: &str| SecretText::expanded("${KEY}", text);
    let bucket = Bucket {
        name: "toolbooth".into(),
        prefix: format!("{promise}/{now}"),
        endpoint: Some(endpoint.clone()),
        region: None,
        access_key: secret("key"),
        secret_key: secret("secret"),
        session_token: None,
    };
    Some(open_bucket(&bucket).expect("a bucket"))
}

macro_rules! promises {
    ($($promise:ident)*) => {
        mod in_a_bucket {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                if let Some(blobs) = super::bucket(stringify!($promise)).await {
                    super::$promise(&blobs).await;
                    assert!(blobs.is_shared());
                }
            })*
        }
    };
}

promises! {
    written_blobs_are_read_back_whole_and_in_ranges
    a_blob_exists_only_after_it_is_finished
    a_removed_blob_is_gone
    blobs_are_listed
}
