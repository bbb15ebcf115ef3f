//! Users of the console sign in at an identity provider: authorization code flow with PKCE.

use crate::oidc_provider::{CLIENT_ID, IdTokens, OidcProvider};
use crate::token_users::{bearer, recorded};
use ::http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::http::HttpReply;
use toolbooth_testkit::world::oauth_server::fields;
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, poll};

/// A browser: it keeps the cookies of the gateway, and follows redirects only on request.
struct Browser {
    http: Http,
    origin: String,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    fn new(gateway: &Gateway) -> Self {
        Self {
            http: Http::new(gateway.address),
            origin: format!("http://{}", gateway.address),
            cookies: BTreeMap::new(),
        }
    }

    async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)]) -> HttpReply {
        let pairs: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = pairs.join("; ");
        let mut all = vec![("cookie", cookies.as_str())];
        if method != Method::GET {
            all.extend([("origin", self.origin.as_str()), ("content-type", "application/json")]);
        }
        all.extend(headers);
        let body = if method == Method::POST { "{}" } else { "" };
        let reply = self.http.send(method, path, &all, body).await;
        for cookie in reply.headers.get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            match value {
                "" => drop(self.cookies.remove(name)),
                value => drop(self.cookies.insert(name.to_owned(), value.to_owned())),
            }
        }
        reply
    }

    async fn json(&mut self, method: Method, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let reply = self.send(method, path, headers).await;
        (reply.status, reply.json().await)
    }

    async fn me(&mut self) -> (u16, Value) {
        self.json(Method::GET, "/me", &[]).await
    }

    /// Begins to sign in; returns the path and query of the provider's page.
    async fn begin(&mut self, provider: &OidcProvider) -> String {
        let reply = self.send(Method::GET, "/console/login", &[("sec-fetch-site", "same-origin")]).await;
        assert_eq!(reply.status, 303);
        let target = reply.header("location").unwrap();
        target.strip_prefix(&provider.url).unwrap_or_else(|| panic!("{target}")).to_owned()
    }

    /// Signs in at the provider; returns the path and query to which the provider sends the browser.
    async fn at_provider(&self, provider: &OidcProvider, page: &str) -> String {
        let reply = Http::new(provider.address).send(Method::GET, page, &[], "").await;
        assert_eq!(reply.status, 302, "{page}");
        let target = reply.header("location").unwrap();
        target.strip_prefix(&self.origin).unwrap_or_else(|| panic!("{target}")).to_owned()
    }

    /// Returns from the provider, as browsers do: with a navigation from another site.
    async fn come_back(&mut self, target: &str) -> HttpReply {
        let headers = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        self.send(Method::GET, target, &headers).await
    }

    async fn sign_in(&mut self, provider: &OidcProvider) -> HttpReply {
        let page = self.begin(provider).await;
        let target = self.at_provider(provider, &page).await;
        self.come_back(&target).await
    }

    async fn csrf(&mut self) -> String {
        let (_, view) = self.json(Method::GET, "/console/session", &[]).await;
        view["session"]["csrf"].as_str().unwrap_or_else(|| panic!("{view}")).to_owned()
    }
}

/// A gateway whose console users sign in at a provider.
async fn start() -> (OidcProvider, Home, Gateway) {
    let provider = OidcProvider::start().await;
    let home = Home::with_settings(provider.settings(), &[("desk", hostile(&["echo"]))]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&provider.access_token(json!({ "groups": ["admin"] })));
    gateway.connected(&["desk"]).await;
    (provider, home, gateway)
}

/// Expects a page with this code, and that no session was opened.
async fn expect_refusal(browser: &mut Browser, reply: HttpReply, (status, code): (u16, &str), what: &str) {
    assert_eq!(reply.status, status, "{what}");
    assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"), "{what}");
    assert_eq!(reply.header("cache-control"), Some("no-store"), "{what}");
    let session = reply.headers.get_all("set-cookie").iter().any(|cookie| {
        let text = cookie.to_str().unwrap();
        text.starts_with("toolbooth-") && !text.starts_with("toolbooth-login-")
    });
    assert!(!session, "{what}");
    let page = String::from_utf8(reply.bytes().await.to_vec()).unwrap();
    assert!(page.contains(&format!("<code>{code}</code>")), "{what}: {page}");
    assert_eq!(browser.me().await.0, 401, "{what}");
}

#[tokio::test]
async fn console_user_signs_in_and_out_at_the_identity_provider() {
    let (provider, _home, gateway) = start().await;
    let mut browser = Browser::new(&gateway);
    let (_, view) = browser.json(Method::GET, "/console/session", &[]).await;
    assert_eq!(view, json!({ "mode": "jwt", "session": null, "provider": "Example ID" }));

    let reply = browser.send(Method::GET, "/console/login", &[]).await;
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=600"), "{cookie}");
    let page = reply.header("location").unwrap().strip_prefix(&provider.url).unwrap().to_owned();
    let asked = fields(page.split_once('?').unwrap().1);
    assert_eq!(asked["redirect_uri"], format!("http://{}/console/login/callback", gateway.address));
    assert_eq!((&*asked["scope"], &*asked["client_id"]), ("openid profile email", CLIENT_ID));
    assert!(asked["state"].len() >= 43 && asked["nonce"].len() >= 43 && asked["code_challenge"].len() == 43);

    let target = browser.at_provider(&provider, &page).await;
    let reply = browser.come_back(&target).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("../")));
    assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "the address has the code");
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Max-Age="), "{cookie}");
    // The session ends with the ID token, which is valid for 300 s and 60 s of tolerance.
    let age: u64 = cookie.split("Max-Age=").nth(1).unwrap().parse().unwrap();
    assert!((300..=360).contains(&age), "{cookie}");
    assert_eq!(browser.cookies.len(), 1, "the record of the sign-in is removed");

    let (status, me) = browser.me().await;
    assert_eq!((status, &me["user"], &me["groups"]), (200, &json!("ann"), &json!(["staff"])), "{me}");
    let (status, forged) = browser.json(Method::POST, "/tools/desk_ok/call", &[]).await;
    assert_eq!((status, &forged["code"]), (403, &json!("auth.csrf")));
    let csrf = browser.csrf().await;
    let (status, answer) =
        browser.json(Method::POST, "/tools/desk_ok/call", &[("x-toolbooth-csrf", &*csrf)]).await;
    assert_eq!(status, 200, "{answer}");
    let (status, _) = browser.json(Method::POST, "/mcp", &[("x-toolbooth-csrf", &*csrf)]).await;
    assert_eq!(status, 401, "MCP does not accept the cookie");

    let copy = browser.cookies.clone();
    let (status, out) =
        browser.json(Method::DELETE, "/console/session", &[("x-toolbooth-csrf", &*csrf)]).await;
    assert_eq!((status, &out["session"]), (200, &Value::Null));
    let at_provider = out["provider_sign_out"].as_str().unwrap();
    let asked = fields(at_provider.strip_prefix(&format!("{}/end?", provider.url)).unwrap());
    assert_eq!(asked["client_id"], CLIENT_ID);
    assert_eq!(asked["post_logout_redirect_uri"], format!("http://{}/console/", gateway.address));
    browser.cookies = copy;
    assert_eq!(browser.me().await.0, 401, "the session has ended on the gateway, too");
    assert!(!gateway.log().contains("code-1"), "the code is not logged");
    let page = gateway.http().get_json("/audit?kind=session").await;
    let rows = page["rows"].as_array().expect("rows").iter();
    let found: Vec<Value> =
        rows.map(|row| json!([row["user"], row["outcome"], row["detail"]["method"]])).collect();
    assert_eq!(
        json!(found),
        json!([["ann", "signed-out", "provider"], ["ann", "signed-in", "provider"]]),
        "{page}"
    );
}

#[tokio::test]
async fn answer_that_the_browser_did_not_ask_for_is_refused() {
    let (provider, _home, gateway) = start().await;
    let (mut victim, mut attacker) = (Browser::new(&gateway), Browser::new(&gateway));
    let foreign = (400, "auth.login-foreign");
    // An attacker's answer must not sign the victim in as the attacker, with or without a sign-in of their own.
    let page = attacker.begin(&provider).await;
    let planted = attacker.at_provider(&provider, &page).await;
    let reply = victim.come_back(&planted).await;
    expect_refusal(&mut victim, reply, foreign, "no sign-in was begun").await;
    let page = victim.begin(&provider).await;
    let reply = victim.come_back(&planted).await;
    expect_refusal(&mut victim, reply, foreign, "the state of another browser").await;
    let own = victim.at_provider(&provider, &page).await;
    let state = fields(own.split_once('?').unwrap().1)["state"].clone();
    let cases = [
        ("no state", own.replace(&format!("state={state}"), "x=y")),
        ("an altered state", own.replace(&state, &state.to_lowercase())),
        ("two states", format!("{own}&state={state}")),
        ("two codes", format!("{own}&code=other")),
        ("another issuer", format!("{}&iss=https%3A%2F%2Fevil.example", own.split_once("&iss=").unwrap().0)),
        ("no issuer", own.split_once("&iss=").unwrap().0.to_owned()),
    ];
    for (what, target) in cases {
        let reply = victim.come_back(&target).await;
        expect_refusal(&mut victim, reply, foreign, what).await;
    }
    // None of this ends the sign-in of the victim.
    let record = victim.cookies.clone();
    assert_eq!(victim.come_back(&own).await.status, 303);
    assert_eq!(victim.me().await.1["user"], "ann");
    // The same answer again, with the record of the sign-in.
    let mut replaying = Browser::new(&gateway);
    replaying.cookies = record;
    let reply = replaying.come_back(&own).await;
    expect_refusal(&mut replaying, reply, (502, "auth.login-refused"), "a replayed code").await;
}

#[tokio::test]
async fn address_with_many_bad_answers_has_to_wait_and_valid_ones_work() {
    let (provider, _home, gateway) = start().await;
    let mut guesser = Browser::new(&gateway);
    let mut refused = None;
    for number in 0..60 {
        let target = format!("/console/login/callback?code=c&state=guess{number}");
        let reply = guesser.come_back(&target).await;
        if reply.status == 429 {
            refused = Some(reply);
            break;
        }
        assert_eq!(reply.status, 400, "{target}");
    }
    let reply = refused.expect("the address has to wait");
    assert!(reply.header("retry-after").is_some());
    expect_refusal(&mut guesser, reply, (429, "auth.too-many-attempts"), "many bad answers").await;
    recorded(&gateway.http(), "auth.too-many-attempts").await;
    assert_eq!(Browser::new(&gateway).sign_in(&provider).await.status, 303);
}

#[tokio::test]
async fn id_token_that_is_not_for_this_sign_in_is_refused() {
    let (provider, _home, gateway) = start().await;
    let cases = [
        ("another nonce", IdTokens::With(json!({ "nonce": "other" }))),
        ("no nonce", IdTokens::With(json!({ "nonce": null }))),
        ("the audience of another client", IdTokens::With(json!({ "aud": "other" }))),
        ("the audience of the API", IdTokens::With(json!({ "aud": "booth" }))),
        ("requested by another client", IdTokens::With(json!({ "aud": [CLIENT_ID, "x"], "azp": "x" }))),
        ("expired", IdTokens::With(json!({ "exp": 1 }))),
        ("another issuer", IdTokens::With(json!({ "iss": "https://evil.example" }))),
        ("no user", IdTokens::With(json!({ "sub": null }))),
        ("not signed", IdTokens::Unsigned),
        ("signed by another key", IdTokens::OfAnotherKey),
    ];
    for (what, id_tokens) in cases {
        provider.return_id_tokens(id_tokens);
        let mut browser = Browser::new(&gateway);
        let reply = browser.sign_in(&provider).await;
        expect_refusal(&mut browser, reply, (403, "auth.bad-id-token"), what).await;
        assert!(browser.cookies.is_empty(), "{what}: the record of the sign-in is removed");
    }
    let audited = poll(TEST_TIMEOUT, || async {
        let audit = gateway.http().get_json("/audit?kind=refusal").await;
        audit["rows"].as_array().filter(|rows| !rows.is_empty()).map(|_| ())
    });
    assert!(audited.await.is_some(), "refused ID tokens are in the audit");
    // The rights come from the ID token by the same claims as for other tokens.
    provider.return_id_tokens(IdTokens::With(json!({ "sub": "root", "groups": ["admin"] })));
    let mut browser = Browser::new(&gateway);
    assert_eq!(browser.sign_in(&provider).await.status, 303);
    assert_eq!(browser.me().await.1["admin"], true);
}

#[tokio::test]
async fn login_failures_are_readable_pages() {
    let (provider, _home, gateway) = start().await;
    let mut browser = Browser::new(&gateway);
    provider.deny(Some("access_denied"));
    let reply = browser.sign_in(&provider).await;
    expect_refusal(&mut browser, reply, (403, "auth.login-denied"), "denied").await;
    recorded(&gateway.http(), "auth.login-denied").await;
    provider.deny(None);
    let page = browser.begin(&provider).await;
    let target = browser.at_provider(&provider, &page).await;
    provider.set_down(true);
    let reply = browser.come_back(&target).await;
    expect_refusal(&mut browser, reply, (503, "auth.provider-unreachable"), "down during the sign-in").await;
    provider.set_down(false);
    assert_eq!(browser.sign_in(&provider).await.status, 303, "it works again");

    // A provider that was never reached.
    let silent = OidcProvider::start().await;
    silent.set_down(true);
    let home = Home::with_settings(silent.settings(), &[]);
    let other = home.start().await;
    let mut browser = Browser::new(&other);
    let reply = browser.send(Method::GET, "/console/login", &[]).await;
    expect_refusal(&mut browser, reply, (503, "auth.provider-unreachable"), "down").await;

    // A gateway without a client at a provider.
    let mut settings = silent.settings();
    settings["auth"].as_object_mut().unwrap().remove("console");
    let home = Home::with_settings(settings, &[]);
    let plain = home.start().await;
    let mut browser = Browser::new(&plain);
    for path in ["/console/login", "/console/login/callback?code=c&state=s"] {
        let reply = browser.send(Method::GET, path, &[]).await;
        expect_refusal(&mut browser, reply, (404, "auth.login-not-configured"), path).await;
    }
}

#[tokio::test]
async fn session_is_renewed_by_the_provider_and_ends_when_it_refuses() {
    let (provider, _home, gateway) = start().await;
    provider.give_refresh_tokens();
    // Valid, but about to expire: each request renews it.
    let soon = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 20;
    let short = |groups: &[&str]| IdTokens::With(json!({ "exp": soon(), "groups": groups }));
    provider.return_id_tokens(short(&["staff"]));
    let mut browser = Browser::new(&gateway);
    let reply = browser.sign_in(&provider).await;
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.contains("Max-Age=86"), "the session can outlive its ID token: {cookie}");
    provider.return_id_tokens(short(&["ops"]));
    let (status, me) = browser.me().await;
    assert_eq!((status, &me["user"], &me["groups"]), (200, &json!("ann"), &json!(["ops"])), "{me}");
    assert_eq!(provider.refreshed(), 1);

    // The next ID token lasts longer, so it is not renewed again.
    provider.return_id_tokens(IdTokens::With(json!({ "groups": ["ops"] })));
    assert_eq!(browser.me().await.0, 200);
    assert_eq!(browser.me().await.0, 200);
    assert_eq!(provider.refreshed(), 2);

    // A provider that fails does not end a session whose ID token is valid; one that refuses does.
    provider.return_id_tokens(short(&["staff"]));
    let mut other = Browser::new(&gateway);
    assert_eq!(other.sign_in(&provider).await.status, 303);
    provider.set_down(true);
    assert_eq!(other.me().await.0, 200);
    provider.set_down(false);
    let mut refused = Browser::new(&gateway);
    assert_eq!(refused.sign_in(&provider).await.status, 303);
    provider.give_refresh_tokens();
    assert_eq!(refused.me().await.0, 401);
    let page = gateway.http().get_json("/audit?kind=session").await;
    let row = &page["rows"][0];
    assert_eq!((&row["outcome"], &row["code"]), (&json!("ended"), &json!("auth.login-refused")), "{page}");

    // The ID token of another user does not become the identity of a session.
    let mut victim = Browser::new(&gateway);
    assert_eq!(victim.sign_in(&provider).await.status, 303);
    provider.return_id_tokens(IdTokens::With(json!({ "sub": "root", "groups": ["admin"] })));
    assert_eq!(victim.me().await.0, 401);
    assert!(!gateway.log().contains("refresh-"), "refresh tokens are not logged");
}

#[tokio::test]
async fn login_leads_only_to_the_provider_and_to_the_console() {
    let (provider, _home, gateway) = start().await;
    let mut browser = Browser::new(&gateway);
    let elsewhere = "return=https%3A%2F%2Fevil.example&redirect_uri=https%3A%2F%2Fevil.example";
    let reply = browser.send(Method::GET, &format!("/console/login?{elsewhere}"), &[]).await;
    let page = reply.header("location").unwrap().strip_prefix(&provider.url).unwrap().to_owned();
    assert!(!page.contains("evil"), "{page}");
    let target = browser.at_provider(&provider, &page).await;
    let reply = browser.come_back(&format!("{target}&{elsewhere}")).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("../")));
    // A page of another site cannot begin a sign-in.
    let mut visitor = Browser::new(&gateway);
    let reply = visitor.come_back("/console/login").await;
    assert_eq!((reply.status, reply.header("location"), reply.header("set-cookie")), (303, Some("./"), None));
}
