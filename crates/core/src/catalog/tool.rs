//! A tool and the other things a server offers.

use super::bounds::{Backing, Bounds};
use super::hidden::Injected;
use crate::effects::{self, Effect};
use crate::held::Answerer;
use crate::json::RawJson;
use crate::manifest::ToolTerms;
use crate::names::ServerName;
use crate::schema::{Objection, PublicSchema};
use crate::server::ServerEntry;
use crate::weigh;
use std::sync::{Arc, OnceLock};

/// What a server said it offers, each definition as it sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// What the server can do.
    pub capabilities: Option<RawJson>,
    /// The server's description of itself.
    pub server_info: Option<RawJson>,
    /// Its advice to models.
    pub instructions: Option<String>,
    /// Tool definitions.
    pub tools: Vec<RawJson>,
    /// Prompt definitions.
    pub prompts: Vec<RawJson>,
    /// Resource definitions.
    pub resources: Vec<RawJson>,
    /// Resource template definitions.
    pub templates: Vec<RawJson>,
    /// The lists that were not read to their end, and why: the method and the reason.
    pub cut_short: Vec<(String, String)>,
}

/// A tool in the catalog. Its identity is the pair (server, name); the exposed name is only a key.
#[derive(Debug)]
pub struct Tool {
    /// The server it is on.
    pub server: Arc<ServerEntry>,
    /// The server's own name for it, shared with what is noted of its calls.
    pub name: Arc<str>,
    /// The name clients see.
    pub exposed: Box<str>,
    /// The definition clients see: the server's, under the exposed name, without what the gateway supplies.
    pub definition: RawJson,
    /// The arguments it declares that the gateway supplies or completes; most tools have none.
    pub injected: Option<Box<Injected>>,
    /// What holds for its calls; shared by the tools of a server that nothing else speaks of.
    pub terms: Arc<ToolTerms>,
    /// Whether its server's `require_approval` names it, or any tool that serves it needs approval.
    pub needs_approval: bool,
    /// What narrows who may use it, beyond what holds for its server; most tools have none.
    pub bounds: Option<Box<Bounds>>,
    /// The tool as its server tells of it, where a manifest is laid over it.
    pub under: Option<Arc<Tool>>,
    /// What manifests call it, where they call it otherwise than clients do.
    pub entry_names: Vec<Box<str>>,
    /// What it does to the world, found out when somebody first asks.
    pub(super) effect: OnceLock<Effect>,
    /// What its definition means, worked out when somebody first asks.
    pub(super) digest: OnceLock<[u8; 32]>,
    /// The schema clients see, compiled when the tool is first called.
    pub(super) schema: OnceLock<Box<PublicSchema>>,
    /// The schema of its structured content, if it has one, compiled when the tool first answers with some.
    pub(super) output: OnceLock<Option<Box<PublicSchema>>>,
    /// How well it tells what it is for, worked out when somebody first asks.
    pub(super) quality: OnceLock<u8>,
    /// What its definition costs a model, counted when somebody first asks.
    pub(super) cost: OnceLock<u32>,
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
            definition: RawJson::empty_object(),
            injected: None,
            needs_approval: false,
            bounds: None,
            under: None,
            entry_names: Vec::new(),
            effect: OnceLock::new(),
            digest: OnceLock::new(),
            schema: OnceLock::new(),
            output: OnceLock::new(),
            quality: OnceLock::new(),
            cost: OnceLock::new(),
        }
    }

    /// The server's name.
    pub fn server_name(&self) -> &ServerName {
        &self.server.name
    }

    /// What its definition means, as one number: another number is another tool to those who accepted it.
    pub fn digest(&self) -> &[u8; 32] {
        // What an operator writes over it needs nobody's acceptance; what its server says does.
        if let Some(under) = &self.under {
            return under.digest();
        }
        self.digest.get_or_init(|| {
            let served = self.bounds.iter().flat_map(|bounds| &bounds.backing);
            let words: Vec<[u8; 32]> = served.flat_map(Backing::tools).map(|tool| *tool.digest()).collect();
            if self.server.is_virtual() {
                return super::digest::of_virtual(&self.name, &self.terms.providers, &words);
            }
            let hidden = self.injected.as_ref().map(|injected| format!("{injected:?}")).unwrap_or_default();
            super::digest::of(&self.name, &self.definition, &hidden)
        })
    }

    /// Who must agree to each of its calls, where somebody must. What the tools behind it ask, they ask themselves.
    pub fn asks(&self) -> Option<Answerer> {
        let own = self.under.as_deref().unwrap_or(self);
        let named = own.needs_approval && !self.server.is_virtual();
        named.then_some(Answerer::InPerson).max(self.terms.approval.answerer())
    }

    /// What it does to the world.
    pub fn effect(&self) -> Effect {
        *self.effect.get_or_init(|| effects::effect_of(self))
    }

    /// How well it tells a model what it is for, from 0 to 100.
    pub fn quality(&self) -> u8 {
        *self.quality.get_or_init(|| crate::lint::points(self))
    }

    /// What it takes from its callers, ready to be asked. A schema that cannot be checked is one that objects
    /// to nothing, so there is always one.
    pub fn public_schema(&self) -> &PublicSchema {
        self.schema.get_or_init(|| Box::new(PublicSchema::compile(&self.input_schema())))
    }

    /// Where structured content breaks what the tool says of it; nothing if it fits, or nothing is said.
    pub fn output_objection(&self, structured: &RawJson) -> Option<Objection> {
        let compiled = self.output.get_or_init(|| {
            let schema = self.definition.member("outputSchema").filter(RawJson::is_object)?;
            Some(Box::new(PublicSchema::compile(&schema)))
        });
        compiled.as_ref()?.objections(structured).into_iter().next()
    }

    /// How many tokens a model is shown of it, where its client hands on the whole definition.
    pub fn token_cost(&self) -> u32 {
        *self.cost.get_or_init(|| weigh::definition(&self.definition))
    }

    /// Whether its cost was counted already, so that asking costs nothing.
    pub fn is_weighed(&self) -> bool {
        self.cost.get().is_some()
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
pub struct Offer {
    /// The server it is on.
    pub server: Arc<ServerEntry>,
    /// The server's own key for it: a prompt's name, a resource's URI, a template's pattern.
    pub key: Box<str>,
    /// The key clients see.
    pub exposed: Box<str>,
    /// The definition clients see.
    pub definition: RawJson,
}
