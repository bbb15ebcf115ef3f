//! Tokens over time: renewal, step-up, changes of the authorization server, restarts.

use super::world::*;
use crate::http::ServerCredential;
use crate::link::{CallLink, LinkEvent};
use crate::oauth::record::token_origin_key;
use crate::oauth::{OAuthError, RetryDecision};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::fault::Fault;
use toolbooth_core::json::RawJson;
use toolbooth_core::secret::KnownSecrets;

const STEP_UP: &str =
    r#"Bearer error="insufficient_scope", scope="write", resource_metadata="https://mcp.example.com/prm""#;

fn issued(access: &str, refresh: &str, expires_in: u64) -> serde_json::Value {
    json!({"access_token": access, "refresh_token": refresh, "token_type": "bearer", "expires_in": expires_in})
}

#[tokio::test]
async fn an_expired_token_is_renewed_before_the_call() {
    let world = World::new();
    let authorizer = world.authorizer();
    world.net.token(200, issued("t1", "r1", 0));
    world.net.token(200, json!({"access_token": "t2", "token_type": "Bearer", "expires_in": "0"}));
    world.net.token(200, issued("t3", "r3", 3600));
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    world.net.sent();

    assert_eq!(token(&authorizer).await.as_deref(), Some("t2"));
    let renewal = world.net.sent();
    assert_eq!(
        renewal,
        ["POST https://as.example.com/token grant_type=refresh_token&refresh_token=r1\
          &resource=https%3A%2F%2Fmcp.example.com%2Fmcp&client_id=registered"]
    );
    // The second response contained no refresh token, so the first stays valid.
    assert_eq!(token(&authorizer).await.as_deref(), Some("t3"));
    assert!(world.net.sent()[0].contains("refresh_token=r1"));
    assert_eq!((token(&authorizer).await.as_deref(), world.person.logins()), (Some("t3"), 1));
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_then_replaced() {
    let world = World::new();
    let authorizer = world.authorizer();
    for (access, refresh) in [("t1", "r1"), ("t2", "r2"), ("t3", "r3")] {
        world.net.token(200, issued(access, refresh, 3600));
    }
    for (expected, logins) in [("t1", 1), ("t2", 1), ("t3", 2)] {
        assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
        assert_eq!((token(&authorizer).await.as_deref(), world.person.logins()), (Some(expected), logins));
    }
}

#[tokio::test]
async fn a_dead_refresh_token_is_tried_once() {
    let world = World::new();
    let authorizer = world.authorizer();
    world.net.token(200, issued("t1", "r1", 0));
    world.net.token(400, json!({"error": "invalid_grant"}));
    world.net.token(200, issued("t2", "r2", 3600));
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    world.net.sent();
    assert_eq!((token(&authorizer).await, token(&authorizer).await), (None, None));
    assert_eq!(world.net.sent().len(), 1);
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    assert_eq!((token(&authorizer).await.as_deref(), world.person.logins()), (Some("t2"), 2));
}

#[tokio::test]
async fn a_client_unknown_to_the_authorization_server_registers_again() {
    let world = World::new();
    let authorizer = world.authorizer();
    world.net.token(200, issued("t1", "r1", 3600));
    world.net.token(401, json!({"error": "invalid_client"}));
    world.net.token(200, issued("t2", "r2", 3600));
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    world.net.page("https://as.example.com/register", json!({"client_id": "again"}));
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    assert_eq!(world.person.asked("client_id").as_deref(), Some("again"));
}

#[tokio::test]
async fn step_up_keeps_earlier_scopes_and_asks_only_once() {
    let world = World::new().issues(&["t1", "t2"]);
    let authorizer = world.authorizer();
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    assert_eq!(authorizer.challenged(403, Some(STEP_UP)).await, Ok(RetryDecision::Retry));
    assert_eq!(world.person.asked("scope").as_deref(), Some("read write"));
    assert_eq!(authorizer.challenged(403, Some(STEP_UP)).await, Ok(RetryDecision::GiveUp));
    assert_eq!(world.person.logins(), 2);
}

#[tokio::test(start_paused = true)]
async fn logins_are_limited_for_a_server_that_refuses_every_token() {
    let world = World::new().issues(&["t1", "t2", "t3", "t4"]);
    let authorizer = world.authorizer();
    for expected in [
        RetryDecision::Retry,
        RetryDecision::Retry,
        RetryDecision::Retry,
        RetryDecision::GiveUp,
        RetryDecision::GiveUp,
    ] {
        assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(expected));
    }
    tokio::time::advance(Duration::from_secs(301)).await;
    assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    assert_eq!(world.person.logins(), 4);
}

#[tokio::test]
async fn nothing_is_reused_with_another_authorization_server() {
    let other = "https://other.example.com";
    let world = World::new();
    let authorizer = world.authorizer();
    world.net.token(200, issued("old-access", "old-refresh", 3600));
    world.net.token(200, issued("t2", "r2", 3600));
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    world.net.sent();

    world.net.page("https://mcp.example.com/prm", prm(other));
    world.net.page(&metadata_url(other), metadata(other));
    world.net.page(&format!("{other}/register"), json!({"client_id": "known-there"}));
    assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    assert_eq!(token(&authorizer).await.as_deref(), Some("t2"));
    assert_eq!(world.person.asked("client_id").as_deref(), Some("known-there"));
    let sent = world.net.sent().join("\n");
    assert!(!sent.contains("registered") && !sent.contains("old-"), "{sent}");
    assert!(
        world.vault.0.lock().unwrap()["oauth/tokens https://as.example.com https://mcp.example.com/mcp"]
            .is_empty()
    );
}

#[tokio::test]
async fn a_configured_client_stays_bound_to_its_authorization_server() {
    let other = "https://other.example.com";
    let world = World::new().configured("mine", Some("secret")).issues(&["t1", "t2"]);
    world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap();
    world.net.page("https://mcp.example.com/prm", prm(other));
    world.net.page(&metadata_url(other), metadata(other));

    // A restart does not change the binding.
    let authorizer = world.authorizer();
    assert_eq!(token(&authorizer).await.as_deref(), Some("t1"));
    let error = authorizer.challenged(401, Some(CHALLENGE)).await.unwrap_err();
    assert_eq!(error, OAuthError::IssuerChanged { was: ISSUER.into(), now: other.into() });
    authorizer.forget().await;
    assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
}

#[tokio::test]
async fn tokens_survive_a_restart_and_are_sent_to_their_server_only() {
    let world = World::new().issues(&["t1"]);
    world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap();
    assert_eq!(token(&world.authorizer()).await.as_deref(), Some("t1"));
    for other in ["https://mcp.example.com/other", "https://evil.example.com/mcp"] {
        assert_eq!(token(&world.authorizer_at(other, None)).await, None, "{other}");
    }
    // Even if the vault's records are mixed up.
    let evil = "https://evil.example.com/mcp";
    let origin = world.vault.0.lock().unwrap()[&token_origin_key(SERVER)].clone();
    world.vault.0.lock().unwrap().insert(token_origin_key(evil), origin);
    assert_eq!(token(&world.authorizer_at(evil, None)).await, None);
}

#[tokio::test]
async fn unreadable_records_cost_a_login_and_nothing_more() {
    let world = World::new().issues(&["t1", "t2"]);
    world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap();
    for record in world.vault.0.lock().unwrap().values_mut() {
        *record = "{".into();
    }
    let authorizer = world.authorizer();
    assert_eq!(token(&authorizer).await, None);
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    assert_eq!(token(&authorizer).await.as_deref(), Some("t2"));
}

#[tokio::test]
async fn a_token_that_cannot_be_sent_as_bearer_is_refused() {
    let cases = [
        json!({"access_token": "t1", "token_type": "DPoP"}),
        json!({"access_token": "t 1", "token_type": "Bearer"}),
        json!({"access_token": "t\r\nX-Evil: 1", "token_type": "Bearer"}),
        json!({"access_token": "", "token_type": "Bearer"}),
        json!({"token_type": "Bearer"}),
        json!("t1"),
    ];
    for answer in cases {
        let world = World::new();
        world.net.token(200, answer.clone());
        let error = world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap_err();
        assert_eq!(error.code(), "oauth.token-refused", "{answer}");
    }
}

#[tokio::test]
async fn secrets_are_never_printed() {
    let world = World::new().issues(&["hunter2"]);
    let authorizer = world.authorizer();
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    let token = authorizer.bearer().await.unwrap();
    assert_eq!(format!("{token} {token:?}"), r#"${access_token} "${access_token}""#);
}

#[tokio::test]
async fn a_login_in_another_process_is_used() {
    let world = World::new().issues(&["t1"]);
    let gateway = world.authorizer_at(SERVER, None);
    let error = gateway.challenged(401, Some(CHALLENGE)).await.unwrap_err();
    assert_eq!(error.code(), "oauth.needs-login");
    assert!(
        !world.net.sent().iter().any(|line| line.starts_with("POST")),
        "no client is registered without a login"
    );

    world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap();
    world.net.sent();
    assert_eq!(gateway.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    assert_eq!(token(&gateway).await.as_deref(), Some("t1"));
    assert!(world.net.sent().is_empty());
}

#[tokio::test]
async fn replicas_do_not_use_up_each_others_refresh_tokens() {
    let world = World::new();
    world.net.token(200, issued("t1", "r1", 0));
    world.net.token(200, issued("t2", "r2", 3600));
    let (one, other) = (world.authorizer(), world.authorizer());
    one.challenged(401, Some(CHALLENGE)).await.unwrap();
    assert_eq!(token(&other).await.as_deref(), Some("t2"));
    assert_eq!(token(&one).await.as_deref(), Some("t2"));
    assert_eq!(world.net.sent().iter().filter(|line| line.contains("grant_type=refresh_token")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_neither_discards_the_refresh_token_nor_queues_calls() {
    let world = World::new();
    let authorizer = world.authorizer();
    world.net.token(200, issued("t1", "r1", 0));
    world.net.token(503, json!({}));
    world.net.token(200, issued("t2", "r2", 3600));
    authorizer.challenged(401, Some(CHALLENGE)).await.unwrap();
    world.net.sent();
    assert_eq!((token(&authorizer).await, token(&authorizer).await), (None, None));
    assert_eq!(world.net.sent().len(), 1);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!((token(&authorizer).await.as_deref(), world.person.logins()), (Some("t2"), 1));
}

#[tokio::test]
async fn another_configured_client_does_not_inherit_the_login() {
    let world = World::new().issues(&["t1"]);
    world.authorizer().challenged(401, Some(CHALLENGE)).await.unwrap();
    assert_eq!(token(&world.configured("other", None).authorizer()).await, None);
}

#[tokio::test]
async fn secrets_in_the_url_are_never_shown_or_sent_elsewhere() {
    let world = World::new().issues(&["t1"]);
    world.net.page("https://mcp.example.com/register", json!({"client_id": "old"}));
    let address = "https://mcp.example.com/mcp?key=hunter2";
    let error = world.authorizer_at(address, None).challenged(401, None).await.unwrap_err();
    assert_eq!(error, OAuthError::NeedsLogin { server: "https://mcp.example.com".into() });
    world.authorizer_at(address, Some(world.person.clone())).challenged(401, None).await.unwrap();
    assert_eq!(world.person.asked("resource").as_deref(), Some(SERVER));
    let keys: Vec<String> = world.vault.0.lock().unwrap().keys().cloned().collect();
    let everything = format!("{:?} {keys:?} {:?}", world.net.sent(), world.person.seen.lock().unwrap());
    assert!(!everything.contains("hunter2"), "{everything}");
}

// Progress and log messages are masked, too.
#[tokio::test]
async fn tokens_are_masked_in_server_messages_during_a_call() {
    let world = World::new();
    let authorizer = Arc::new(world.authorizer());
    world.net.token(200, issued("access-token-1", "refresh-token-1", 3600));
    world.net.token(200, issued("access-token-2", "refresh-token-2", 3600));
    let (link, mut events) = CallLink::new();
    let link = link.masked_by(&KnownSecrets::default(), &ServerCredential::OAuth(authorizer.clone()));
    // The call is sent with the first tokens, which are renewed meanwhile.
    for _ in 0..2 {
        assert_eq!(authorizer.challenged(401, Some(CHALLENGE)).await, Ok(RetryDecision::Retry));
    }
    let said = "plain access-token-1 refresh-token-1 access-token-2 refresh-token-2";
    let params = json!({ "progressToken": 1, "message": said, "data": { "text": said } });
    let params = RawJson::from_value(&params);
    link.progress(params.clone());
    link.log(params.clone());
    link.elicited(params.clone());
    let asked = link.server_question("bank", "elicitation/create", Some(params));
    for _ in 0..4 {
        let message = match events.try_recv().expect("an event") {
            LinkEvent::Progress(message) | LinkEvent::Log(message) | LinkEvent::Elicited(message) => message,
            LinkEvent::Question(question) => question.params.expect("parameters"),
            LinkEvent::Acknowledged => panic!("nothing was acknowledged"),
            LinkEvent::TaskStarted => panic!("no task was started"),
        };
        let message = message.to_string();
        assert!(message.contains("plain [redacted]") && !message.contains("-token-"), "{message}");
    }
    drop(asked);
}
