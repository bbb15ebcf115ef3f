//! Tools, prompts, resources and templates in the catalog.

mod bounds;

pub use bounds::{Backing, Bounds, ToolAccess};

use super::hidden::InjectedArguments;
use super::naming::Naming;
use crate::answerer::Answerer;
use crate::effects::{self, Effect};
use crate::json::RawJson;
use crate::lint::{self, LintSubject};
use crate::manifest::{ProviderKind, SafetyLevel, ToolTerms};
use crate::names::ServerName;
use crate::own_names;
use crate::schema::{Objection, PublicSchema};
use crate::server::{ServerEntry, SideEffects};
use crate::skill::Skill;
use crate::weigh;
use std::sync::{Arc, OnceLock};

/// Everything a server lists, each definition as it sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The server's capabilities.
    pub capabilities: Option<RawJson>,
    /// The server's `serverInfo`.
    pub server_info: Option<RawJson>,
    /// Its instructions for models.
    pub instructions: Option<String>,
    /// Tool definitions.
    pub tools: Vec<RawJson>,
    /// Prompt definitions.
    pub prompts: Vec<RawJson>,
    /// Resource definitions.
    pub resources: Vec<RawJson>,
    /// Resource template definitions.
    pub templates: Vec<RawJson>,
    /// The lists that were not read to their end: the method and the reason.
    pub cut_short: Vec<(String, String)>,
}

/// A tool in the catalog. Its identity is the pair (server, name); the exposed name is only a lookup key.
#[derive(Debug)]
pub struct Tool {
    /// The server it is on.
    pub server: Arc<ServerEntry>,
    /// The server's own name for it, shared with the records of its calls.
    pub name: Arc<str>,
    /// The name clients see.
    pub exposed: Box<str>,
    /// Its name with a hash, if it has its plain name although a tool of another server has that name too.
    pub hashed_name: Option<Box<str>>,
    /// The definition clients see: the server's, under the exposed name, without the parameters the gateway supplies.
    pub definition: RawJson,
    /// The arguments it declares that the gateway supplies or completes; most tools have none.
    pub injected: Option<Box<InjectedArguments>>,
    /// The terms of its calls; shared by the tools of a server that have no overrides.
    pub terms: Arc<ToolTerms>,
    /// Whether its server's `require_approval` matches it, or any tool that serves it needs approval.
    pub needs_approval: bool,
    /// Restrictions on who may use it, besides those of its server; most tools have none.
    pub bounds: Option<Box<Bounds>>,
    /// The tool as its server defines it, if a manifest overrides it.
    pub original: Option<Arc<Tool>>,
    /// The names that manifests give it, if they differ from the exposed name.
    pub entry_names: Vec<Box<str>>,
    /// Values derived from the fields above, each computed on first use.
    pub(super) caches: ToolCaches,
}

/// Values derived from a tool, each computed on first use.
#[derive(Debug, Default)]
pub(super) struct ToolCaches {
    /// Its side effects.
    effect: OnceLock<Effect>,
    /// The digest of its definition.
    digest: OnceLock<[u8; 32]>,
    /// The schema clients see, compiled on the first call.
    schema: OnceLock<Box<PublicSchema>>,
    /// The schema of its structured content, if it has one, compiled when the tool first returns some.
    output: OnceLock<Option<Box<PublicSchema>>>,
    /// The quality score of its definition.
    quality: OnceLock<u8>,
    /// The token count of its definition.
    cost: OnceLock<u32>,
}

impl Tool {
    /// A tool without a definition, for tests.
    #[cfg(test)]
    pub(crate) fn bare(server: Arc<ServerEntry>, name: &str, exposed: &str) -> Self {
        Self {
            terms: Arc::new(ToolTerms::of_server(&server)),
            server,
            name: name.into(),
            exposed: exposed.into(),
            hashed_name: None,
            definition: RawJson::empty_object(),
            injected: None,
            needs_approval: false,
            bounds: None,
            original: None,
            entry_names: Vec::new(),
            caches: ToolCaches::default(),
        }
    }

    /// The server's name.
    pub fn server_name(&self) -> &ServerName {
        &self.server.name
    }

    /// The digest of its definition. An approval of the tool applies to one digest only.
    pub fn digest(&self) -> &[u8; 32] {
        // An operator's overrides need no approval; the server's definition does.
        if let Some(original) = &self.original {
            return original.digest();
        }
        self.caches.digest.get_or_init(|| {
            let served = self.bounds.iter().flat_map(|bounds| &bounds.backing);
            let words: Vec<[u8; 32]> = served.flat_map(Backing::tools).map(|tool| *tool.digest()).collect();
            if self.server.is_virtual() {
                return super::digest::of_virtual(&self.name, &self.terms.providers, &words);
            }
            let mut hidden = self.injected.as_deref().map(InjectedArguments::digest_text).unwrap_or_default();
            // What was decided about a tool in one folder does not apply to a server of that name in another one.
            if let Some(folder) = &self.server.folder {
                hidden.push('\0');
                hidden.push_str(folder);
            }
            super::digest::of(&self.name, &self.definition, &hidden)
        })
    }

    /// Who must approve each of its calls, if anyone. Tools behind it request their own approvals.
    pub fn asks(&self) -> Option<Answerer> {
        let own = self.original.as_deref().unwrap_or(self);
        let named = own.needs_approval && !self.server.is_virtual();
        let rated = self.terms.safety_level.and_then(SafetyLevel::answerer);
        named.then_some(Answerer::InPerson).max(self.terms.approval.answerer()).max(rated)
    }

    /// Its side effects.
    pub fn effect(&self) -> Effect {
        *self.caches.effect.get_or_init(|| match self.terms.side_effects {
            SideEffects::Network if self.server.is_virtual() => self.effect_of_backing(),
            label => effects::effect(&self.server, label, &self.name, &self.definition),
        })
    }

    /// The effect of a manifest tool whose label says no more than that it uses the network: that of the most dangerous
    /// tool behind it. For an HTTP service or a model only the tool's own name is known.
    fn effect_of_backing(&self) -> Effect {
        let backing = || self.bounds.iter().flat_map(|bounds| &bounds.backing);
        let by_name = || effects::effect(&self.server, SideEffects::Network, &self.name, &self.definition);
        let unseen = backing().any(|backing| backing.tools().is_empty()).then(by_name);
        let seen = backing().flat_map(Backing::tools).map(|tool| tool.effect());
        seen.chain(unseen).max_by_key(|effect| effect.rung).unwrap_or_else(by_name)
    }

    /// Whether it is one of the meta tools, which are listed only in `search` mode.
    pub fn is_meta(&self) -> bool {
        self.server.is_own() && own_names::is_meta(&self.name)
    }

    /// The skill that it runs, or that it represents in a search.
    pub fn skill(&self) -> Option<&Arc<Skill>> {
        if !self.server.is_virtual() {
            return None;
        }
        self.terms.providers.iter().find_map(|provider| match &provider.kind {
            ProviderKind::Skill(skill) => Some(skill),
            _ => None,
        })
    }

    /// How well its definition describes it to a model, from 0 to 100.
    pub fn quality(&self) -> u8 {
        *self.caches.quality.get_or_init(|| lint::points(&self.lint_subject()))
    }

    /// Its definition and label, for the lint.
    pub fn lint_subject(&self) -> LintSubject<'_> {
        // A manifest tool has no server that could prefix its name.
        let server = (!self.server.is_virtual()).then(|| self.server.name.as_str());
        let label = Some(self.terms.side_effects);
        LintSubject { server, name: &self.name, definition: &self.definition, label }
    }

    /// Its name, truncated for clients with a length limit.
    pub(crate) fn shortened(&self, limit: usize) -> String {
        let naming = Naming { max_length: limit, ..Naming::default() };
        naming.suffixed(&self.exposed, self.server.name.as_str(), &self.name)
    }

    /// The schema of its arguments, compiled. A schema that cannot be checked accepts everything, so there is always
    /// one.
    pub fn public_schema(&self) -> &PublicSchema {
        self.caches.schema.get_or_init(|| Box::new(PublicSchema::compile(&self.input_schema())))
    }

    /// Where structured content violates the tool's output schema; `None` if it fits or there is no schema.
    pub fn output_objection(&self, structured: &RawJson) -> Option<Objection> {
        let compiled = self.caches.output.get_or_init(|| {
            let schema = self.definition.member("outputSchema").filter(RawJson::is_object)?;
            Some(Box::new(PublicSchema::compile(&schema)))
        });
        compiled.as_ref()?.objections(structured).into_iter().next()
    }

    /// The number of tokens of its whole definition.
    pub fn token_cost(&self) -> u32 {
        *self.caches.cost.get_or_init(|| weigh::definition_tokens(&self.definition))
    }

    /// Whether its token count is already known.
    pub fn is_weighed(&self) -> bool {
        self.caches.cost.get().is_some()
    }

    /// The schema of its arguments, as clients see it.
    pub fn input_schema(&self) -> RawJson {
        self.definition.member("inputSchema").unwrap_or_else(RawJson::empty_object)
    }

    /// Its description, if it has one.
    pub fn description(&self) -> Option<String> {
        self.definition.member("description")?.string().map(|text| text.into_owned())
    }

    /// Its canonical id.
    pub fn canonical(&self) -> String {
        if self.server.is_virtual() {
            return format!("tool.{}", self.name);
        }
        format!("mcp.{}.{}", self.server.name, self.name)
    }
}

/// A prompt, resource or resource template in the catalog.
#[derive(Debug, Clone)]
pub struct CatalogItem {
    /// The server it is on.
    pub server: Arc<ServerEntry>,
    /// The server's own key for it: a prompt's name, a resource's URI, a template's pattern.
    pub key: Box<str>,
    /// The key clients see.
    pub exposed: Box<str>,
    /// The definition clients see.
    pub definition: RawJson,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::hidden::{Companion, IdentityArgument, TextFit};
    use crate::server::tests::entry;

    /// Stored approvals, pins and consents contain the digest. If this test fails, a changed name or field of
    /// `InjectedArguments` would end all of those for tools with injected arguments.
    #[test]
    fn the_digest_of_a_tool_with_injected_arguments_stays_the_same() {
        let identity = |name: &str, fit| IdentityArgument { name: name.into(), fit };
        let injected = InjectedArguments {
            identity: vec![identity("username", TextFit::Text), identity("user_id", TextFit::Other)],
            mcp_data: true,
            files: vec!["path".into()],
            companions: Companion::ALL.into(),
        };
        let definition = RawJson::parse(r#"{"name":"mail_send","description":"Sends mail."}"#.to_owned());
        let tool = Tool {
            definition: definition.expect("JSON"),
            injected: Some(Box::new(injected)),
            ..Tool::bare(Arc::new(entry("mail")), "send", "mail_send")
        };
        let digest: String = tool.digest().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, "c46151b3a9cbd3377062f09e9fe0a774b536069c6845b209bc1e9f207e036617");
    }

    /// A held call, a consent or a pin must not apply to the server that has the same name in another folder.
    #[test]
    fn the_digest_depends_on_the_folder_of_the_server() {
        let digest = |folder: Option<&str>| {
            let server = ServerEntry { folder: folder.map(Into::into), ..entry("db") };
            *Tool::bare(Arc::new(server), "query", "db_query").digest()
        };
        assert_eq!(digest(Some("/projects/a")), digest(Some("/projects/a")));
        assert_ne!(digest(Some("/projects/a")), digest(Some("/projects/b")));
        assert_ne!(digest(Some("/projects/a")), digest(None));
    }
}
