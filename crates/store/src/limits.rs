//! Limits of the store, the same for every backend.

use crate::StoreError;
use crate::records::{CallOutcome, DiscoveryRecord, Intent};
use std::time::Duration;
use toolbooth_core::clock::milliseconds;
use toolbooth_core::consent::{Consent, MAX_PINNED_BYTES, Pin, Release};
use toolbooth_core::file::{FileOrigin, FileRow};
use toolbooth_core::held::{Decision, HeldCall, HeldOutcome, HeldState, HeldVerdict};
use toolbooth_core::plan::{Plan, PlanState};
use toolbooth_core::token::TokenRecord;

/// The most bytes of one server's discovery.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;
/// The most calls that one read of the journal returns.
pub const MAX_RECENT_CALLS: u32 = 1_000;
/// The most open intents that one read returns.
pub const MAX_OPEN_INTENTS: u32 = 10_000;

/// The most tokens that are stored; expired and revoked ones count until they are purged.
pub const MAX_TOKENS: usize = 10_000;
/// The most held calls that may wait or run at once.
pub const MAX_OPEN_HELD: usize = 10_000;
/// The most held calls of one user that may wait or run at once.
pub const MAX_OPEN_HELD_OF_USER: usize = 1_000;
/// The most held calls in all; beyond it, the oldest ended calls are deleted.
pub const MAX_HELD: u32 = 20_000;
/// The number of newest held calls that keep their results.
pub const MAX_HELD_RESULTS: u32 = 1_000;
/// The most held calls in one page.
pub const MAX_HELD_PAGE: u32 = 1_000;
/// The most bytes of arguments in one page of held calls; a page always has room for one call.
pub const MAX_HELD_PAGE_BYTES: usize = 16 << 20;
/// The most bytes of a held call's arguments.
pub const MAX_HELD_ARGUMENTS_BYTES: usize = 1 << 20;
/// The most bytes of a result that is stored with a held call.
pub const MAX_HELD_RESULT_BYTES: usize = 1 << 20;
/// The most held calls that one `expire_held` expires.
pub const MAX_SWEEP: usize = 500;
/// The most open plans of one user.
pub const MAX_OPEN_PLANS: usize = 100;
/// The most steps of one plan.
pub const MAX_PLAN_STEPS: u32 = 1_000;
/// The most plans in one page.
pub const MAX_PLANS_PAGE: u32 = 1_000;
/// The most consents of one user.
pub const MAX_CONSENTS_OF_USER: usize = 1_000;
/// The most consents in one page.
pub const MAX_CONSENTS_PAGE: u32 = 10_000;
/// The most files of one user, including older versions.
pub const MAX_FILES_OF_USER: usize = 10_000;
/// The most files in one page.
pub const MAX_FILES_PAGE: u32 = 1_000;
/// The most audit rows in one page.
pub const MAX_AUDIT_PAGE: u32 = 1_000;
/// The most pins that are stored.
pub const MAX_PINS: usize = 100_000;
/// The most releases from quarantine that are stored.
pub const MAX_RELEASES: usize = 10_000;

const MAX_LONG_TEXT_BYTES: usize = 8_192;
const MAX_TEXT_BYTES: usize = 1_024;
const MAX_SECRET_BYTES: usize = 4_096;
const MAX_NONCE_BYTES: usize = 256;
const MAX_GROUPS: usize = 256;
const MAX_ID_BYTES: usize = 64;

/// How long the journal keeps closed calls. Open intents are never deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Calls that began longer ago are deleted.
    pub max_age: Duration,
    /// The most calls; beyond it, the oldest are deleted.
    pub max_rows: u32,
    /// How long the audit keeps rows.
    pub audit: AuditRetention,
}

/// How long the audit keeps rows. Rows are deleted from its beginning only, and the hash of the last
/// deleted row is kept, so that the rest can still be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditRetention {
    /// Rows older than this are deleted.
    pub max_age: Duration,
    /// The most bytes of entries; beyond it, the oldest are deleted. The store in memory keeps at most 64 MiB.
    pub max_bytes: u64,
}

impl Default for AuditRetention {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(365 * 24 * 3600), max_bytes: 2 << 30 }
    }
}

impl AuditRetention {
    /// Whether a row must be deleted because of its age or its distance from the end.
    pub(crate) fn is_over(&self, at_ms: i64, position: u64, head_position: u64, now_ms: i64) -> bool {
        at_ms < horizon_ms(self.max_age, now_ms) || position.saturating_add(self.max_bytes) <= head_position
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(90 * 24 * 3600),
            max_rows: 200_000,
            audit: AuditRetention::default(),
        }
    }
}

impl Retention {
    /// The time before which calls are deleted.
    pub(crate) fn horizon_ms(&self, now_ms: i64) -> i64 {
        horizon_ms(self.max_age, now_ms)
    }
}

fn horizon_ms(max_age: Duration, now_ms: i64) -> i64 {
    now_ms.saturating_sub(milliseconds(max_age))
}

pub(crate) fn check_discovery(record: &DiscoveryRecord) -> Result<(), StoreError> {
    text("entry_hash", &record.entry_hash)?;
    text("era", &record.era)?;
    size("payload", record.payload.len(), 0, MAX_PAYLOAD_BYTES)
}

pub(crate) fn check_intent(intent: &Intent) -> Result<(), StoreError> {
    text("user", &intent.user)?;
    text("tool", &intent.tool)?;
    text("side_effect", &intent.side_effect)
}

pub(crate) fn check_outcome(outcome: &CallOutcome) -> Result<(), StoreError> {
    text("error_code", outcome.error_code.as_deref().unwrap_or_default())?;
    // The databases only have signed numbers.
    match i64::try_from(outcome.duration_ms) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Unfit { field: "duration_ms", expected: "a number below 2^63".into() }),
    }
}

pub(crate) fn check_secret_name(name: &str) -> Result<(), StoreError> {
    size("secret name", name.len(), 1, MAX_TEXT_BYTES)?;
    text("secret name", name)
}

pub(crate) fn check_secret(value: &[u8]) -> Result<(), StoreError> {
    size("secret", value.len(), 1, MAX_SECRET_BYTES)
}

pub(crate) fn check_nonce(nonce: &[u8]) -> Result<(), StoreError> {
    size("nonce", nonce.len(), 1, MAX_NONCE_BYTES)
}

pub(crate) fn check_token(token: &TokenRecord) -> Result<(), StoreError> {
    size("token id", token.id.len(), 1, MAX_ID_BYTES)?;
    size("groups", token.groups.len(), 0, MAX_GROUPS)?;
    text("token id", &token.id)?;
    text("user", &token.user)?;
    optional("persona", token.persona.as_deref())?;
    optional("note", token.note.as_deref())?;
    token.groups.iter().try_for_each(|group| text("group", group))
}

pub(crate) fn check_held(call: &HeldCall) -> Result<(), StoreError> {
    text("user", &call.user)?;
    optional("persona", call.persona.as_deref())?;
    optional("session", call.session.as_deref())?;
    optional("level", call.level.as_deref())?;
    text("client", &call.client)?;
    optional("step", call.origin.as_ref().and_then(|origin| origin.step.as_deref()))?;
    text("tool", &call.tool)?;
    text("exposed", &call.exposed)?;
    long_text("question", &call.question)?;
    size("arguments", call.arguments.as_bytes().len(), 0, MAX_HELD_ARGUMENTS_BYTES)?;
    // Later steps set the other fields.
    if call.plan.is_some() {
        return Err(StoreError::Unfit {
            field: "plan",
            expected: "no plan, since `queue_step` sets it".into(),
        });
    }
    match (call.state, &call.decided_by, &call.edited, call.claimed_ms, &call.outcome) {
        (HeldState::Pending, None, None, None, None) => Ok(()),
        _ => Err(StoreError::Unfit { field: "state", expected: "a call without a decision".into() }),
    }
}

pub(crate) fn check_decision(decision: &Decision) -> Result<(), StoreError> {
    text("decided_by", &decision.by)?;
    long_text("note", decision.note.as_deref().unwrap_or_default())?;
    match &decision.verdict {
        HeldVerdict::Approve { arguments: Some(arguments), .. } => {
            size("arguments", arguments.as_bytes().len(), 0, MAX_HELD_ARGUMENTS_BYTES)
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_held_outcome(outcome: &HeldOutcome) -> Result<(), StoreError> {
    optional("error_code", outcome.code.as_deref())?;
    let result = outcome.result.as_ref().map_or(0, |result| result.as_bytes().len());
    size("result", result, 0, MAX_HELD_RESULT_BYTES)
}

pub(crate) fn check_plan(plan: &Plan) -> Result<(), StoreError> {
    text("user", &plan.user)?;
    optional("persona", plan.persona.as_deref())?;
    optional("session", plan.session.as_deref())?;
    match (plan.state, plan.closed_ms) {
        (PlanState::Open, None) => Ok(()),
        _ => Err(StoreError::Unfit { field: "state", expected: "an open plan".into() }),
    }
}

pub(crate) fn check_consent(consent: &Consent) -> Result<(), StoreError> {
    text("user", &consent.user)?;
    text("tool", &consent.tool)?;
    // The database compares an empty session and no session as equal.
    if let Some(session) = &consent.session {
        size("session", session.len(), 1, MAX_TEXT_BYTES)?;
    }
    optional("session", consent.session.as_deref())?;
    text("granted_by", &consent.granted_by)
}

pub(crate) fn check_pin(pin: &Pin) -> Result<(), StoreError> {
    text("tool", &pin.tool)?;
    text("by", &pin.by)?;
    let definition = pin.definition.as_deref().unwrap_or_default();
    no_nul("definition", definition)?;
    size("definition", definition.len(), 0, MAX_PINNED_BYTES)
}

pub(crate) fn check_release(release: &Release) -> Result<(), StoreError> {
    text("tool", &release.tool)?;
    text("by", &release.by)
}

pub(crate) fn check_file(file: &FileRow) -> Result<(), StoreError> {
    text("user", &file.user)?;
    if let Some(session) = &file.session {
        size("session", session.len(), 1, MAX_TEXT_BYTES)?;
    }
    optional("session", file.session.as_deref())?;
    text("name", file.name.as_str())?;
    text("mime", &file.mime)?;
    optional("viewer", file.viewer.as_deref())?;
    long_text("description", file.description.as_deref().unwrap_or_default())?;
    if i64::try_from(file.size_bytes).is_err() {
        return Err(StoreError::Unfit { field: "size", expected: "at most 2^63 bytes".into() });
    }
    match &file.origin {
        FileOrigin::Upload => Ok(()),
        FileOrigin::Artifact { tool, .. } => text("tool", tool),
    }
}

pub(crate) fn check_file_ids(count: usize) -> Result<(), StoreError> {
    size("files", count, 0, MAX_FILES_PAGE as usize)
}

pub(crate) fn long_text(field: &'static str, value: &str) -> Result<(), StoreError> {
    no_nul(field, value)?;
    size(field, value.len(), 0, MAX_LONG_TEXT_BYTES)
}

pub(crate) fn optional(field: &'static str, value: Option<&str>) -> Result<(), StoreError> {
    value.map_or(Ok(()), |value| text(field, value))
}

pub(crate) fn text(field: &'static str, text: &str) -> Result<(), StoreError> {
    no_nul(field, text)?;
    size(field, text.len(), 0, MAX_TEXT_BYTES)
}

pub(crate) fn no_nul(field: &'static str, text: &str) -> Result<(), StoreError> {
    // PostgreSQL does not allow NUL in text, and all backends have the same rules.
    if text.contains('\0') {
        return Err(StoreError::Unfit { field, expected: "text without NUL characters".into() });
    }
    Ok(())
}

pub(crate) fn size(field: &'static str, length: usize, least: usize, most: usize) -> Result<(), StoreError> {
    if (least..=most).contains(&length) {
        return Ok(());
    }
    Err(StoreError::Unfit { field, expected: format!("{least} to {most} bytes") })
}
