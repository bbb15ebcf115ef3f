//! Response headers of the console's files: content security policy, caching, type.

use super::{ConsoleFile, ContentCoding, FRAME};
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue};

/// Only the console's own files; no inline code, no evaluated code, no other site. One line, also used by the
/// development server.
const POLICY: &str = include_str!("../../../../console/policy.txt");
/// For HTML made by tools: its own inline code and styles, in an origin without rights, and no network.
const FRAME_POLICY: &str = include_str!("../../../../console/frame-policy.txt");

/// The directive of [`POLICY`] for frames.
const FRAMES: &str = "frame-src 'self' blob:";

static OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
static RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
static PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// How long browsers may keep a file.
#[derive(Clone, Copy)]
pub(super) enum Caching {
    /// Its name changes with its content.
    Forever,
    /// Until the gateway says that it changed.
    Revalidate,
}

/// Sets the headers of a file.
pub(super) fn set(response: &mut Response, file: &ConsoleFile, caching: Caching, tag: &str) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    if file.coding == ContentCoding::Gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let caching = match caching {
        Caching::Forever => "public, max-age=31536000, immutable",
        Caching::Revalidate => "no-cache",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(ETAG, tag);
    }
    let is_frame = file.path == FRAME;
    secure(response, if is_frame { FRAME_POLICY } else { POLICY });
    if is_frame {
        // The console shows this file in a frame; other sites may not.
        response.headers_mut().insert(X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    }
}

/// Sets the headers of the page. It names the files of its version, so it is never kept.
pub(super) fn set_page(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    secure(response, POLICY);
}

/// Allows pages of these hosts in frames of the page. Other files keep their policy.
pub(super) fn allow_frames(response: &mut Response, hosts: &[String]) {
    let is_page = response.headers().get(CACHE_CONTROL).is_some_and(|caching| caching == "no-store");
    if is_page && let Some(policy) = policy_with(hosts) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
}

/// The policy of the page with further hosts for frames; `None` if there are none.
fn policy_with(hosts: &[String]) -> Option<HeaderValue> {
    // Other characters could begin another directive.
    let is_plain = |host: &&String| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-*".contains(&byte))
    };
    let sources: Vec<String> =
        hosts.iter().filter(is_plain).map(|host| format!("https://{host}:*")).collect();
    if sources.is_empty() {
        return None;
    }
    let policy = POLICY.trim_end().replace(FRAMES, &format!("{FRAMES} {}", sources.join(" ")));
    HeaderValue::from_str(&policy).ok()
}

fn secure(response: &mut Response, policy: &'static str) {
    let fixed = [
        (CONTENT_SECURITY_POLICY, policy.trim_end()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY.clone(), "same-origin"),
        (RESOURCE_POLICY.clone(), "same-origin"),
        (PERMISSIONS_POLICY.clone(), "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_hosts_are_added_to_the_policy() {
        let hosts = ["dash.example", "*.board.example", "x; script-src *", "y 'unsafe-inline'", ""];
        let policy = policy_with(&hosts.map(str::to_owned)).expect("a policy");
        let policy = policy.to_str().expect("text");
        let frames = "frame-src 'self' blob: https://dash.example:* https://*.board.example:*;";
        assert!(policy.contains(frames), "{policy}");
        assert_eq!(policy.matches("script-src").count(), 1, "{policy}");
        assert!(policy_with(&[]).is_none() && policy_with(&["a b".into()]).is_none());
    }
}
