//! The gateway's client at an authorization server: configured, described by a document, or registered.

use super::ClientIdentity;
use super::discovery::AuthServer;
use super::error::{OAuthError, clip, error_code};
use super::fetch::{Fetcher, PostBody};
use super::guard::is_loopback;
use super::record::{ClientAuth, OAuthClient, Records, unix_seconds};
use serde::Deserialize;
use serde_json::json;
use toolbooth_core::clock::Clock;
use toolbooth_core::server::OAuthEntry;
use url::Url;

/// The client to use at `server`, in the order of the specification: configured, document, registration.
pub(super) async fn client_for(
    server: &AuthServer,
    entry: &OAuthEntry,
    identity: &ClientIdentity,
    fetcher: &Fetcher<'_>,
    records: &Records<'_>,
    clock: &Clock,
) -> Result<OAuthClient, OAuthError> {
    if let Some(client) = known_beforehand(server, entry, identity) {
        return Ok(client);
    }
    if let Some(client) =
        records.client(&server.issuer).await.filter(|known| is_usable(known, identity, clock))
    {
        return Ok(client);
    }
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(OAuthError::NoClient { issuer: clip(&server.issuer) });
    };
    let client = register(server, endpoint, identity, fetcher).await?;
    records.keep_client(&server.issuer, &client).await;
    Ok(client)
}

/// The client that the tokens of `server` were issued to, for a renewal. A renewal uses no redirect, so the
/// registered redirect URI does not matter.
pub(super) async fn client_of(
    server: &AuthServer,
    entry: &OAuthEntry,
    identity: &ClientIdentity,
    records: &Records<'_>,
    clock: &Clock,
) -> Option<OAuthClient> {
    match known_beforehand(server, entry, identity) {
        Some(client) => Some(client),
        None => records.client(&server.issuer).await.filter(|client| is_alive(client, clock)),
    }
}

/// A client that needs no registration: configured, or described by a document.
fn known_beforehand(
    server: &AuthServer,
    entry: &OAuthEntry,
    identity: &ClientIdentity,
) -> Option<OAuthClient> {
    if let Some(client) = configured(server, entry, identity) {
        return Some(client);
    }
    let document = identity.cimd_url.as_deref();
    let document = document.filter(|url| server.client_documents && is_document(url))?;
    Some(OAuthClient {
        id: document.into(),
        secret: None,
        auth: ClientAuth::None,
        redirect_uri: identity.redirect_uri.clone(),
        expires_at: None,
    })
}

/// The client that the operator registered manually.
fn configured(server: &AuthServer, entry: &OAuthEntry, identity: &ClientIdentity) -> Option<OAuthClient> {
    let id = entry.client_id.as_ref()?.expose().to_owned();
    let secret = entry.client_secret.as_ref().map(|secret| secret.expose().to_owned());
    let auth = match &secret {
        None => ClientAuth::None,
        Some(_) if !server.supports("client_secret_basic") && server.supports("client_secret_post") => {
            ClientAuth::Post
        }
        Some(_) => ClientAuth::Basic,
    };
    Some(OAuthClient { id, secret, auth, redirect_uri: identity.redirect_uri.clone(), expires_at: None })
}

/// A client id that is a URL must use https and have a path.
fn is_document(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.path().len() > 1)
}

fn is_usable(client: &OAuthClient, identity: &ClientIdentity, clock: &Clock) -> bool {
    client.redirect_uri == identity.redirect_uri && is_alive(client, clock)
}

fn is_alive(client: &OAuthClient, clock: &Clock) -> bool {
    client.expires_at.is_none_or(|end| unix_seconds(clock) < end)
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<serde_json::Value>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Deserialize)]
struct RegistrationErrorBody {
    error: String,
}

async fn register(
    server: &AuthServer,
    endpoint: &str,
    identity: &ClientIdentity,
    fetcher: &Fetcher<'_>,
) -> Result<OAuthClient, OAuthError> {
    let requested_auth = preferred_auth(server);
    let local = Url::parse(&identity.redirect_uri).is_ok_and(|uri| is_loopback(&uri));
    let document = json!({
        "client_name": identity.name,
        "redirect_uris": [identity.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method(requested_auth),
        // The default is `web`, and web clients may not redirect to this machine.
        "application_type": if local { "native" } else { "web" },
    });
    let body = PostBody::Json(document.to_string().into_bytes());
    let answer = fetcher.post("registration endpoint", endpoint, body, None).await?;
    let refused = |error: String| match server.guessed {
        // Nothing exists at the fixed URL: the server does not support OAuth.
        true => OAuthError::NoAuthorizationServer { server: clip(&server.issuer) },
        false => OAuthError::RegistrationRefused { issuer: clip(&server.issuer), error },
    };
    if !answer.status.is_success() {
        let code = answer
            .json::<RegistrationErrorBody>()
            .map_or_else(|| answer.status.as_u16().to_string(), |r| r.error);
        return Err(refused(error_code(&code)));
    }
    let registered: RegistrationResponse =
        answer.json().ok_or_else(|| refused("an unreadable response".into()))?;
    let auth = match registered.token_endpoint_auth_method.as_deref() {
        _ if registered.client_secret.is_none() => ClientAuth::None,
        Some("none") => ClientAuth::None,
        Some("client_secret_post") => ClientAuth::Post,
        Some(_) => ClientAuth::Basic,
        None => requested_auth,
    };
    Ok(OAuthClient {
        id: registered.client_id,
        secret: registered.client_secret,
        auth,
        redirect_uri: identity.redirect_uri.clone(),
        // Zero means that it does not expire.
        expires_at: registered.client_secret_expires_at.and_then(|end| end.as_u64()).filter(|end| *end != 0),
    })
}

/// A gateway on a personal machine cannot protect a shared secret better than PKCE protects the code, so it
/// requests none if that is allowed.
fn preferred_auth(server: &AuthServer) -> ClientAuth {
    if server.supports("none") {
        ClientAuth::None
    } else if server.supports("client_secret_post") && !server.supports("client_secret_basic") {
        ClientAuth::Post
    } else {
        ClientAuth::Basic
    }
}

fn method(auth: ClientAuth) -> &'static str {
    match auth {
        ClientAuth::None => "none",
        ClientAuth::Basic => "client_secret_basic",
        ClientAuth::Post => "client_secret_post",
    }
}
