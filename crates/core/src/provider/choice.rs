//! Which providers a call may use: healthy ones by ascending priority, and a reason for each that is skipped.

use crate::caller::{Admin, Caller};
use crate::fault::{Blame, Fault};
use crate::manifest::ProviderSpec;
use serde::Serialize;
use std::fmt;

/// Why a provider is skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Skip {
    /// Its circuit breaker is open.
    Open {
        /// Milliseconds until it is tried again.
        retry_in_ms: u64,
    },
    /// Another call is testing whether it recovered.
    OnTrial,
    /// Required credentials are not set.
    NoCredentials {
        /// The variables; empty if the caller may not know them.
        missing: Vec<String>,
    },
    /// Its last health check failed.
    Unhealthy {
        /// The reason.
        why: String,
    },
    /// The server or tool that it names does not exist.
    Missing {
        /// What is missing.
        what: String,
    },
    /// The mapped call is refused.
    Refused {
        /// The reason.
        why: String,
    },
    /// The caller may not use what serves it. No further details are given.
    Hidden,
    /// It was tried during this call, and failed.
    Failed {
        /// The code of the fault.
        code: String,
    },
}

impl Skip {
    /// The reason as a caller may see it. Only administrators see which variables are not set.
    pub fn visible_to(self, caller: &Caller) -> Self {
        match self {
            Self::NoCredentials { .. } if caller.admin == Admin::No => {
                Self::NoCredentials { missing: Vec::new() }
            }
            skip => skip,
        }
    }

    /// When it may be available again, if known.
    pub fn retry_in_ms(&self) -> Option<u64> {
        match self {
            Self::Open { retry_in_ms } => Some(*retry_in_ms),
            _ => None,
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { retry_in_ms } => {
                write!(f, "failed too often; next try in {:.1} s", *retry_in_ms as f64 / 1000.0)
            }
            Self::OnTrial => f.write_str("another call is testing whether it has recovered"),
            Self::NoCredentials { missing } if missing.is_empty() => {
                f.write_str("its credentials are not set")
            }
            Self::NoCredentials { missing } => write!(f, "not set: {}", missing.join(", ")),
            Self::Unhealthy { why } => write!(f, "its health check failed: {why}"),
            Self::Missing { what } => write!(f, "{what}"),
            Self::Refused { why } => write!(f, "{why}"),
            Self::Hidden => f.write_str("not for this caller"),
            Self::Failed { code } => write!(f, "failed ({code})"),
        }
    }
}

/// The providers in the order to try them: lower priority first, equal ones as written.
pub fn by_priority(specs: &[ProviderSpec]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..specs.len()).collect();
    order.sort_by_key(|index| specs[*index].priority);
    order
}

/// No provider of a tool can be tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{tool}` has no healthy provider{}", listed(skipped))]
pub struct NoProvider {
    /// The tool.
    pub tool: String,
    /// Each provider and why it is skipped.
    pub skipped: Vec<(String, Skip)>,
}

/// The reasons, without providers that the caller may not see.
fn listed(skipped: &[(String, Skip)]) -> String {
    let reasons: Vec<String> = skipped
        .iter()
        .filter(|(_, skip)| *skip != Skip::Hidden)
        .map(|(id, skip)| format!("`{id}`: {skip}"))
        .collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

impl Fault for NoProvider {
    fn code(&self) -> &'static str {
        "call.no-healthy-provider"
    }

    fn blame(&self) -> Blame {
        Blame::Upstream
    }

    fn hint(&self) -> Option<String> {
        let soonest = self.skipped.iter().filter_map(|(_, skip)| skip.retry_in_ms()).min();
        let lacking = self.skipped.iter().any(|(_, skip)| matches!(skip, Skip::NoCredentials { .. }));
        match (soonest, lacking) {
            (Some(wait), _) => Some(format!("call again in {} s", wait.div_ceil(1000).max(1))),
            (None, true) => {
                Some("set the variables; the file of `env_file` is reloaded automatically".into())
            }
            (None, false) => Some("`toolbooth tools show NAME` shows the state of its providers".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Problem;
    use crate::manifest::ProviderKind;
    use std::time::Duration;

    fn spec(id: &str, priority: i64) -> ProviderSpec {
        ProviderSpec {
            id: id.into(),
            kind: ProviderKind::Builtin("demo.echo".into()),
            priority,
            health_check_interval: Duration::ZERO,
            auth: None,
            arguments: None,
            result: None,
        }
    }

    #[test]
    fn lower_priority_goes_first_and_equal_ones_keep_their_order() {
        let specs = [spec("a", 10), spec("b", 0), spec("c", 10), spec("d", -5)];
        let order: Vec<&str> = by_priority(&specs).into_iter().map(|index| &*specs[index].id).collect();
        assert_eq!(order, ["d", "b", "a", "c"]);
    }

    #[test]
    fn the_fault_names_each_reason_and_the_next_try_but_nothing_hidden() {
        let fault = NoProvider {
            tool: "search".into(),
            skipped: vec![
                ("mcp:one".into(), Skip::Open { retry_in_ms: 3200 }),
                ("http:1".into(), Skip::NoCredentials { missing: vec!["KEY".into()] }),
                ("mcp:secret".into(), Skip::Hidden),
            ],
        };
        let problem = Problem::of(&fault);
        assert_eq!(
            problem.message,
            "`search` has no healthy provider (`mcp:one`: failed too often; next try in 3.2 s; `http:1`: not set: KEY)"
        );
        assert_eq!(problem.hint.as_deref(), Some("call again in 4 s"));
        assert_eq!(problem.code, "call.no-healthy-provider");
    }
}
