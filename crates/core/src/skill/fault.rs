//! Errors of skills and of step plans.

use crate::fault::{Blame, Fault};

/// An error in a step plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanFault {
    /// A JSON pointer to the place in the plan.
    pub pointer: String,
    /// The error.
    pub message: String,
}

impl Fault for PlanFault {
    fn code(&self) -> &'static str {
        "skill.bad-plan"
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        Some("a step is `{id, tool, arguments, after, when}`".to_owned())
    }
}

/// An error of a request for a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillFault {
    /// There is no such skill, or the caller may not see it.
    #[error("there is no skill `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It has instructions only.
    #[error("skill `{name}` has no plan, so it cannot be run")]
    NoPlan {
        /// The skill.
        name: String,
    },
    /// A tool that a step names is not there, or the caller may not use it.
    #[error("step `{step}`: there is no tool `{tool}`")]
    NoTool {
        /// The step.
        step: String,
        /// The tool, as written.
        tool: String,
    },
    /// A required tool is not there, or the caller may not use it.
    #[error("there is no tool `{tool}`, which the skill requires")]
    NoRequiredTool {
        /// The tool, as written.
        tool: String,
    },
    /// No tool of the caller has a required capability.
    #[error("no tool has the capability `{capability}`, which the skill requires")]
    NoCapability {
        /// The capability.
        capability: String,
    },
    /// Several tools have the name that a step uses.
    #[error("step `{step}`: several tools are called `{tool}`: {}", candidates.join(", "))]
    AmbiguousTool {
        /// The step.
        step: String,
        /// The tool, as written.
        tool: String,
        /// The names that are not ambiguous.
        candidates: Vec<String>,
    },
    /// A step would run a skill.
    #[error("step `{step}`: `{tool}` runs a skill; a step must call a tool")]
    NestedSkill {
        /// The step.
        step: String,
        /// The tool, as written.
        tool: String,
    },
    /// Nothing was run, because the plan has these errors.
    #[error("nothing was run: {}", faults.join("; "))]
    Refused {
        /// The errors.
        faults: Vec<String>,
    },
    /// An argument refers to a value that the result of another step does not have.
    #[error("step `{step}`: `{reference}` has no value")]
    NoValue {
        /// The step.
        step: String,
        /// The reference, as written.
        reference: String,
    },
    /// The arguments with all values are too large.
    #[error("the arguments of step `{step}` are too large")]
    LargeArguments {
        /// The step.
        step: String,
    },
    /// The steps took longer than the skill may.
    #[error("the steps took longer than {seconds} s")]
    TimedOut {
        /// The limit.
        seconds: u64,
    },
}

impl Fault for SkillFault {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "skill.unknown",
            Self::NoPlan { .. } => "skill.no-plan",
            Self::NoTool { .. } | Self::NoRequiredTool { .. } | Self::AmbiguousTool { .. } => "skill.no-tool",
            Self::NoCapability { .. } => "skill.no-capability",
            Self::NestedSkill { .. } => "skill.nested",
            Self::Refused { .. } => "skill.refused",
            Self::NoValue { .. } => "skill.no-value",
            Self::LargeArguments { .. } => "skill.large-arguments",
            Self::TimedOut { .. } => "skill.timeout",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Unknown { .. } | Self::NoPlan { .. } => Blame::Caller,
            Self::NoTool { .. }
            | Self::NoRequiredTool { .. }
            | Self::NoCapability { .. }
            | Self::AmbiguousTool { .. }
            | Self::NestedSkill { .. }
            | Self::Refused { .. } => Blame::Gateway,
            Self::NoValue { .. } | Self::LargeArguments { .. } | Self::TimedOut { .. } => Blame::Upstream,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { .. } => Some(
                "`toolbooth skills list` shows the skills, and `toolbooth config check` the errors of those that are left out"
                    .to_owned(),
            ),
            Self::NoPlan { .. } => {
                Some("read its instructions with `toolbooth skills show`, and follow them".to_owned())
            }
            Self::NoTool { .. } | Self::NoRequiredTool { .. } => Some(
                "connect the server that has it, or correct the name; `toolbooth tools list` shows the tools"
                    .to_owned(),
            ),
            Self::AmbiguousTool { .. } => Some("write one of these names in the plan".to_owned()),
            Self::NoCapability { .. } => Some("add a tool with this capability to a manifest".to_owned()),
            Self::NestedSkill { .. } => Some("copy the steps of the other skill into this plan".to_owned()),
            Self::Refused { .. } => Some("`toolbooth skills check NAME` shows every error".to_owned()),
            Self::NoValue { .. } => {
                Some("call the tool of that step alone to see what its result contains".to_owned())
            }
            Self::LargeArguments { .. } => Some("refer to a part of the earlier result".to_owned()),
            Self::TimedOut { .. } => Some("set `timeout` of the skill, in seconds".to_owned()),
        }
    }
}
