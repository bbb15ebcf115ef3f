//! Sign-ins in the database.

use super::change::{ChangeEffect, ChangeResult, StoreChange};
use super::dialect::{DbConnection, DbRow, StoreBackend};
use crate::StoreError;
use crate::sign_ins::{MAX_SIGN_INS, SignInRecord, SignInStore, check_sign_in};
use crate::sql::sign_ins as sql;
use async_trait::async_trait;
use sqlx::Row;
use sqlx::error::BoxDynError;
use toolbooth_core::json::RawJson;

fn sign_in(row: &DbRow) -> Result<SignInRecord, BoxDynError> {
    let groups = RawJson::parse(row.try_get::<String, _>("groups")?)?;
    Ok(SignInRecord {
        user: row.try_get("user_name")?,
        issuer: row.try_get("issuer")?,
        groups: groups.read()?,
        persona: row.try_get("persona")?,
        level: row.try_get("level")?,
        until_ms: row.try_get("until_ms")?,
    })
}

pub(crate) async fn save(
    connection: &mut DbConnection,
    kept: SignInRecord,
) -> Result<ChangeResult, sqlx::Error> {
    let query = sqlx::query(sql::SAVE_SIGN_IN)
        .bind(kept.user)
        .bind(kept.issuer)
        .bind(RawJson::from_value(&kept.groups).as_str().to_owned())
        .bind(kept.persona)
        .bind(kept.level)
        .bind(kept.until_ms);
    let rows = query.execute(&mut *connection).await?.rows_affected();
    sqlx::query(sql::TRIM_SIGN_INS).bind(MAX_SIGN_INS as i64).execute(connection).await?;
    Ok(Ok(ChangeEffect { rows, ..ChangeEffect::default() }))
}

#[async_trait]
impl SignInStore for StoreBackend {
    async fn save_sign_in(&self, sign_in: SignInRecord) -> Result<(), StoreError> {
        check_sign_in(&sign_in)?;
        self.change(StoreChange::SaveSignIn(sign_in)).await?;
        Ok(())
    }

    async fn sign_in(&self, user: &str) -> Result<Option<SignInRecord>, StoreError> {
        let query = sqlx::query(sql::SIGN_IN).bind(user.to_owned());
        Ok(self.all(query, sign_in).await?.pop())
    }
}
