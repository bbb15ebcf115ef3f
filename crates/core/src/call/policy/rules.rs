//! The operator's rules: the first match wins inside a layer, the strictest across layers.

use super::canonical::readings;
use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::caller::{Caller, ClientFacts, HidingRules};
use crate::catalog::{Backing, BadPattern, Tool, ToolPatterns};
use crate::fault::{Blame, Fault};
use crate::held::Answerer;
use crate::json::RawJson;
use crate::manifest::{ProviderKind, tag};
use crate::persona::is_same_name;
use regex::{Regex, RegexBuilder};

/// The size limit of a compiled argument pattern.
const PATTERN_BYTES: usize = 256 << 10;
/// The maximum length of an argument that patterns are matched with.
const MAX_LOOKED_AT: usize = 64 << 10;
/// The maximum number of rules.
const MAX_RULES: usize = 4096;

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleEffect {
    /// Lets the call run.
    Allow,
    /// Asks the caller first, each time and in person.
    Ask,
    /// Asks an approver other than the caller first.
    AskApprover,
    /// Queues it in a plan.
    Plan,
    /// Refuses it.
    Deny,
    /// Behaves as if the tool did not exist.
    Hide,
}

/// The callers that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSubject {
    /// Every caller.
    AllCallers,
    /// Members of a group.
    Group(String),
    /// One user.
    User(String),
    /// Callers in a persona.
    Persona(String),
    /// Calls through a client.
    Client(String),
}

/// The tools that a rule applies to: all given conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct ToolMatch {
    /// Globs on any of a tool's names; empty means any.
    pub names: Vec<String>,
    /// Capability tags, of which the tool must have at least one; empty means any.
    pub capabilities: Vec<String>,
    /// Manifest labels or effect levels; empty means any.
    pub side_effects: Vec<String>,
}

/// One compiled rule.
#[derive(Debug)]
pub struct Rule {
    subject: RuleSubject,
    names: ToolPatterns,
    capabilities: Vec<String>,
    side_effects: Vec<String>,
    arguments: Vec<(String, Regex)>,
    effect: RuleEffect,
    reason: Option<String>,
}

/// The error for a rule that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// An invalid glob.
    #[error("`{0}` is not a valid name pattern")]
    Glob(String),
    /// An invalid or too large regular expression.
    #[error("`{0}` is not a valid regular expression, or is too large")]
    Pattern(String),
    /// Too many rules.
    #[error("there are more than {MAX_RULES} rules")]
    TooMany,
}

impl Fault for RuleFault {
    fn code(&self) -> &'static str {
        "config.bad-rule"
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        Some("see `policy.rules` in the configuration".into())
    }
}

impl Rule {
    /// Compiles a rule.
    pub fn new(
        subject: RuleSubject,
        tools: ToolMatch,
        arguments: impl IntoIterator<Item = (String, String)>,
        effect: RuleEffect,
        reason: Option<String>,
    ) -> Result<Self, RuleFault> {
        let names = ToolPatterns::new(&tools.names).map_err(|BadPattern(text)| RuleFault::Glob(text))?;
        let pattern = |(pointer, text): (String, String)| {
            let built = RegexBuilder::new(&text).size_limit(PATTERN_BYTES).build();
            built.map(|regex| (pointer, regex)).map_err(|_| RuleFault::Pattern(text))
        };
        Ok(Self {
            subject,
            names,
            capabilities: tools.capabilities,
            side_effects: tools.side_effects,
            arguments: arguments.into_iter().map(pattern).collect::<Result<_, _>>()?,
            effect,
            reason,
        })
    }

    /// Whether it can hide a tool from lists, because it depends only on the caller and the tool.
    fn hides(&self) -> bool {
        self.effect == RuleEffect::Hide
            && self.arguments.is_empty()
            && !matches!(self.subject, RuleSubject::Client(_))
    }

    fn is_about_caller(&self, caller: &Caller) -> bool {
        match &self.subject {
            RuleSubject::AllCallers => true,
            RuleSubject::Group(group) => caller.groups.contains(group),
            RuleSubject::User(user) => caller.is_named(user),
            RuleSubject::Persona(persona) => {
                caller.persona_name().is_some_and(|chosen| is_same_name(chosen, persona))
            }
            RuleSubject::Client(_) => false,
        }
    }

    fn is_about(&self, caller: &Caller, client: &ClientFacts) -> bool {
        match &self.subject {
            RuleSubject::Client(name) => client.name() == *name,
            _ => self.is_about_caller(caller),
        }
    }

    fn is_about_tool(&self, tool: &Tool) -> bool {
        self.is_about_effect(tool)
            && self.is_about_capability(tool)
            && (self.names.is_empty()
                || self.is_about_name(tool)
                || (!tool.terms.providers.is_empty() && self.is_about_provider(tool)))
    }

    /// Whether the rule names a tool. A rule that allows must name its server, or the tool literally: any server could
    /// name one of its tools so that a glob matches it.
    fn is_about_name(&self, tool: &Tool) -> bool {
        match self.effect {
            RuleEffect::Allow => self.names.permit(tool) || self.names.equal(&tool.name),
            _ => self.names.match_any(tool),
        }
    }

    /// Whether a tool is served by one that the rule names: a tool that is forbidden under one name must not be
    /// reachable under another. A rule that allows applies to that name only, and a rule that hides a provider
    /// removes the provider, not the tool.
    fn is_about_provider(&self, tool: &Tool) -> bool {
        // The serving tool asks its own question, so the rule does not apply to the tool in front of it.
        let asks = matches!(self.effect, RuleEffect::Ask | RuleEffect::AskApprover);
        if self.effect == RuleEffect::Allow || asks || self.hides() {
            return false;
        }
        let is_named = tool.terms.providers.iter().any(|provider| match &provider.kind {
            ProviderKind::Mcp { server, tool } => self.names.match_any_pair(server.as_str(), tool),
            _ => false,
        });
        let backing = tool.bounds.iter().flat_map(|bounds| &bounds.backing);
        is_named || backing.flat_map(Backing::tools).any(|tool| self.names.match_any(tool))
    }

    fn is_about_effect(&self, tool: &Tool) -> bool {
        self.side_effects.is_empty() || {
            let label = serde_json::to_value(tool.terms.side_effects).unwrap_or_default();
            let rung = tool.effect().rung.as_str();
            self.side_effects.iter().any(|word| word == rung || label.as_str() == Some(word))
        }
    }

    fn is_about_capability(&self, tool: &Tool) -> bool {
        self.capabilities.is_empty() || {
            let has = |asked: &String| tool.terms.capabilities.contains(&tag(asked));
            self.capabilities.iter().any(has)
        }
    }

    /// The verdict on a call that the rule applies to.
    fn verdict(&self) -> Verdict {
        let reason = || self.reason.clone().unwrap_or_else(|| "a rule of this gateway applies".into());
        match self.effect {
            RuleEffect::Allow => Verdict::Run,
            RuleEffect::Ask => Verdict::Ask { reason: reason(), answerer: Answerer::InPerson },
            RuleEffect::AskApprover => Verdict::Ask { reason: reason(), answerer: Answerer::ApproverOnly },
            RuleEffect::Plan => Verdict::Queue { reason: reason() },
            RuleEffect::Deny => Verdict::Refuse { reason: reason() },
            RuleEffect::Hide => Verdict::Hide,
        }
    }

    fn fits_arguments(&self, arguments: &RawJson) -> bool {
        self.arguments.iter().all(|(pointer, regex)| {
            let Some(value) = at_pointer(arguments, pointer) else { return false };
            // Arguments that cannot be inspected may contain the value in question; they never match an `allow` rule.
            match (readings(&value, MAX_LOOKED_AT), self.effect) {
                // An `allow` rule must match however the server reads the value; for other rules one reading is enough.
                (Some(texts), RuleEffect::Allow) => texts.iter().all(|text| regex.is_match(text)),
                (Some(texts), _) => texts.iter().any(|text| regex.is_match(text)),
                (None, effect) => effect != RuleEffect::Allow,
            }
        })
    }
}

/// The value at a JSON pointer (`/a/b/0`); a plain name is a member of the arguments.
fn at_pointer(arguments: &RawJson, pointer: &str) -> Option<RawJson> {
    let mut value = arguments.clone();
    for part in pointer.trim_start_matches('/').split('/') {
        let part = part.replace("~1", "/").replace("~0", "~");
        value = match value.as_bytes().first()? {
            b'[' => value.elements().ok()?.into_iter().nth(part.parse().ok()?)?,
            _ => value.member(&part)?,
        };
    }
    Some(value)
}

/// The rules of one layer of the configuration.
#[derive(Debug, Default)]
pub struct LayerRules(pub Vec<Rule>);

/// The rules of every layer.
#[derive(Debug, Default)]
pub struct RuleBook {
    layers: Vec<LayerRules>,
}

impl RuleBook {
    /// Builds a book from these layers.
    pub fn new(layers: Vec<LayerRules>) -> Result<Self, RuleFault> {
        let count: usize = layers.iter().map(|layer| layer.0.len()).sum();
        if count > MAX_RULES {
            return Err(RuleFault::TooMany);
        }
        Ok(Self { layers })
    }

    /// Whether any rule hides a tool.
    pub fn hides_anything(&self) -> bool {
        self.layers.iter().flat_map(|layer| &layer.0).any(Rule::hides)
    }

    fn effect_on<'a>(layer: &'a LayerRules, draft: &Draft) -> Option<&'a Rule> {
        layer.0.iter().find(|rule| {
            rule.is_about(&draft.caller, &draft.client)
                && rule.is_about_tool(&draft.tool)
                && rule.fits_arguments(&draft.arguments)
        })
    }
}

impl HidingRules for RuleBook {
    fn hides(&self, caller: &Caller, tool: &Tool) -> bool {
        let about = |rule: &&Rule| rule.is_about_caller(caller) && rule.is_about_tool(tool);
        self.layers.iter().any(|layer| {
            // The first match wins, so an earlier rule may keep the tool visible.
            let first = layer.0.iter().filter(|rule| rule.arguments.is_empty()).find(about);
            first.is_some_and(Rule::hides)
        })
    }

    fn signature(&self, caller: &Caller) -> String {
        let rules = self.layers.iter().flat_map(|layer| &layer.0);
        rules.map(|rule| if rule.is_about_caller(caller) { '1' } else { '0' }).collect()
    }
}

impl Policy for std::sync::Arc<RuleBook> {
    fn judge(&self, draft: &Draft) -> Verdict {
        Policy::judge(&**self, draft)
    }

    fn judge_each(&self, draft: &Draft, report: &mut dyn FnMut(Verdict)) {
        Policy::judge_each(&**self, draft, report);
    }
}

impl Policy for RuleBook {
    fn judge(&self, draft: &Draft) -> Verdict {
        let mut strictest = Verdict::Run;
        self.judge_each(draft, &mut |verdict| strictest.tighten(verdict));
        strictest
    }

    /// One verdict per layer: a rule that plans in one layer must not cancel a rule that asks an approver in another.
    fn judge_each(&self, draft: &Draft, report: &mut dyn FnMut(Verdict)) {
        // The last layer comes first, so that of two equally strict rules the last one supplies the reason.
        let found = self.layers.iter().rev().filter_map(|layer| Self::effect_on(layer, draft));
        found.map(Rule::verdict).for_each(report);
    }
}
