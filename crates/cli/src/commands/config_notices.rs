//! What a configuration means in operation: which calls will be held, and which servers have a process for each user.
//! `toolbooth doctor` and the greeting of `toolbooth serve` show it.

use crate::render;
use toolbooth_config::settings::{AskDefault, AuthMode, ConsentSetting, EffectSetting};
use toolbooth_config::{LoadedConfig, ServerConfigState, Settings};
use toolbooth_core::manifest::{ApprovalBy, ConsentTerm, Overlay, SafetyLevel, ToolTerms};
use toolbooth_core::server::{ServerEntry, Share, Transport};

/// The maximum number of names in a sentence.
const MAX_NAMES: usize = 8;

/// How to turn `approval.default` off.
const NEVER_ASK: &str = "`approval.default = \"never\"` turns this off";

/// A fact about the configuration, and how to change it.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigNotice {
    /// One sentence.
    pub text: String,
    /// How to change it.
    pub change: String,
}

/// The calls that will be held for approval.
pub fn held_calls(loaded: &LoadedConfig) -> Vec<ConfigNotice> {
    let mut notices = Vec::new();
    let mut add = |text: String, change: &str| notices.push(ConfigNotice { text, change: change.to_owned() });
    let settings = &loaded.settings;
    match settings.approval.default {
        AskDefault::Never => {}
        AskDefault::Writes => add("every call that changes something waits for approval".into(), NEVER_ASK),
        AskDefault::Always => {
            add("every call waits for approval".into(), NEVER_ASK);
        }
    }
    if settings.policy.consent == ConsentSetting::Gateway {
        add(
            "the first call of each tool that does not only read waits for consent".into(),
            "`policy.consent = \"client\"` leaves this question to the clients",
        );
    }
    let layers = settings.policy.layers.iter().flat_map(|layer| &layer.rules);
    if layers.chain(&settings.policy.rules).any(|rule| rule.effect == EffectSetting::Ask) {
        add(
            "calls that a rule asks about wait for approval".into(),
            "edit `effect = \"ask\"` in `policy.rules`",
        );
    }
    let of_manifests = loaded.manifests.iter().map(|manifest| (&manifest.name, &manifest.overlay));
    let (always, first) = asking_tools(settings, of_manifests);
    if !always.is_empty() {
        let text = format!("every call of {} waits for approval", names(&always));
        add(text, "edit `approval` or `safety_level` in the manifest");
    }
    if !first.is_empty() {
        let text = format!("the first call of {} waits for consent", names(&first));
        add(text, "`requires_consent: false` in the manifest turns this off");
    }
    for entry in entries(loaded) {
        let name = &entry.name;
        let overrides = entry.tools.overrides.iter();
        let overrides: Vec<(&String, Overlay)> =
            overrides.map(|(tool, fields)| (tool, ToolTerms::read_override(fields))).collect();
        let (always, first) =
            asking_tools(settings, overrides.iter().map(|(tool, overlay)| (*tool, overlay)));
        if !always.is_empty() {
            let text = format!("every call of {} on `{name}` waits for approval", names(&always));
            add(text, "edit `approval` or `safety_level` in `tools.overrides` of the server");
        }
        if !first.is_empty() {
            let text = format!("the first call of {} on `{name}` waits for consent", names(&first));
            add(text, "edit `requires_consent` in `tools.overrides` of the server");
        }
        let tools = &entry.tools.require_approval;
        if !tools.is_empty() {
            let text = format!("every call of {} on `{name}` waits for its caller", names(tools));
            add(text, "edit `require_approval` of the server");
        }
        if entry.defaults.approval != ApprovalBy::None {
            add(format!("every call on `{name}` waits for approval"), "edit `approval` of the server");
        }
        if asks_consent(settings, entry) {
            let text = format!("the first call of each tool on `{name}` waits for consent");
            add(text, "`requires_consent = false` of the server turns this off");
        }
    }
    notices
}

/// The tools of which every call is asked about, and those of which the first call is.
fn asking_tools<'a>(
    settings: &Settings,
    tools: impl Iterator<Item = (&'a String, &'a Overlay)>,
) -> (Vec<String>, Vec<String>) {
    let (mut always, mut first) = (Vec::new(), Vec::new());
    for (name, overlay) in tools {
        let approval = overlay.approval.and_then(ApprovalBy::answerer);
        if approval.or(overlay.safety_level.and_then(SafetyLevel::answerer)).is_some() {
            always.push(name.clone());
        } else if overlay.requires_consent == Some(true) && asks_written_consent(settings) {
            first.push(name.clone());
        }
    }
    (always, first)
}

/// Whether a written `requires_consent` is asked by the gateway, and consent by default is not.
fn asks_written_consent(settings: &Settings) -> bool {
    settings.auth.mode != AuthMode::Local && settings.policy.consent == ConsentSetting::Client
}

/// Whether `requires_consent` in the entry of a server is asked by the gateway.
fn asks_consent(settings: &Settings, entry: &ServerEntry) -> bool {
    asks_written_consent(settings) && entry.defaults.requires_consent == ConsentTerm::Written
}

/// The servers that have a process for each user.
pub fn processes_per_user(loaded: &LoadedConfig) -> Option<ConfigNotice> {
    if loaded.settings.auth.mode == AuthMode::Local {
        return None;
    }
    let own_processes = |entry: &&ServerEntry| {
        matches!(entry.transport, Transport::Stdio { .. }) && matches!(entry.share, Share::Auto | Share::User)
    };
    let found: Vec<String> =
        entries(loaded).filter(own_processes).map(|entry| entry.name.to_string()).collect();
    (!found.is_empty()).then(|| ConfigNotice {
        text: format!("each active user has an own process of {}, often 50 to 100 MB each", names(&found),),
        change:
            "`share = \"all\"` of a server lets all users share one process, if it keeps no state of a user"
                .into(),
    })
}

fn entries(loaded: &LoadedConfig) -> impl Iterator<Item = &ServerEntry> {
    loaded.servers.iter().filter_map(|server| match &server.state {
        ServerConfigState::Ready(entry) => Some(&**entry),
        _ => None,
    })
}

fn names(all: &[String]) -> String {
    let shown: Vec<String> =
        all.iter().take(MAX_NAMES).map(|name| format!("`{}`", render::line(name))).collect();
    match all.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_named_whose_calls_will_be_held() {
        let overlay = |fields: serde_json::Value| ToolTerms::read_override(&fields);
        let tools = [
            ("high", overlay(serde_json::json!({ "safety_level": "high" }))),
            ("low", overlay(serde_json::json!({ "safety_level": "low" }))),
            ("four_eyes", overlay(serde_json::json!({ "approval": "approver" }))),
            ("exempt", overlay(serde_json::json!({ "approval": "none" }))),
            ("written", overlay(serde_json::json!({ "requires_consent": true }))),
        ]
        .map(|(name, overlay)| (name.to_owned(), overlay));
        let mut settings = Settings::default();
        let found =
            |settings: &Settings| asking_tools(settings, tools.iter().map(|(name, overlay)| (name, overlay)));
        let always = vec!["high".to_owned(), "four_eyes".to_owned()];
        assert_eq!(found(&settings), (always.clone(), Vec::new()), "`local` mode");
        settings.auth.mode = AuthMode::Token;
        assert_eq!(found(&settings), (always, vec!["written".to_owned()]));
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let all: Vec<String> = (0..10).map(|number| format!("t{number}")).collect();
        assert!(names(&all).ends_with("`t7` and 2 more"));
    }
}
