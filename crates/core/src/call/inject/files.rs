//! Files: replaces the name of a caller's file with a URL that the tool's server can fetch.

use super::{InjectionContext, Injector};
use crate::call::CallFault;
use crate::caller::Caller;
use crate::catalog::{Companion, Tool};
use crate::json::{JsonCursor, JsonKind, Member, RawJson};
use crate::names::ServerName;
use crate::schema::shortened;
use std::fmt;

/// The maximum number of files that one argument may name.
const MAX_FILES: usize = 256;

/// A URL that contains a token. Only the server it is for may see it.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedUrl(String);

impl SignedUrl {
    /// Wraps a signed URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SignedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedUrl(…)")
    }
}

/// Why a file has no URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFault {
    /// The caller does not have a file of that name.
    Unknown,
    /// The file is not available at the moment.
    Unavailable,
}

/// Issues URLs for callers' files.
pub trait FileUrlSource: Send + Sync {
    /// A temporary URL of the caller's file `name`, for one server and one call.
    fn url_for(
        &self,
        caller: &Caller,
        name: &str,
        server: &ServerName,
        call: &str,
    ) -> Result<SignedUrl, FileFault>;
}

/// How a name that is not one of the caller's files is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownName {
    /// The call is refused, so that the model can correct it.
    #[default]
    Refused,
    /// The name is sent to the server unchanged.
    PassThrough,
}

/// A source without files, for calls that name none.
#[derive(Debug, Clone, Copy)]
pub struct NoFiles;

impl FileUrlSource for NoFiles {
    fn url_for(&self, _: &Caller, _: &str, _: &ServerName, _: &str) -> Result<SignedUrl, FileFault> {
        Err(FileFault::Unknown)
    }
}

/// The file names in a call's arguments, as the caller wrote them, without duplicates. They are looked up before the
/// call is sealed. Names over the limit are ignored here; the call is refused later.
pub fn file_names(tool: &Tool, arguments: &RawJson) -> Vec<String> {
    let Some(injected) = &tool.injected else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    for argument in &injected.files {
        let Some(value) = arguments.member(argument) else { continue };
        let elements = match JsonCursor::new(value.as_str(), 0).kind() {
            JsonKind::Text => vec![value],
            JsonKind::Array => value.elements().unwrap_or_default(),
            _ => continue,
        };
        for name in elements.iter().take(MAX_FILES).filter_map(RawJson::string) {
            if names.len() < MAX_FILES && !names.iter().any(|known| **known == *name) {
                names.push(name.into_owned());
            }
        }
    }
    names
}

/// Replaces file names with URLs from the call's [`FileUrlSource`].
#[derive(Debug, Default)]
pub struct FileInjector {
    unknown: UnknownName,
}

impl FileInjector {
    /// An injector that handles unknown names like this.
    pub fn new(unknown: UnknownName) -> Self {
        Self { unknown }
    }

    fn find(
        &self,
        context: &InjectionContext<'_>,
        argument: &str,
        name: &str,
        call: &str,
    ) -> Result<String, CallFault> {
        let tool = context.tool.exposed.to_string();
        match context.seal_context.files.url_for(context.caller, name, &context.tool.server.name, call) {
            Ok(url) => Ok(url.expose().to_owned()),
            Err(FileFault::Unknown) if self.unknown == UnknownName::PassThrough => Ok(name.to_owned()),
            Err(FileFault::Unknown) => Err(CallFault::UnknownFile {
                name: tool,
                argument: argument.to_owned(),
                file: shortened(name, 80),
            }),
            Err(FileFault::Unavailable) => {
                Err(CallFault::FileUnavailable { name: tool, file: shortened(name, 80) })
            }
        }
    }
}

impl Injector for FileInjector {
    fn supply(&self, context: &InjectionContext<'_>) -> Result<Vec<Member>, CallFault> {
        let Some(injected) = context.tool.injected.as_ref().filter(|injected| !injected.files.is_empty())
        else {
            return Ok(Vec::new());
        };
        let mut supplied: Vec<Member> = Vec::new();
        let call = (context.seal_context.call_id)();
        // The companions of several arguments would overwrite each other, so only the first argument has them.
        let beside = |supplied: &mut Vec<Member>, companion: Companion, value: RawJson| {
            let known = |member: &Member| member.key == companion.name();
            if injected.companions.contains(&companion) && !supplied.iter().any(known) {
                supplied.push(Member { key: companion.name().to_owned(), value });
            }
        };
        for argument in &injected.files {
            let Some(value) = context.arguments.member(argument) else { continue };
            let key = argument.to_string();
            match JsonCursor::new(value.as_str(), 0).kind() {
                JsonKind::Text => {
                    let name = value.string().unwrap_or_default();
                    let url = RawJson::from_value(&self.find(context, argument, &name, &call)?);
                    beside(&mut supplied, Companion::OriginalFilename, value.clone());
                    beside(&mut supplied, Companion::FileUrl, url.clone());
                    supplied.push(Member { key, value: url });
                }
                JsonKind::Array => {
                    let urls = RawJson::from_value(&self.find_all(context, argument, &value, &call)?);
                    beside(&mut supplied, Companion::OriginalFileNames, value.clone());
                    beside(&mut supplied, Companion::FileUrls, urls.clone());
                    supplied.push(Member { key, value: urls });
                }
                // Any other value that the schema accepts does not name a file.
                _ => {}
            }
        }
        Ok(supplied)
    }
}

impl FileInjector {
    fn find_all(
        &self,
        context: &InjectionContext<'_>,
        argument: &str,
        names: &RawJson,
        call: &str,
    ) -> Result<Vec<String>, CallFault> {
        let names = names.elements().unwrap_or_default();
        let no_file = |file: String| CallFault::UnknownFile {
            name: context.tool.exposed.to_string(),
            argument: argument.to_owned(),
            file,
        };
        if names.len() > MAX_FILES {
            return Err(no_file(format!("{} files, over the limit of {MAX_FILES}", names.len())));
        }
        let one = |name: &RawJson| match name.string() {
            Some(name) => self.find(context, argument, &name, call),
            None => Err(no_file(shortened(name.as_str(), 80))),
        };
        names.iter().map(one).collect()
    }
}
