//! From the first refusal to a token: requests, consent, and the validation of responses.

use super::world::*;
use crate::oauth::{OAuthError, RetryDecision};
use serde_json::json;
use toolbooth_core::fault::Fault;

#[tokio::test]
async fn the_first_refusal_leads_to_a_token() {
    let world = World::new().issues(&["t1"]);
    let authorizer = world.authorizer();
    assert_eq!(token(&authorizer).await, None);
    assert!(world.net.sent().is_empty(), "nothing is fetched before a refusal");

    assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    assert_eq!(token(&authorizer).await.as_deref(), Some("t1"));

    let sent = world.net.sent();
    let heads: Vec<&str> = sent.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(
        heads,
        [
            "https://mcp.example.com/prm",
            "https://as.example.com/.well-known/oauth-authorization-server",
            "https://as.example.com/register",
            "https://as.example.com/token",
        ]
    );
    assert!(sent[2].contains(r#""application_type":"native""#) && sent[2].contains(r#""refresh_token""#));
    assert!(sent[3].contains("resource=https%3A%2F%2Fmcp.example.com%2Fmcp&client_id=registered"));
    for (name, expected) in [
        ("resource", Some(SERVER)),
        ("scope", Some("read")),
        ("code_challenge_method", Some("S256")),
        ("client_id", Some("registered")),
        ("prompt", None),
    ] {
        assert_eq!(world.person.asked(name).as_deref(), expected, "{name}");
    }
}

#[tokio::test]
async fn only_refusals_about_tokens_are_answered() {
    let authorizer = World::new().authorizer();
    for (status, header) in [(403, Some(CHALLENGE)), (403, None), (404, Some(CHALLENGE)), (500, None)] {
        assert_eq!(
            authorizer.challenged(status, header).await,
            Ok(RetryDecision::GiveUp),
            "{status} {header:?}"
        );
    }
}

#[tokio::test]
async fn many_refused_calls_lead_to_one_login() {
    let world = World::new().issues(&["t1"]);
    let authorizer = world.authorizer();
    let refused = || authorizer.challenged(401, Some(CHALLENGE));
    let outcomes = tokio::join!(refused(), refused(), refused());
    assert_eq!(outcomes, (Ok(RetryDecision::Retry), Ok(RetryDecision::Retry), Ok(RetryDecision::Retry)));
    assert_eq!(world.person.logins(), 1);
}

#[tokio::test]
async fn many_refused_calls_share_one_failed_login() {
    let world = World::new();
    *world.person.answer.lock().unwrap() = "error=access_denied&state={state}".into();
    let authorizer = world.authorizer();
    let refused = || authorizer.challenged(401, Some(CHALLENGE));
    let (first, second) = tokio::join!(refused(), refused());
    assert_eq!((first.unwrap_err().code(), second), ("oauth.denied", Ok(RetryDecision::GiveUp)));
    assert_eq!(world.person.logins(), 1);
}

#[tokio::test]
async fn a_late_refusal_of_an_old_token_starts_no_login() {
    let world = World::new().issues(&["t1", "t2"]);
    let authorizer = world.authorizer();
    authorizer.challenged_for(None, 401, Some(CHALLENGE)).await.unwrap();
    let old = authorizer.bearer().await;
    authorizer.challenged_for(old.as_ref(), 401, Some(CHALLENGE)).await.unwrap();
    assert_eq!(token(&authorizer).await.as_deref(), Some("t2"));
    assert_eq!(authorizer.challenged_for(old.as_ref(), 401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    assert_eq!(authorizer.challenged_for(None, 401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    assert_eq!(world.person.logins(), 2);
}

#[tokio::test]
async fn a_response_is_accepted_only_with_the_right_state_and_issuer() {
    let advertised = json!({"authorization_response_iss_parameter_supported": true});
    let cases = [
        (json!({}), "code=c&state={state}", "ok"),
        (json!({}), "code=c&state={state}&iss={iss}", "ok"),
        (json!({}), "code=c&state={state}&iss={iss}/", "oauth.bad-response"),
        (json!({}), "code=c&state={state}&iss=https://evil.example.com", "oauth.bad-response"),
        (advertised.clone(), "code=c&state={state}&iss={iss}", "ok"),
        (advertised.clone(), "code=c&state={state}", "oauth.bad-response"),
        (advertised.clone(), "error=access_denied&state={state}", "oauth.bad-response"),
        (advertised, "error=access_denied&state={state}&iss={iss}", "oauth.denied"),
        (json!({}), "code=c&state=forged", "oauth.bad-response"),
        (json!({}), "code=c", "oauth.bad-response"),
        (json!({}), "code=c&code=d&state={state}", "oauth.bad-response"),
        (json!({}), "state={state}", "oauth.bad-response"),
    ];
    for (offer, answer, expected) in cases {
        let world = World::new().offers(offer).issues(&["t1"]);
        *world.person.answer.lock().unwrap() = answer.into();
        let outcome = world.authorizer().challenged(401, Some(CHALLENGE)).await;
        assert_eq!(outcome.as_ref().map_or_else(|error| error.code(), |_| "ok"), expected, "{answer}");
        let redeemed = world.net.sent().iter().any(|line| line.contains("/token"));
        assert_eq!(redeemed, expected == "ok", "{answer}");
    }
}

#[tokio::test]
async fn only_error_codes_of_an_authorization_server_are_repeated() {
    let world = World::new();
    *world.person.answer.lock().unwrap() = "error=Call+0800-SCAM+now&state={state}".into();
    let error = world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap_err();
    assert_eq!(error, OAuthError::Denied { issuer: ISSUER.into(), error: "no readable reason".into() });
}

#[tokio::test]
async fn without_pkce_no_login_is_started() {
    let world = World::new().offers(json!({"code_challenge_methods_supported": ["plain"]}));
    let error = world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap_err();
    assert_eq!((error.code(), world.person.logins()), ("oauth.no-pkce", 0));
}

#[tokio::test]
async fn the_client_is_configured_or_a_document_or_registered() {
    let documents = json!({"client_id_metadata_document_supported": true});
    let nothing = json!({"registration_endpoint": null});
    let url = "https://toolbooth.example.com/client.json";
    let cases = [
        (World::new().offers(documents.clone()).configured("mine", None), Some(url), Ok("mine")),
        (World::new().offers(documents.clone()), Some(url), Ok(url)),
        (World::new().offers(documents), Some("https://no-path.example.com"), Ok("registered")),
        (World::new(), Some(url), Ok("registered")),
        (World::new().offers(nothing), Some(url), Err("oauth.no-client")),
    ];
    for (mut world, cimd_url, expected) in cases {
        world.cimd_url = cimd_url.map(str::to_owned);
        let world = world.issues(&["t1"]);
        let outcome = world.authorizer().challenged(401, Some(CHALLENGE)).await;
        let used = outcome.map(|_| world.person.asked("client_id").unwrap());
        assert_eq!(used.as_deref().map_err(|error| error.code()), expected);
    }
}

#[tokio::test]
async fn a_client_authenticates_with_a_supported_method() {
    let cases = [
        (json!(null), "Basic bWluZTpzJTI2dA=="), // RFC 8414: absent means Basic; mine:s%26t
        (json!(["client_secret_post", "client_secret_basic"]), "Basic bWluZTpzJTI2dA=="),
        (json!(["client_secret_post"]), "client_id=mine&client_secret=s%26t"),
    ];
    for (methods, expected) in cases {
        let world = World::new().configured("mine", Some("s&t")).issues(&["t1"]);
        let world = world.offers(json!({"token_endpoint_auth_methods_supported": methods}));
        world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap();
        let request = world.net.sent().pop().unwrap();
        assert!(request.ends_with(expected), "{request}");
    }
}

#[tokio::test]
async fn scopes_come_from_the_challenge_or_the_resource_and_offline_access_only_if_offered() {
    let bare = r#"Bearer resource_metadata="https://mcp.example.com/prm""#;
    let cases = [
        (CHALLENGE, json!(["a", "b"]), json!([]), Some("read")),
        (bare, json!(["a", "b"]), json!([]), Some("a b")),
        (bare, json!(["a", "offline_access"]), json!([]), Some("a")),
        (bare, json!(["a"]), json!(["offline_access"]), Some("a offline_access")),
        (bare, json!(null), json!(["offline_access"]), None),
    ];
    for (challenge, resource_scopes, server_scopes, expected) in cases {
        let world = World::new().offers(json!({"scopes_supported": server_scopes})).issues(&["t1"]);
        let mut document = prm(ISSUER);
        document["scopes_supported"] = resource_scopes.clone();
        world.net.page("https://mcp.example.com/prm", document);
        world.authorizer().challenged(401, Some(challenge)).await.unwrap();
        assert_eq!(world.person.asked("scope").as_deref(), expected, "{challenge} {resource_scopes}");
    }
}

#[tokio::test]
async fn without_a_browser_only_servers_for_machines_are_usable() {
    let world = World::new();
    let error = world.authorizer_at(SERVER, None).challenged(401, Some(CHALLENGE)).await.unwrap_err();
    assert_eq!(error.code(), "oauth.needs-login");

    let world = World::new().configured("mine", Some("secret")).issues(&["t1"]);
    let world = world.offers(json!({"grant_types_supported": ["client_credentials"]}));
    let authorizer = world.authorizer_at(SERVER, None);
    assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    assert!(world.net.sent().pop().unwrap().contains("grant_type=client_credentials&scope=read&resource="));
}
