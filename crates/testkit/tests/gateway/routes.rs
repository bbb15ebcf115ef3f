//! Every route with every role: access follows the route table.

use crate::token_users::{TokenUsers, bearer};
use ::http::Method;
use serde_json::Value;
use std::collections::BTreeMap;
use toolbooth_testkit::world::Http;

/// Routes that need no credential.
const OPEN: [&str; 10] = [
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/{path}",
    "GET /docs",
    "GET /docs/{file}",
    "GET /files/download/{id}",
    "GET /files/download/{id}/{name}",
    "GET /health",
    "GET /openapi.json",
    "GET /ready",
    "POST /job-requests/{id}",
];

/// The routes of the gateway's own document: method, path, who may call.
async fn table(http: &Http) -> Vec<(Method, String, String)> {
    let document = http.get_json("/openapi.json").await;
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let access = operation["x-toolbooth-access"].as_str().expect("every route says who may call it");
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
            routes.push((method, path.clone(), access.to_owned()));
        }
    }
    routes
}

/// The status and the code of the answer to a role at a route.
async fn ask(http: &Http, method: &Method, path: &str) -> (u16, String) {
    let filled: Vec<&str> =
        path.split('/').map(|part| if part.starts_with('{') { "none" } else { part }).collect();
    let body = if *method == Method::GET { "" } else { "{}" };
    let headers = [("content-type", "application/json")];
    let reply = http.send(method.clone(), &filled.join("/"), &headers, body).await;
    let status = reply.status;
    // A stream of events does not end, so its body is not read.
    let answer = if status == 200 { Value::Null } else { reply.json().await };
    (status, answer["code"].as_str().unwrap_or_default().to_owned())
}

// audit: tests covered about 7 of 17 admin routes.
#[tokio::test]
async fn every_route_admits_exactly_the_roles_in_the_table() {
    let known = TokenUsers::start().await;
    let at = |shown: &[(String, String)]| Http::new(known.gateway.address).sending(shown);
    let anonymous = at(&[]);
    let roles = [
        ("cat, in no group", at(&bearer(&known.cat))),
        ("ann, of staff", at(&bearer(&known.ann.0))),
        ("root, an administrator", at(&bearer(&known.root))),
    ];
    let routes = table(&anonymous).await;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (method, path, access) in &routes {
        let route = format!("{method} {path}");
        *counts.entry(access).or_default() += 1;
        assert_eq!(access == "public", OPEN.contains(&route.as_str()), "{route}");
        let (status, code) = ask(&anonymous, method, path).await;
        match access.as_str() {
            // A file URL has its own token.
            "public" => assert!(!code.starts_with("auth."), "{route}: {status} {code}"),
            _ => assert_eq!((status, code.as_str()), (401, "auth.required"), "{route} without a credential"),
        }
        for (role, http) in &roles {
            let (status, code) = ask(http, method, path).await;
            let is_refused = access == "administrator" && !role.starts_with("root");
            assert!(!["auth.required", "auth.refused"].contains(&code.as_str()), "{route} as {role}: {code}");
            assert_eq!(code == "auth.admin-only", is_refused, "{route} as {role}: {status} {code}");
            assert!(status < 500 || code.starts_with("oauth."), "{route} as {role}: {status} {code}");
        }
    }
    assert!(counts["administrator"] >= 16 && counts["caller"] >= 35, "{counts:?}");
}
