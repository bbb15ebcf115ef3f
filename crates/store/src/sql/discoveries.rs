//! Statements on discoveries.

pub(crate) const SAVE: &str = "\
    INSERT INTO discoveries (server, entry_hash, era, saved_at_ms, payload) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (server) DO UPDATE SET entry_hash = excluded.entry_hash, era = excluded.era, \
    saved_at_ms = excluded.saved_at_ms, payload = excluded.payload";

pub(crate) const SAVE_PIECE: &str =
    "INSERT INTO discovery_pieces (server, number, payload) VALUES ($1, $2, $3)";

pub(crate) const ALL: &str = "\
    SELECT server, entry_hash, era, saved_at_ms, payload, \
    (SELECT SUM(length(payload)) FROM discovery_pieces WHERE server = discoveries.server) AS rest \
    FROM discoveries ORDER BY server";

pub(crate) const PIECES: &str = "SELECT payload FROM discovery_pieces WHERE server = $1 ORDER BY number";

pub(crate) const FORGET: &str = "DELETE FROM discoveries WHERE server = $1";

pub(crate) const FORGET_PIECES: &str = "DELETE FROM discovery_pieces WHERE server = $1";
