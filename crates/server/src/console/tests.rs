use super::*;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, X_FRAME_OPTIONS,
};
use http_body_util::BodyExt;

async fn asked(path: &str, headers: &[(http::HeaderName, &str)]) -> Result<Response, ProblemDocument> {
    let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().expect("ASCII"))).collect();
    file(headers, path.parse().expect("a path")).await
}

async fn page_text(path: &str) -> String {
    let body = page(&path.parse().expect("a path")).into_body().collect().await.expect("a body");
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

fn shown(response: &Response, name: http::HeaderName) -> &str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[tokio::test]
async fn scripts_are_cached_forever_and_revalidated_by_tag() {
    let script = FILES.iter().find(|file| file.path.ends_with(".js")).expect("a script");
    let path = format!("/console/{}", script.path);
    let response = asked(&path, &[(ACCEPT_ENCODING, "gzip, br")]).await.ok().expect("a file");
    assert_eq!(shown(&response, CACHE_CONTROL), "public, max-age=31536000, immutable");
    assert_eq!(shown(&response, CONTENT_ENCODING), "gzip");
    assert_eq!(shown(&response, CONTENT_TYPE), "text/javascript; charset=utf-8");
    let tag = shown(&response, ETAG).to_owned();
    let again = asked(&path, &[(IF_NONE_MATCH, &tag)]).await.ok().expect("an answer");
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn only_a_client_that_refuses_gzip_is_rejected() {
    let script = FILES.iter().find(|file| file.path.ends_with(".js")).expect("a script");
    let path = format!("/console/{}", script.path);
    let cases = [
        (None, true),
        (Some("gzip"), true),
        (Some("br, GZIP;q=0.5"), true),
        (Some("*"), true),
        (Some("identity"), false),
        (Some("gzip;q=0"), false),
        (Some("gzip; q=0, *"), false),
    ];
    for (accepted, served) in cases {
        let headers: Vec<_> = accepted.map(|value| (ACCEPT_ENCODING, value)).into_iter().collect();
        let found = asked(&path, &headers).await;
        assert_eq!(found.is_ok(), served, "{accepted:?}");
    }
}

#[tokio::test]
async fn unknown_scripts_do_not_exist_and_unknown_pages_are_the_page() {
    let missing = asked("/console/assets/index-00000000.js", &[]).await;
    assert_eq!(missing.err().map(|problem| problem.0), Some(StatusCode::NOT_FOUND));
    let deep = asked(&format!("/console/{}", "a/".repeat(9)), &[]).await;
    assert_eq!(deep.err().map(|problem| problem.0), Some(StatusCode::NOT_FOUND));
    let page = asked("/console/tools/t/demo_hash", &[]).await.ok().expect("the page");
    assert_eq!(shown(&page, CACHE_CONTROL), "no-store");
}

#[tokio::test]
async fn the_policy_of_the_page_allows_only_its_own_files() {
    let page = asked("/console/tools", &[]).await.ok().expect("the page");
    let policy = shown(&page, CONTENT_SECURITY_POLICY);
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(policy.contains("script-src 'self';") && policy.contains("style-src 'self';"), "{policy}");
    assert!(policy.contains("require-trusted-types-for 'script'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
    assert_eq!(shown(&page, X_FRAME_OPTIONS), "DENY");
    let text = page_text("/console/").await;
    assert!(!text.contains("<style") && !text.contains("://") && !text.contains(" on"), "{text}");
}

#[tokio::test]
async fn links_of_the_page_are_relative_to_its_path() {
    let script = "assets/index-";
    for (path, prefix) in [("/console/", "./"), ("/console/tools", "./"), ("/console/tools/t/x", "../../")] {
        let text = page_text(path).await;
        assert!(text.contains(&format!("\"{prefix}{script}")), "{path}: {text}");
    }
}

#[tokio::test]
async fn frames_have_no_rights_and_no_network() {
    let frame = asked("/console/frame.html", &[]).await.ok().expect("the frame");
    let policy = shown(&frame, CONTENT_SECURITY_POLICY);
    assert!(policy.contains("default-src 'none'") && policy.contains("sandbox allow-scripts"), "{policy}");
    assert!(!policy.contains("allow-same-origin") && !policy.contains("connect-src"), "{policy}");
}

#[tokio::test]
async fn the_start_page_leads_browsers_to_the_console() {
    let cases = [("text/html,application/xhtml+xml", StatusCode::SEE_OTHER), ("*/*", StatusCode::NOT_FOUND)];
    for (accept, expected) in cases {
        let headers = [(ACCEPT, accept.parse().expect("ASCII"))].into_iter().collect();
        assert_eq!(start(headers, Uri::from_static("/")).await.status(), expected, "{accept}");
    }
}
