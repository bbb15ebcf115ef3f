//! Trust in project files over REST: what waits for trust, and trusting exactly what was shown.

use super::auth::AdminCaller;
use super::extract::{self, JsonBody, NoQuery, run_to_completion};
use super::owner_request;
use super::problem::ProblemDocument;
use super::{ReloadCause, RestState};
use async_trait::async_trait;
use axum::Json;
use axum::extract::{FromRequestParts, State};
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolbooth_core::fault::{Blame, Problem};
use utoipa::ToSchema;

/// An example of a valid body.
const EXAMPLE: &str = "send {\"entries\": [{\"file\": \"/home/me/project/.mcp.json\", \"server\": \"web\", \"digest\": \"…\"}]}";
/// The maximum number of entries in a request.
const MAX_ENTRIES: usize = 1000;

/// The project files of the gateway. The binary provides it, because it knows the files.
#[async_trait]
pub trait ProjectTrust: Send + Sync {
    /// The entries that wait for trust.
    async fn waiting(&self) -> Result<Vec<WaitingEntry>, Problem>;

    /// Trusts these entries, all or none: each must wait for trust with exactly this digest. The audit has a row of it
    /// before it counts.
    async fn trust(&self, by: &str, entries: &[TrustRequest]) -> Result<(), Problem>;
}

/// A server or the settings of a project file that wait for trust.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WaitingEntry {
    /// The file that contains it.
    pub file: String,
    /// The name of the server; absent for the settings of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The digest of its current version, which trust is bound to.
    pub digest: String,
    /// What would run or apply: the whole command, its arguments, URL, variables and headers. Secrets are masked.
    pub fields: BTreeMap<String, String>,
    /// The differences from the trusted version; absent if no version was trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<FieldChange>>,
}

/// A field that differs from the trusted version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldChange {
    /// The field.
    pub field: String,
    /// The trusted value; absent if the field is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The current value; absent if the field was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The entries that wait for trust.
#[derive(Debug, Serialize, ToSchema)]
pub struct WaitingEntries {
    entries: Vec<WaitingEntry>,
}

/// An entry to trust, as the list of waiting entries shows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustRequest {
    /// The file that contains it.
    pub file: String,
    /// The name of the server; absent for the settings of the file.
    #[serde(default)]
    pub server: Option<String>,
    /// The digest that was shown.
    #[schema(min_length = 1)]
    pub digest: String,
}

/// The entries to trust.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustRequests {
    #[schema(min_items = 1, max_items = 1000)]
    entries: Vec<TrustRequest>,
}

/// The result of trusting entries.
#[derive(Debug, Serialize, ToSchema)]
pub struct TrustedEntries {
    /// The number of entries that are trusted now.
    trusted: usize,
    /// The changes of the reload that followed.
    #[schema(value_type = Object)]
    reloaded: Value,
}

/// Extracts that a request comes from the owner, and the project files that it is about.
pub struct OwnerTrustRequest(Arc<dyn ProjectTrust>);

impl FromRequestParts<RestState> for OwnerTrustRequest {
    type Rejection = ProblemDocument;

    async fn from_request_parts(parts: &mut Parts, rest: &RestState) -> Result<Self, ProblemDocument> {
        let project = project(rest)?;
        owner_request::check(parts, rest, owner_only())?;
        Ok(Self(project))
    }
}

/// Lists the servers and settings of project files that wait for trust. Administrators only, in `local` mode.
#[utoipa::path(
    get,
    path = "/trust",
    responses(
        (status = 200, description = "The waiting entries.", body = WaitingEntries),
        (status = 403, description = "`auth.admin-only` or `trust.local-only`."),
    )
)]
pub async fn waiting(
    State(rest): State<RestState>,
    AdminCaller(_): AdminCaller,
    _: NoQuery,
) -> Result<Json<WaitingEntries>, ProblemDocument> {
    let entries = project(&rest)?.waiting().await?;
    Ok(Json(WaitingEntries { entries }))
}

/// Trusts entries of project files in the version that was shown, and reloads the configuration. Only for the owner of a
/// gateway in `local` mode: over the control socket, or from the console in a browser that `toolbooth console` opened.
///
/// All entries are trusted or none: if one of them has changed since it was shown, the request is refused. If the
/// reload fails, the answer is its error; the entries stay trusted.
#[utoipa::path(
    post,
    path = "/trust",
    request_body = TrustRequests,
    responses(
        (status = 200, description = "The entries are trusted.", body = TrustedEntries),
        (status = 400, description = "`request.bad-body`, or the configuration is not valid."),
        (status = 403, description = "`auth.admin-only`, `trust.local-only` or `trust.owner-only`."),
        (status = 409, description = "`trust.changed`: an entry is not the one that was shown. Nothing was trusted."),
    )
)]
pub async fn trust(
    State(rest): State<RestState>,
    AdminCaller(caller): AdminCaller,
    OwnerTrustRequest(project): OwnerTrustRequest,
    _: NoQuery,
    JsonBody(body): JsonBody,
) -> Result<Json<TrustedEntries>, ProblemDocument> {
    let TrustRequests { entries } = extract::object(&body, EXAMPLE)?;
    if !(1..=MAX_ENTRIES).contains(&entries.len()) {
        return Err(
            extract::bad_body(format!("`entries` must have 1 to {MAX_ENTRIES} items"), EXAMPLE).into()
        );
    }
    if entries.iter().any(|entry| entry.digest.is_empty()) {
        return Err(extract::bad_body("`digest` must not be empty".into(), EXAMPLE).into());
    }
    let (reload, user) = (rest.reload.clone(), caller.user.clone());
    let done = run_to_completion(async move {
        project.trust(&user, &entries).await?;
        let reloaded = reload(ReloadCause::Asked(user)).await?;
        Ok(TrustedEntries { trusted: entries.len(), reloaded })
    });
    Ok(Json(done.await?))
}

/// The project files, if this gateway lets its owner trust them over REST. In other modes administrators are not the
/// user whose rights the servers run with.
fn project(rest: &RestState) -> Result<Arc<dyn ProjectTrust>, Problem> {
    let project = rest.project_trust.clone().filter(|_| rest.is_owners_alone());
    project.ok_or_else(local_only)
}

/// The error of a gateway that does not take trust over REST.
pub fn local_only() -> Problem {
    Problem {
        code: "trust.local-only",
        blame: Blame::Caller,
        message: "project files can be trusted over REST only in `local` mode, by the owner of the gateway"
            .into(),
        hint: Some("run `toolbooth trust` in the folder, as the user who runs the gateway".into()),
    }
}

fn owner_only() -> Problem {
    Problem {
        code: "trust.owner-only",
        blame: Blame::Caller,
        message: "only the owner of the gateway can trust project files, in a browser or with a command"
            .into(),
        hint: Some(
            "run `toolbooth console` and trust them in the browser that it opens, or run `toolbooth trust`"
                .into(),
        ),
    }
}
