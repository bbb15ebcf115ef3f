//! Search over HTTP and on the command line.

use crate::token_users::{bearer, make_token, read, run};
use hyper::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::encoder::{EncoderMode, EncoderServer};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, poll};

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description,
        "inputSchema": { "type": "object", "properties": { "what": { "type": "string" } } } })
}

/// Tools of several domains.
fn tools() -> String {
    let tools = [
        tool("create_issue", "Opens a new issue in a repository."),
        tool("list_issues", "Lists the issues of a repository."),
        tool("send_mail", "Sends an email to one or more recipients."),
        tool("getWeather", "Current weather and forecast of a city."),
        tool("resize_image", "Changes the width and height of a picture."),
        tool("run_query", "Runs an SQL statement against the database."),
    ];
    json!(tools).to_string()
}

async fn found(http: &Http, query: &str) -> Value {
    let reply = http.send(Method::GET, &format!("/tools/search?{query}"), &[], "").await;
    let (status, answer) = (reply.status, reply.json().await);
    assert_eq!(status, 200, "{query}: {answer}");
    answer
}

fn names(answer: &Value) -> Vec<&str> {
    answer["hits"].as_array().expect("hits").iter().filter_map(|hit| hit["name"].as_str()).collect()
}

async fn open(settings: Value) -> (ScriptedServer, Home, Gateway) {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(tools());
    let home = Home::with_settings(settings, &[("work", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["work"]).await;
    (upstream, home, gateway)
}

#[tokio::test]
async fn tools_are_found_by_words_name_and_pattern() {
    let (_upstream, home, gateway) = open(json!({})).await;
    let http = gateway.http();
    let cases = [
        ("q=write%20an%20e-mail%20to%20a%20colleague", "work_send_mail"),
        ("q=report%20a%20bug%20in%20the%20repo", "work_create_issue"),
        ("q=make%20the%20photo%20smaller", "work_resize_image"),
        ("q=wether%20forcast", "work_getWeather"),
        ("q=work_list_issues", "work_list_issues"),
        ("q=mcp.work.getWeather", "work_getWeather"),
        ("q=mcp_work_send_mail", "work_send_mail"),
        ("q=work__run_query", "work_run_query"),
        ("q=resize_image", "work_resize_image"),
    ];
    for (query, expected) in cases {
        assert_eq!(names(&found(&http, query).await).first(), Some(&expected), "{query}");
    }
    let both = found(&http, "q=send%20an%20email&q=sql%20database&limit=2").await;
    let mut both = names(&both);
    both.sort_unstable();
    assert_eq!(
        both,
        ["work_run_query", "work_send_mail"],
        "a query with several clauses finds tools for each"
    );
    let elsewhere = found(&http, "q=send%20an%20email&server=play").await;
    assert_eq!(elsewhere["count"], 0, "{elsewhere}");
    let here = found(&http, "q=send%20an%20email&server=play&server=work&limit=1").await;
    assert_eq!(names(&here), ["work_send_mail"]);
    let mut issues = found(&http, "q=_issues%3F%24&regex=true").await;
    assert_eq!(issues["count"], 2);
    assert_eq!(issues["hits"][0]["score"].take().as_f64().map(|score| score <= 1.0), Some(true));

    let shown = read(&run(&home, &["tools", "search", "resize a picture", "--limit", "1", "--json"], None));
    assert_eq!(names(&shown), ["work_resize_image"]);
    let shown = run(&home, &["tools", "search", "resize a picture"], None);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("work_resize_image"), "{shown:?}");
    let refused = run(&home, &["tools", "search", "a(b", "--regex"], None);
    let response = String::from_utf8_lossy(&refused.stderr);
    assert!(response.contains("search.bad-pattern") && response.contains("at character 2"), "{response}");
}

#[tokio::test]
async fn invalid_search_is_refused_with_a_reason() {
    let (_upstream, _home, gateway) = open(json!({})).await;
    let cases = [
        ("", "search.blank"),
        ("q=", "search.blank"),
        ("q=%20&q=", "search.blank"),
        ("q=a(b&regex=true", "search.bad-pattern"),
        ("q=a&regex=perhaps", "request.bad-query"),
        ("q=a&limit=many", "request.bad-query"),
        ("query=a", "request.bad-query"),
    ];
    for (query, code) in cases {
        let reply = gateway.http().send(Method::GET, &format!("/tools/search?{query}"), &[], "").await;
        let (status, problem) = (reply.status, reply.json().await);
        assert_eq!((status, &problem["code"]), (400, &json!(code)), "{query}: {problem}");
    }
}

#[tokio::test]
async fn hidden_tools_are_not_found_and_do_not_affect_scores() {
    let (open, vault) =
        (ScriptedServer::start(TestEra::Modern).await, ScriptedServer::start(TestEra::Modern).await);
    open.list(tools());
    vault.list(
        json!([tool("send_mail", "Sends an email in secret."), tool("send_secret_mail", "Sends email.")])
            .to_string(),
    );
    let home = Home::new(&[]);
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin,ops"]);
    let (cat, _) = make_token(&home, None, "cat", &[]);
    let mut guarded = vault.entry();
    guarded["groups"] = json!(["ops"]);
    let settings = json!({ "auth": { "mode": "token" }, "policy": { "consent": "client" } });
    home.configure(settings.clone(), &[("work", open.entry()), ("vault", guarded)]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&root);
    gateway.connected(&["work", "vault"]).await;
    let as_cat = Http::new(gateway.address).sending(&bearer(&cat));
    let by_cat = found(&as_cat, "q=send%20secret%20email&limit=50").await;
    assert!(names(&by_cat).iter().all(|name| name.starts_with("work_")), "{by_cat}");
    let by_root = found(&gateway.http(), "q=send%20secret%20email&limit=50").await;
    assert_eq!(names(&by_root)[0], "vault_send_secret_mail", "{by_root}");
    gateway.stop().await;

    home.configure(settings, &[("work", open.entry())]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&root);
    gateway.connected(&["work"]).await;
    let as_cat = Http::new(gateway.address).sending(&bearer(&cat));
    let without = found(&as_cat, "q=send%20secret%20email&limit=50").await;
    assert_eq!(by_cat, without, "hidden tools do not affect scores");
}

#[tokio::test]
async fn search_notes_relevant_servers_that_are_down() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(tools());
    let mut lost = upstream.entry();
    // Another test can get a port that was free a moment ago; this one refuses connections on every machine.
    lost["url"] = json!("http://127.0.0.1:1/mcp");
    let home = Home::new(&[("work", upstream.entry()), ("calendar", lost)]);
    let gateway = home.start().await;
    gateway.connected(&["work"]).await;
    gateway.wait_for_state("calendar", "error").await;
    let answer = found(&gateway.http(), "q=put%20it%20into%20my%20calendar").await;
    assert_eq!(answer["notes"][0]["server"], "calendar", "{answer}");
    assert_eq!(answer["notes"][0]["state"], "error", "{answer}");
    let answer = found(&gateway.http(), "q=send%20an%20email").await;
    assert_eq!(answer["notes"], json!([]), "{answer}");
    let events = gateway.http().get_json("/events/recent?types=tool.search").await;
    assert!(events.to_string().contains("put it into my calendar"), "{events}");
}

#[tokio::test]
async fn encoder_improves_search_and_its_failure_does_not_break_it() {
    let encoder = EncoderServer::start(&[&["picture", "frobnicate"], &["email", "quuxify"]]).await.unwrap();
    let embeddings = json!({ "url": encoder.url, "model": "tiny", "key": "sk-test" });
    let (_upstream, _home, gateway) = open(json!({ "search": { "embeddings": embeddings } })).await;
    let http = gateway.http();
    // Tools are encoded in the background; until then the built-in table is used.
    let helped = poll(TEST_TIMEOUT, || async {
        let answer = found(&http, "q=frobnicate").await;
        (names(&answer).first() == Some(&"work_resize_image")).then_some(())
    });
    assert!(helped.await.is_some(), "{}", gateway.log());
    let seen = encoder.seen();
    assert!(
        seen.iter().all(|request| request["authorization"] == "Bearer sk-test" && request["model"] == "tiny")
    );
    assert!(seen.iter().all(|request| request["path"] == "/v1/embeddings"));
    let tools_sent =
        seen.iter().filter_map(|request| request["input"].as_array()).filter(|texts| texts.len() > 1);
    assert_eq!(tools_sent.count(), 1, "known texts are not encoded again");
    let (status, report) = http.post_json("/servers/reload", "").await;
    assert_eq!(status, 200, "{report}");
    let answer = found(&http, "q=quuxify").await;
    assert_eq!(names(&answer).first(), Some(&"work_send_mail"), "encodings survive a reload: {answer}");

    for mode in [EncoderMode::Silent, EncoderMode::Failing] {
        encoder.set_mode(mode);
        let started = Instant::now();
        let answer = found(&http, &format!("q=quuxify%20an%20email%20{mode:?}")).await;
        assert_eq!(names(&answer).first(), Some(&"work_send_mail"), "{answer}");
        assert!(started.elapsed() < Duration::from_secs(2), "{mode:?}: {:?}", started.elapsed());
        let asked = encoder.seen().len();
        found(&http, "q=another%20email").await;
        assert_eq!(encoder.seen().len(), asked, "a failed endpoint is not called again for a while");
    }
}
