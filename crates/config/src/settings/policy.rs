//! Settings of what callers may do: `policy`, `approval`, `compliance`.

use crate::fields::{one_or_many, seconds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Settings of the policy: rules that allow, plan, ask about, deny or hide calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Policy")]
pub struct PolicySettings {
    /// Who asks for consent to the first use of a tool.
    pub consent: ConsentSetting,
    /// Plan mode.
    pub plan: PlanSettings,
    /// What happens when a tool is called whose definition has changed.
    pub on_change: OnChangeSetting,
    /// The rules of this file; the first match wins. After loading, `layers` holds the rules of every layer.
    pub rules: Vec<RuleSettings>,
    /// The rules of each layer, lowest layer first; across layers the strictest rule wins.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    pub layers: Vec<RuleLayer>,
}

/// The rules of one layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleLayer {
    /// The layer.
    pub layer: crate::layer::Layer,
    /// The rules; the first match wins.
    pub rules: Vec<RuleSettings>,
}

/// Who asks for consent to the first use of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Consent")]
pub enum ConsentSetting {
    /// The client, before its calls. Outside `local` mode the gateway asks about tools for which a file sets
    /// `requires_consent: true`.
    #[default]
    Client,
    /// The gateway, about every tool that requires consent, also by default, unless it is known to only read.
    Gateway,
}

/// Settings of plan mode, which runs reads and adds all other calls to a plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Plan")]
pub struct PlanSettings {
    /// How plan mode recognises a read. Default: depends on `auth.mode`.
    pub reads: Option<PlanReadsSetting>,
}

/// How plan mode recognises a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "PlanReads")]
pub enum PlanReadsSetting {
    /// By a word in the tool's name that means reading, or by `readOnlyHint` if the name says nothing.
    Names,
    /// By a manifest or a trusted annotation.
    Trusted,
}

/// What happens when a tool is called whose definition has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OnChange")]
pub enum OnChangeSetting {
    /// The call runs.
    Allow,
    /// The first call after the change is held for approval.
    #[default]
    Ask,
    /// Calls are refused until the new definition is released.
    Block,
}

/// A policy rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rule")]
pub struct RuleSettings {
    /// The callers that the rule applies to: `group:X`, `user:X`, `persona:X`, `client:X` or `*`.
    #[serde(default = "every_caller")]
    pub subject: SubjectSetting,
    /// The tools that the rule applies to.
    #[serde(default)]
    pub tools: ToolMatchSettings,
    /// Regular expressions that arguments must match, by JSON pointer. They match decoded values: strings without JSON
    /// escapes, and numbers as plain decimals (`9.999e3` is `9999`).
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
    /// The effect on a call that matches.
    pub effect: EffectSetting,
    /// With `effect: ask`: who must approve, the caller in person (the default) or an approver other than the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<RuleApproval>,
    /// The reason that a refused caller sees.
    #[serde(default)]
    pub reason: Option<String>,
}

fn every_caller() -> SubjectSetting {
    SubjectSetting::AllCallers
}

/// The callers that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectSetting {
    /// Every caller.
    AllCallers,
    /// Members of a group.
    Group(String),
    /// One user.
    User(String),
    /// Callers with a persona.
    Persona(String),
    /// Callers that use a client.
    Client(String),
}

impl fmt::Display for SubjectSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllCallers => f.write_str("*"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::User(name) => write!(f, "user:{name}"),
            Self::Persona(name) => write!(f, "persona:{name}"),
            Self::Client(name) => write!(f, "client:{name}"),
        }
    }
}

impl Serialize for SubjectSetting {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SubjectSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let subject = match text.split_once(':') {
            None if text == "*" => Self::AllCallers,
            Some(("group", name)) => Self::Group(name.into()),
            Some(("user", name)) => Self::User(name.into()),
            Some(("persona", name)) => Self::Persona(name.into()),
            Some(("client", name)) => Self::Client(name.into()),
            _ => {
                return Err(de::Error::custom(
                    "a subject is `*`, `group:NAME`, `user:NAME`, `persona:NAME` or `client:NAME`",
                ));
            }
        };
        Ok(subject)
    }
}

impl JsonSchema for SubjectSetting {
    fn schema_name() -> Cow<'static, str> {
        "Subject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^(\*|(group|user|persona|client):.+)$" })
    }
}

/// The tools that a rule applies to; a tool must meet all given conditions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ToolMatchSettings {
    /// Globs of tool names; empty means any.
    pub names: Vec<String>,
    /// Capability tags, one of which the tool must have; empty means any.
    pub capability: Vec<String>,
    /// Manifest labels or levels of side effects (`read`, `destructive`, ...); empty means any.
    pub side_effects: Vec<String>,
}

/// The labels and levels that `side_effects` of a rule accepts.
const SIDE_EFFECTS: [&str; 10] = [
    "none",
    "read",
    "read_external_service",
    "network",
    "filesystem",
    "write",
    "database",
    "compute",
    "destructive",
    "system",
];

impl<'de> Deserialize<'de> for ToolMatchSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ToolMatchVisitor;
        impl<'de> Visitor<'de> for ToolMatchVisitor {
            type Value = ToolMatchSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a glob, a list of globs, or a map with `names`, `capability`, `side_effects`")
            }

            fn visit_str<E: de::Error>(self, glob: &str) -> Result<ToolMatchSettings, E> {
                Ok(ToolMatchSettings { names: vec![glob.to_owned()], ..ToolMatchSettings::default() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut globs: A) -> Result<ToolMatchSettings, A::Error> {
                let mut names = Vec::new();
                while let Some(glob) = globs.next_element()? {
                    names.push(glob);
                }
                Ok(ToolMatchSettings { names, ..ToolMatchSettings::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToolMatchSettings, A::Error> {
                let mut tools = ToolMatchSettings::default();
                while let Some(key) = map.next_key::<String>()? {
                    let words = || -> Result<Vec<String>, A::Error> {
                        Ok(map.next_value::<crate::fields::OneOrMany<String>>()?.0)
                    };
                    let mut words = words;
                    match key.as_str() {
                        "names" | "globs" => tools.names = words()?,
                        "capability" | "capabilities" => tools.capability = words()?,
                        "side_effects" => tools.side_effects = known_effects(words()?)?,
                        other => {
                            return Err(de::Error::unknown_field(
                                other,
                                &["names", "capability", "side_effects"],
                            ));
                        }
                    }
                }
                Ok(tools)
            }
        }
        deserializer.deserialize_any(ToolMatchVisitor)
    }
}

fn known_effects<E: de::Error>(words: Vec<String>) -> Result<Vec<String>, E> {
    match words.iter().find(|word| !SIDE_EFFECTS.contains(&word.as_str())) {
        Some(word) => Err(E::unknown_variant(word, &SIDE_EFFECTS)),
        None => Ok(words),
    }
}

impl JsonSchema for ToolMatchSettings {
    fn schema_name() -> Cow<'static, str> {
        "ToolMatch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = |description: &str| {
            serde_json::json!({
                "description": description,
                "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
            })
        };
        json_schema!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
                {
                    "type": "object",
                    "properties": {
                        "names": words("Globs of tool names. Default: any."),
                        "globs": words("The same as `names`."),
                        "capability": words("Capability tags, one of which the tool must have. Default: any."),
                        "capabilities": words("The same as `capability`."),
                        "side_effects": words("Labels or levels of side effects. Default: any.")
                    },
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// The effect of a rule on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Effect")]
pub enum EffectSetting {
    /// Run the call.
    Allow,
    /// Add the call to a plan.
    Plan,
    /// Hold the call until it is approved.
    Ask,
    /// Refuse the call.
    Deny,
    /// Behave as if the tool did not exist.
    Hide,
}

/// Who must approve a call that a rule holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleApproval {
    /// The caller, each time and in person.
    Caller,
    /// An approver other than the caller.
    Approver,
}

/// Settings of the approval of held calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Approval")]
pub struct ApprovalSettings {
    /// Which calls need approval if no rule or manifest decides.
    pub default: AskDefault,
    /// How long a held call waits for a decision before it expires.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub expires_seconds: Duration,
    /// How long the caller's request waits for the decision before it returns the ID of the held call.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub wait_seconds: Duration,
    /// Groups whose members may decide for other users, in addition to administrators.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub approvers: Vec<String>,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            default: AskDefault::Never,
            expires_seconds: Duration::from_secs(300),
            wait_seconds: Duration::from_secs(50),
            approvers: Vec::new(),
        }
    }
}

/// Which calls need approval by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AskDefault {
    /// No call.
    Never,
    /// Calls that change something.
    Writes,
    /// Every call.
    Always,
}

impl<'de> Deserialize<'de> for AskDefault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AskVisitor;
        impl Visitor<'_> for AskVisitor {
            type Value = AskDefault;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`never`, `writes`, `always`, true or false")
            }

            fn visit_bool<E: de::Error>(self, ask: bool) -> Result<AskDefault, E> {
                Ok(if ask { AskDefault::Always } else { AskDefault::Never })
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<AskDefault, E> {
                match word {
                    "never" | "allow" | "run" | "false" => Ok(AskDefault::Never),
                    "writes" | "write" => Ok(AskDefault::Writes),
                    "always" | "ask" | "true" => Ok(AskDefault::Always),
                    other => Err(E::unknown_variant(other, &["never", "writes", "always"])),
                }
            }
        }
        deserializer.deserialize_any(AskVisitor)
    }
}

impl JsonSchema for AskDefault {
    fn schema_name() -> Cow<'static, str> {
        "AskDefault".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["never", "allow", "run", "writes", "write", "always", "ask", true, false] })
    }
}

/// Settings of compliance levels.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Compliance")]
pub struct ComplianceSettings {
    /// The known levels.
    pub levels: Vec<ComplianceLevel>,
}

/// A compliance level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComplianceLevel {
    /// The name of the level.
    pub name: String,
    /// The meaning of the level.
    #[serde(default)]
    pub description: Option<String>,
    /// Other names of the level.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Levels that a caller of this level may use.
    #[serde(default)]
    pub allowed_with: Vec<String>,
}
