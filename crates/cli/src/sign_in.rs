//! Servers that somebody signs in to: who the gateway is to their authorization servers.

use std::sync::Arc;
use toolbooth_core::server::{OutboundAuth, ServerEntry, Transport};
use toolbooth_engine::Vaults;
use toolbooth_upstream::http::Fetch;
use toolbooth_upstream::oauth::{Authorizer, ClientIdentity};

/// The port that a sign-in comes back to, unless it is taken: clients that are registered by hand have to name one.
pub const PORT: u16 = 8666;

/// Where a sign-in comes back to on this machine.
pub fn redirect_uri(port: u16) -> String {
    format!("http://127.0.0.1:{port}/callback")
}

/// The authorizer of a server whose `auth` is `oauth`. It opens no browser: who serves has nobody to show one to.
pub fn authorizer(entry: &ServerEntry, vaults: &Vaults) -> Option<Authorizer> {
    let OutboundAuth::OAuth(oauth) = &entry.auth else { return None };
    let url = match &entry.transport {
        Transport::Http(remote) | Transport::Sse(remote) => remote.url.expose().to_owned(),
        // Authorization is asked for over HTTP, at the same place.
        Transport::WebSocket(remote) => remote.url.expose().replacen("ws", "http", 1),
        _ => return None,
    };
    let identity =
        ClientIdentity { name: "Toolbooth".into(), redirect_uri: redirect_uri(PORT), cimd_url: None };
    let http = Arc::new(Fetch::default());
    Some(Authorizer::new(url, oauth.clone(), identity, http, None, vaults.of(&entry.name)))
}
