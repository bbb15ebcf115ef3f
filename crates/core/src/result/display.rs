//! How a result wants to be shown: hints for the console, and what of them it may follow.

use crate::json::{Edit, RawJson, edit_object};

/// The longest hints that are passed on.
const MAX_BYTES: usize = 16 << 10;
/// Members that say what is to be shown.
pub(super) const KNOWN: [&str; 8] =
    ["open_canvas", "primary_file", "mode", "viewer_hint", "title", "type", "url", "sandbox"];

/// The hints that may be followed. `renamed` gives the name under which a file was kept.
///
/// A page in a frame must be https and of a host that the operator names; a frame never gets the
/// gateway's own origin. What may not be followed goes, and the reason comes back with the rest.
pub fn checked(
    display: &RawJson,
    hosts: &[String],
    renamed: &dyn Fn(&str) -> Option<String>,
) -> (Option<RawJson>, Option<String>) {
    if display.as_bytes().len() > MAX_BYTES {
        return (None, Some(format!("it has more than {MAX_BYTES} bytes")));
    }
    if let Some(url) = display.member("url") {
        let url = url.string().unwrap_or_default();
        if !is_open(&url, hosts) {
            let reason = "its `url` is not https, or of a host that `display.iframe_hosts` does not name";
            return (None, Some(reason.into()));
        }
    }
    let edited = edit_object(display, |key, value| match (key, display.share(value).string()) {
        ("sandbox", Some(words)) => {
            let kept: Vec<&str> = words
                .split_ascii_whitespace()
                .filter(|word| !word.eq_ignore_ascii_case("allow-same-origin"))
                .collect();
            Edit::Replace(RawJson::from_value(&kept.join(" ")))
        }
        ("sandbox", None) => Edit::Drop,
        ("primary_file", Some(name)) => match renamed(&name) {
            Some(name) => Edit::Replace(RawJson::from_value(&name)),
            None => Edit::Keep,
        },
        _ => Edit::Keep,
    });
    (edited.ok(), None)
}

/// Whether a page may stand in a frame.
fn is_open(url: &str, hosts: &[String]) -> bool {
    let Some(rest) = url.get(..8).filter(|scheme| scheme.eq_ignore_ascii_case("https://")).and(url.get(8..))
    else {
        return false;
    };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    // What stands before an `@` is no host, and browsers strip what nobody sees.
    if authority.contains('@') || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return false;
    }
    let host = authority.split(':').next().unwrap_or_default();
    hosts.iter().any(|allowed| match allowed.strip_prefix("*.") {
        Some(parent) => {
            let parent = parent.to_ascii_lowercase();
            host.to_ascii_lowercase()
                .strip_suffix(&parent)
                .is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
        }
        None => allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(authority),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_https_pages_of_named_hosts_and_never_our_origin() {
        let hosts = ["dash.example".to_owned(), "*.maps.example".to_owned()];
        let cases = [
            (r#"{"type":"iframe","url":"https://dash.example/a"}"#, true),
            (r#"{"url":"HTTPS://DASH.example:8443/"}"#, true),
            (r#"{"url":"https://eu.maps.example/"}"#, true),
            (r#"{"url":"https://maps.example/"}"#, false),
            (r#"{"url":"https://evilmaps.example/"}"#, false),
            (r#"{"url":"http://dash.example/"}"#, false),
            (r#"{"url":"javascript:alert(1)"}"#, false),
            (r#"{"url":"https://dash.example@evil.example/"}"#, false),
            (r#"{"url":"https://evil.example\\@dash.example/"}"#, false),
            (r#"{"url":"https://dash.example\u0009.evil/"}"#, false),
            (r#"{"url":7}"#, false),
            (r#"{"open_canvas":true}"#, true),
        ];
        for (text, expected) in cases {
            let (shown, why) = checked(&RawJson::parse(text).expect("JSON"), &hosts, &|_| None);
            assert_eq!((shown.is_some(), why.is_none()), (expected, expected), "{text}");
        }
        let boxed =
            RawJson::parse(r#"{"sandbox":"allow-scripts Allow-Same-Origin","primary_file":"a b/c.html"}"#);
        let (shown, _) = checked(&boxed.expect("JSON"), &hosts, &|_| Some("c.html".into()));
        assert_eq!(shown.expect("shown").as_str(), r#"{"sandbox":"allow-scripts","primary_file":"c.html"}"#);
    }
}
