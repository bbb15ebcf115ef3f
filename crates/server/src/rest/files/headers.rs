//! Response headers for file contents. They keep browsers from running untrusted content.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use toolbooth_core::file::{FileRow, Presentation, presentation};

/// Sets the headers of every response with the content of a file.
pub fn stamp(headers: &mut HeaderMap, file: &FileRow) {
    let fixed = [
        (header::ACCEPT_RANGES, "bytes"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "private, no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let kind = match file.mime.starts_with("text/") {
        true => format!("{}; charset=utf-8", file.mime),
        false => file.mime.clone(),
    };
    let made = [
        (header::CONTENT_TYPE, kind),
        (header::ETAG, etag(file)),
        (header::CONTENT_DISPOSITION, disposition(file)),
    ];
    for (name, value) in made {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}

/// The policy of a page in a frame: its scripts and styles run in an origin of their own, without access to the gateway
/// or the network. Only the gateway's own pages may frame it.
const FRAME_POLICY: &str = "sandbox allow-scripts allow-forms allow-modals allow-popups; default-src 'none'; \
    script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; \
    media-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Changes the headers of an HTML file so that it can be shown in a frame. Other files keep theirs.
pub fn stamp_frame(headers: &mut HeaderMap, file: &FileRow) {
    if file.shown_with() != Some("html") {
        return;
    }
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, FRAME_POLICY),
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "inline"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The ETag of a file: the hash of its content.
pub fn etag(file: &FileRow) -> String {
    format!("\"{}\"", crate::rest::extract::hex(&file.sha256))
}

/// The `Content-Disposition` of a file (RFC 6266 and 5987).
fn disposition(file: &FileRow) -> String {
    let how = match presentation(&file.mime) {
        Presentation::Inline => "inline",
        Presentation::Attachment => "attachment",
    };
    let name = file.name.as_str();
    let plain: String = name
        .chars()
        .map(|c| match c {
            '"' | '\\' | '%' => '_',
            ' '..='~' => c,
            _ => '_',
        })
        .collect();
    let mut text = format!("{how}; filename=\"{plain}\"");
    if plain != name {
        text.push_str("; filename*=UTF-8''");
        text.push_str(&toolbooth_core::percent::encoded(name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::file::{FileName, FileOrigin};
    use uuid::Uuid;

    fn file(name: &str, mime: &str) -> FileRow {
        FileRow {
            id: Uuid::nil(),
            user: "ann".into(),
            session: None,
            name: FileName::made_safe(name).expect("a name"),
            version: 1,
            mime: mime.into(),
            size_bytes: 1,
            sha256: [0xab; 32],
            origin: FileOrigin::Upload,
            description: None,
            viewer: None,
            created_ms: 0,
        }
    }

    #[test]
    fn names_are_encoded_for_headers() {
        let cases = [
            ("a.png", "image/png", r#"inline; filename="a.png""#),
            ("a.svg", "image/svg+xml", r#"attachment; filename="a.svg""#),
            // audit: PDFs were inline without a sandbox. They may contain scripts; browsers show none in a sandbox.
            ("a.pdf", "application/pdf", r#"attachment; filename="a.pdf""#),
            ("a.html", "text/html", r#"attachment; filename="a.html""#),
            (
                "naïve 50%.txt",
                "text/plain",
                r#"inline; filename="na_ve 50_.txt"; filename*=UTF-8''na%C3%AFve%2050%25.txt"#,
            ),
            ("x\r\nSet-Cookie: a=b", "text/csv", r#"attachment; filename="xSet-Cookie_ a=b""#),
        ];
        for (name, mime, expected) in cases {
            let mut headers = HeaderMap::new();
            stamp(&mut headers, &file(name, mime));
            assert_eq!(headers[header::CONTENT_DISPOSITION], expected, "{name}");
            assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(headers[header::CONTENT_SECURITY_POLICY], "default-src 'none'; sandbox");
        }
    }

    #[test]
    fn only_html_is_framed_and_never_with_the_gateways_origin() {
        for (name, mime, is_framed) in [("a.html", "text/html", true), ("a.svg", "image/svg+xml", false)] {
            let (mut headers, file) = (HeaderMap::new(), file(name, mime));
            stamp(&mut headers, &file);
            stamp_frame(&mut headers, &file);
            let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
            assert!(policy.contains("sandbox") && !policy.contains("allow-same-origin"), "{policy}");
            assert_eq!(policy.contains("allow-scripts"), is_framed, "{name}");
            assert_eq!(headers[header::CONTENT_DISPOSITION] == "inline", is_framed, "{name}");
        }
    }
}
