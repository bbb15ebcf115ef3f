//! Requests to services on this machine.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolbooth_core::manifest::Mapping;
use toolbooth_core::secret::SecretText;

/// Starts a service with these responses, in order; returns its URL and the requests it received.
async fn service(answers: Vec<String>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let journal = seen.clone();
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (answers, journal) = (answers.clone(), journal.clone());
            tokio::spawn(async move {
                let mut read = vec![0; 65536];
                while let Ok(length @ 1..) = stream.read(&mut read).await {
                    journal.lock().unwrap().push(String::from_utf8_lossy(&read[..length]).into_owned());
                    let answer = answers.lock().unwrap().next().unwrap_or_default();
                    if answer.is_empty() {
                        break;
                    }
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (format!("http://{address}"), seen)
}

fn reply(status: u16, more: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} Some\r\ncontent-length: {}\r\n{more}\r\n{body}", body.len())
}

fn template(method: HttpMethod, url: &str) -> HttpRequest {
    HttpRequest {
        method,
        url: SecretText::plain(url),
        headers: Vec::new(),
        query: None,
        body: None,
        allow_private: false,
    }
}

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

const JSON: &str = "content-type: application/json\r\n";

#[test]
fn an_argument_is_one_segment_or_one_value_and_nothing_more() {
    let url = "https://api.example.com/v1/{city}/now?units=a%20b&q={q}&opt={opt}";
    let tool = RestTool::new(&template(HttpMethod::Get, url), Private::Refused).unwrap();
    let cases: [(Value, Result<&str, &str>); 14] = [
        (json!({"city": "Bern", "q": "x"}), Ok("/v1/Bern/now?units=a%20b&q=x")),
        (
            json!({"city": "a/b?c#d", "q": "1&admin=1"}),
            Ok("/v1/a%2Fb%3Fc%23d/now?units=a%20b&q=1%26admin%3D1"),
        ),
        (json!({"city": "@evil.com:80", "q": "x"}), Ok("/v1/%40evil.com%3A80/now?units=a%20b&q=x")),
        (
            json!({"city": "Bern", "q": "x", "more": [1, 2], "none": null}),
            Ok("/v1/Bern/now?units=a%20b&q=x&more=1&more=2"),
        ),
        (json!({"city": 7, "q": {"a": 1}}), Ok("/v1/7/now?units=a%20b&q=%7B%22a%22%3A1%7D")),
        (json!({"city": "..", "q": "x"}), Err("`..`")),
        (json!({"city": "../../admin", "q": "x"}), Err("`..`")),
        (json!({"city": "a/../b", "q": "x"}), Err("`..`")),
        (json!({"city": "%2e%2e%2fadmin", "q": "x"}), Err("`..`")),
        (json!({"city": "%252e%252e", "q": "x"}), Err("`..`")),
        (json!({"city": "..\\x", "q": "x"}), Err("`..`")),
        (json!({"city": "", "q": "x"}), Err("is not allowed")),
        (json!({"city": "a\r\nHost: evil", "q": "x"}), Err("is not allowed")),
        (json!({"q": "x"}), Err("was not given")),
    ];
    for (given, expected) in cases {
        match (tool.fill(&arguments(given.clone())), expected) {
            (Ok((path, None)), Ok(expected)) => assert_eq!(path, expected, "{given}"),
            (Err(error), Err(word)) => assert!(error.to_string().contains(word), "{given}: {error}"),
            (other, _) => panic!("{given}: {other:?}"),
        }
    }
}

#[test]
fn no_argument_chooses_the_target() {
    let cases = [
        ("https://{host}/x", TemplateError::HostFromArgument),
        ("{scheme}://a/x", TemplateError::HostFromArgument),
        ("https://a:{port}/x", TemplateError::HostFromArgument),
        ("https://a{x}.example.com", TemplateError::HostFromArgument),
        ("https://user:pw@a/x", TemplateError::UserInfo),
        ("https://a/x?{name}=1", TemplateError::QueryName),
        ("file:///etc/passwd", TemplateError::NotAnAddress),
        ("https://a/../b", TemplateError::NotAnAddress),
        ("https://a/b#c", TemplateError::NotAnAddress),
        ("https://a\\b/c", TemplateError::NotAnAddress),
        ("//a/b", TemplateError::NotAnAddress),
    ];
    for (url, expected) in cases {
        let read = RestTool::new(&template(HttpMethod::Get, url), Private::Refused).map(|_| ());
        assert_eq!(read, Err(expected), "{url}");
    }
}

#[tokio::test]
async fn only_allowed_addresses_are_reached() {
    let (url, seen) = service(vec![reply(200, "", "ok"); 4]).await;
    let port = url.rsplit(':').next().unwrap();
    // A public name that resolves to a private address is simulated by a private address that the template
    // does not contain.
    let cases = [
        (format!("http://169.254.169.254:{port}/latest/meta-data"), Private::Refused, false),
        (format!("http://169.254.169.254:{port}/latest/meta-data"), Private::Allowed, false),
        (format!("http://[fe80::1]:{port}/"), Private::Allowed, false),
        (format!("http://127.0.0.1:{port}/"), Private::Refused, true),
        (format!("http://localhost:{port}/"), Private::Refused, true),
    ];
    for (url, private, reaches) in cases {
        let tool = RestTool::new(&template(HttpMethod::Get, &url), private).unwrap();
        let outcome = tool.call(&Map::new(), None, 1000).await;
        assert_eq!(outcome.is_ok(), reaches, "{url}: {outcome:?}");
        assert!(reaches || outcome == Err(RestError::Blocked), "{url}: {outcome:?}");
    }
    assert_eq!(reach("api.example.com", Private::Refused), NetworkReach::Public);
    assert_eq!(reach("api.example.com", Private::Allowed), NetworkReach::Loopback);
    assert_eq!(reach("10.0.0.1", Private::Refused), NetworkReach::Site);
    assert!(!NetworkReach::Public.allows("10.0.0.1".parse().unwrap()));
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn redirects_stay_on_their_origin() {
    let (other, elsewhere) = service(vec![reply(200, "", "caught")]).await;
    let to = |place: &str| reply(302, &format!("location: {place}\r\n"), "");
    let (url, seen) = service(vec![
        to(&other),
        to("http://169.254.169.254/"),
        to("//evil.example/"),
        to("/next?x=1"),
        reply(200, "", "here"),
        to("/next"),
    ])
    .await;
    let get = RestTool::new(&template(HttpMethod::Get, &url), Private::Refused).unwrap();
    for _ in 0..3 {
        assert_eq!(get.call(&Map::new(), None, 1000).await, Err(RestError::Redirected));
    }
    assert_eq!(get.call(&Map::new(), None, 1000).await, Ok(RestAnswer::Text("here".into())));
    assert!(seen.lock().unwrap()[4].starts_with("GET /next?x=1 "));
    let post = RestTool::new(&template(HttpMethod::Post, &url), Private::Refused).unwrap();
    assert_eq!(
        post.call(&Map::new(), None, 1000).await,
        Err(RestError::Redirected),
        "a write is not sent twice"
    );
    assert!(elsewhere.lock().unwrap().is_empty());
}

#[tokio::test]
async fn responses_are_classified_by_fault() {
    let wait = Some(Duration::from_secs(7));
    let cases: Vec<(String, Result<RestAnswer, RestError>)> = vec![
        (reply(200, JSON, r#"{"a":[1]}"#), Ok(RestAnswer::Json(json!({"a": [1]})))),
        (reply(200, "content-type: text/html\r\n", "[1]"), Ok(RestAnswer::Text("[1]".into()))),
        (reply(204, "", ""), Ok(RestAnswer::Text(String::new()))),
        (
            reply(200, "content-type: image/png\r\n", "abc"),
            Ok(RestAnswer::Media { mime: "image/png".into(), base64: "YWJj".into() }),
        ),
        (
            reply(404, "", "no such city"),
            Ok(RestAnswer::Refused { status: 404, text: "no such city".into() }),
        ),
        (reply(429, "retry-after: 7\r\n", ""), Err(RestError::RateLimited { retry_after: wait })),
        (reply(503, "retry-after: 7\r\n", ""), Err(RestError::Failed { status: 503, retry_after: wait })),
        (reply(500, "", ""), Err(RestError::Failed { status: 500, retry_after: None })),
        (reply(401, "", ""), Err(RestError::NeedsAuth)),
        (reply(200, "", &"x".repeat(2000)), Err(RestError::TooLarge { limit: 1000 })),
        (String::new(), Err(RestError::Lost { reason: String::new() })),
    ];
    for (answer, expected) in cases {
        let (url, _) = service(vec![answer.clone()]).await;
        let tool = RestTool::new(&template(HttpMethod::Get, &url), Private::Refused).unwrap();
        let outcome = tool.call(&Map::new(), None, 1000).await.map_err(|error| match error {
            RestError::Lost { .. } => RestError::Lost { reason: String::new() },
            other => other,
        });
        assert_eq!(outcome, expected, "{answer}");
    }
}

#[tokio::test]
async fn requests_carry_bodies_headers_and_keys_and_secrets_are_masked() {
    let echo = |status| reply(status, "", r#"{"you sent": "Bearer hunter2", "key": "hunter2"}"#);
    let (url, seen) = service(vec![echo(200), echo(400), echo(200)]).await;
    let mut request = template(HttpMethod::Post, &format!("{url}/items/{{id}}"));
    request.headers = vec![("Authorization".into(), SecretText::expanded("Bearer ${T}", "Bearer hunter2"))];
    let tool = RestTool::new(&request, Private::Refused).unwrap();
    let given = arguments(json!({"id": "7", "name": "x"}));
    let answer = tool.call(&given, Some("key-1"), 1000).await.unwrap();
    assert!(!format!("{answer:?}").contains("hunter2"), "{answer:?}");
    let refused = tool.call(&given, None, 1000).await.unwrap();
    assert!(matches!(&refused, RestAnswer::Refused { text, .. } if !text.contains("hunter2")), "{refused:?}");
    assert!(!format!("{tool:?}").contains("hunter2"));
    let sent = seen.lock().unwrap().concat();
    assert!(sent.contains("POST /items/7 ") && sent.contains("authorization: Bearer hunter2"), "{sent}");
    assert!(sent.contains("idempotency-key: key-1") && sent.contains(r#"{"name":"x"}"#), "{sent}");
    request.body = Some(Mapping(json!({"item": {"called": "{name}", "gone": "{missing}"}})));
    let tool = RestTool::new(&request, Private::Refused).unwrap();
    tool.call(&given, None, 1000).await.unwrap();
    assert!(seen.lock().unwrap().concat().contains(r#"{"item":{"called":"x"}}"#));
}
