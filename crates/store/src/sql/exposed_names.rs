//! Statements on exposed names.

pub(crate) const NAME_COUNT: &str = "SELECT count(*) FROM exposed_names";

// The caller appends the names and a parenthesis.
pub(crate) const NAMES_LIKE: &str = "SELECT name, server FROM exposed_names WHERE name IN (";

// The caller appends the rows and `KEEP_FIRST`.
pub(crate) const ADD_NAMES: &str = "INSERT INTO exposed_names (name, server, claimed_ms) ";

pub(crate) const KEEP_FIRST: &str = " ON CONFLICT (name) DO NOTHING";

pub(crate) const RELEASE_NAMES: &str = "DELETE FROM exposed_names WHERE server = $1";
