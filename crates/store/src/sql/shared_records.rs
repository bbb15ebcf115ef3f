//! Statements on shared records, leases and messages between gateways.

// A session that has ended stays ended, also if another gateway stores a change of it at the same time.
pub(crate) const SAVE_SHARED: &str = "\
    INSERT INTO shared_records (kind, name, user_name, body, changed_ms, expires_ms) VALUES ($1, $2, $3, $4, $5, $6) \
    ON CONFLICT (kind, name) DO UPDATE SET user_name = excluded.user_name, body = excluded.body, \
    changed_ms = excluded.changed_ms, expires_ms = excluded.expires_ms \
    WHERE NOT (shared_records.kind = 'session' AND shared_records.body = '')";

pub(crate) const SHARED_RECORD: &str = "\
    SELECT name, user_name, body, changed_ms, expires_ms FROM shared_records WHERE kind = $1 AND name = $2";

pub(crate) const CHANGED_RECORDS: &str = "\
    SELECT name, user_name, body, changed_ms, expires_ms FROM shared_records \
    WHERE kind = $1 AND changed_ms >= $2 AND changed_ms > 0 ORDER BY changed_ms DESC, name LIMIT $3";

pub(crate) const EXTEND_SHARED: &str =
    "UPDATE shared_records SET expires_ms = $3 WHERE kind = $1 AND name = $2 AND body <> ''";

pub(crate) const TAKE_LEASE: &str = "\
    INSERT INTO shared_records (kind, name, user_name, body, changed_ms, expires_ms) \
    VALUES ('lease', $1, $2, '', 0, $4) \
    ON CONFLICT (kind, name) DO UPDATE SET user_name = excluded.user_name, expires_ms = excluded.expires_ms \
    WHERE shared_records.expires_ms <= $3 OR shared_records.user_name = excluded.user_name";

pub(crate) const END_LEASE: &str =
    "DELETE FROM shared_records WHERE kind = 'lease' AND name = $1 AND user_name = $2";

pub(crate) const PURGE_SHARED: &str = "\
    DELETE FROM shared_records WHERE (kind, name) IN \
    (SELECT kind, name FROM shared_records WHERE expires_ms <= $1 LIMIT $2)";

// Only PostgreSQL has messages. A gateway without a lease has ended, and gets none.
pub(crate) const SEND_MAIL: &str = "\
    INSERT INTO gateway_mail (recipient, body, sent_ms) SELECT id, $2, $3 FROM replicas \
    WHERE lease_until > now() AND id LIKE '%' || $1 AND id <> current_setting('toolbooth.replica', true)";

pub(crate) const TAKE_MAIL: &str = "\
    DELETE FROM gateway_mail WHERE seq IN \
    (SELECT seq FROM gateway_mail WHERE recipient = $1 ORDER BY seq LIMIT 16) RETURNING seq, body";

pub(crate) const PURGE_MAIL: &str = "\
    DELETE FROM gateway_mail WHERE seq IN (SELECT seq FROM gateway_mail WHERE sent_ms < $1 LIMIT $2)";

pub(crate) const LIVE_REPLICAS: &str =
    "SELECT id FROM replicas WHERE lease_until > now() ORDER BY id LIMIT 1000";
