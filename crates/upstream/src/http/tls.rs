//! TLS for outgoing connections, with one set of root certificates, loaded on the first use.

use rustls::ClientConfig;
use std::sync::{Arc, OnceLock};
use tokio_rustls::TlsConnector;

/// The connector shared by all connections.
pub fn connector() -> TlsConnector {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls_native_certs::load_native_certs().certs {
            let _ = roots.add(certificate);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring supports the default versions");
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    });
    TlsConnector::from(config.clone())
}
