//! Display hints of a result for the console, and which of them may be followed.

use crate::json::{Edit, ObjectWriter, RawJson, check_strictly, edit_object, with_members};
use crate::warning::Warning;

/// Maximum size of the hints.
const MAX_BYTES: usize = 16 << 10;
/// Maximum nesting depth.
const MAX_DEPTH: usize = 16;
/// Sandbox permissions that a page in a frame may have: not its own origin, not the enclosing window, nothing unknown.
const SANDBOX: [&str; 8] = [
    "allow-downloads",
    "allow-forms",
    "allow-modals",
    "allow-orientation-lock",
    "allow-pointer-lock",
    "allow-popups",
    "allow-presentation",
    "allow-scripts",
];
/// The members of display hints.
pub(super) const KNOWN: [&str; 8] =
    ["open_canvas", "primary_file", "mode", "viewer_hint", "title", "type", "url", "sandbox"];
/// The member that names the host of a page that was not shown, so that the console can say how to allow it. Only the
/// gateway writes it.
const REFUSED_HOST: &str = "refused_host";
/// The longest host that is named, in bytes.
const MAX_HOST_BYTES: usize = 260;

/// The hints that may be followed. `renamed` returns the name under which a file of this result was stored.
///
/// A page in a frame must be https and on a host that the operator names; a frame gets only the listed permissions. The
/// primary file must be one of this result. Other hints are removed with a warning; the rest of the hints stays.
pub fn checked(
    display: &RawJson,
    hosts: &[String],
    renamed: &dyn Fn(&str) -> Option<String>,
) -> (Option<RawJson>, Vec<Warning>) {
    if display.as_bytes().len() > MAX_BYTES {
        return (None, vec![Warning::Display(format!("it has more than {MAX_BYTES} bytes"))]);
    }
    // Of two `url`s one would be checked, and the other might be followed.
    if let Err(error) = check_strictly(display.as_bytes(), MAX_DEPTH) {
        return (None, vec![Warning::Display(error.to_string())]);
    }
    let mut warnings = Vec::new();
    let url = display.member("url");
    let refusal = url.and_then(|url| frame_refusal(&url.string().unwrap_or_default(), hosts));
    let is_refused = refusal.is_some();
    let mut refused_host = None;
    if let Some(FrameRefusal { reason, host }) = refusal {
        warnings.push(Warning::DisplayPart(reason));
        refused_host = host;
    }
    let edited = edit_object(display, |key, value| match (key, display.share(value).string()) {
        (REFUSED_HOST, _) => Edit::Drop,
        ("url" | "sandbox", _) if is_refused => Edit::Drop,
        ("type", Some(kind)) if is_refused && kind == "iframe" => Edit::Drop,
        ("sandbox", Some(words)) => {
            let kept: Vec<&str> = words
                .split_ascii_whitespace()
                .filter(|word| SANDBOX.iter().any(|known| known.eq_ignore_ascii_case(word)))
                .collect();
            Edit::Replace(RawJson::from_value(&kept.join(" ")))
        }
        ("sandbox", None) => Edit::Drop,
        ("primary_file", name) => match name.and_then(|name| renamed(&name)) {
            Some(name) => Edit::Replace(RawJson::from_value(&name)),
            None => {
                let reason = "its `primary_file` is not a file of this result";
                warnings.push(Warning::DisplayPart(reason.into()));
                Edit::Drop
            }
        },
        _ => Edit::Keep,
    });
    let Some(host) = refused_host else { return (edited.ok(), warnings) };
    let named = edited.and_then(|hints| with_members(&hints, &[(REFUSED_HOST, RawJson::from_value(&host))]));
    (named.ok(), warnings)
}

/// The hints for a result with a picture and without hints of its own.
pub fn of_picture(name: &str) -> RawJson {
    let mut hints = ObjectWriter::default();
    hints.raw("open_canvas", &RawJson::trusted("true")).text("primary_file", name);
    hints.finish()
}

/// Why a page may not be shown in a frame.
struct FrameRefusal {
    reason: String,
    /// The host that the operator would have to allow.
    host: Option<String>,
}

/// The reason why a page may not be shown in a frame; `None` if it may.
fn frame_refusal(url: &str, hosts: &[String]) -> Option<FrameRefusal> {
    let Some(rest) = url.get(..8).filter(|scheme| scheme.eq_ignore_ascii_case("https://")).and(url.get(8..))
    else {
        let reason = "its `url` is not shown in a frame, because it is not https".to_owned();
        return Some(FrameRefusal { reason, host: None });
    };
    if is_allowed_host(url, rest, hosts) {
        return None;
    }
    let host = plain_host(rest);
    let named = host.as_ref().map(|host| format!(" `{host}`")).unwrap_or_default();
    let reason = format!(
        "its `url` is not shown in a frame, because its host{named} is not in `display.iframe_hosts`"
    );
    Some(FrameRefusal { reason, host })
}

/// The host and port of a URL without its scheme, if they consist of ordinary characters only. A server chooses this
/// text, and a person may copy it into the configuration.
fn plain_host(rest: &str) -> Option<String> {
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let is_plain = !authority.is_empty()
        && authority.len() <= MAX_HOST_BYTES
        && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':'));
    is_plain.then(|| authority.to_ascii_lowercase())
}

fn is_allowed_host(url: &str, rest: &str, hosts: &[String]) -> bool {
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    // The part before an `@` is not a host, and browsers strip invisible characters.
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
    fn frames_show_https_pages_of_named_hosts_and_never_get_their_origin() {
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
            let (shown, warnings) = checked(&RawJson::parse(text).expect("JSON"), &hosts, &|_| None);
            let has_url = shown.expect("hints").member("url").is_some();
            let is_framed = has_url || !text.contains("url");
            assert_eq!((is_framed, warnings.is_empty()), (expected, expected), "{text}");
        }
        let boxed =
            RawJson::parse(r#"{"sandbox":"allow-scripts Allow-Same-Origin","primary_file":"a b/c.html"}"#);
        let (shown, _) = checked(&boxed.expect("JSON"), &hosts, &|_| Some("c.html".into()));
        assert_eq!(shown.expect("shown").as_str(), r#"{"sandbox":"allow-scripts","primary_file":"c.html"}"#);
    }

    // Once, a refused frame lost all other hints.
    #[test]
    fn a_refused_frame_keeps_the_other_hints() {
        let hints = r#"{"open_canvas":true,"type":"iframe","url":"javascript:alert(1)","title":"Frame","sandbox":"allow-scripts"}"#;
        let (shown, warnings) = checked(&RawJson::parse(hints).expect("JSON"), &[], &|_| None);
        assert_eq!(shown.expect("hints").as_str(), r#"{"open_canvas":true,"title":"Frame"}"#);
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            ["a display hint was dropped: its `url` is not shown in a frame, because it is not https"]
        );
    }

    #[test]
    fn a_refused_frame_names_its_host_for_the_operator() {
        let cases = [
            (r#"{"url":"https://Dash.example:8443/a"}"#, r#"{"refused_host":"dash.example:8443"}"#),
            (r#"{"url":"https://a.example","refused_host":"b.example"}"#, r#"{"refused_host":"a.example"}"#),
            (r#"{"title":"t","refused_host":"b.example"}"#, r#"{"title":"t"}"#),
            (r#"{"title":"t","url":"https://ann@a.example/"}"#, r#"{"title":"t"}"#),
            (r#"{"title":"t","url":"https://\"]\nx=/"}"#, r#"{"title":"t"}"#),
            (r#"{"title":"t","url":"http://a.example/"}"#, r#"{"title":"t"}"#),
        ];
        for (text, expected) in cases {
            let (shown, _) = checked(&RawJson::parse(text).expect("JSON"), &[], &|_| None);
            assert_eq!(shown.expect("hints").as_str(), expected, "{text}");
        }
        let hints = RawJson::parse(r#"{"url":"https://a.example/"}"#).expect("JSON");
        let (_, warnings) = checked(&hints, &[], &|_| None);
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].ends_with("because its host `a.example` is not in `display.iframe_hosts`"));
    }

    /// Nor do they keep `allow-top-navigation`.
    #[test]
    fn hints_name_only_files_of_their_own_result() {
        let hosts = ["dash.example".to_owned()];
        let cases = [
            (r#"{"title":"t","primary_file":"../bob/secret.pdf"}"#, r#"{"title":"t"}"#),
            (r#"{"title":"t","primary_file":["a.txt"]}"#, r#"{"title":"t"}"#),
            (r#"{"primary_file":"a.txt"}"#, r#"{"primary_file":"a.txt"}"#),
            (r#"{"sandbox":"allow-top-navigation ALLOW-FORMS x"}"#, r#"{"sandbox":"ALLOW-FORMS"}"#),
            (r#"{"sandbox":"allow-popups-to-escape-sandbox"}"#, r#"{"sandbox":""}"#),
        ];
        let own = |name: &str| (name == "a.txt").then(|| name.to_owned());
        for (text, expected) in cases {
            let (shown, _) = checked(&RawJson::parse(text).expect("JSON"), &hosts, &own);
            assert_eq!(shown.expect("hints").as_str(), expected, "{text}");
        }
        let twice = r#"{"url":"https://evil.example/","url":"https://dash.example/"}"#;
        assert!(checked(&RawJson::parse(twice).expect("JSON"), &hosts, &own).0.is_none());
    }
}
