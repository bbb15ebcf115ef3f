//! Tools in quarantine: who they are, and letting one out.

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::keeper::Part;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::Quarantined;
use toolbooth_core::consent::Release;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::ObjectWriter;

impl Engine {
    /// All tools that are kept apart, by server and name. For those who look after the gateway.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.catalog().servers().values().flat_map(|part| part.quarantined.iter().cloned()).collect()
    }

    /// The one that goes by a name.
    pub fn quarantined_as(&self, name: &str) -> Result<Quarantined, Problem> {
        let mut found: Vec<Quarantined> =
            self.quarantined().into_iter().filter(|apart| apart.goes_by(name)).collect();
        let exposed = |found: &[Quarantined]| -> Vec<String> {
            found.iter().map(|apart| apart.tool.exposed.to_string()).collect()
        };
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(one), false) => {
                found.push(one);
                Err(Problem {
                    code: "call.ambiguous-name",
                    blame: Blame::Caller,
                    message: format!("`{name}` names several tools: {}", exposed(&found).join(", ")),
                    hint: Some("use one of the exposed names".into()),
                })
            }
            (None, _) => Err(Problem {
                code: "tool.not-quarantined",
                blame: Blame::Caller,
                message: format!("no tool `{name}` is in quarantine"),
                hint: Some("`toolbooth doctor` shows those that are".into()),
            }),
        }
    }

    /// Says of an unknown tool that it is in quarantine, to those who can do something about it. To others it does
    /// not exist.
    pub fn explain_quarantine(&self, name: &str, caller: &Caller, problem: Problem) -> Problem {
        let unknown = matches!(problem.code, "call.unknown-tool" | "tool.unknown");
        if !unknown || caller.admin == Admin::No {
            return problem;
        }
        let Ok(apart) = self.quarantined_as(name) else { return problem };
        let exposed = &apart.tool.exposed;
        let hint =
            format!("it is in quarantine ({}); `toolbooth tools release {exposed}` lets it out", apart.why);
        Problem { hint: Some(hint), ..problem }
    }

    /// Lets a tool out of quarantine as it is now, for good; it is in the catalog when this returns.
    pub async fn release(&self, name: &str, by: &Caller) -> Result<Quarantined, Problem> {
        let apart = self.quarantined_as(name)?;
        let release = Release {
            server: apart.tool.server.name.clone(),
            tool: apart.tool.name.to_string(),
            digest: *apart.tool.digest(),
            released_ms: now_ms(),
            by: by.user.to_string(),
        };
        self.store().save_release(release.clone()).await.map_err(|error| Problem::of(&error))?;
        self.memory().release(&release);
        let mut detail = ObjectWriter::default();
        detail.text("digest", &hex(&release.digest)).text("reason", &apart.why.to_string());
        let entry = AuditEntry {
            server: Some(release.server.shared()),
            tool: Some(apart.tool.name.clone()),
            detail: Some(detail.finish()),
            ..AuditEntry::new(release.released_ms, "tool", &by.user, "released")
        };
        self.store().audit_now(vec![entry]).await.map_err(|error| Problem::of(&error))?;
        self.offer(Part::Released(release.server)).await;
        Ok(apart)
    }
}

/// A digest as people compare it.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
