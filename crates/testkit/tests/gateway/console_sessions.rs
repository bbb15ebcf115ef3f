//! Sessions of the web console: a token is exchanged for a cookie, which works for REST only and needs a CSRF token.

use crate::callers::http_as;
use crate::token_users::{TokenUsers, make_token};
use ::http::Method;
use serde_json::{Value, json};
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, poll};

/// A browser with the console open: it sends the Origin of its page, and the cookie that it was given.
pub struct ConsoleTab {
    http: Http,
    origin: String,
    cookie: String,
    pub csrf: String,
}

impl ConsoleTab {
    /// Signs in; `token` is empty in `header` mode.
    pub async fn sign_in(gateway: &Gateway, http: Http, token: &str) -> Self {
        let origin = format!("http://{}", gateway.address);
        let headers = [("content-type", "application/json"), ("origin", &*origin)];
        let body = if token.is_empty() { "{}".to_owned() } else { json!({ "token": token }).to_string() };
        let reply = http.send(Method::POST, "/console/session", &headers, body).await;
        assert_eq!(reply.status, 200);
        let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        let view = reply.json().await;
        let csrf = view["session"]["csrf"].as_str().unwrap_or_else(|| panic!("{view}")).to_owned();
        Self { http, origin, cookie, csrf }
    }

    /// The same browser at another gateway, which it reaches by the same address: a proxy is in front of both.
    pub fn moved_to(&self, gateway: &Gateway) -> Self {
        let host = self.origin.trim_start_matches("http://").to_owned();
        Self {
            http: Http::new(gateway.address).sending(&[("host".into(), host)]),
            origin: format!("http://{}", gateway.address),
            cookie: self.cookie.clone(),
            csrf: self.csrf.clone(),
        }
    }

    /// A request of the page, with these headers besides the cookie.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, Value) {
        let own = [
            ("content-type", "application/json"),
            ("origin", self.origin.as_str()),
            ("cookie", self.cookie.as_str()),
        ];
        let headers = [&own, headers].concat();
        let reply = self.http.send(method, path, &headers, body.to_owned()).await;
        (reply.status, reply.json().await)
    }

    async fn post(&self, path: &str) -> (u16, Value) {
        self.send(Method::POST, path, &[("x-toolbooth-csrf", &*self.csrf)], "{}").await
    }

    pub async fn me(&self) -> (u16, Value) {
        self.send(Method::GET, "/me", &[], "").await
    }
}

#[tokio::test]
async fn console_session_replaces_the_token_for_rest_only() {
    let known = TokenUsers::start().await;
    let http = Http::new(known.gateway.address);
    let anonymous = http.get_json("/console/session").await;
    assert_eq!(anonymous, json!({ "mode": "token", "session": null }));
    let ann = ConsoleTab::sign_in(&known.gateway, http.clone(), &known.ann.0).await;
    let (status, me) = ann.me().await;
    assert_eq!((status, &me["user"]), (200, &json!("ann")), "{me}");
    let (status, answer) = ann.post("/tools/open_ok/call").await;
    assert_eq!(status, 200, "{answer}");
    let (status, refused) = ann.post("/tokens").await;
    assert_eq!((status, &refused["code"]), (403, &json!("auth.admin-only")), "{refused}");

    // Neither era of MCP accepts the cookie.
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let (status, _) = ann.send(Method::POST, "/mcp", &[("x-toolbooth-csrf", &*ann.csrf)], &initialize).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn request_without_the_csrf_token_changes_nothing() {
    let known = TokenUsers::start().await;
    let http = Http::new(known.gateway.address);
    let ann = ConsoleTab::sign_in(&known.gateway, http.clone(), &known.ann.0).await;
    let wrong = "0".repeat(64);
    for headers in [&[][..], &[("x-toolbooth-csrf", &*wrong)]] {
        let requests = [(Method::POST, "/tools/open_ok/call"), (Method::DELETE, "/console/session")];
        for (method, path) in requests {
            let (status, refused) = ann.send(method, path, headers, "{}").await;
            assert_eq!((status, &refused["code"]), (403, &json!("auth.csrf")), "{path} {headers:?}");
        }
    }
    assert_eq!(http_as(&known.gateway, &known.root).get_json("/calls").await["calls"], json!([]));
    // A page of another site cannot sign its visitor in, and a program has no use for a cookie.
    let body = json!({ "token": known.ann.0 }).to_string();
    let own = format!("http://{}", known.gateway.address);
    let foreign: [&[(&str, &str)]; 3] =
        [&[("origin", "https://evil.example")], &[("origin", &*own), ("sec-fetch-site", "same-site")], &[]];
    for headers in foreign {
        let headers = [&[("content-type", "application/json")], headers].concat();
        let reply = http.send(Method::POST, "/console/session", &headers, body.clone()).await;
        assert_eq!((reply.status, reply.header("set-cookie")), (403, None), "{headers:?}");
    }
}

#[tokio::test]
async fn console_session_ends_with_its_token_and_by_signing_out() {
    let known = TokenUsers::start().await;
    let http = Http::new(known.gateway.address);
    let ann = ConsoleTab::sign_in(&known.gateway, http.clone(), &known.ann.0).await;
    let cat = ConsoleTab::sign_in(&known.gateway, http.clone(), &known.cat).await;
    let (status, out) =
        cat.send(Method::DELETE, "/console/session", &[("x-toolbooth-csrf", &*cat.csrf)], "").await;
    assert_eq!((status, &out["session"]), (200, &Value::Null));
    assert_eq!(cat.me().await.0, 401);
    assert_eq!(ann.me().await.0, 200, "other sessions go on");
    let root = http_as(&known.gateway, &known.root);
    let revoked = root.send(Method::DELETE, &format!("/tokens/{}", known.ann.1), &[], "").await;
    assert_eq!(revoked.status, 200);
    let ended = poll(TEST_TIMEOUT, || async { (ann.me().await.0 == 401).then_some(()) });
    assert!(ended.await.is_some(), "a revoked token ends the session");
    let (_, view) = ann.send(Method::GET, "/console/session", &[], "").await;
    assert_eq!(view["session"], Value::Null);
    let headers = [("content-type", "application/json"), ("origin", &*ann.origin)];
    let reply = http.send(Method::POST, "/console/session", &headers, r#"{"token":"tb_guess"}"#).await;
    assert_eq!((reply.status, reply.header("set-cookie")), (401, None));
    let page = root.get_json("/audit?kind=session").await;
    let rows: Vec<&Value> = page["rows"].as_array().expect("rows").iter().collect();
    let expected = [("cat", "signed-out"), ("cat", "signed-in"), ("ann", "signed-in")];
    let found: Vec<_> = rows.iter().map(|row| (row["user"].as_str(), row["outcome"].as_str())).collect();
    assert_eq!(found, expected.map(|(user, outcome)| (Some(user), Some(outcome))), "{page}");
    assert!(rows.iter().all(|row| row["detail"]["method"] == "token"), "{page}");
    assert!(!page.to_string().contains("tb_"), "no token is in the audit log: {page}");
}

#[tokio::test]
async fn console_session_behind_a_proxy_belongs_to_the_user_that_the_proxy_names() {
    let header = json!({ "secret": "${PROXY_SECRET:-a long and winding word}" });
    let settings = json!({ "auth": { "mode": "header", "header": header }, "groups": { "admin": ["root"] } });
    let home = Home::with_settings(settings, &[("desk", hostile(&["echo"]))]);
    let mut gateway = home.start().await;
    let by_proxy = |user: &str| {
        vec![
            ("x-user-email".to_owned(), user.to_owned()),
            ("x-proxy-secret".to_owned(), "a long and winding word".to_owned()),
        ]
    };
    gateway.headers = by_proxy("root");
    gateway.connected(&["desk"]).await;
    let http = Http::new(gateway.address);
    let ann = ConsoleTab::sign_in(&gateway, http.clone().sending(&by_proxy("ann")), "").await;
    assert_eq!(ann.me().await.1["user"], "ann");
    let (status, forged) = ann.send(Method::POST, "/tools/desk_ok/call", &[], "{}").await;
    assert_eq!((status, &forged["code"]), (403, &json!("auth.csrf")));
    assert_eq!(ann.post("/tools/desk_ok/call").await.0, 200);
    // The cookie alone identifies no one, and not another user.
    let stolen = ConsoleTab { http: http.clone(), ..ann };
    assert_eq!(stolen.me().await.0, 401);
    let other = ConsoleTab { http: http.sending(&by_proxy("bob")), ..stolen };
    assert_eq!(other.me().await.0, 401);
}

#[tokio::test]
async fn console_session_survives_a_restart() {
    let settings = json!({ "auth": { "mode": "token" } });
    let home = Home::with_settings(settings, &[]);
    let (token, _) = make_token(&home, None, "ann", &[]);
    let gateway = home.start().await;
    let ann = ConsoleTab::sign_in(&gateway, Http::new(gateway.address), &token).await;
    gateway.stop().await;
    let database = std::fs::read(home.data().join("toolbooth.db")).unwrap();
    let contains = |text: &str| database.windows(text.len()).any(|window| window == text.as_bytes());
    let secret = ann.cookie.split_once('=').unwrap().1;
    assert!(!contains(&token) && !contains(secret), "the database has neither the token nor the cookie");
    let gateway = home.start().await;
    let ann = ann.moved_to(&gateway);
    assert_eq!(ann.me().await.1["user"], "ann");
    let (status, out) =
        ann.send(Method::DELETE, "/console/session", &[("x-toolbooth-csrf", &*ann.csrf)], "").await;
    assert_eq!((status, &out["session"]), (200, &Value::Null), "the CSRF token is still valid, too");
    assert_eq!(ann.me().await.0, 401);
}
