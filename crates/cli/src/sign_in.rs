//! The gateway as an OAuth client of servers whose `auth` is `oauth`.

use std::sync::Arc;
use toolbooth_core::server::{OutboundAuth, ServerEntry, Transport};
use toolbooth_engine::Vaults;
use toolbooth_upstream::http::Fetch;
use toolbooth_upstream::oauth::{Authorizer, ClientIdentity};

/// The default port of the redirect URI: clients that are registered by hand need a fixed one.
pub const PORT: u16 = 8666;

/// The redirect URI on this machine.
pub fn redirect_uri(port: u16) -> String {
    format!("http://127.0.0.1:{port}/callback")
}

/// The authorizer of a server whose `auth` is `oauth`. It does not open a browser, because a gateway has no user at
/// a screen.
pub fn authorizer(entry: &ServerEntry, vaults: &Vaults) -> Option<Authorizer> {
    let OutboundAuth::OAuth(oauth) = &entry.auth else { return None };
    let url = match &entry.transport {
        Transport::Http(remote) | Transport::Sse(remote) => remote.url.expose().to_owned(),
        // Authorization uses HTTP at the same host and path.
        Transport::WebSocket(remote) => remote.url.expose().replacen("ws", "http", 1),
        _ => return None,
    };
    let identity =
        ClientIdentity { name: "Toolbooth".into(), redirect_uri: redirect_uri(PORT), cimd_url: None };
    let http = Arc::new(Fetch::default());
    let (clock, vault) = (vaults.clock().clone(), vaults.of(&entry.name));
    Some(Authorizer::new(url, oauth.clone(), identity, clock, http, None, vault))
}
