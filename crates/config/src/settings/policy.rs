//! Settings about what may be done: `policy`, `approval`, `compliance`.

use crate::fields::{one_or_many, seconds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What may be done, and what is asked first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Whose prompt counts as consent; from the auth mode when absent.
    pub consent: Option<Consent>,
    /// What plan mode lets pass.
    pub plan: Plan,
    /// What happens at the first call of a tool whose definition changed.
    pub on_change: OnChange,
    /// Rules of one file, the first match wins. After loading, `layers` holds those of every layer.
    pub rules: Vec<Rule>,
    /// The rules of each layer, lowest first; across layers the strictest wins.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    pub layers: Vec<RuleLayer>,
}

/// The rules of one layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleLayer {
    /// Which layer.
    pub layer: crate::layer::Layer,
    /// Its rules, the first match wins.
    pub rules: Vec<Rule>,
}

/// Whose prompt counts as consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// The calling client's own.
    Client,
    /// The gateway's.
    Gateway,
}

/// What plan mode lets pass.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// How a read is recognised; from the auth mode when absent.
    pub reads: Option<PlanReads>,
}

/// How plan mode recognises a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanReads {
    /// A reading verb in the name is enough.
    Names,
    /// A manifest or a trusted annotation must say so.
    Trusted,
}

/// What happens when a tool's definition changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnChange {
    /// Nothing.
    Allow,
    /// The next call is held once.
    #[default]
    Ask,
    /// Calls are refused until somebody releases it.
    Block,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Whom it is about: `group:X`, `user:X`, `persona:X`, `client:X` or `*`.
    #[serde(default = "everybody")]
    pub subject: Subject,
    /// Which tools it is about.
    #[serde(default)]
    pub tools: ToolMatch,
    /// Regular expressions that arguments must match, by JSON pointer. They see values, not spellings: strings are
    /// decoded, and numbers are plain decimals (`9.999e3` is `9999`).
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
    /// What it does.
    pub effect: Effect,
    /// With `effect: ask`: who must agree, the caller in person (the default) or an approver other than the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<RuleApproval>,
    /// Why, for the one who is refused.
    #[serde(default)]
    pub reason: Option<String>,
}

fn everybody() -> Subject {
    Subject::Everybody
}

/// Whom a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Every caller.
    Everybody,
    /// Members of a group.
    Group(String),
    /// One user.
    User(String),
    /// Callers in a persona.
    Persona(String),
    /// Calls through a client.
    Client(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("*"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::User(name) => write!(f, "user:{name}"),
            Self::Persona(name) => write!(f, "persona:{name}"),
            Self::Client(name) => write!(f, "client:{name}"),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let subject = match text.split_once(':') {
            None if text == "*" => Self::Everybody,
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

impl JsonSchema for Subject {
    fn schema_name() -> Cow<'static, str> {
        "Subject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^(\*|(group|user|persona|client):.+)$" })
    }
}

/// Which tools a rule is about: all conditions that are given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ToolMatch {
    /// Globs on names; empty means any.
    pub names: Vec<String>,
    /// Capability tags, one of which the tool must carry; empty means any.
    pub capability: Vec<String>,
    /// Manifest labels or steps of the ladder (`read`, `destructive`, ...); empty means any.
    pub side_effects: Vec<String>,
}

/// Labels and steps that `side_effects` of a rule may name.
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

impl<'de> Deserialize<'de> for ToolMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ToolMatchVisitor;
        impl<'de> Visitor<'de> for ToolMatchVisitor {
            type Value = ToolMatch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a glob, a list of globs, or a map with `names`, `capability`, `side_effects`")
            }

            fn visit_str<E: de::Error>(self, glob: &str) -> Result<ToolMatch, E> {
                Ok(ToolMatch { names: vec![glob.to_owned()], ..ToolMatch::default() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut globs: A) -> Result<ToolMatch, A::Error> {
                let mut names = Vec::new();
                while let Some(glob) = globs.next_element()? {
                    names.push(glob);
                }
                Ok(ToolMatch { names, ..ToolMatch::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToolMatch, A::Error> {
                let mut tools = ToolMatch::default();
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

impl JsonSchema for ToolMatch {
    fn schema_name() -> Cow<'static, str> {
        "ToolMatch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = serde_json::json!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        });
        json_schema!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
                {
                    "type": "object",
                    "properties": {
                        "names": words, "globs": words, "capability": words, "capabilities": words,
                        "side_effects": words
                    },
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Let it run.
    Allow,
    /// Put it on the plan.
    Plan,
    /// Ask first.
    Ask,
    /// Refuse it.
    Deny,
    /// Behave as if the tool did not exist.
    Hide,
}

/// Who must agree to what a rule asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleApproval {
    /// The caller, each time and in person.
    Caller,
    /// An approver other than the caller.
    Approver,
}

/// How held calls are asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approval {
    /// Which calls are asked about when nothing else says.
    pub default: AskDefault,
    /// How long a question stands.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub expires_seconds: Duration,
    /// How long a call waits for its answer before it returns with the held call's id.
    #[serde(with = "seconds")]
    #[schemars(with = "crate::fields::Time")]
    pub wait_seconds: Duration,
    /// Groups whose members may answer for others, besides admins.
    #[serde(with = "one_or_many")]
    #[schemars(with = "crate::fields::TextOrTexts")]
    pub approvers: Vec<String>,
}

impl Default for Approval {
    fn default() -> Self {
        Self {
            default: AskDefault::Never,
            expires_seconds: Duration::from_secs(300),
            wait_seconds: Duration::from_secs(50),
            approvers: Vec::new(),
        }
    }
}

/// Which calls are asked about when nothing else says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AskDefault {
    /// None.
    Never,
    /// Those that change something.
    Writes,
    /// All.
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

/// Which levels of data may meet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compliance {
    /// The levels.
    pub levels: Vec<ComplianceLevel>,
}

/// One level of data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComplianceLevel {
    /// Its name.
    pub name: String,
    /// What it stands for.
    #[serde(default)]
    pub description: Option<String>,
    /// Other spellings of its name.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Levels that somebody of this level may use.
    #[serde(default)]
    pub allowed_with: Vec<String>,
}
