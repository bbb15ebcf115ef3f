//! The choice of providers: the target of each for a caller, and why one is skipped.

use super::Routing;
use crate::providers::Instance;
use std::sync::Arc;
use toolbooth_core::call::Sealed;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Backing, Catalog, Lookup, Tool};
use toolbooth_core::manifest::{CredentialNeed, ProviderKind, ToolTerms};
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::on_backing;
use toolbooth_core::provider::Skip;
use toolbooth_upstream::ServerState;

/// The target of a provider for one caller.
pub(crate) enum ProviderTarget {
    /// A tool, with its own terms.
    Tool(Arc<Tool>),
    /// The called tool itself, on its own server.
    Itself,
    /// Not a tool: an HTTP service or a model.
    NoTool,
    /// A tool of a server that has not listed its tools yet.
    NotListed(ServerName),
}

impl Routing {
    /// Returns the providers to try, best first and those that are still connecting last, and collects why the others
    /// are skipped.
    pub(crate) fn candidates(
        &self,
        call: &Sealed,
        skipped: &mut Vec<(String, Skip)>,
    ) -> Vec<(usize, Arc<Instance>)> {
        let tool = call.tool();
        let catalog = self.catalog.load();
        let providers = self.providers.of(tool);
        let (mut ready, mut connecting) = (Vec::new(), Vec::new());
        for (index, one) in &providers.ordered {
            match self.skip(&catalog, *index, one, call) {
                Some(skip) => skipped.push((one.spec.id.clone(), skip)),
                None if self.is_connecting(one) => connecting.push((*index, one.clone())),
                None => ready.push((*index, one.clone())),
            }
        }
        ready.append(&mut connecting);
        ready
    }

    fn skip(&self, catalog: &Catalog, index: usize, one: &Instance, call: &Sealed) -> Option<Skip> {
        let tool = call.tool();
        let hidden = target_of(catalog, tool, index, one, call.caller()).err();
        hidden
            .or_else(|| {
                let missing = self.missing(&tool.terms, one);
                (!missing.is_empty()).then_some(Skip::NoCredentials { missing })
            })
            .or_else(|| self.down(one))
            .or_else(|| one.skip_reason(self.providers.now_ms()))
    }

    /// The target of a provider of the called tool, if the caller may use it.
    pub(crate) fn target(
        &self,
        catalog: &Catalog,
        call: &Sealed,
        index: usize,
        one: &Instance,
    ) -> Result<ProviderTarget, Skip> {
        target_of(catalog, call.tool(), index, one, call.caller())
    }

    /// The names of required variables of a provider that are not set.
    pub(super) fn missing(&self, terms: &ToolTerms, one: &Instance) -> Vec<String> {
        let needed = one.spec.credentials(terms.auth.as_ref()).into_iter().flat_map(|auth| &auth.envs);
        let needed = needed.filter(|env| env.need == CredentialNeed::Required);
        needed.filter(|env| !self.catalog.has_variable(&env.name)).map(|env| env.name.clone()).collect()
    }

    /// Why a provider cannot be used now, from what is known without a request.
    pub(super) fn down(&self, one: &Instance) -> Option<Skip> {
        match (&one.spec.kind, &one.rest) {
            (ProviderKind::Unknown(kind), _) => {
                return Some(Skip::Missing {
                    what: format!("this gateway does not know the provider kind `{kind}`"),
                });
            }
            (_, Some(Err(error))) => return Some(Skip::Missing { what: error.to_string() }),
            (ProviderKind::OpenAi { .. }, _) if self.terms.load().routing.assistant.is_none() => {
                return Some(Skip::Missing { what: "no `llm` is configured".into() });
            }
            (ProviderKind::Mcp { server, .. }, _) => match self.servers.state(server) {
                None => return Some(Skip::Missing { what: format!("there is no server `{server}`") }),
                Some(ServerState::Connected | ServerState::Connecting | ServerState::Disconnected) => {}
                Some(state) => {
                    let why = state.problem().map(|problem| problem.message.clone());
                    let why = why.unwrap_or_else(|| format!("server `{server}` is {}", state.as_str()));
                    return Some(Skip::Unhealthy { why });
                }
            },
            _ => {}
        }
        one.wrong().map(|why| Skip::Unhealthy { why })
    }

    /// Whether a provider's server is still connecting, so that a call would have to wait.
    fn is_connecting(&self, one: &Instance) -> bool {
        let ProviderKind::Mcp { server, .. } = &one.spec.kind else { return false };
        matches!(self.servers.state(server), Some(ServerState::Connecting))
    }
}

fn target_of(
    catalog: &Catalog,
    tool: &Arc<Tool>,
    index: usize,
    one: &Instance,
    caller: &Caller,
) -> Result<ProviderTarget, Skip> {
    match &one.spec.kind {
        ProviderKind::Http(_)
        | ProviderKind::OpenAi { .. }
        | ProviderKind::Skill(_)
        | ProviderKind::Unknown(_) => Ok(ProviderTarget::NoTool),
        ProviderKind::Builtin(name) => {
            // People write `demo.echo`; the full name is `mcp.demo.echo`.
            let found = [name.as_str(), &format!("mcp.{name}")].into_iter().find_map(|name| {
                match catalog.tool(name, caller) {
                    Lookup::Found(found) if found.terms.providers.is_empty() => Some(found.clone()),
                    _ => None,
                }
            });
            let missing = || Skip::Missing { what: format!("there is no built-in tool `{name}`") };
            found.map(ProviderTarget::Tool).ok_or_else(missing)
        }
        ProviderKind::Mcp { server, tool: name } => {
            let backing = tool.bounds.as_deref().and_then(|bounds| bounds.backing.get(index));
            match backing {
                Some(Backing::Itself) => Ok(ProviderTarget::Itself),
                Some(Backing::Undiscovered(_)) => match relisted(catalog, tool) {
                    Some(newer) => target_of(catalog, &newer, index, one, caller),
                    None => Ok(ProviderTarget::NotListed(server.clone())),
                },
                Some(backing @ Backing::Tools(_)) => {
                    let usable = on_backing(caller, backing);
                    usable.map(|tool| ProviderTarget::Tool(tool.clone())).ok_or(Skip::Hidden)
                }
                _ if tool.server.name == *server && *tool.name == **name => Ok(ProviderTarget::Itself),
                _ => {
                    Err(Skip::Missing { what: format!("server `{server}` does not offer the tool `{name}`") })
                }
            }
        }
    }
}

/// Returns the tool from this catalog, if its providers have been listed since.
fn relisted(catalog: &Catalog, tool: &Arc<Tool>) -> Option<Arc<Tool>> {
    let newer = catalog.exposed(&tool.exposed)?;
    let same = newer.canonical() == tool.canonical() && newer.terms.providers == tool.terms.providers;
    (same && !Arc::ptr_eq(newer, tool)).then(|| newer.clone())
}
