//! Quarantined tools: listing and releasing them.

use super::{CatalogUpdate, LiveCatalog};
use std::collections::BTreeSet;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::Quarantined;
use toolbooth_core::consent::Release;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::hex::encode as hex;
use toolbooth_core::json::ObjectWriter;
use toolbooth_core::names::ServerName;
use toolbooth_store::StoreError;

impl LiveCatalog {
    /// All quarantined tools, by server and name; for administrators.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.load().servers().values().flat_map(|part| part.quarantined.iter().cloned()).collect()
    }

    /// The quarantined tool with this name.
    pub fn quarantined_as(&self, name: &str) -> Result<Quarantined, Problem> {
        let mut found: Vec<Quarantined> =
            self.quarantined().into_iter().filter(|apart| apart.has_name(name)).collect();
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
                hint: Some("`toolbooth doctor` shows the quarantined tools".into()),
            }),
        }
    }

    /// Adds to the error about an unknown tool that it is in quarantine, for administrators only. For other callers
    /// it does not exist.
    pub fn explain_quarantine(&self, name: &str, caller: &Caller, problem: Problem) -> Problem {
        let unknown = matches!(problem.code, "call.unknown-tool" | "tool.unknown");
        if !unknown || caller.admin == Admin::No {
            return problem;
        }
        let Ok(apart) = self.quarantined_as(name) else { return problem };
        let exposed = &apart.tool.exposed;
        let hint =
            format!("it is in quarantine ({}); `toolbooth tools release {exposed}` releases it", apart.why);
        Problem { hint: Some(hint), ..problem }
    }

    /// Reads the decisions again that another gateway has changed, and releases the tools that it has released.
    pub(crate) async fn reload_decisions(&self) -> Result<(), StoreError> {
        self.shared.decisions.reload(&*self.shared.store).await?;
        let released =
            self.quarantined().into_iter().filter(|apart| self.shared.decisions.is_released(&apart.tool));
        let servers: BTreeSet<ServerName> = released.map(|apart| apart.tool.server.name.clone()).collect();
        for server in servers {
            self.update(CatalogUpdate::Released(server)).await;
        }
        Ok(())
    }

    /// Releases a tool's current definition from quarantine permanently. The tool is in the catalog when this
    /// returns.
    pub async fn release(&self, name: &str, by: &Caller) -> Result<Quarantined, Problem> {
        let apart = self.quarantined_as(name)?;
        let release = Release {
            server: apart.tool.server.name.clone(),
            tool: apart.tool.name.to_string(),
            digest: *apart.tool.digest(),
            released_ms: self.shared.clock.now_ms(),
            by: by.user.to_string(),
        };
        self.shared.store.save_release(release.clone()).await.map_err(|error| Problem::of(&error))?;
        self.shared.decisions.release(&release);
        let mut detail = ObjectWriter::default();
        detail.text("digest", &hex(&release.digest)).text("reason", &apart.why.to_string());
        let entry = AuditEntry {
            server: Some(release.server.shared()),
            tool: Some(apart.tool.name.clone()),
            detail: Some(detail.finish()),
            ..AuditEntry::new(release.released_ms, "tool", &by.user, "released")
        };
        self.shared.store.audit_now(vec![entry]).await.map_err(|error| Problem::of(&error))?;
        self.update(CatalogUpdate::Released(release.server)).await;
        Ok(apart)
    }
}
