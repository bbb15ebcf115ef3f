//! Headers that mirror the body of a modern request: written for servers, and checked in requests of clients.
//!
//! Decisions are based on the body alone; a header is only compared with it.

use crate::codes::{HEADER_MISMATCH, RpcError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use toolbooth_core::json::RawJson;

/// The protocol revision of a request.
pub static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session of a legacy client.
pub static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The method of a request.
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource a request is about.
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The prefix of headers for mirrored arguments.
pub const PARAM_PREFIX: &str = "mcp-param-";

const BASE64_START: &str = "=?base64?";
const BASE64_END: &str = "?=";
/// The maximum depth of annotated properties.
const MAX_SCHEMA_DEPTH: usize = 16;

/// The member of `params` that `Mcp-Name` mirrors for a method.
pub fn name_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Encodes a value so that it is safe in a header.
pub fn encode(value: &str) -> HeaderValue {
    let visible = value.bytes().all(|b| (0x20..=0x7e).contains(&b) || b == b'\t');
    let padded = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    let looks_encoded = value.starts_with(BASE64_START) && value.ends_with(BASE64_END);
    let text = if visible && !padded && !looks_encoded {
        HeaderValue::from_str(value)
    } else {
        HeaderValue::from_str(&format!("{BASE64_START}{}{BASE64_END}", STANDARD.encode(value)))
    };
    text.unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Decodes a value written by `encode`; `None` if it has characters that are not valid in a header.
pub fn decode(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?;
    match text.strip_prefix(BASE64_START).and_then(|rest| rest.strip_suffix(BASE64_END)) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}

/// Checks the standard headers of a modern request against its body.
pub fn check(
    headers: &HeaderMap,
    version: &str,
    method: &str,
    params: Option<&RawJson>,
) -> Result<(), RpcError> {
    expect(headers, &PROTOCOL_VERSION, "MCP-Protocol-Version", version)?;
    expect(headers, &METHOD, "Mcp-Method", method)?;
    if let Some(member) = name_member(method)
        && let Some(params) = params
        && let [Some(name)] = params.pick([member])
        && let Some(name) = params.share(name).string()
    {
        expect(headers, &NAME, "Mcp-Name", &name)?;
    }
    Ok(())
}

fn expect(headers: &HeaderMap, header: &HeaderName, shown: &str, body: &str) -> Result<(), RpcError> {
    let mut values = headers.get_all(header).iter();
    let Some(value) = values.next() else {
        return Err(mismatch(format!("the {shown} header is missing")));
    };
    if values.next().is_some() {
        return Err(mismatch(format!("the {shown} header is repeated")));
    }
    // The raw value is compared first: the usual value needs no decoding and no allocation.
    if value.as_bytes() == body.as_bytes() && !body.starts_with(BASE64_START) {
        return Ok(());
    }
    match decode(value) {
        Some(decoded) if decoded == body => Ok(()),
        Some(decoded) => {
            Err(mismatch(format!("{shown} header value '{decoded}' does not match body value '{body}'")))
        }
        None => Err(mismatch(format!("the {shown} header has invalid characters"))),
    }
}

fn mismatch(why: String) -> RpcError {
    RpcError::new(HEADER_MISMATCH, format!("Header mismatch: {why}"))
}

/// An argument of a tool that its server wants mirrored in a header (`x-mcp-header`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// `mcp-param-…`.
    pub header: HeaderName,
    /// The path of the argument: names of nested properties.
    pub path: Vec<String>,
}

/// Finds the annotated arguments of a tool; an error is the reason to omit the tool.
pub fn param_headers(input_schema: &RawJson) -> Result<Vec<ParamHeader>, String> {
    // Most schemas have no annotation, which one search in the text shows.
    if memchr::memmem::find(input_schema.as_bytes(), b"x-mcp-header").is_none() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    walk(input_schema, &mut Vec::new(), &mut found)?;
    let reachable = found.len();
    let all = memchr::memmem::find_iter(input_schema.as_bytes(), b"\"x-mcp-header\"").count();
    if reachable != all {
        return Err("`x-mcp-header` is on a property that is not an argument".into());
    }
    for (index, one) in found.iter().enumerate() {
        if found[..index].iter().any(|other| other.header == one.header) {
            return Err(format!("two arguments are mirrored in `{}`", one.header));
        }
    }
    Ok(found)
}

fn walk(schema: &RawJson, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) -> Result<(), String> {
    if path.len() > MAX_SCHEMA_DEPTH {
        return Err("annotated properties nest too deep".into());
    }
    let Some(properties) = schema.member("properties") else { return Ok(()) };
    for property in properties.members().unwrap_or_default() {
        path.push(property.key);
        if let Some(annotation) = property.value.member("x-mcp-header") {
            found
                .push(ParamHeader { header: header_name(&annotation, &property.value)?, path: path.clone() });
        }
        walk(&property.value, path, found)?;
        path.pop();
    }
    Ok(())
}

fn header_name(annotation: &RawJson, property: &RawJson) -> Result<HeaderName, String> {
    let name = annotation.string().ok_or("`x-mcp-header` must be a string")?;
    let kind = property.member("type").and_then(|kind| kind.string().map(|kind| kind.into_owned()));
    if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
        return Err(format!(
            "`x-mcp-header` {name:?} is on an argument that is not a string, integer or boolean"
        ));
    }
    if name.is_empty() {
        return Err("`x-mcp-header` is empty".into());
    }
    HeaderName::from_bytes(format!("{PARAM_PREFIX}{}", name.to_ascii_lowercase()).as_bytes())
        .map_err(|_| format!("`x-mcp-header` {name:?} is not a valid header name"))
}

impl ParamHeader {
    /// The value to mirror; `None` when the argument is absent or null.
    pub fn value(&self, arguments: &RawJson) -> Option<String> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let found = arguments.at(&path)?;
        match found.as_bytes().first()? {
            b'"' => found.string().map(|text| text.into_owned()),
            b't' | b'f' | b'0'..=b'9' | b'-' => Some(found.as_str().to_owned()),
            _ => None,
        }
    }

    /// Checks the header of a request against its arguments.
    pub fn check(&self, headers: &HeaderMap, arguments: &RawJson) -> Result<(), RpcError> {
        let shown = self.header.as_str();
        match (headers.get(&self.header), self.value(arguments)) {
            (None, None) => Ok(()),
            (Some(_), None) => {
                Err(mismatch(format!("the {shown} header has no matching argument in the body")))
            }
            (None, Some(_)) => Err(mismatch(format!("the {shown} header is missing"))),
            (Some(header), Some(body)) => match decode(header) {
                Some(decoded) if decoded == body || same_number(&decoded, &body) => Ok(()),
                Some(decoded) => Err(mismatch(format!(
                    "{shown} header value '{decoded}' does not match body value '{body}'"
                ))),
                None => Err(mismatch(format!("the {shown} header has invalid characters"))),
            },
        }
    }
}

fn same_number(left: &str, right: &str) -> bool {
    matches!((left.parse::<f64>(), right.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn values_are_encoded_and_decoded() {
        let cases = [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ];
        for (value, header) in cases {
            assert_eq!(encode(value), header, "{value:?}");
            assert_eq!(decode(&encode(value)).as_deref(), Some(value));
        }
    }

    #[test]
    fn headers_must_match_the_body() {
        let headers = |name: &str| {
            let mut map = HeaderMap::new();
            map.insert(&PROTOCOL_VERSION, HeaderValue::from_static("2026-07-28"));
            map.insert(&METHOD, HeaderValue::from_static("tools/call"));
            map.insert(&NAME, encode(name));
            map
        };
        let params = json(r#"{"name":"größe"}"#);
        let verdict =
            |map: &HeaderMap| check(map, "2026-07-28", "tools/call", Some(&params)).map_err(|e| e.code);
        assert_eq!(verdict(&headers("größe")), Ok(()));
        assert_eq!(verdict(&headers("other")), Err(HEADER_MISMATCH));
        let mut twice = headers("größe");
        twice.append(&METHOD, HeaderValue::from_static("tools/list"));
        assert_eq!(verdict(&twice), Err(HEADER_MISMATCH));
        let mut missing = headers("größe");
        missing.remove(&NAME);
        assert_eq!(verdict(&missing), Err(HEADER_MISMATCH));
    }

    #[test]
    fn annotated_arguments_are_found_and_invalid_annotations_are_errors() {
        let good = json(
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"Deep"}}}}}"#,
        );
        let found = param_headers(&good).expect("valid");
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].path, ["b", "c"]);
        assert_eq!(found[1].value(&json(r#"{"b":{"c":42}}"#)).as_deref(), Some("42"));
        assert_eq!(found[1].value(&json(r#"{"b":{"c":null}}"#)), None);
        let bad = [
            r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"Région"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
            r#"{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}"#,
        ];
        for schema in bad {
            assert!(param_headers(&json(schema)).is_err(), "{schema}");
        }
    }
}
