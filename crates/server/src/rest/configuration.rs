//! The configuration over REST: the settings that files, variables and arguments set, with their origins.

use super::RestState;
use super::auth::AdminCaller;
use super::extract::NoQuery;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// A setting with its origin. Secrets are masked.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SettingView {
    /// The dotted key.
    #[schema(example = "exposure.mode")]
    pub key: String,
    /// The value; absent for a server, which `GET /servers/{name}` shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Where the value comes from.
    #[schema(example = "/etc/toolbooth/toolbooth.toml:3:8 (user)")]
    pub origin: String,
    /// The values that it overrides, highest layer first.
    pub overrides: Vec<OverriddenView>,
}

/// A value that another source overrides.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct OverriddenView {
    /// Where the value comes from.
    pub origin: String,
    /// The value.
    pub value: Value,
}

/// The settings that are set.
#[derive(Debug, Serialize, ToSchema)]
pub struct SettingList {
    /// In the order of their keys, at most 2,000. All other settings have their default values.
    #[schema(value_type = Vec<SettingView>)]
    settings: Arc<[SettingView]>,
}

/// Lists the settings that are set, with their origins. Administrators only. Secrets are masked.
#[utoipa::path(
    get,
    path = "/config",
    responses(
        (status = 200, description = "The settings.", body = SettingList),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn settings(
    State(rest): State<RestState>,
    AdminCaller(_): AdminCaller,
    _: NoQuery,
) -> Json<SettingList> {
    Json(SettingList { settings: rest.config.settings() })
}
