//! Malicious servers and metadata that try to misdirect the gateway.

use super::world::*;
use crate::oauth::{NetworkReach, OAuthError, RetryDecision};
use serde_json::json;
use toolbooth_core::fault::Fault;

async fn refusal(world: &World, challenge: &str) -> OAuthError {
    let error = world.authorizer().challenged(401, Some(challenge)).await.unwrap_err();
    assert_eq!(world.person.logins(), 0, "no login was started");
    error
}

#[tokio::test]
async fn metadata_of_another_resource_or_issuer_is_not_used() {
    let world = World::new();
    let mut document = prm(ISSUER);
    document["resource"] = json!("https://evil.example.com/mcp");
    world.net.page("https://mcp.example.com/prm", document);
    assert_eq!(refusal(&world, CHALLENGE).await.code(), "oauth.resource-mismatch");

    for issuer in ["https://evil.example.com", "https://as.example.com/"] {
        let world = World::new().offers(json!({"issuer": issuer}));
        assert_eq!(refusal(&world, CHALLENGE).await.code(), "oauth.issuer-mismatch", "{issuer}");
    }
}

#[tokio::test]
async fn endpoints_must_use_https_and_stay_out_of_private_networks() {
    let cases = [
        ("token_endpoint", "https://169.254.169.254/token", "oauth.blocked-address"),
        ("token_endpoint", "http://as.example.com/token", "oauth.insecure-url"),
        ("authorization_endpoint", "http://localhost:6379/", "oauth.blocked-address"),
        ("authorization_endpoint", "file:///bin/sh", "oauth.insecure-url"),
        ("registration_endpoint", "https://[fd00::1]/register", "oauth.blocked-address"),
    ];
    for (endpoint, url, expected) in cases {
        let world = World::new().offers(json!({endpoint: url}));
        assert_eq!(refusal(&world, CHALLENGE).await.code(), expected, "{endpoint} {url}");
        assert!(!world.net.sent().iter().any(|line| line.contains(url)), "{url} was contacted");
    }
    let world = World::new();
    world.net.page("https://mcp.example.com/prm", prm("https://10.0.0.1"));
    assert_eq!(refusal(&world, CHALLENGE).await.code(), "oauth.blocked-address");
}

#[tokio::test]
async fn every_request_carries_its_reach() {
    let world = World::new().issues(&["t1"]);
    world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap();
    let reaches = world.net.reaches.lock().unwrap().clone();
    assert_eq!(
        reaches,
        [NetworkReach::Configured, NetworkReach::Public, NetworkReach::Public, NetworkReach::Public]
    );
}

#[tokio::test]
async fn a_private_server_may_refer_to_private_ones_if_the_transport_widens_the_reach() {
    let inside = "https://10.0.0.7";
    let world = World::new().issues(&["t1"]);
    world.net.page("https://mcp.example.com/prm", prm(inside));
    world.net.page(&metadata_url(inside), metadata(inside));
    world.net.page(&format!("{inside}/register"), json!({"client_id": "inside"}));
    let authorizer = world.authorizer().reaching(NetworkReach::of("10.0.0.6".parse().unwrap()));
    assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
}

#[tokio::test]
async fn an_unusable_metadata_url_falls_back_to_the_well_known_ones() {
    let header = r#"Bearer resource_metadata="http://10.0.0.1/prm""#;
    for place in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let world = World::new().issues(&["t1"]);
        world.net.page(&format!("https://mcp.example.com{place}"), prm(ISSUER));
        assert_eq!(
            world.authorizer().challenged(401, Some(header)).await,
            Ok(RetryDecision::Retry),
            "{place}"
        );
        assert!(!world.net.sent().iter().any(|line| line.contains("10.0.0.1")));
    }
}

#[tokio::test]
async fn each_metadata_redirect_is_checked() {
    let start = "https://mcp.example.com/prm";
    let world = World::new().issues(&["t1"]);
    world.net.redirect(start, "/moved");
    world.net.page("https://mcp.example.com/moved", prm(ISSUER));
    assert_eq!(world.authorizer().challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));

    for target in ["https://127.0.0.1/prm", "http://mcp.example.com/moved", start] {
        let world = World::new();
        world.net.redirect(start, target);
        assert_eq!(refusal(&world, CHALLENGE).await.code(), "oauth.no-authorization-server", "{target}");
        let sent = world.net.sent();
        let addresses: Vec<&str> = sent.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert!(addresses.iter().all(|url| url.starts_with("https://mcp.example.com/")), "{addresses:?}");
        assert!(sent.len() < 12, "{sent:?}");
    }
}

#[tokio::test]
async fn a_token_request_is_not_redirected() {
    let world = World::new();
    world.net.token(307, json!({}));
    let error = world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap_err();
    assert_eq!(error, OAuthError::TokenRefused { issuer: ISSUER.into(), error: "307".into() });
}

#[tokio::test]
async fn a_server_on_plain_http_gets_no_login() {
    let world = World::new();
    let authorizer = world.authorizer_at("http://mcp.example.com/mcp", Some(world.person.clone()));
    let error = authorizer.challenged(401, None).await.unwrap_err();
    assert_eq!((error.code(), world.net.sent().len()), ("oauth.insecure-url", 0));
}

#[tokio::test]
async fn the_next_authorization_server_is_tried_when_one_is_unusable() {
    let world = World::new().issues(&["t1"]);
    let mut document = prm("https://gone.example.com");
    document["authorization_servers"].as_array_mut().unwrap().push(ISSUER.into());
    world.net.page("https://mcp.example.com/prm", document);
    assert_eq!(world.authorizer().challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    assert!(world.net.sent().pop().unwrap().starts_with("POST https://as.example.com/token"));
}
