//! The terms of a configuration: its policies, and what its rules hide.

use crate::masking::known_secrets;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolbooth_config::settings::{
    AskDefault, AuditedCalls, AuthMode, Consent, Effect, ExposureMode, OnChange, PlanReads, Rule,
    RuleApproval, Subject,
};
use toolbooth_config::{Loaded, Settings, settings};
use toolbooth_core::allowance::Allowance;
use toolbooth_core::call::Policy;
use toolbooth_core::call::policy::{self, RuleBook};
use toolbooth_core::catalog::{Gate, ToolPatterns};
use toolbooth_core::exposure::{self, Mode};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::result::Budget;
use toolbooth_core::retry::{Jitter, RetryTerms};
use toolbooth_core::sampling::{self, SamplingTerms};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_engine::{
    Assistant, Audience, Audited, Encoder, Inspecting, LetterTerms, ResultTerms, RoutingTerms, Sampler, Terms,
};
use toolbooth_upstream::embeddings::Embeddings;
use toolbooth_upstream::llm::Llm;

/// The terms of a configuration.
pub fn of(loaded: &Loaded) -> Result<Terms, Problem> {
    Ok(Terms { secrets: known_secrets(loaded), ..terms(&loaded.settings)? })
}

/// The terms that the settings name.
fn terms(settings: &Settings) -> Result<Terms, Problem> {
    let local = settings.auth.mode == AuthMode::Local;
    let mut policies: Vec<Box<dyn Policy>> = vec![Box::new(policy::AskFirst)];
    let default = match settings.approval.default {
        AskDefault::Never => policy::DefaultAsk::Never,
        AskDefault::Writes => policy::DefaultAsk::Writes,
        AskDefault::Always => policy::DefaultAsk::Always,
    };
    if default != policy::DefaultAsk::Never {
        policies.push(Box::new(default));
    }
    let consent = settings.policy.consent.unwrap_or(if local { Consent::Client } else { Consent::Gateway });
    if consent == Consent::Gateway {
        policies.push(Box::new(policy::AskForConsent));
    }
    policies.push(Box::new(policy::ChangedTool(match settings.policy.on_change {
        OnChange::Allow => policy::OnChange::Allow,
        OnChange::Ask => policy::OnChange::Ask,
        OnChange::Block => policy::OnChange::Block,
    })));
    let reads =
        settings.policy.plan.reads.unwrap_or(if local { PlanReads::Names } else { PlanReads::Trusted });
    policies.push(Box::new(policy::PlanMode(match reads {
        PlanReads::Names => policy::PlanReads::Names,
        PlanReads::Trusted => policy::PlanReads::Trusted,
    })));
    policies.push(Box::new(rules(settings)?));
    Ok(Terms {
        policies,
        expires: settings.approval.expires_seconds,
        wait: settings.approval.wait_seconds,
        approvers: settings.approval.approvers.clone(),
        audited: match settings.audit.calls {
            AuditedCalls::All => Audited::All,
            AuditedCalls::Writes => Audited::Writes,
            AuditedCalls::None => Audited::None,
        },
        results: ResultTerms {
            inspecting: if settings.results.inspect { Inspecting::Yes } else { Inspecting::No },
            budget: Budget::of_tokens(settings.limits.result_tokens),
            max_artifacts: usize::try_from(settings.limits.artifacts).unwrap_or(usize::MAX),
            max_artifact_bytes: settings.limits.artifact_bytes,
            iframe_hosts: settings.display.iframe_hosts.clone(),
        },
        letters: LetterTerms {
            max_replays: settings.dead_letters.max_replays,
            schedule_seconds: settings.dead_letters.schedule_seconds.iter().take(32).copied().collect(),
        },
        sampler: sampler(settings)?,
        routing: routing(settings)?,
        min_quality: settings.lint.min_score,
        encoder: encoder(settings)?,
        audience: if local { Audience::Owner } else { Audience::Many },
        gate: gate(settings)?,
        exposure: Arc::new(exposure(settings)?),
        secrets: KnownSecrets::default(),
    })
}

/// Which tools enter the catalog at all.
fn gate(settings: &Settings) -> Result<Gate, Problem> {
    Gate::new(&settings.allow_tools, &settings.deny_tools).map_err(|error| Problem {
        code: "config.bad-glob",
        blame: Blame::Gateway,
        message: format!("`allow_tools` or `deny_tools` holds a pattern that cannot be read: {error}"),
        hint: None,
    })
}

/// What clients are shown.
fn exposure(settings: &Settings) -> Result<exposure::Terms, Problem> {
    let told = &settings.exposure;
    let mode = |mode: &ExposureMode| match mode {
        ExposureMode::Auto => None,
        ExposureMode::Full => Some(Mode::Full),
        ExposureMode::Summary => Some(Mode::Summary),
        ExposureMode::Search => Some(Mode::Search),
    };
    let pins = ToolPatterns::new(&told.always_load_tools).map_err(|error| Problem {
        code: "config.bad-glob",
        blame: Blame::Gateway,
        message: format!("`exposure.always_load_tools` holds a pattern that cannot be read: {error}"),
        hint: None,
    })?;
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let by_name = |modes: &BTreeMap<String, ExposureMode>| -> Vec<(String, exposure::Forced)> {
        modes.iter().map(|(name, wanted)| (name.clone(), mode(wanted))).collect()
    };
    let terms = exposure::Terms::default();
    let mut terms = terms.with_modes(by_name(&told.clients), by_name(&told.personas));
    terms.mode = mode(&told.mode);
    terms.pins = pins;
    terms.description_limit = size(told.summary_description_limit);
    terms.search_limit = size(told.max_tools_per_search);
    terms.tool_tokens = told.tool_tokens;
    terms.answer_tokens = settings.search.answer_tokens;
    Ok(terms.keyed())
}

/// The encoder that search goes by, where one is configured.
fn encoder(settings: &Settings) -> Result<Option<Arc<Encoder>>, Problem> {
    let Some(embeddings) = &settings.search.embeddings else { return Ok(None) };
    let (Some(url), Some(model)) = (&embeddings.url, &embeddings.model) else { return Ok(None) };
    let endpoint =
        Embeddings::new(url.expose(), model, embeddings.key.as_ref()).map_err(|error| Problem {
            code: "config.bad-embeddings",
            blame: Blame::Gateway,
            message: error.to_string(),
            hint: Some("search works without it; `search.embeddings` only adds to it".into()),
        })?;
    Ok(Some(Encoder::new(endpoint)))
}

/// How calls are routed, tried again and bounded.
fn routing(settings: &Settings) -> Result<RoutingTerms, Problem> {
    let retry = &settings.retry;
    let limits = &settings.limits;
    let allowance = Allowance {
        calls_per_minute: limits.calls_per_minute,
        runtime: limits.runtime_seconds,
        cost: limits.cost,
    };
    let llm = &settings.llm;
    let assistant = match (&llm.base_url, &llm.model) {
        (Some(url), Some(model)) => Some(Arc::new(Assistant {
            llm: Llm::new(url.expose(), llm.api_key.as_ref(), llm.timeout_seconds)?,
            model: model.clone(),
            max_tokens: llm.max_tokens,
        })),
        _ => None,
    };
    Ok(RoutingTerms {
        retry: RetryTerms {
            attempts: retry.attempts,
            base: retry.base,
            factor: retry.factor,
            max: retry.max,
            jitter: match retry.jitter {
                settings::Jitter::Full => Jitter::Full,
                settings::Jitter::None => Jitter::None,
            },
        },
        queue: usize::try_from(limits.queue).unwrap_or(usize::MAX),
        allowance: allowance.limits_anything().then_some(allowance),
        longest_answer: usize::try_from(limits.upstream_bytes).unwrap_or(usize::MAX),
        assistant,
    })
}

/// The gateway's own model, where one is configured and any server may ask it.
fn sampler(settings: &Settings) -> Result<Option<Arc<Sampler>>, Problem> {
    let llm = &settings.llm;
    let (Some(url), Some(model)) = (&llm.base_url, &llm.model) else { return Ok(None) };
    if llm.allow.is_empty() {
        return Ok(None);
    }
    let servers = sampling::servers(&llm.allow).map_err(|error| Problem {
        code: "config.bad-glob",
        blame: Blame::Gateway,
        message: format!("`llm.allow` holds a pattern that cannot be read: {error}"),
        hint: None,
    })?;
    let terms = SamplingTerms {
        servers,
        model: model.clone(),
        models: llm.models.clone(),
        max_tokens: llm.max_tokens,
        requests_per_call: llm.requests_per_call,
        tokens_per_day: llm.tokens_per_day,
    };
    let llm = Llm::new(url.expose(), llm.api_key.as_ref(), llm.timeout_seconds)?;
    Ok(Some(Arc::new(Sampler { terms, llm })))
}

/// The rules that hide tools from callers, where there are any.
pub fn veil(settings: &Settings) -> Result<Option<Arc<RuleBook>>, Problem> {
    let rules = rules(settings)?;
    Ok(rules.hides_anything().then_some(rules))
}

fn rules(settings: &Settings) -> Result<Arc<RuleBook>, Problem> {
    let layers = settings.policy.layers.iter().map(|layer| {
        let rules = layer.rules.iter().map(rule).collect::<Result<Vec<_>, _>>();
        rules.map(policy::Layer)
    });
    let layers = layers.collect::<Result<Vec<_>, _>>().map_err(|fault| Problem::of(&fault))?;
    RuleBook::new(layers).map(Arc::new).map_err(|fault| Problem::of(&fault))
}

fn rule(rule: &Rule) -> Result<policy::Rule, policy::RuleFault> {
    let subject = match &rule.subject {
        Subject::Everybody => policy::Subject::Everybody,
        Subject::Group(name) => policy::Subject::Group(name.clone()),
        Subject::User(name) => policy::Subject::User(name.clone()),
        Subject::Persona(name) => policy::Subject::Persona(name.clone()),
        Subject::Client(name) => policy::Subject::Client(name.clone()),
    };
    let effect = match rule.effect {
        Effect::Allow => policy::RuleEffect::Allow,
        Effect::Ask if rule.approval == Some(RuleApproval::Approver) => policy::RuleEffect::AskApprover,
        Effect::Ask => policy::RuleEffect::Ask,
        Effect::Plan => policy::RuleEffect::Plan,
        Effect::Deny => policy::RuleEffect::Deny,
        Effect::Hide => policy::RuleEffect::Hide,
    };
    let tools = policy::ToolMatch {
        names: rule.tools.names.clone(),
        capabilities: rule.tools.capability.clone(),
        side_effects: rule.tools.side_effects.clone(),
    };
    policy::Rule::new(subject, tools, rule.arguments.clone(), effect, rule.reason.clone())
}
