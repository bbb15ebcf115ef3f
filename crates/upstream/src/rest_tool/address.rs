//! Request URLs: the operator's template, in which an argument is one path segment or one query value.

use super::error::{RestError, TemplateError};
use crate::http::HttpOrigin;
use serde_json::{Map, Value};
use toolbooth_core::percent::encoded;
use toolbooth_core::provider::text_of;

/// Maximum length of a template.
const MAX_TEMPLATE_BYTES: usize = 8192;

/// A URL template with placeholders for arguments.
#[derive(Debug, Clone)]
pub(super) struct Address {
    /// Scheme, host and port, which arguments cannot change.
    pub(super) origin: HttpOrigin,
    segments: Vec<String>,
    query: Vec<(String, Option<String>)>,
}

impl Address {
    /// Parses a template. The part before the path must be fixed.
    pub(super) fn parse(template: &str) -> Result<Self, TemplateError> {
        if template.len() > MAX_TEMPLATE_BYTES
            || template.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(TemplateError::NotAnAddress);
        }
        let (scheme, rest) = template.split_once("://").ok_or(TemplateError::NotAnAddress)?;
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if format!("{scheme}{authority}").contains(['{', '}']) {
            return Err(TemplateError::HostFromArgument);
        }
        if authority.contains('@') {
            return Err(TemplateError::UserInfo);
        }
        let origin = HttpOrigin::parse(&format!("{scheme}://{authority}/"))
            .map_err(|_| TemplateError::NotAnAddress)?;
        if rest.contains(['#', '\\']) {
            return Err(TemplateError::NotAnAddress);
        }
        let (path, query) = rest.split_once('?').map_or((rest, ""), |(path, query)| (path, query));
        let segments: Vec<String> = path.split('/').skip(1).map(str::to_owned).collect();
        if segments.iter().any(|segment| segment == ".." || segment == ".") {
            return Err(TemplateError::NotAnAddress);
        }
        let pair = |pair: &str| match pair.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (pair.to_owned(), None),
        };
        let query: Vec<_> = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
        if query.iter().any(|(name, _)| name.contains(['{', '}'])) {
            return Err(TemplateError::QueryName);
        }
        let address = Self { origin, segments, query };
        // The fixed part must be a valid request path.
        let mut probe = address.fixed_path();
        add_query(&mut probe, &[]);
        probe.parse::<::http::uri::PathAndQuery>().map_err(|_| TemplateError::NotAnAddress)?;
        Ok(address)
    }

    /// The host without brackets.
    pub(super) fn host(&self) -> &str {
        self.origin.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    /// The path up to the first argument.
    pub(super) fn fixed_path(&self) -> String {
        let fixed = self.segments.iter().take_while(|segment| !segment.contains(['{', '}']));
        let fixed: Vec<&str> = fixed.map(String::as_str).collect();
        format!("/{}", fixed.join("/"))
    }

    /// The path and query of one call. Adds the names of the arguments in them to `used`.
    pub(super) fn fill<'a>(
        &'a self,
        arguments: &Map<String, Value>,
        used: &mut Vec<&'a str>,
    ) -> Result<String, RestError> {
        let mut path = String::new();
        for segment in &self.segments {
            path.push('/');
            path.push_str(&fill_segment(segment, arguments)?);
            used.extend(names(segment));
        }
        if path.is_empty() {
            path.push('/');
        }
        let mut first = true;
        for (name, value) in &self.query {
            let filled = match value {
                None => None,
                Some(template) => {
                    used.extend(names(template));
                    let spelled = pieces(template);
                    if matches!(spelled.as_slice(), [TemplatePart::Fixed(_)] | []) {
                        Some(template.clone()) // As the operator wrote it.
                    } else {
                        match fill_value(template, arguments) {
                            Some(value) => Some(encoded(&value)),
                            None => continue,
                        }
                    }
                }
            };
            path.push(if first { '?' } else { '&' });
            first = false;
            path.push_str(name);
            if let Some(value) = filled {
                path.push('=');
                path.push_str(&value);
            }
        }
        Ok(path)
    }

    /// The path and query of a URL on the same origin; `None` for other origins.
    pub(super) fn on_same_origin(&self, place: &str) -> Option<String> {
        let base = url::Url::parse(&format!("{}://{}/", self.origin.scheme, self.origin.authority)).ok()?;
        let found = base.join(place).ok()?;
        let same =
            found.origin() == base.origin() && found.username().is_empty() && found.password().is_none();
        same.then(|| match found.query() {
            Some(query) => format!("{}?{query}", found.path()),
            None => found.path().to_owned(),
        })
    }
}

enum TemplatePart<'a> {
    Fixed(&'a str),
    Argument(&'a str),
}

fn pieces(template: &str) -> Vec<TemplatePart<'_>> {
    let mut found = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        if !before.is_empty() {
            found.push(TemplatePart::Fixed(before));
        }
        found.push(TemplatePart::Argument(name));
        rest = after;
    }
    if !rest.is_empty() {
        found.push(TemplatePart::Fixed(rest));
    }
    found
}

/// The names of the arguments in a template.
pub(super) fn names(template: &str) -> impl Iterator<Item = &str> {
    pieces(template).into_iter().filter_map(|piece| match piece {
        TemplatePart::Argument(name) => Some(name),
        TemplatePart::Fixed(_) => None,
    })
}

fn fill_segment(template: &str, arguments: &Map<String, Value>) -> Result<String, RestError> {
    let refuse = |name: &str, why: &str| RestError::BadRequest { what: format!("`{name}` {why}") };
    let mut out = String::new();
    for piece in pieces(template) {
        match piece {
            TemplatePart::Fixed(text) => out.push_str(text),
            TemplatePart::Argument(name) => {
                let value = match arguments.get(name) {
                    Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => text_of(value),
                    Some(Value::Null) | None => return Err(refuse(name, "is required and was not given")),
                    Some(_) => return Err(refuse(name, "must be a string or a number")),
                };
                if value.is_empty() || value.chars().any(char::is_control) {
                    return Err(refuse(name, "is not allowed in a URL path"));
                }
                if has_dot_segment(&value) {
                    return Err(refuse(name, "must not contain `..` or `.` as a path segment"));
                }
                out.push_str(&encoded(&value));
            }
        }
    }
    // A fixed dot next to an argument that is a dot makes two.
    if out == "." || out == ".." {
        return Err(refuse("url", "must not resolve to `.` or `..`"));
    }
    Ok(out)
}

/// Whether a value contains a dot segment, also for a service that decodes it more often than it should.
fn has_dot_segment(value: &str) -> bool {
    let mut text = value.to_owned();
    for _ in 0..3 {
        if text.split(['/', '\\']).any(|step| step == ".." || step == ".") {
            return true;
        }
        let decoded = percent_decoded(&text);
        if decoded == text {
            return false;
        }
        text = decoded;
    }
    true
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Fills the arguments into a value; `None` if the value is a single argument that is missing.
pub(super) fn fill_value(template: &str, arguments: &Map<String, Value>) -> Option<String> {
    let spelled = pieces(template);
    if let [TemplatePart::Argument(name)] = spelled.as_slice() {
        return arguments.get(*name).filter(|value| !value.is_null()).map(text_of);
    }
    let filled = spelled.into_iter().map(|piece| match piece {
        TemplatePart::Fixed(text) => text.to_owned(),
        TemplatePart::Argument(name) => arguments.get(name).map(text_of).unwrap_or_default(),
    });
    Some(filled.collect())
}

/// Adds parameters to a path that may already have some.
pub(super) fn add_query(path: &mut String, pairs: &[(String, String)]) {
    for (name, value) in pairs {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&encoded(name));
        path.push('=');
        path.push_str(&encoded(value));
    }
}
