//! Stage 6, seal: adds what only the gateway supplies.

use super::options::CallIds;
use crate::files::FileGrant;
use toolbooth_core::call::inject::{FileInjector, FileUrlSource, IdentityInjector, McpDataInjector, NoFiles};
use toolbooth_core::call::{CallFault, Injector, Judged, SealContext, Sealed, seal};
use toolbooth_core::catalog::Catalog;
use toolbooth_core::json::RawJson;

/// The `_meta` key of the idempotency key, which is the same for all attempts of one call.
const IDEMPOTENCY_KEY: &str = "toolbooth/idempotency-key";

/// Seals calls.
pub(super) struct CallSealer {
    injectors: Vec<Box<dyn Injector>>,
}

impl CallSealer {
    /// A sealer with all injectors, in the order in which they run.
    pub(super) fn new(mcp_data_bytes: usize) -> Self {
        Self {
            injectors: vec![
                Box::new(IdentityInjector),
                Box::new(McpDataInjector::with_budget(mcp_data_bytes)),
                Box::new(FileInjector),
            ],
        }
    }

    /// Seals a call, with the catalog that it was resolved in.
    pub(super) fn seal(
        &self,
        judged: Judged,
        catalog: &Catalog,
        ids: CallIds,
        grant: Option<&FileGrant>,
    ) -> Result<Sealed, CallFault> {
        let call_id = || ids.call.to_string();
        let files: &dyn FileUrlSource = grant.map_or(&NoFiles, |grant| grant);
        let context = SealContext { catalog, call_id: &call_id, files };
        let mut sealed = seal(judged, &self.injectors, &context)?;
        if sealed.tool().terms.idempotency_key {
            sealed.add_meta(IDEMPOTENCY_KEY, RawJson::from_value(&ids.key.to_string()));
        }
        Ok(sealed)
    }
}
