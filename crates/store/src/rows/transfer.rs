//! Copies of tables: reads them from a snapshot, and adds their rows.

use super::change::{ChangeEffect, ChangeResult, StoreChange};
use super::dialect::{
    AUDIT_SNAPSHOT, Db, DbConnection, DbRow, DbSource, StoreBackend, after_copy, make_room,
};
use super::marks;
use crate::transfer::{
    ColumnKind, StoreTable, TABLES, TablePage, TablePaging, TransferError, TransferRow, TransferSource,
    TransferTarget, place_mark,
};
use crate::{StoreError, sql};
use async_trait::async_trait;
use serde_json::Value;
use sqlx::{Connection, Executor, QueryBuilder, Row};
use toolbooth_core::hex::{decode as unhex, encode as hex};

/// One state of a database, from which a copy is made.
pub(crate) struct Snapshot {
    source: DbSource,
    connection: DbConnection,
    keys: Vec<(String, Vec<u8>)>,
}

impl Snapshot {
    /// Begins a transaction, whose state is read until the snapshot is dropped.
    pub(in super::super) async fn begin(
        source: DbSource,
        mut connection: DbConnection,
        keys: Vec<(String, Vec<u8>)>,
    ) -> Result<Self, StoreError> {
        connection.execute(AUDIT_SNAPSHOT).await.map_err(|error| source.fault(&error))?;
        Ok(Self { source, connection, keys })
    }
}

#[async_trait]
impl TransferSource for Snapshot {
    fn keys(&self) -> Vec<(String, Vec<u8>)> {
        self.keys.clone()
    }

    async fn page(&mut self, table: &'static StoreTable, after: i64) -> Result<TablePage, TransferError> {
        let page = read_page(&mut self.connection, table, after).await;
        page.map_err(|error| TransferError::Store(self.source.fault(&error)))
    }

    async fn count(&mut self, table: &'static StoreTable) -> Result<u64, TransferError> {
        let count = count(&mut self.connection, table).await;
        count.map_err(|error| TransferError::Store(self.source.fault(&error)))
    }

    async fn close(self: Box<Self>) {
        let _ = self.connection.close().await;
    }
}

fn names(table: &StoreTable) -> String {
    table.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

async fn read_page(
    connection: &mut DbConnection,
    table: &StoreTable,
    after: i64,
) -> Result<TablePage, sqlx::Error> {
    let StoreTable { name, condition, .. } = table;
    let mut query =
        QueryBuilder::<Db>::new(format!("SELECT {} FROM {name} WHERE true{condition}", names(table)));
    match table.paging {
        TablePaging::Seq => {
            query
                .push(" AND seq > ")
                .push_bind(after)
                .push(" ORDER BY seq LIMIT ")
                .push_bind(table.page_rows);
        }
        TablePaging::Offset(order) => {
            query.push(format!(" ORDER BY {order} LIMIT ")).push_bind(table.page_rows);
            query.push(" OFFSET ").push_bind(after);
        }
    }
    let found = query.build().fetch_all(connection).await?;
    let rows = found.iter().map(|row| values(row, table)).collect::<Result<Vec<_>, _>>()?;
    let place = match table.paging {
        TablePaging::Seq => match found.last() {
            Some(last) => last.try_get("seq")?,
            None => after,
        },
        TablePaging::Offset(_) => after.saturating_add(rows.len() as i64),
    };
    Ok(TablePage { place, rows })
}

fn values(row: &DbRow, table: &StoreTable) -> Result<TransferRow, sqlx::Error> {
    let value = |(place, (_, kind)): (usize, &(&'static str, ColumnKind))| {
        Ok(match kind {
            ColumnKind::Bytes => {
                row.try_get::<Option<Vec<u8>>, _>(place)?.map(|bytes| Value::from(hex(&bytes)))
            }
            ColumnKind::Flag => row.try_get::<Option<bool>, _>(place)?.map(Value::from),
            ColumnKind::Integer => row.try_get::<Option<i64>, _>(place)?.map(Value::from),
            ColumnKind::Text => row.try_get::<Option<String>, _>(place)?.map(Value::from),
        }
        .unwrap_or(Value::Null))
    };
    table.columns.iter().enumerate().map(value).collect()
}

async fn count(connection: &mut DbConnection, table: &StoreTable) -> Result<u64, sqlx::Error> {
    let StoreTable { name, condition, .. } = table;
    let mut query = QueryBuilder::<Db>::new(format!("SELECT count(*) FROM {name} WHERE true{condition}"));
    let count = query.build_query_scalar::<i64>().fetch_one(connection).await?;
    Ok(count.unsigned_abs())
}

/// Adds the rows of a page that are not there yet, and stores the place after it.
pub(crate) async fn add_page(
    connection: &mut DbConnection,
    table: &StoreTable,
    page: TablePage,
) -> Result<ChangeResult, sqlx::Error> {
    if let Err(unfit) = page.rows.iter().try_for_each(|row| check(row, table)) {
        return Ok(Err(unfit));
    }
    if table.name == "audit" {
        make_room(connection, &mut None, page.place.unsigned_abs()).await?;
    }
    let mut query = QueryBuilder::<Db>::new(format!("INSERT INTO {} ({}) ", table.name, names(table)));
    query.push_values(page.rows, |mut values, row| {
        for (value, (_, kind)) in row.into_iter().zip(table.columns) {
            match kind {
                ColumnKind::Bytes => values.push_bind(value.as_str().and_then(unhex)),
                ColumnKind::Flag => values.push_bind(value.as_bool()),
                ColumnKind::Integer => values.push_bind(value.as_i64()),
                ColumnKind::Text => values.push_bind(value.as_str().map(str::to_owned)),
            };
        }
    });
    // An empty store already has the two ends of the audit.
    query.push(match table.name {
        "audit_ends" => {
            " ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, position = excluded.position, hash = excluded.hash"
        }
        _ => " ON CONFLICT DO NOTHING",
    });
    let rows = query.build().execute(&mut *connection).await?.rows_affected();
    set_mark(connection, place_mark(table), page.place).await?;
    Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
}

/// Checks that a row of a backup has a value of the right type for each column.
fn check(row: &TransferRow, table: &StoreTable) -> Result<(), StoreError> {
    let fits = |(value, (_, kind)): (&Value, &(&'static str, ColumnKind))| match kind {
        _ if value.is_null() => true,
        ColumnKind::Bytes => value.as_str().and_then(unhex).is_some(),
        ColumnKind::Flag => value.is_boolean(),
        ColumnKind::Integer => value.is_i64(),
        ColumnKind::Text => value.as_str().is_some_and(|text| !text.contains('\0')),
    };
    match row.len() == table.columns.len() && row.iter().zip(table.columns).all(fits) {
        true => Ok(()),
        false => {
            Err(StoreError::Unfit { field: table.name, expected: "rows of this version's schema".into() })
        }
    }
}

/// Stores a number under a name; keeps a higher one.
pub(crate) async fn set_mark(
    connection: &mut DbConnection,
    name: String,
    value: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(sql::RAISE_MARK).bind(name).bind(value).execute(connection).await?;
    Ok(())
}

/// Makes new rows continue after the copied ones.
pub(crate) async fn end_copy(connection: &mut DbConnection) -> Result<ChangeResult, sqlx::Error> {
    for table in TABLES.iter().filter(|table| table.paging == TablePaging::Seq && table.name != "audit") {
        after_copy(connection, table.name).await?;
    }
    Ok(Ok(ChangeEffect::default()))
}

#[async_trait]
impl TransferTarget for StoreBackend {
    async fn add_page(&self, table: &'static StoreTable, page: TablePage) -> Result<(), StoreError> {
        self.change(StoreChange::AddPage { table, page }).await?;
        Ok(())
    }

    async fn end_copy(&self) -> Result<(), StoreError> {
        self.change(StoreChange::EndCopy).await?;
        Ok(())
    }

    async fn copy_mark(&self, name: &str) -> Result<i64, StoreError> {
        let mut reader = self.reader().await?;
        let found = marks::read(reader.connection(), name).await.map_err(|error| self.fault(&error))?;
        reader.give_back();
        Ok(found)
    }

    async fn set_copy_mark(&self, name: &str, value: i64) -> Result<(), StoreError> {
        self.change(StoreChange::SetMark { name: name.to_owned(), value }).await?;
        Ok(())
    }

    async fn row_count(&self, table: &'static StoreTable) -> Result<u64, StoreError> {
        let mut reader = self.reader().await?;
        let found = count(reader.connection(), table).await.map_err(|error| self.fault(&error))?;
        reader.give_back();
        Ok(found)
    }
}
