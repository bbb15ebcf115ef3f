//! What a configuration means in operation: which calls will be held, and which servers have a process for each user.
//! `toolbooth doctor` and the greeting of `toolbooth serve` show it.

use crate::render;
use toolbooth_config::settings::{AskDefault, AuthMode, ConsentSetting};
use toolbooth_config::{LoadedConfig, ServerConfigState, Settings};
use toolbooth_core::manifest::{ApprovalBy, ConsentTerm};
use toolbooth_core::server::{ServerEntry, Share, Transport};

/// The maximum number of names in a sentence.
const MAX_NAMES: usize = 8;

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
        AskDefault::Writes => add(
            "every call that changes something waits for approval".into(),
            "`approval.default: never` turns this off",
        ),
        AskDefault::Always => {
            add("every call waits for approval".into(), "`approval.default: never` turns this off");
        }
    }
    if settings.policy.consent == ConsentSetting::Gateway {
        add(
            "the first call of each tool that does not only read waits for consent".into(),
            "`policy.consent: client` leaves this question to the clients",
        );
    }
    for entry in entries(loaded) {
        let name = &entry.name;
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
            add(text, "`requires_consent: false` of the server turns this off");
        }
    }
    notices
}

/// Whether `requires_consent` in the entry of a server is asked by the gateway.
fn asks_consent(settings: &Settings, entry: &ServerEntry) -> bool {
    settings.auth.mode != AuthMode::Local
        && settings.policy.consent == ConsentSetting::Client
        && entry.defaults.requires_consent == ConsentTerm::Written
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
        change: "`share: all` of a server lets all users share one process, if it keeps no state of a user"
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

/// The variables of this process that a failed server's last output names: servers start in a clean environment.
pub fn missing_variables(output: &str, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let is_variable = |word: &&str| {
        word.len() >= 3
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && word.contains('_')
    };
    let words = output.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut found: Vec<String> =
        words.filter(is_variable).filter(|word| is_set(word)).map(str::to_owned).collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(MAX_NAMES);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_are_set_here_are_suggested() {
        let set = |name: &str| ["NEEDED_TOKEN", "HOME", "API_KEY"].contains(&name);
        let cases: [(&str, &[&str]); 4] = [
            ("NEEDED_TOKEN is not set", &["NEEDED_TOKEN"]),
            ("KeyError: 'API_KEY' (and NEEDED_TOKEN, API_KEY)", &["API_KEY", "NEEDED_TOKEN"]),
            ("OTHER_TOKEN is not set", &[]),
            ("HOME, sweet home", &[]),
        ];
        for (output, expected) in cases {
            assert_eq!(missing_variables(output, set), expected, "{output}");
        }
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let all: Vec<String> = (0..10).map(|number| format!("t{number}")).collect();
        assert!(names(&all).ends_with("`t7` and 2 more"));
    }
}
