//! Builds the engine's terms from the settings: policies, limits, exposure and more.

use crate::call_hooks;
use crate::chat_models;
use crate::known_secrets::known_secrets;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolbooth_config::settings::{
    AskDefault, AuditedCalls, AuthMode, ConsentSetting, EffectSetting, ExposureMode, OnChangeSetting,
    PlanReadsSetting, RuleApproval, RuleSettings, SubjectSetting,
};
use toolbooth_config::{LoadedConfig, Settings, settings};
use toolbooth_core::allowance::Allowance;
use toolbooth_core::call::Policy;
use toolbooth_core::call::policy::{self, RuleBook};
use toolbooth_core::caller::HidingRules;
use toolbooth_core::catalog::{ToolGate, ToolPatterns};
use toolbooth_core::exposure::{self, Mode};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::result::Budget;
use toolbooth_core::retry::{Jitter, RetryTerms};
use toolbooth_core::sampling::{self, SamplingTerms};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_engine::{
    Assistant, AuditScope, ChatTerms, Encoder, LetterTerms, ResultInspection, ResultTerms, RoutingTerms,
    Sampler, Tenancy, Terms,
};
use toolbooth_upstream::embeddings::EmbeddingsClient;
use toolbooth_upstream::llm::LlmClient;

/// The terms of a configuration.
pub fn of(loaded: &LoadedConfig) -> Result<Terms, Problem> {
    Ok(Terms { secrets: known_secrets(loaded), ..terms(&loaded.settings)? })
}

/// The terms of the settings, without the known secrets.
fn terms(settings: &Settings) -> Result<Terms, Problem> {
    let local = settings.auth.mode == AuthMode::Local;
    let mut policies: Vec<Box<dyn Policy>> = vec![Box::new(policy::RequireApproval)];
    let default = match settings.approval.default {
        AskDefault::Never => policy::DefaultAsk::Never,
        AskDefault::Writes => policy::DefaultAsk::Writes,
        AskDefault::Always => policy::DefaultAsk::Always,
    };
    if default != policy::DefaultAsk::Never {
        policies.push(Box::new(default));
    }
    match settings.policy.consent {
        ConsentSetting::Gateway => policies.push(Box::new(policy::RequireConsent::Every)),
        ConsentSetting::Client if !local => policies.push(Box::new(policy::RequireConsent::Written)),
        ConsentSetting::Client => {}
    }
    policies.push(Box::new(policy::ChangedToolPolicy(match settings.policy.on_change {
        OnChangeSetting::Allow => policy::OnChange::Allow,
        OnChangeSetting::Ask => policy::OnChange::Ask,
        OnChangeSetting::Block => policy::OnChange::Block,
    })));
    let usual_reads = if local { PlanReadsSetting::Names } else { PlanReadsSetting::Trusted };
    let reads = settings.policy.plan.reads.unwrap_or(usual_reads);
    policies.push(Box::new(policy::PlanMode(match reads {
        PlanReadsSetting::Names => policy::PlanReads::Names,
        PlanReadsSetting::Trusted => policy::PlanReads::Trusted,
    })));
    policies.push(Box::new(rules(settings)?));
    Ok(Terms {
        policies,
        expires: settings.approval.expires_seconds,
        wait: settings.approval.wait_seconds,
        approvers: settings.approval.approvers.clone(),
        audit_scope: match settings.audit.calls {
            AuditedCalls::All => AuditScope::All,
            AuditedCalls::Writes => AuditScope::Writes,
            AuditedCalls::None => AuditScope::None,
        },
        results: ResultTerms {
            inspection: if settings.results.inspect { ResultInspection::Yes } else { ResultInspection::No },
            budget: Budget::of_tokens(settings.limits.result_tokens),
            max_artifacts: usize::try_from(settings.limits.artifacts).unwrap_or(usize::MAX),
            max_artifact_bytes: settings.limits.artifact_bytes,
            iframe_hosts: settings.display.iframe_hosts.clone(),
            recent_bytes: usize::try_from(settings.results.recent_bytes).unwrap_or(usize::MAX),
        },
        letters: LetterTerms {
            max_replays: settings.dead_letters.max_replays,
            schedule_seconds: settings.dead_letters.schedule_seconds.iter().take(32).copied().collect(),
        },
        sampler: sampler(settings)?,
        chat: chat(settings),
        routing: routing(settings)?,
        min_quality: settings.lint.min_score,
        encoder: encoder(settings)?,
        tenancy: if local { Tenancy::Owner } else { Tenancy::Many },
        gate: gate(settings)?,
        exposure: Arc::new(exposure(settings)?),
        hooks: call_hooks::of(&settings.hooks)?,
        secrets: KnownSecrets::default(),
    })
}

/// The filter of tools that enter the catalog.
fn gate(settings: &Settings) -> Result<ToolGate, Problem> {
    let gate = ToolGate::new(&settings.allow_tools, &settings.deny_tools);
    let gate = gate
        .and_then(|gate| gate.with_server_lists(&settings.allow_server_tools, &settings.deny_server_tools));
    gate.map_err(|error| Problem {
        code: "config.bad-glob",
        blame: Blame::Gateway,
        message: format!("a list of allowed or denied tools has an invalid pattern: {error}"),
        hint: None,
    })
}

/// The exposure settings: which tools clients are shown.
fn exposure(settings: &Settings) -> Result<exposure::ExposureTerms, Problem> {
    let exposure_settings = &settings.exposure;
    let mode = |mode: &ExposureMode| match mode {
        ExposureMode::Auto => None,
        ExposureMode::Full => Some(Mode::Full),
        ExposureMode::Summary => Some(Mode::Summary),
        ExposureMode::Search => Some(Mode::Search),
    };
    let pins = ToolPatterns::new(&exposure_settings.always_load_tools).map_err(|error| Problem {
        code: "config.bad-glob",
        blame: Blame::Gateway,
        message: format!("`exposure.always_load_tools` has an invalid pattern: {error}"),
        hint: None,
    })?;
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let by_name = |modes: &BTreeMap<String, ExposureMode>| -> Vec<(String, exposure::ConfiguredMode)> {
        modes.iter().map(|(name, wanted)| (name.clone(), mode(wanted))).collect()
    };
    let terms = exposure::ExposureTerms::default();
    let mut terms =
        terms.with_modes(by_name(&exposure_settings.clients), by_name(&exposure_settings.personas));
    terms.mode = mode(&exposure_settings.mode);
    terms.pins = pins;
    terms.description_limit = size(exposure_settings.summary_description_limit);
    terms.search_limit = size(exposure_settings.max_tools_per_search);
    terms.tool_tokens = exposure_settings.tool_tokens;
    terms.sdk_tokens = exposure_settings.sdk_tokens;
    terms.answer_tokens = settings.search.answer_tokens;
    Ok(terms.keyed())
}

/// The search encoder, if one is configured.
fn encoder(settings: &Settings) -> Result<Option<Arc<Encoder>>, Problem> {
    let Some(embeddings) = &settings.search.embeddings else { return Ok(None) };
    let (Some(url), Some(model)) = (&embeddings.url, &embeddings.model) else { return Ok(None) };
    let endpoint =
        EmbeddingsClient::new(url.expose(), model, embeddings.key.as_ref()).map_err(|error| Problem {
            code: "config.bad-embeddings",
            blame: Blame::Gateway,
            message: error.to_string(),
            hint: Some("search also works without `search.embeddings`".into()),
        })?;
    Ok(Some(Encoder::new(endpoint)))
}

/// The terms for routing, retries and limits of calls.
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
            llm: LlmClient::new(url.expose(), llm.api_key.as_ref(), llm.timeout_seconds)?
                .with_headers(&llm.headers)?,
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
                settings::JitterSetting::Full => Jitter::Full,
                settings::JitterSetting::None => Jitter::None,
            },
        },
        queue: usize::try_from(limits.queue).unwrap_or(usize::MAX),
        allowance: allowance.limits_anything().then_some(allowance),
        longest_answer: usize::try_from(limits.upstream_bytes).unwrap_or(usize::MAX),
        assistant,
    })
}

/// The gateway's model for sampling, if one is configured. Without `llm.allow` it only drafts answers for people.
fn sampler(settings: &Settings) -> Result<Option<Arc<Sampler>>, Problem> {
    let llm = &settings.llm;
    let (Some(url), Some(model)) = (&llm.base_url, &llm.model) else { return Ok(None) };
    let servers = sampling::servers(&llm.allow).map_err(|error| Problem {
        code: "config.bad-glob",
        blame: Blame::Gateway,
        message: format!("`llm.allow` has an invalid pattern: {error}"),
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
    let client = LlmClient::new(url.expose(), llm.api_key.as_ref(), llm.timeout_seconds)?;
    let llm = client.with_headers(&llm.headers)?;
    Ok(Some(Arc::new(Sampler { terms, llm })))
}

/// The models for chats in the console, if any are configured.
fn chat(settings: &Settings) -> Option<Arc<ChatTerms>> {
    let models = chat_models::offered(settings);
    let tokens_per_day = settings.llm.tokens_per_day;
    (!models.is_empty()).then(|| Arc::new(ChatTerms { models, tokens_per_day }))
}

/// The rules that hide tools from callers, if there are any.
pub fn hiding_rules(settings: &Settings) -> Result<Option<Arc<dyn HidingRules>>, Problem> {
    let rules = rules(settings)?;
    Ok(if rules.hides_anything() { Some(rules) } else { None })
}

fn rules(settings: &Settings) -> Result<Arc<RuleBook>, Problem> {
    let layers = settings.policy.layers.iter().map(|layer| {
        let rules = layer.rules.iter().map(rule).collect::<Result<Vec<_>, _>>();
        rules.map(policy::LayerRules)
    });
    let layers = layers.collect::<Result<Vec<_>, _>>().map_err(|fault| Problem::of(&fault))?;
    RuleBook::new(layers).map(Arc::new).map_err(|fault| Problem::of(&fault))
}

fn rule(rule: &RuleSettings) -> Result<policy::Rule, policy::RuleFault> {
    let subject = match &rule.subject {
        SubjectSetting::AllCallers => policy::RuleSubject::AllCallers,
        SubjectSetting::Group(name) => policy::RuleSubject::Group(name.clone()),
        SubjectSetting::User(name) => policy::RuleSubject::User(name.clone()),
        SubjectSetting::Persona(name) => policy::RuleSubject::Persona(name.clone()),
        SubjectSetting::Client(name) => policy::RuleSubject::Client(name.clone()),
    };
    let effect = match rule.effect {
        EffectSetting::Allow => policy::RuleEffect::Allow,
        EffectSetting::Ask if rule.approval == Some(RuleApproval::Approver) => {
            policy::RuleEffect::AskApprover
        }
        EffectSetting::Ask => policy::RuleEffect::Ask,
        EffectSetting::Plan => policy::RuleEffect::Plan,
        EffectSetting::Deny => policy::RuleEffect::Deny,
        EffectSetting::Hide => policy::RuleEffect::Hide,
    };
    let tools = policy::ToolMatch {
        names: rule.tools.names.clone(),
        capabilities: rule.tools.capability.clone(),
        side_effects: rule.tools.side_effects.clone(),
    };
    policy::Rule::new(subject, tools, rule.arguments.clone(), effect, rule.reason.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults are written twice, because the engine does not know the configuration.
    #[test]
    fn default_settings_give_default_terms() {
        let shown = |terms: &Terms| {
            let Terms {
                policies: _,
                expires,
                wait,
                approvers,
                audit_scope,
                results,
                letters,
                sampler,
                chat,
                routing,
                min_quality,
                tenancy,
                gate,
                exposure,
                encoder,
                hooks: _,
                secrets: _,
            } = terms;
            let times = (expires, wait, approvers, audit_scope);
            let parts = (results, letters, sampler.is_some(), chat.is_some(), routing);
            let lists = (min_quality, tenancy, gate, exposure, encoder.is_some());
            format!("{:#?}", (times, parts, lists))
        };
        let of_settings = terms(&Settings::default()).unwrap_or_else(|problem| panic!("{problem:?}"));
        assert_eq!(shown(&of_settings), shown(&Terms::default()));
    }
}
