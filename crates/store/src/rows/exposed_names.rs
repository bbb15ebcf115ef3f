//! Exposed names of tools in the database.

use super::change::{ChangeEffect, ChangeResult, StoreChange};
use super::dialect::{Db, DbConnection, DbRow, StoreBackend};
use super::read::readable;
use crate::StoreError;
use crate::exposed_names::{ExposedName, ExposedNameStore, MAX_EXPOSED_NAMES, check_claims};
use crate::sql::exposed_names as sql;
use async_trait::async_trait;
use sqlx::error::BoxDynError;
use sqlx::{QueryBuilder, Row};
use std::collections::HashMap;
use toolbooth_core::names::ServerName;

fn exposed_name(row: &DbRow) -> Result<ExposedName, BoxDynError> {
    Ok(ExposedName { name: row.try_get("name")?, server: row.try_get::<&str, _>("server")?.parse()? })
}

pub(crate) async fn claim(
    connection: &mut DbConnection,
    claims: Vec<ExposedName>,
    at_ms: i64,
) -> Result<ChangeResult, sqlx::Error> {
    let mut effect = ChangeEffect::default();
    if claims.is_empty() {
        return Ok(Ok(effect));
    }
    let mut find = QueryBuilder::<Db>::new(sql::NAMES_LIKE);
    let mut list = find.separated(", ");
    for claim in &claims {
        list.push_bind(claim.name.clone());
    }
    find.push(")");
    let found = readable(&find.build().fetch_all(&mut *connection).await?, exposed_name);
    let count: i64 = sqlx::query_scalar(sql::NAME_COUNT).fetch_one(&mut *connection).await?;
    let mut room = MAX_EXPOSED_NAMES.saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    let mut owners: HashMap<String, ServerName> =
        found.into_iter().map(|known| (known.name, known.server)).collect();
    let mut new = Vec::new();
    for claim in claims {
        match owners.get(&claim.name) {
            Some(owner) if *owner == claim.server => {}
            Some(owner) => {
                effect.names.push(ExposedName { server: owner.clone(), name: claim.name });
            }
            None if room == 0 => {}
            None => {
                room -= 1;
                owners.insert(claim.name.clone(), claim.server.clone());
                new.push(claim);
            }
        }
    }
    if !new.is_empty() {
        let mut add = QueryBuilder::<Db>::new(sql::ADD_NAMES);
        add.push_values(new, |mut row, claim| {
            row.push_bind(claim.name).push_bind(String::from(claim.server)).push_bind(at_ms);
        });
        add.push(sql::KEEP_FIRST);
        effect.rows = add.build().execute(connection).await?.rows_affected();
    }
    Ok(Ok(effect))
}

#[async_trait]
impl ExposedNameStore for StoreBackend {
    async fn claim_names(
        &self,
        claims: Vec<ExposedName>,
        at_ms: i64,
    ) -> Result<Vec<ExposedName>, StoreError> {
        check_claims(&claims)?;
        Ok(self.change(StoreChange::ClaimNames { claims, at_ms }).await?.names)
    }

    async fn release_names(&self, server: &ServerName) -> Result<(), StoreError> {
        self.change(StoreChange::ReleaseNames(server.clone())).await?;
        Ok(())
    }
}
