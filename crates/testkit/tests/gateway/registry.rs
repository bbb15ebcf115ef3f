//! Registry queries over HTTP: personas, versions, filters, pagination, ETags and refresh.

use crate::token_users::{bearer, make_token, read, run};
use hyper::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer};

/// A gateway with a server for all users, and one each for two personas; `Closed` is a persona of `ops` only.
struct RegistrySetup {
    home: Home,
    gateway: Gateway,
    common: ScriptedServer,
    /// An administrator, who is in `ops` too.
    root: String,
    /// A user in no group.
    cat: String,
}

fn tools(names: &[&str]) -> String {
    let one = |name: &&str| json!({ "name": name, "description": format!("The {name} tool."), "inputSchema": { "type": "object" } });
    json!(names.iter().map(one).collect::<Vec<_>>()).to_string()
}

impl RegistrySetup {
    async fn open() -> Self {
        let [common, atlas, orion] = [
            ScriptedServer::start(TestEra::Modern).await,
            ScriptedServer::start(TestEra::Modern).await,
            ScriptedServer::start(TestEra::Legacy).await,
        ];
        common.list(tools(&["alpha", "beta", "delta", "gamma"]));
        atlas.list(tools(&["probe"]));
        orion.list(tools(&["probe"]));
        let home = Home::new(&[]);
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin,ops"]);
        let (cat, _) = make_token(&home, None, "cat", &[]);
        let of_personas = |upstream: &ScriptedServer, names: &[&str]| {
            let mut entry = upstream.entry();
            entry["personas"] = json!(names);
            entry["tools"] = json!({ "overrides": { "probe": { "version": "3.1.4" } } });
            entry
        };
        let mut shared = common.entry();
        let auth = json!({ "required": true, "envs": ["HOME", "UNSET_VARIABLE"], "scopes": ["mail"] });
        shared["tools"] = json!({ "overrides": {
            "alpha": { "version": "1.2", "capabilities": ["Web Search", "b", "web-search"], "side_effects": "none" },
            "beta": { "version": "1.0.0-beta", "capabilities": ["b"], "auth": auth, "default_timeout": 5 },
            "delta": { "version": "1.10.0", "side_effects": "write", "allow_parallel": true },
        } });
        let settings = json!({
            "policy": { "consent": "client" },
            "auth": { "mode": "token" },
            "personas": {
                "Atlas": { "inherit": "shared" },
                "Orion": { "inherit": "shared" },
                "Closed": { "inherit": "shared", "groups": ["ops"] },
            },
        });
        home.configure(
            settings,
            &[
                ("common", shared),
                ("atlas", of_personas(&atlas, &["Atlas"])),
                ("orion", of_personas(&orion, &["Orion"])),
            ],
        );
        let mut gateway = home.start().await;
        gateway.headers = bearer(&root);
        gateway.connected(&["common", "atlas", "orion"]).await;
        Self { home, gateway, common, root, cat }
    }

    fn as_cat(&self) -> Http {
        Http::new(self.gateway.address).sending(&bearer(&self.cat))
    }

    /// The names that a query returns to a user in no group.
    async fn names(&self, query: &str) -> Vec<String> {
        let reply = self.as_cat().send(Method::GET, &format!("/tools?{query}"), &[], "").await;
        let (status, page) = (reply.status, reply.json().await);
        assert_eq!(status, 200, "{query}: {page}");
        assert_eq!(page["count"], page["tools"].as_array().expect("tools").len(), "{query}");
        names_of(&page)
    }
}

fn names_of(page: &Value) -> Vec<String> {
    let tools = page["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn persona_filters_select_join_and_exclude_shared_tools() {
    let registry = RegistrySetup::open().await;
    let shared = ["common_alpha", "common_beta", "common_delta", "common_gamma"];
    let cases: [(&str, &[&str], bool); 10] = [
        ("", &[], true),
        ("persona=Atlas", &["atlas_probe"], true),
        ("persona=Atlas&persona=-shared", &["atlas_probe"], false),
        ("persona=-shared&persona=Atlas", &["atlas_probe"], false),
        ("persona=Atlas&persona=%21shared", &["atlas_probe"], false),
        ("persona=Atlas&persona=no-shared", &["atlas_probe"], false),
        ("persona=Atlas&persona=Orion", &["atlas_probe", "orion_probe"], true),
        ("persona=Atlas&persona=Orion&persona=-shared", &["atlas_probe", "orion_probe"], false),
        ("persona=Atlas&persona=Atlas", &["atlas_probe"], true),
        // Without a persona name, no private tools are shown.
        ("persona=-shared", &[], false),
    ];
    for (query, own, with_shared) in cases {
        let mut expected: Vec<&str> = own.to_vec();
        if with_shared {
            expected.extend(shared);
        }
        expected.sort_unstable();
        assert_eq!(registry.names(query).await, expected, "{query}");
    }
    let mut refusals = Vec::new();
    for name in ["Closed", "Vacant"] {
        let path = format!("/tools?persona=Atlas&persona={name}");
        let reply = registry.as_cat().send(Method::GET, &path, &[], "").await;
        refusals.push((reply.status, reply.bytes().await.to_vec()));
        refusals.last_mut().expect("it is there").1 =
            String::from_utf8_lossy(&refusals.last().expect("it is there").1).replace(name, "X").into_bytes();
    }
    assert_eq!(refusals[0], refusals[1], "a forbidden persona is indistinguishable from an unknown one");
    assert_eq!(refusals[0].0, 403);
    let root = registry.gateway.http();
    assert_eq!(names_of(&root.get_json("/tools?persona=Closed").await), shared);
    assert_eq!(root.get_json("/personas").await["personas"].as_array().map(Vec::len), Some(3));
    assert_eq!(registry.as_cat().get_json("/personas").await["personas"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn version_ranges_follow_semver() {
    let registry = RegistrySetup::open().await;
    let (alpha, beta, delta) = ("common_alpha", "common_beta", "common_delta"); // 1.2.0, 1.0.0-beta, 1.10.0
    let cases: [(&str, &[&str]); 9] = [
        ("%3E%3D1.2.0", &[alpha, delta]),
        ("%3E%3D1.2", &[alpha, delta]),
        ("%3E%3D1.0.0", &[alpha, delta]),
        ("%3E%3D1.0.0-alpha,%3C%3D1.0.0", &[beta]),
        ("1.2", &[alpha]),
        ("1.10", &[delta]),
        ("%5E1.2", &[alpha, delta]),
        ("~1.2", &[alpha]),
        ("%3E1.2,%20%3C2", &[delta]),
    ];
    for (range, expected) in cases {
        assert_eq!(registry.names(&format!("version={range}")).await, expected, "{range}");
    }
    let reply = registry.as_cat().send(Method::GET, "/tools?version=%3E%3Ex", &[], "").await;
    assert_eq!(reply.status, 400);
    let problem = reply.json().await;
    assert_eq!(problem["code"], "request.bad-query");
    assert!(problem["title"].as_str().expect("a title").contains("`>>x`"), "{problem}");
}

#[tokio::test]
async fn tools_can_be_filtered_by_their_properties() {
    let registry = RegistrySetup::open().await;
    let cases: [(&str, &[&str]); 16] = [
        ("capability=web_search", &["common_alpha"]),
        ("capability=Web+Search&capability=B", &["common_alpha"]),
        ("capability=b", &["common_alpha", "common_beta"]),
        ("capability=c", &[]),
        ("side_effects=write", &["common_delta"]),
        ("side_effects=write&side_effects=none", &["common_alpha", "common_delta"]),
        ("server=common&q=GAMMA+TOOL", &["common_gamma"]),
        ("provider=mcp%3Acommon&q=alpha", &["common_alpha"]),
        ("provider=mcp%3Aatlas", &[]),
        ("provider=http", &[]),
        ("sort=-name&limit=1", &["common_gamma"]),
        ("sort=server&limit=1", &["common_alpha"]),
        // Nothing was ever called.
        ("min_success_rate=0.8&limit=1", &["common_alpha"]),
        ("min_success_rate=80&limit=1", &["common_alpha"]),
        ("min_success_rate=80&unknown=exclude", &[]),
        ("limit=2", &["common_alpha", "common_beta"]),
    ];
    for (query, expected) in cases {
        assert_eq!(registry.names(query).await, expected, "{query}");
    }
    for bad in ["capabilty=x", "limit=many", "q=a&q=b", "view=most", "sort=size", "cursor=zzz"] {
        let reply = registry.as_cat().send(Method::GET, &format!("/tools?{bad}"), &[], "").await;
        assert_eq!(reply.status, 400, "{bad}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{bad}");
    }
    let problem = registry.as_cat().get_json("/tools?capabilty=x").await;
    assert!(problem["title"].as_str().expect("a title").ends_with("did you mean `capability`?"), "{problem}");
    // The command line accepts the same filters.
    let words =
        ["tools", "list", "--json", "--capability", "web search", "--version", ">=1.2", "--server", "common"];
    assert_eq!(names_of(&read(&run(&registry.home, &words, Some(&registry.cat)))), ["common_alpha"]);
    let words = ["tools", "list", "--json", "--personas", "Atlas,Orion,-shared"];
    assert_eq!(
        names_of(&read(&run(&registry.home, &words, Some(&registry.cat)))),
        ["atlas_probe", "orion_probe"]
    );
}

#[tokio::test]
async fn tool_details_show_its_terms_and_no_secret() {
    let registry = RegistrySetup::open().await;
    let page = registry.as_cat().get_json("/tools?view=full&q=beta").await;
    let tool = &page["tools"][0];
    let keys = [
        ("name", json!("common_beta")),
        ("id", json!("mcp.common.beta")),
        ("version", json!("1.0.0-beta")),
        ("side_effects", json!("network")),
        ("default_timeout", json!(5.0)),
        ("allow_parallel", json!(false)),
        ("idempotency_key", json!(false)),
        ("capabilities", json!(["b"])),
        ("parameters", json!({ "type": "object" })),
        (
            "providers",
            json!([{ "id": "mcp:common", "name": "mcp", "priority": 0, "server": "common", "tool": "beta" }]),
        ),
        // Which variables are set is shown to administrators only.
        ("auth", json!({ "required": true, "scopes": ["mail"], "configured": false, "credentials": [] })),
    ];
    for (key, expected) in keys {
        assert_eq!(tool[key], expected, "{key}: {tool}");
    }
    let known = registry.gateway.http().get_json("/tools/common_beta").await;
    let credentials = json!([
        { "name": "HOME", "required": true, "configured": true },
        { "name": "UNSET_VARIABLE", "required": true, "configured": false },
    ]);
    assert_eq!(known["auth"]["credentials"], credentials, "{known}");
    let home = registry.home.path("").display().to_string();
    assert!(!page.to_string().contains(&home), "the value of a credential is not shown");
    let whole = registry.as_cat().get_json("/registry").await;
    let keys: BTreeSet<&str> = whole.as_object().expect("an object").keys().map(String::as_str).collect();
    for key in ["revision", "tools", "skills", "jobs", "personas", "servers", "next_jobs_cursor"] {
        assert!(keys.contains(key), "{key}: {keys:?}");
    }
    assert_eq!(whole["servers"].as_array().map(Vec::len), Some(1), "cat does not see servers of personas");
}

/// Labels of a tool do not say whether a person is asked or whether calls overlap.
#[tokio::test]
async fn details_tell_labels_from_what_the_gateway_does() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(tools(&["plain", "single", "asked"]));
    let mut entry = upstream.entry();
    entry["tools"] = json!({ "overrides": {
        "single": { "allow_parallel": false }, "asked": { "requires_consent": true },
    } });
    let home = Home::new(&[]);
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    for (consent, asked) in [("client", &["asked"][..]), ("gateway", &["asked", "plain", "single"])] {
        let settings = json!({ "auth": { "mode": "token" }, "policy": { "consent": consent } });
        home.configure(settings, &[("srv", entry.clone())]);
        let mut gateway = home.start().await;
        gateway.headers = bearer(&root);
        gateway.connected(&["srv"]).await;
        for name in ["plain", "single", "asked"] {
            let tool = gateway.http().get_json(&format!("/tools/srv_{name}")).await;
            assert_eq!(tool["requires_consent"], true, "{tool}");
            assert_eq!(tool["asks_consent"] == true, asked.contains(&name), "{consent} {tool}");
            assert_eq!(tool["one_at_a_time"] == true, name == "single", "{tool}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn page_is_sent_again_only_if_the_catalog_changed() {
    let registry = RegistrySetup::open().await;
    let http = registry.as_cat();
    let first = http.send(Method::GET, "/tools", &[], "").await;
    let tag = first.header("etag").expect("a tag").to_owned();
    let again = http.send(Method::GET, "/tools", &[("if-none-match", &tag)], "").await;
    assert_eq!((again.status, again.header("etag")), (304, Some(tag.as_str())));
    assert_eq!(again.bytes().await.len(), 0);
    let through = http.send(Method::GET, "/tools?persona=Atlas", &[("if-none-match", &tag)], "").await;
    assert_eq!(through.status, 200, "another view has another ETag");
    // The server has other tools now and did not announce them.
    registry.common.list(tools(&["alpha", "omega"]));
    let refused = http.send(Method::POST, "/registry/refresh?force=true", &[], "").await;
    assert_eq!(refused.status, 403, "only administrators can refresh");
    let (status, refreshed) = registry.gateway.http().post_json("/registry/refresh?force=true", "").await;
    assert_eq!(status, 200, "{refreshed}");
    let states: Vec<&str> = refreshed["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .filter_map(|server| server["state"].as_str())
        .collect();
    assert_eq!(states, ["connected"; 3], "{refreshed}");
    let changed = http.send(Method::GET, "/tools", &[("if-none-match", &tag)], "").await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
    let page = changed.json().await;
    assert_eq!(names_of(&page), ["common_alpha", "common_omega"]);
    assert_eq!(page["revision"], refreshed["revision"]);
    drop(registry.root);
}

#[tokio::test]
async fn pagination_returns_every_tool_once() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let names: Vec<String> = (0..1000).map(|number| format!("t{number:04}")).collect();
    upstream.list(tools(&names.iter().map(String::as_str).collect::<Vec<_>>()));
    let home = Home::new(&[]);
    home.configure(json!({}), &[("many", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["many"]).await;
    for sort in ["name", "-name", "server", "-calls"] {
        let mut met = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = gateway.http().get_json(&format!("/tools?limit=37&sort={sort}{cursor}")).await;
            met.extend(names_of(&page));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(met.len(), 1000, "{sort}");
        assert_eq!(met.iter().collect::<BTreeSet<_>>().len(), 1000, "{sort}");
    }
}
