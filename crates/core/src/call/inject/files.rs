//! Files: replaces the name of a caller's file with a URL that the tool's server can fetch.

use super::{InjectionContext, Injector, Supplied};
use crate::call::CallFault;
use crate::caller::Caller;
use crate::catalog::{Companion, Tool};
use crate::json::{JsonCursor, JsonKind, Member, RawJson};
use crate::names::ServerName;
use crate::schema::shortened;
use crate::warning::Warning;
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

    /// How values that are not files are handled.
    fn unknown_names(&self) -> UnknownName {
        UnknownName::default()
    }
}

/// How a value that is not the name of one of the caller's files is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownName {
    /// The call is refused, so that the model can correct it.
    Refused,
    /// The value is sent to the server unchanged, with a warning: it may be a URL, or the name of an output.
    #[default]
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
pub struct FileInjector;

/// The lookup of the files of one call.
struct FileLookup<'c> {
    context: &'c InjectionContext<'c>,
    call: String,
    warnings: Vec<Warning>,
}

impl Injector for FileInjector {
    fn supply(&self, context: &InjectionContext<'_>) -> Result<Supplied, CallFault> {
        let Some(injected) = context.tool.injected.as_ref().filter(|injected| !injected.files.is_empty())
        else {
            return Ok(Supplied::default());
        };
        let mut supplied: Vec<Member> = Vec::new();
        let call = (context.seal_context.call_id)();
        let mut lookup = FileLookup { context, call, warnings: Vec::new() };
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
                    let url = lookup.find(argument, &value)?;
                    beside(&mut supplied, Companion::OriginalFilename, value.clone());
                    beside(&mut supplied, Companion::FileUrl, url.clone());
                    supplied.push(Member { key, value: url });
                }
                JsonKind::Array => {
                    let urls = lookup.find_all(argument, &value)?;
                    beside(&mut supplied, Companion::OriginalFileNames, value.clone());
                    beside(&mut supplied, Companion::FileUrls, urls.clone());
                    supplied.push(Member { key, value: urls });
                }
                // Any other value that the schema accepts does not name a file.
                _ => {}
            }
        }
        Ok(Supplied { members: supplied, warnings: lookup.warnings })
    }
}

impl FileLookup<'_> {
    /// The URL of the file that a value names, or the value itself if it does not name one.
    fn find(&mut self, argument: &str, value: &RawJson) -> Result<RawJson, CallFault> {
        let (tool, source) = (self.context.tool, self.context.seal_context.files);
        let name = value.string();
        let found = match &name {
            Some(name) => source.url_for(self.context.caller, name, &tool.server.name, &self.call),
            None => Err(FileFault::Unknown),
        };
        let shown = name.as_deref().unwrap_or_else(|| value.as_str());
        match found {
            Ok(url) => Ok(RawJson::from_value(url.expose())),
            Err(FileFault::Unknown) if source.unknown_names() == UnknownName::PassThrough => {
                Warning::add_not_a_file(&mut self.warnings, argument, shown);
                Ok(value.clone())
            }
            Err(FileFault::Unknown) => Err(self.no_file(argument, shortened(shown, 80))),
            Err(FileFault::Unavailable) => {
                Err(CallFault::FileUnavailable { name: tool.exposed.to_string(), file: shortened(shown, 80) })
            }
        }
    }

    fn find_all(&mut self, argument: &str, names: &RawJson) -> Result<RawJson, CallFault> {
        let names = names.elements().unwrap_or_default();
        if names.len() > MAX_FILES {
            let file = format!("{} files, over the limit of {MAX_FILES}", names.len());
            return Err(self.no_file(argument, file));
        }
        let mut urls = String::from("[");
        for name in &names {
            if urls.len() > 1 {
                urls.push(',');
            }
            urls.push_str(self.find(argument, name)?.as_str());
        }
        urls.push(']');
        Ok(RawJson::trusted(urls))
    }

    fn no_file(&self, argument: &str, file: String) -> CallFault {
        let name = self.context.tool.exposed.to_string();
        CallFault::UnknownFile { name, argument: argument.to_owned(), file }
    }
}
