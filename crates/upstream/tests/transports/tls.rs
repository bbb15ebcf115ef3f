//! The small server behind TLS. Only a process that loads its certificate trusts it.

use crate::test_server::Journal;
use crate::{Dial, Over, reached, sockets, text_of};
use rustls::pki_types::PrivateKeyDer;
use std::io::Write;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use toolbooth_upstream::UpstreamError;

const URL: &str = "TOOLBOOTH_TEST_WSS_URL";

#[tokio::test]
async fn a_tls_socket_connects_only_if_its_certificate_is_trusted() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
    let (url, _journal) = sockets::serve_tls(TlsAcceptor::from(Arc::new(config))).await;

    let error = Dial::new(Over::WebSocket, &url).open().await.unwrap_err();
    assert!(matches!(error, UpstreamError::Unreachable { .. }), "{error}");

    // Root certificates are loaded once per process, so the trusting side is another process.
    let mut trusted = tempfile::NamedTempFile::new().unwrap();
    trusted.write_all(made.cert.pem().as_bytes()).unwrap();
    let outcome = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::the_trusting_side", "--ignored"])
        .env("SSL_CERT_FILE", trusted.path())
        .env_remove("SSL_CERT_DIR")
        .env(URL, &url)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert!(outcome.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "the other side of the test above, which starts it: cargo test -p toolbooth-upstream --test transports tls"]
async fn the_trusting_side() {
    let Ok(url) = std::env::var(URL) else { return };
    let world = reached(Over::WebSocket, &url, Journal(mpsc::unbounded_channel().1), "{}").await;
    assert_eq!(text_of(&world.outcome("echo").await.unwrap()), "héllo");
}
