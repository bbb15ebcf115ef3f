//! Tokens of an identity provider for one resource of the gateway (RFC 8707, RFC 9728), forged ones, and the reason that
//! a client gets for a refusal.

use crate::issuer::{Provider, Signer};
use crate::token_users::bearer;
use ::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::http::HttpReply;
use toolbooth_testkit::world::{Gateway, Home, Http};

/// The public URL of the gateway.
const PUBLIC: &str = "https://booth.example";

/// A gateway that accepts tokens of a provider.
struct ProviderGateway {
    signer: Signer,
    provider: Provider,
    _home: Home,
    gateway: Gateway,
}

impl ProviderGateway {
    async fn start(public_url: Option<&str>, more: Value) -> Self {
        let signer = Signer::new("one");
        let provider = Provider::start(&signer).await;
        let mut jwt = json!({ "issuer": provider.url, "audience": "team" });
        jwt.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut settings = json!({
            "auth": { "mode": "jwt", "jwt": jwt },
            "personas": { "support": { "inherit": "shared" }, "sales": { "inherit": "shared" } },
        });
        if let Some(url) = public_url {
            settings["public_url"] = json!(url);
        }
        let home = Home::with_settings(settings, &[("desk", hostile(&["echo"]))]);
        let gateway = home.start().await;
        Self { signer, provider, _home: home, gateway }
    }

    fn token(&self, more: Value) -> String {
        self.signer.token(&self.provider.url, more)
    }

    /// Sends a request with a token: to the MCP endpoint to list the tools, else to read.
    async fn send(&self, path: &str, token: &str, more: &[(&str, &str)]) -> HttpReply {
        let http = Http::new(self.gateway.address).sending(&bearer(token));
        if !path.starts_with("/mcp") {
            return http.send(Method::GET, path, more, "").await;
        }
        let body = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
        });
        let headers = [&[("content-type", "application/json"), ("accept", "*/*")], more].concat();
        http.send(Method::POST, path, &headers, body.to_string()).await
    }

    async fn status(&self, path: &str, audience: &str, more: &[(&str, &str)]) -> u16 {
        self.send(path, &self.token(json!({ "aud": audience })), more).await.status
    }
}

/// The reason in the challenge of a refusal.
fn described(reply: &HttpReply) -> Option<String> {
    assert_eq!(reply.status, 401);
    let challenge = reply.header("www-authenticate").unwrap();
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    let (_, rest) = challenge.split_once("error_description=\"")?;
    Some(rest.split_once('"').unwrap().0.to_owned())
}

#[tokio::test]
async fn token_for_a_resource_is_accepted_only_there() {
    let world = ProviderGateway::start(Some(PUBLIC), json!({})).await;
    let http = Http::new(world.gateway.address);
    let places = ["", "/mcp", "/mcp/p/support", "/mcp/p/sales"];
    for resource in places {
        let metadata = http.get_json(&format!("/.well-known/oauth-protected-resource{resource}")).await;
        assert_eq!(metadata["resource"], format!("{PUBLIC}{resource}"));
        let audience = metadata["resource"].as_str().unwrap();
        // One token, because too many different bad credentials would be throttled.
        let token = world.token(json!({ "aud": audience }));
        // Twice, because identified callers are cached.
        for _ in 0..2 {
            for place in places {
                let path = if place.is_empty() { "/me" } else { place };
                let expected = if place == resource { 200 } else { 401 };
                let status = world.send(path, &token, &[]).await.status;
                assert_eq!(status, expected, "a token for {audience} at {path}");
            }
        }
    }
    for place in ["/me", "/mcp", "/mcp/p/support"] {
        assert_eq!(world.status(place, "team", &[]).await, 200, "a configured audience, at {place}");
    }
}

#[tokio::test]
async fn token_of_a_persona_does_not_cross_to_other_paths() {
    let world = ProviderGateway::start(Some(PUBLIC), json!({})).await;
    let of_support = format!("{PUBLIC}/mcp/p/support");
    let cases = [
        ("/mcp/p/support", &[][..], 200),
        ("/mcp/p/support/", &[], 200),
        ("/mcp/p/support", &[("x-toolbooth-persona", "support")], 200),
        // The header selects the persona, but not the resource.
        ("/mcp", &[("x-toolbooth-persona", "support")], 401),
        ("/me", &[("x-toolbooth-persona", "support")], 401),
        ("/mcp/p/support", &[("x-toolbooth-persona", "sales")], 403),
        ("/mcp/p/sales", &[("x-toolbooth-persona", "support")], 403),
        // Another spelling is another resource by its own metadata.
        ("/mcp/p/Support", &[], 401),
        ("/mcp/p/support", &[("host", "evil.example")], 403),
    ];
    let token = world.token(json!({ "aud": of_support }));
    for (path, headers, expected) in cases {
        assert_eq!(world.send(path, &token, headers).await.status, expected, "{path} {headers:?}");
    }
    let near = [
        format!("{PUBLIC}/mcp/p/support/"),
        format!("{PUBLIC}/mcp/p/support#x"),
        format!("{PUBLIC}/mcp/p/"),
        "/mcp/p/support".to_owned(),
        format!("http://{}/mcp/p/support", world.gateway.address),
        "https://evil.example/mcp/p/support".to_owned(),
    ];
    for audience in near {
        assert_eq!(world.status("/mcp/p/support", &audience, &[]).await, 401, "{audience}");
    }
}

#[tokio::test]
async fn host_header_makes_no_audience() {
    let world = ProviderGateway::start(None, json!({})).await;
    let address = world.gateway.address;
    for host in [address.to_string(), format!("localhost:{}", address.port()), "localhost".to_owned()] {
        let headers = [("host", host.as_str())];
        for path in ["/mcp", "/mcp/p/support", "/me"] {
            let place = if path == "/me" { "" } else { path };
            let status = world.status(path, &format!("http://{host}{place}"), &headers).await;
            assert_eq!(status, 401, "{host} {path}");
        }
    }
    assert_eq!(world.status("/mcp", "team", &[]).await, 200);
}

#[tokio::test]
async fn metadata_has_the_configured_scopes() {
    let world = ProviderGateway::start(Some(PUBLIC), json!({ "scopes": ["groups", "booth:tools"] })).await;
    let http = Http::new(world.gateway.address);
    for resource in ["", "/mcp", "/mcp/p/support"] {
        let metadata = http.get_json(&format!("/.well-known/oauth-protected-resource{resource}")).await;
        assert_eq!(metadata["scopes_supported"], json!(["groups", "booth:tools"]), "{resource}");
    }
    let reply = http.send(Method::GET, "/me", &[], "").await;
    let challenge = reply.header("www-authenticate").unwrap();
    assert!(challenge.contains("scope=\"groups booth:tools\""), "{challenge}");
}

#[tokio::test]
async fn refusals_have_a_reason_for_the_client_and_for_the_log() {
    let world = ProviderGateway::start(Some(PUBLIC), json!({})).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let provider = &world.provider.url;
    let good = world.token(json!({ "aud": "team" }));
    let mut parts = good.split('.');
    let (head, claims) = (parts.next().unwrap(), parts.next().unwrap());
    let encoded = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    // The public key is the secret of an algorithm confusion.
    let public = world.signer.jwk()["x"].as_str().unwrap().to_owned();
    let message = format!("{}.{claims}", encoded(json!({ "alg": "HS256", "kid": "one" })));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &URL_SAFE_NO_PAD.decode(public).unwrap());
    let confused =
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes())));
    let root = encoded(
        json!({ "iss": provider, "aud": "team", "sub": "root", "exp": now + 300, "groups": ["admin"] }),
    );
    let jwk = Signer::new("mine").jwk();
    let forged_by = Signer::new("one");
    let (audience, unsigned) =
        ("the token is for another audience", "the token is not signed by a current key of the issuer");
    let malformed = "the token is malformed, or not of an accepted kind";
    let cases = [
        ("expired", world.token(json!({ "aud": "team", "exp": now - 120 })), "the token has expired"),
        (
            "future `nbf`",
            world.token(json!({ "aud": "team", "nbf": now + 600 })),
            "the token is not valid yet",
        ),
        ("another audience", world.token(json!({ "aud": "https://other.example/mcp" })), audience),
        ("several other audiences", world.token(json!({ "aud": ["a", "b"] })), audience),
        (
            "another issuer",
            world.token(json!({ "aud": "team", "iss": "https://evil.example" })),
            "the token is from another issuer",
        ),
        (
            "no user",
            world.token(json!({ "aud": "team", "sub": null })),
            "a claim of the token is missing or not usable",
        ),
        ("`alg` none", format!("{}.{root}.", encoded(json!({ "alg": "none" }))), malformed),
        ("key confusion", confused, malformed),
        ("other claims", format!("{head}.{root}.{}", good.rsplit_once('.').unwrap().1), unsigned),
        (
            "a forged key with a known id",
            forged_by.token(provider, json!({ "aud": "team", "sub": "root" })),
            unsigned,
        ),
        ("an unknown key id", world.signer.token_naming("two", provider, json!({ "aud": "team" })), unsigned),
        (
            "a path as key id",
            world.signer.token_naming("../../etc/passwd", provider, json!({ "aud": "team" })),
            unsigned,
        ),
        (
            "a query as key id",
            world.signer.token_naming("' OR 1=1 --", provider, json!({ "aud": "team" })),
            unsigned,
        ),
        (
            "a huge key id",
            world.signer.token_naming("k".repeat(5000).leak(), provider, json!({ "aud": "team" })),
            malformed,
        ),
        (
            "a key of its own",
            format!("{}.{root}.AAAA", encoded(json!({ "alg": "EdDSA", "jwk": jwk }))),
            unsigned,
        ),
        ("no token", "tb_0000".to_owned(), malformed),
    ];
    for (what, token, expected) in &cases {
        let reply = world.send("/me", token, &[]).await;
        assert_eq!(described(&reply).as_deref(), Some(*expected), "{what}");
        let problem = reply.json().await;
        let message =
            problem["detail"].as_str().or(problem["message"].as_str()).unwrap_or_default().to_owned();
        assert!(!problem.to_string().contains("other.example"), "{what}: {problem} {message}");
    }
    let huge = world.token(json!({ "aud": "team", "x": "x".repeat(20_000) }));
    assert!([401, 431].contains(&world.send("/me", &huge, &[]).await.status));
    assert_eq!(world.send("/me", &good, &[]).await.status, 200, "valid tokens still work");

    let log = world.gateway.log();
    for line in [
        "it has expired",
        "it is for another audience: ",
        "https://other.example/mcp",
        "no key of the issuer matches it",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    for (what, token, _) in &cases {
        assert!(!log.contains(token.as_str()), "{what}: {log}");
        let signature = token.rsplit('.').next().unwrap();
        assert!(signature.len() < 20 || !log.contains(signature), "{what}: {log}");
    }
}

// Whether a token that the gateway issued has expired, was revoked or never existed would confirm a stolen one.
#[tokio::test]
async fn opaque_tokens_are_refused_without_a_reason() {
    let home = Home::with_settings(json!({ "auth": { "mode": "token" } }), &[]);
    let gateway = home.start().await;
    let (token, id) = crate::token_users::make_token(&home, None, "ann", &[]);
    let get = async |token: &str| {
        Http::new(gateway.address).sending(&bearer(token)).send(Method::GET, "/me", &[], "").await
    };
    assert_eq!(get(&token).await.status, 200);
    assert!(crate::token_users::run(&home, &["tokens", "revoke", &id], None).status.success());
    for token in [&*token, "tb_0000"] {
        assert_eq!(described(&get(token).await), None);
    }
    let log = gateway.log();
    assert!(log.contains("it was revoked") && log.contains("the gateway has not issued it"), "{log}");
    assert!(!log.contains(&token), "{log}");
}
