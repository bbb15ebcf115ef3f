//! Asking a server for everything it offers.

use crate::connection::{Ask, AskError, Connection};
use crate::error::UpstreamError;
use std::collections::HashMap;
use std::sync::Arc;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::catalog::Discovery;
use toolbooth_core::json::RawJson;
use toolbooth_wire::mirror;

/// The most pages one list may have.
const MAX_PAGES: usize = 1000;
/// The most text one list may have.
const MAX_LIST_BYTES: usize = 128 * 1024 * 1024;

impl Connection {
    /// Lists all the server offers, every page of it. A list the server does not have is empty.
    pub async fn discover(&self) -> Result<Discovery, UpstreamError> {
        let (tools, prompts, resources, templates) = tokio::join!(
            self.list("tools/list", "tools", "tools"),
            self.list("prompts/list", "prompts", "prompts"),
            self.list("resources/list", "resources", "resources"),
            self.list("resources/templates/list", "resourceTemplates", "resources"),
        );
        let mut tools = tools?;
        self.remember_mirrored(&mut tools);
        Ok(Discovery {
            capabilities: Some(self.capabilities.clone()),
            server_info: self.server_info.clone(),
            instructions: self.instructions.clone(),
            tools,
            prompts: prompts?,
            resources: resources?,
            templates: templates?,
        })
    }

    /// Notes which arguments go into headers, and leaves out tools whose annotation is invalid.
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
    ) -> Result<Vec<RawJson>, UpstreamError> {
        if !self.can(capability) {
            return Ok(Vec::new());
        }
        let client = ClientFacts::default();
        let mut all = Vec::new();
        let mut size = 0;
        let mut cursor: Option<RawJson> = None;
        for _ in 0..MAX_PAGES {
            let params = cursor.iter().map(|cursor| ("cursor", cursor.clone())).collect();
            let page = match self.result(Ask::plain(method, params, &client)).await {
                Ok(page) => page,
                Err(AskError::Upstream(error)) => return Err(error),
                // A list that is not served is no reason to lose the others; a server without its tools is of no use.
                Err(AskError::Rpc(error)) if all.is_empty() && method != "tools/list" => {
                    tracing::debug!(server.name = %self.server, "`{method}` was refused: {}", error.message);
                    return Ok(all);
                }
                Err(AskError::Rpc(error)) => return Err(self.bad_list(method, &error.message)),
            };
            size += page.as_bytes().len();
            let Some(found) = page.member(member) else {
                return Err(self.bad_list(method, &format!("no `{member}`")));
            };
            all.extend(found.elements().map_err(|error| self.bad_list(method, &error.0))?);
            let next = page.member("nextCursor").filter(|next| next.as_bytes().first() == Some(&b'"'));
            // A cursor that does not move would go on for ever.
            if next.is_none() || next == cursor || size > MAX_LIST_BYTES {
                return Ok(all);
            }
            cursor = next;
        }
        Ok(all)
    }

    fn bad_list(&self, method: &str, why: &str) -> UpstreamError {
        UpstreamError::BadAnswer { server: self.server.clone(), what: format!("`{method}`: {why}") }
    }
}
