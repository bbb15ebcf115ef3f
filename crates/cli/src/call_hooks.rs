//! Builds the hooks of calls from the settings.

use std::time::Duration;
use toolbooth_config::settings::{CallHookSettings, HookErrorSetting, HookSettings};
use toolbooth_core::catalog::ToolPatterns;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::hooks::{CallHook, CallHooks, HookProgram, OnHookError};
use toolbooth_upstream::http::PostTarget;

/// The longest time that a hook may take, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 60_000;
/// The variables that a hook's program gets; secrets of the gateway's environment are not among them.
const ENVIRONMENT: [&str; 9] =
    ["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "SYSTEMROOT"];

/// The hooks of the settings.
pub fn of(settings: &HookSettings) -> Result<CallHooks, Problem> {
    let all = |hooks: &[CallHookSettings], list: &str| {
        hooks.iter().enumerate().map(|(index, hook)| read(hook, list, index)).collect::<Result<Vec<_>, _>>()
    };
    Ok(CallHooks {
        pre_call: all(&settings.pre_call, "pre_call")?,
        post_call: all(&settings.post_call, "post_call")?,
    })
}

fn read(hook: &CallHookSettings, list: &str, index: usize) -> Result<CallHook, Problem> {
    let place = format!("hooks.{list}[{index}]");
    let name = match hook.name.trim() {
        "" => place.clone(),
        name => name.to_owned(),
    };
    let bad = |what: &str| Problem {
        code: "config.bad-hook",
        blame: Blame::Gateway,
        message: format!("`{place}` (`{name}`) {what}"),
        hint: Some("give `command` (a list) or `url`, and `timeout_ms` from 1 to 60000".into()),
    };
    let program = match (hook.command.is_empty(), &hook.url) {
        (false, None) => HookProgram::Command {
            command: hook.command.clone(),
            environment: ENVIRONMENT
                .iter()
                .filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)))
                .collect(),
        },
        (true, Some(url)) => HookProgram::Url(
            PostTarget::new(url.expose()).map_err(|_| bad("has a `url` that is not http or https"))?,
        ),
        (false, Some(_)) => return Err(bad("has both `command` and `url`")),
        (true, None) => return Err(bad("has neither `command` nor `url`")),
    };
    if hook.timeout_ms == 0 || hook.timeout_ms > MAX_TIMEOUT_MS {
        return Err(bad("has a `timeout_ms` out of range"));
    }
    let tools = ToolPatterns::new(&hook.tools).map_err(|error| bad(&format!("has a bad glob: {error}")))?;
    let on_error = match hook.on_error {
        HookErrorSetting::Deny => OnHookError::Deny,
        HookErrorSetting::Allow => OnHookError::Allow,
    };
    Ok(CallHook { name, tools, program, timeout: Duration::from_millis(hook.timeout_ms), on_error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_has_a_program_or_a_url() {
        let hook = |command: &[&str], url: Option<&str>, timeout_ms: u64| CallHookSettings {
            name: "h".into(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            url: url.map(toolbooth_core::secret::SecretText::plain),
            timeout_ms,
            ..CallHookSettings::default()
        };
        let cases = [
            (hook(&["true"], None, 5), true),
            (hook(&[], Some("http://127.0.0.1:1/x"), 5), true),
            (hook(&[], Some("ftp://x"), 5), false),
            (hook(&["true"], Some("http://127.0.0.1:1/x"), 5), false),
            (hook(&[], None, 5), false),
            (hook(&["true"], None, 0), false),
            (hook(&["true"], None, 60_001), false),
        ];
        for (hook, expected) in cases {
            let settings = HookSettings { pre_call: vec![hook], ..HookSettings::default() };
            let read = of(&settings);
            assert_eq!(read.is_ok(), expected, "{settings:?}");
            assert!(expected || read.is_err_and(|problem| problem.code == "config.bad-hook"));
        }
    }
}
