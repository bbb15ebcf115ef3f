//! Settings of hooks: programs and services of the operator that are asked before and after calls.

use crate::fields::{one_or_many, text_option};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbooth_core::secret::SecretText;

/// Hooks: programs or HTTP endpoints that are asked before and after calls. The lists of all layers are combined.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Hooks")]
pub struct HookSettings {
    /// Hooks that may refuse a call or change its arguments, in this order.
    pub pre_call: Vec<CallHookSettings>,
    /// Hooks that may add a note to a result or withhold it, in this order.
    pub post_call: Vec<CallHookSettings>,
}

/// A hook: it reads one JSON object and answers with one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "CallHook")]
pub struct CallHookSettings {
    /// A name for messages.
    pub name: String,
    /// Globs of the tools whose calls it sees; empty means all.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub tools: Vec<String>,
    /// The program and its arguments. A relative path starts at the folder in which the gateway runs.
    pub command: Vec<String>,
    /// The URL to post to, instead of a program.
    #[serde(with = "text_option")]
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretText>,
    /// How long it may take, in milliseconds.
    #[schemars(range(min = 1, max = 60000))]
    pub timeout_ms: u64,
    /// What happens if it fails or does not answer in time.
    pub on_error: HookErrorSetting,
}

impl Default for CallHookSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            tools: Vec::new(),
            command: Vec::new(),
            url: None,
            timeout_ms: 5_000,
            on_error: HookErrorSetting::Deny,
        }
    }
}

/// What happens if a hook fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HookError")]
pub enum HookErrorSetting {
    /// The call is refused, or its result is withheld.
    Deny,
    /// The call goes on as if the hook did not exist.
    Allow,
}
