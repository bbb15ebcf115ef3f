//! Lists everything a server offers.

use crate::connection::{Connection, RequestError, UpstreamRequest};
use crate::error::UpstreamError;
use std::collections::HashMap;
use std::sync::Arc;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::catalog::{Discovery, MAX_TOOLS};
use toolbooth_core::json::RawJson;
use toolbooth_wire::mirror;

/// Maximum number of pages per list.
const MAX_PAGES: usize = 1000;
/// Maximum size of one list.
const MAX_LIST_BYTES: usize = 128 * 1024 * 1024;

/// A list, possibly truncated.
#[derive(Default)]
struct Listed {
    entries: Vec<RawJson>,
    /// Why the list was truncated.
    cut: Option<String>,
}

impl Connection {
    /// Reads all pages of all lists. A list that the server does not have is empty.
    pub async fn discover(&self) -> Result<Discovery, UpstreamError> {
        let (tools, prompts, resources, templates) = tokio::join!(
            self.list("tools/list", "tools", "tools"),
            self.list("prompts/list", "prompts", "prompts"),
            self.list("resources/list", "resources", "resources"),
            self.list("resources/templates/list", "resourceTemplates", "resources"),
        );
        let mut cut_short = Vec::new();
        let mut whole = |method: &str, listed: Result<Listed, UpstreamError>| {
            listed.map(|Listed { entries, cut }| {
                cut_short.extend(cut.map(|reason| (method.to_owned(), reason)));
                entries
            })
        };
        let mut tools = whole("tools/list", tools)?;
        let prompts = whole("prompts/list", prompts)?;
        let resources = whole("resources/list", resources)?;
        let templates = whole("resources/templates/list", templates)?;
        self.remember_mirrored(&mut tools);
        Ok(Discovery {
            capabilities: Some(self.capabilities.clone()),
            server_info: self.server_info.clone(),
            instructions: self.instructions.clone(),
            tools,
            prompts,
            resources,
            templates,
            cut_short,
        })
    }

    /// Records which arguments are mirrored in headers, and drops tools whose annotation is invalid.
    fn remember_mirrored(&self, tools: &mut Vec<RawJson>) {
        let mut mirrored = HashMap::new();
        tools.retain(|tool| {
            if memchr::memmem::find(tool.as_bytes(), b"x-mcp-header").is_none() {
                return true;
            }
            let name = tool.member("name").and_then(|name| name.string().map(|name| name.into_owned()));
            let (Some(name), Some(schema)) = (name, tool.member("inputSchema")) else { return true };
            match mirror::param_headers(&schema) {
                Ok(headers) => {
                    mirrored.insert(name, headers);
                    true
                }
                Err(reason) => {
                    tracing::warn!(server.name = %self.server, "tool `{name}` of `{}` is left out: {reason}", self.server);
                    false
                }
            }
        });
        self.mirrored.store(Arc::new(mirrored));
    }

    async fn list(
        &self,
        method: &'static str,
        member: &str,
        capability: &str,
    ) -> Result<Listed, UpstreamError> {
        if !self.can(capability) {
            return Ok(Listed::default());
        }
        let client = ClientFacts::default();
        let mut all = Vec::new();
        let mut size = 0;
        let mut cursor: Option<RawJson> = None;
        for _ in 0..MAX_PAGES {
            let params = cursor.iter().map(|cursor| ("cursor", cursor.clone())).collect();
            let page = match self.result(UpstreamRequest::plain(method, params, &client)).await {
                Ok(page) => page,
                Err(RequestError::Upstream(error)) => return Err(error),
                // A missing list does not affect the others, but a server without tools is useless.
                Err(RequestError::Rpc(error)) if all.is_empty() && method != "tools/list" => {
                    tracing::debug!(server.name = %self.server, "`{method}` was refused: {}", error.message);
                    return Ok(Listed::default());
                }
                Err(RequestError::Rpc(error)) => return Err(self.bad_list(method, &error.message)),
            };
            size += page.as_bytes().len();
            let Some(found) = page.member(member) else {
                return Err(self.bad_list(method, &format!("no `{member}`")));
            };
            all.extend(found.elements().map_err(|error| self.bad_list(method, &error.0))?);
            let next = page.member("nextCursor").filter(|next| next.as_bytes().first() == Some(&b'"'));
            // Further entries are not read: admission would drop them.
            if all.len() > MAX_TOOLS || (all.len() == MAX_TOOLS && next.is_some()) {
                all.truncate(MAX_TOOLS);
                return Ok(self.cut(method, all, format!("over the limit of {MAX_TOOLS} entries")));
            }
            if next.is_none() {
                return Ok(Listed { entries: all, cut: None });
            }
            // A cursor that does not advance would loop forever.
            if next == cursor {
                return Ok(self.cut(method, all, "its cursor does not move".into()));
            }
            if size > MAX_LIST_BYTES {
                let limit = MAX_LIST_BYTES >> 20;
                return Ok(self.cut(method, all, format!("over the limit of {limit} MiB")));
            }
            cursor = next;
        }
        Ok(self.cut(method, all, format!("over the limit of {MAX_PAGES} pages")))
    }

    fn cut(&self, method: &str, entries: Vec<RawJson>, why: String) -> Listed {
        let cut = format!("cut short after {} entries: {why}", entries.len());
        tracing::warn!(server.name = %self.server, "`{method}` of `{}` is {cut}", self.server);
        Listed { entries, cut: Some(cut) }
    }

    fn bad_list(&self, method: &str, why: &str) -> UpstreamError {
        UpstreamError::BadAnswer { server: self.server.clone(), what: format!("`{method}`: {why}") }
    }
}
