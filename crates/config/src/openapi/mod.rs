//! Reads OpenAPI 3 documents and makes a manifest entry of each operation, served by an HTTP provider.
//!
//! The document comes from outside. Its texts cannot refer to variables of the environment, references to other
//! documents are not followed, and sizes, counts and nesting are limited. All of it is a pure function.

mod body;
mod operation;
mod schema;
mod security;

pub use security::OpenApiVariable;

use crate::finding::Finding;
use crate::parse::{Syntax, parse_as};
use crate::texts::SourceTexts;
use globset::{Glob, GlobSet, GlobSetBuilder};
use operation::OperationReader;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use toolbooth_core::fault::{Blame, Fault};
use url::{Host, Url};

/// The maximum number of operations that become tools.
pub const MAX_OPERATIONS: usize = 500;
/// The maximum number of operations that are looked at.
const MAX_LISTED: usize = 10_000;
/// The methods that operations can have here.
const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];
/// The maximum length of a base URL.
const MAX_URL: usize = 2000;

/// How to read a document.
#[derive(Debug, Clone, Default)]
pub struct OpenApiOptions {
    /// The first part of the names of all tools.
    pub name: String,
    /// The URL of the service, instead of the one in the document.
    pub base_url: Option<String>,
    /// The URL that the document was read from, for a relative URL of the service.
    pub document_url: Option<String>,
    /// Only operations that match one of these globs: by operation id, tag, path, or `METHOD path`.
    pub include: Vec<String>,
    /// Headers of every request, instead of those that the document's security needs.
    pub headers: Vec<(String, String)>,
}

/// The tools of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenApiTools {
    /// The title of the service.
    pub title: Option<String>,
    /// The URL of the service.
    pub base_url: String,
    /// The manifest entries.
    pub entries: Vec<Json>,
    /// Operations that do not become tools.
    pub set_aside: Vec<SkippedOperation>,
    /// Variables that the requests need.
    pub variables: Vec<OpenApiVariable>,
}

/// An operation that does not become a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedOperation {
    /// The method and path.
    pub operation: String,
    /// The reason.
    pub reason: String,
}

/// An error of a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenApiError {
    /// It cannot be parsed.
    #[error("{0}")]
    Unreadable(Box<Finding>),
    /// It is not an OpenAPI document of a supported version.
    #[error("the document is not OpenAPI 3: {0}")]
    NotSupported(String),
    /// The document does not say where the service is.
    #[error("the URL of the service is not known: {0}")]
    NoServer(String),
    /// The document points at this machine or its network, and was read from elsewhere.
    #[error("the document names a service on this machine or in its network: {0}")]
    LocalServer(String),
    /// A pattern is not a glob.
    #[error("`{0}` is not a valid glob")]
    BadPattern(String),
    /// There are too many operations.
    #[error("the document has {0} operations, more than {most}", most = MAX_OPERATIONS)]
    TooMany(usize),
    /// No operation is left.
    #[error("no operation of the document can become a tool{0}")]
    Nothing(String),
}

impl Fault for OpenApiError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "openapi.unreadable",
            Self::NotSupported(_) => "openapi.not-supported",
            Self::NoServer(_) => "openapi.no-server",
            Self::LocalServer(_) => "openapi.local-server",
            Self::BadPattern(_) => "openapi.bad-pattern",
            Self::TooMany(_) => "openapi.too-many",
            Self::Nothing(_) => "openapi.nothing",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable(finding) => finding.hint.clone(),
            Self::NotSupported(_) => Some("convert the document to OpenAPI 3 first".into()),
            Self::NoServer(_) => Some("give it with --base-url URL".into()),
            Self::LocalServer(_) => Some("if you want to use it, give it with --base-url URL".into()),
            Self::BadPattern(_) => Some("for example --include 'pets*' or --include 'GET /pets*'".into()),
            Self::TooMany(_) => Some("choose some of them with --include GLOB".into()),
            Self::Nothing(_) => None,
        }
    }
}

/// Parses a document: JSON, or YAML.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Json, OpenApiError> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let syntax = if first == Some(&b'{') { Syntax::Json } else { Syntax::Yaml };
    let mut texts = SourceTexts::default();
    let node = parse_as(&mut texts, path, bytes, syntax).map_err(OpenApiError::Unreadable)?;
    Ok(node.shown())
}

/// Makes the manifest entries of a document.
pub fn read(document: &Json, options: &OpenApiOptions) -> Result<OpenApiTools, OpenApiError> {
    let version = match (&document["openapi"], &document["swagger"]) {
        (Json::String(version), _) => version.clone(),
        (_, Json::Null) => return Err(OpenApiError::NotSupported("it has no `openapi` version".into())),
        (_, old) => {
            return Err(OpenApiError::NotSupported(format!("it is Swagger {}", cut(&old.to_string(), 10))));
        }
    };
    if !version.starts_with("3.") {
        return Err(OpenApiError::NotSupported(format!("it has the version {}", cut(&version, 20))));
    }
    let include = globs(&options.include)?;
    let base_url = base_url(document, options)?;
    let listed = list(document);
    let wanted: Vec<&ListedOperation<'_>> =
        listed.iter().filter(|one| is_wanted(one, &include, options)).collect();
    if wanted.len() > MAX_OPERATIONS {
        return Err(OpenApiError::TooMany(wanted.len()));
    }
    let mut reader = OperationReader::new(document, options, &base_url);
    let (mut entries, mut set_aside) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for one in wanted {
        match reader.entry(one, &mut names) {
            Ok(entry) => entries.push(entry),
            Err(reason) => set_aside.push(SkippedOperation { operation: one.title(), reason }),
        }
    }
    if entries.is_empty() {
        let reasons: Vec<String> = set_aside
            .iter()
            .take(3)
            .map(|skipped| format!("{}: {}", skipped.operation, skipped.reason))
            .collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
        return Err(OpenApiError::Nothing(reasons));
    }
    let title = document["info"]["title"].as_str().map(|title| cut(title, 200));
    let variables = reader.variables;
    Ok(OpenApiTools { title, base_url, entries, set_aside, variables })
}

/// An operation of a document.
pub(crate) struct ListedOperation<'a> {
    pub method: &'static str,
    pub path: &'a str,
    /// The path item, whose parameters all its operations share.
    pub item: &'a Json,
    pub operation: &'a Json,
}

impl ListedOperation<'_> {
    fn title(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), cut(self.path, 200))
    }
}

fn list(document: &Json) -> Vec<ListedOperation<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, item)| {
        METHODS.into_iter().filter_map(move |method| {
            let operation = item.get(method).filter(|operation| operation.is_object())?;
            Some(ListedOperation { method, path, item, operation })
        })
    });
    all.take(MAX_LISTED).collect()
}

fn globs(patterns: &[String]) -> Result<GlobSet, OpenApiError> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(Glob::new(pattern).map_err(|_| OpenApiError::BadPattern(cut(pattern, 100)))?);
    }
    builder.build().map_err(|_| OpenApiError::BadPattern(patterns.join(" ")))
}

fn is_wanted(one: &ListedOperation<'_>, include: &GlobSet, options: &OpenApiOptions) -> bool {
    let tags = one.operation["tags"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let id = one.operation["operationId"].as_str();
    let titles = [one.path.to_owned(), one.title()];
    options.include.is_empty()
        || titles.iter().any(|title| include.is_match(title))
        || id.into_iter().chain(tags).any(|name| include.is_match(name))
}

/// The URL of the service, without a slash at its end.
fn base_url(document: &Json, options: &OpenApiOptions) -> Result<String, OpenApiError> {
    let written = match &options.base_url {
        Some(url) => url.clone(),
        None => server_url(&document["servers"][0]),
    };
    let missing = |why: &str| OpenApiError::NoServer(why.to_owned());
    let url = match (Url::parse(&written), &options.document_url) {
        (Ok(url), _) => url,
        (Err(_), Some(base)) => {
            let base = Url::parse(base).map_err(|_| missing("the URL of the document is not valid"))?;
            base.join(&written).map_err(|_| missing("the document names no valid URL"))?
        }
        (Err(_), None) => return Err(missing("the document names no complete URL")),
    };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || !is_plain {
        return Err(missing("it must be an http or https URL without user, password and query"));
    }
    let document_url = options.document_url.as_deref().and_then(|text| Url::parse(text).ok());
    let is_own_host = document_url.is_some_and(|document| document.host() == url.host());
    if options.base_url.is_none() && !is_own_host && url.host().is_some_and(is_local) {
        return Err(OpenApiError::LocalServer(cut(url.as_str(), 200)));
    }
    let text = url.as_str().trim_end_matches('/').replace('$', "%24");
    match text.len() <= MAX_URL && !text.contains(['{', '}']) {
        true => Ok(text),
        false => Err(missing("it is too long or has variables without a default")),
    }
}

/// Whether a host is by its name or address on this machine or in its network.
fn is_local(host: Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
        Host::Ipv4(v4) => is_local_v4(v4),
        Host::Ipv6(v6) => is_local_v6(v6),
    }
}

fn is_local_v4(v4: Ipv4Addr) -> bool {
    let [a, b, ..] = v4.octets();
    let carrier_grade = a == 100 && (b & 0xc0) == 64;
    a == 0 || v4.is_loopback() || v4.is_private() || v4.is_link_local() || carrier_grade
}

fn is_local_v6(v6: Ipv6Addr) -> bool {
    // The loopback and the unspecified address begin like a compatible IPv4 address in 0.0.0.0/8.
    v6.to_ipv4().is_some_and(is_local_v4) || v6.is_unique_local() || v6.is_unicast_link_local()
}

/// The URL of a `servers` element, with the defaults of its variables.
fn server_url(server: &Json) -> String {
    let mut url = server["url"].as_str().unwrap_or("/").to_owned();
    for (name, variable) in server["variables"].as_object().into_iter().flatten().take(50) {
        if let Some(default) = variable["default"].as_str().filter(|default| default.len() <= MAX_URL) {
            url = url.replace(&format!("{{{name}}}"), default);
        }
        if url.len() > MAX_URL {
            break;
        }
    }
    url
}

/// The first characters of a text.
pub(crate) fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests;
