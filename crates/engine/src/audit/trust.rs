//! Audit rows about trust in project files. The trust file is also written by commands, so the gateway compares it
//! with the last row whenever it reads its configuration.

use super::Act;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use toolbooth_core::audit::AuditKind;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::Problem;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_store::{AuditFilter, Store};

/// The longest list of entries in a row, in bytes; only the digest of a longer one is stored.
const MAX_LISTED: usize = 6 << 10;

/// Writes the trusted entries to the audit, if they differ from the last row.
pub async fn audit_trust(
    clock: &Clock,
    store: &dyn Store,
    by: &str,
    entries: &BTreeMap<String, String>,
) -> Result<(), Problem> {
    let newest = AuditFilter {
        kind: Some(AuditKind::Trust.as_str().into()),
        limit: Some(1),
        ..AuditFilter::default()
    };
    store.flush().await.map_err(|error| Problem::of(&error))?;
    let last = store.audit_rows(newest).await.map_err(|error| Problem::of(&error))?.pop();
    let last = last.and_then(|row| row.entry.detail);
    let book = digest(entries);
    let known = last.as_ref().and_then(|detail| detail.member("book"));
    let is_known = match known.as_ref().and_then(RawJson::string) {
        Some(known) => known == book,
        // The first row is written when there is an entry.
        None => entries.is_empty(),
    };
    if is_known {
        return Ok(());
    }
    let before: BTreeMap<String, String> = last
        .and_then(|detail| detail.member("entries"))
        .and_then(|text| text.read().ok())
        .unwrap_or_default();
    let trusted: Vec<&String> = entries
        .iter()
        .filter(|(name, digest)| before.get(*name) != Some(digest))
        .map(|(name, _)| name)
        .collect();
    let forgotten: Vec<&String> = before.keys().filter(|name| !entries.contains_key(*name)).collect();
    let outcome = if trusted.is_empty() { "forgotten" } else { "trusted" };
    let mut detail = ObjectWriter::default();
    detail.text("book", &book);
    for (name, list) in
        [("trusted", RawJson::from_value(&trusted)), ("forgotten", RawJson::from_value(&forgotten))]
    {
        if list.as_str() != "[]" && list.as_str().len() <= MAX_LISTED / 2 {
            detail.raw(name, &list);
        }
    }
    let listed = RawJson::from_value(entries);
    if listed.as_str().len() <= MAX_LISTED {
        detail.raw("entries", &listed);
    }
    let act = Act { detail: Some(detail.finish()), ..Act::new(AuditKind::Trust, by, outcome) };
    store.audit_now(vec![act.entry(clock.wall_ms())]).await.map_err(|error| Problem::of(&error))
}

fn digest(entries: &BTreeMap<String, String>) -> String {
    let text = RawJson::from_value(entries);
    toolbooth_core::hex::encode(&Sha256::digest(text.as_bytes())[..16])
}
