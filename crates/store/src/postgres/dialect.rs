//! The types of PostgreSQL, and the SQL that differs from SQLite's.

pub(super) use super::PostgresStore as StoreBackend;
pub(super) use super::database::Database as DbSource;
pub(super) use super::partitions::{make_room, purges_rows};
pub(super) use sqlx::Postgres as Db;
pub(super) use sqlx::postgres::{PgArguments as DbArguments, PgConnection as DbConnection, PgRow as DbRow};

use super::rows::audit::{SIZES, bind_end};
use super::rows::change::SweepScope;
use crate::sql::audit::{ADD_AUDIT, AUDIT_WIDTH, SET_AUDIT_END, result_sizes};
use std::fmt::Write;
use std::sync::LazyLock;
use toolbooth_core::audit::ChainHead;

/// Several gateways use the database.
pub(super) const SHARED: bool = true;

/// Begins a transaction that reads one state of the database.
pub(super) const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The same, if the whole audit is read: no partition is dropped meanwhile.
pub(super) const AUDIT_SNAPSHOT: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE audit IN ACCESS SHARE MODE";

/// The condition on the user if the id of the call is given.
pub(super) const USER_OF_CALL: &str = " AND user_name = ";

/// The condition on text in the name of a tool; the text and `) > 0` follow. With this collation, `lower` changes ASCII
/// letters only, as in SQLite.
pub(super) const NAME_CONTAINS: &str =
    " AND strpos(lower((coalesce(server, '') || '_' || coalesce(tool, '')) COLLATE \"C\"), ";

/// The size of a call's result, from the detail of its row. The first match is the member itself: what comes before it has
/// no objects, and quotes in texts are escaped. It is not read as JSON, because PostgreSQL does not read all JSON.
const RESULT_SIZE: &str = "CAST(substring(detail FROM '\"result_bytes\":([0-9]{1,15})') AS BIGINT)";

/// The statement that adds up the sizes of results.
pub(super) static RESULT_SIZES: LazyLock<String> = LazyLock::new(|| result_sizes(RESULT_SIZE));

/// Appended to the statement that selects rows to claim: rows that another gateway is claiming are left out.
pub(super) const SKIP_LOCKED: &str = " FOR UPDATE SKIP LOCKED";

static ADD_ROWS: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| SIZES.map(add_rows));

fn add_rows(rows: usize) -> String {
    let mut statement = ADD_AUDIT.to_owned();
    for place in 0..rows * AUDIT_WIDTH {
        statement.push_str(match (place, place % AUDIT_WIDTH) {
            (0, _) => "(",
            (_, 0) => "), (",
            _ => ", ",
        });
        let _ = write!(statement, "${}", place + 1);
    }
    statement.push(')');
    statement
}

/// Makes the numbers of new rows continue after the copied ones.
pub(super) async fn after_copy(
    connection: &mut DbConnection,
    table: &'static str,
) -> Result<(), sqlx::Error> {
    let statement = format!(
        "SELECT setval(pg_get_serial_sequence('{table}', 'seq'), coalesce(max(seq), 0) + 1, false) FROM {table}"
    );
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}

/// The condition on interrupted work: the gateway that did it has no lease, or is this one, which is just starting.
pub(super) fn interrupted(scope: SweepScope) -> &'static str {
    match scope {
        SweepScope::Start => {
            " AND (owner IS NULL OR owner = current_setting('toolbooth.replica', true) OR NOT EXISTS \
            (SELECT 1 FROM replicas WHERE replicas.id = owner AND replicas.lease_until > now()))"
        }
        SweepScope::Lost => {
            " AND owner IS DISTINCT FROM current_setting('toolbooth.replica', true) AND NOT EXISTS \
            (SELECT 1 FROM replicas WHERE replicas.id = owner AND replicas.lease_until > now())"
        }
    }
}

/// Adds as many audit rows as `SIZES` has at this place, and stores the end of the chain.
pub(super) async fn add_audit(
    connection: &mut DbConnection,
    place: usize,
    values: DbArguments,
    head: &ChainHead,
) -> Result<(), sqlx::Error> {
    sqlx::query_with(ADD_ROWS[place].as_str(), values).execute(&mut *connection).await?;
    let mut end = DbArguments::default();
    bind_end(&mut end, "head", head).map_err(sqlx::Error::Encode)?;
    sqlx::query_with(SET_AUDIT_END, end).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_a_row_has_a_number() {
        let one = add_rows(1);
        assert!(one.contains("VALUES ($1, $2, ") && one.ends_with("$18)"), "{one}");
        let two = add_rows(2);
        assert!(two.contains("$18), ($19, ") && two.ends_with("$36)"), "{two}");
    }
}
