//! Signed requests of other systems that start jobs.
//!
//! A job that accepts them has an address and a key of its own, which its owner can read. The signature is that of the
//! gateway's webhooks: `Toolbooth-Signature: t=SECONDS,v1=HEX` over the seconds, a dot and the body.

use super::rows::record;
use super::{JobSource, Jobs, KnownJob, fault};
use crate::keys::sealing_key;
use crate::roster::Rights;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::caller::Caller;
use toolbooth_core::event::signature;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::job::{JobFault, JobRecord, JobState, RunRecord, RunTrigger};
use toolbooth_store::{NonceUse, WorkFilter, WorkKind};

/// The name of the key in the store.
const KEY_NAME: &str = "job-request-key";
/// How old a signature may be, and how far in the future.
const TOLERANCE_SECONDS: i64 = 300;
/// How long a request waits while others look for their jobs.
const READ_WAIT: Duration = Duration::from_secs(1);
/// The number of jobs that are in memory at a time while one is looked for.
const READ_PAGE: u32 = 100;
/// The maximum number of such pages.
const MAX_READ_PAGES: usize = 200;

/// Where and how another system starts a job.
#[derive(Debug, Clone)]
pub struct ExternalAccess {
    /// The id in the path `/job-requests/{id}`.
    pub id: String,
    /// The key of the signature.
    pub key: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Jobs {
    /// The address and key of a job that accepts external requests; only its owner and administrators may read them.
    pub async fn external_access(
        &self,
        caller: &Caller,
        job: &KnownJob,
    ) -> Result<Option<ExternalAccess>, Problem> {
        let Some(record) = job.record.as_ref().filter(|_| job.definition.accepts_external_requests) else {
            return Ok(None);
        };
        self.check_owner(caller, record)?;
        Ok(Some(self.access_of(record).await?))
    }

    async fn access_of(&self, job: &JobRecord) -> Result<ExternalAccess, Problem> {
        let secret = sealing_key(&*self.store, KEY_NAME).await?;
        // Both depend on the owner: another owner of a manifest job gets another address.
        let derived = |purpose: &str| {
            let hash = Sha256::new_with_prefix(purpose).chain_update(secret);
            let hash = hash.chain_update(job.owner.user.as_bytes()).chain_update([0]);
            hex(&hash.chain_update(job.key.as_bytes()).finalize())
        };
        Ok(ExternalAccess {
            id: derived("toolbooth job id\0")[..32].to_owned(),
            key: derived("toolbooth job key\0"),
        })
    }

    /// Starts a job at the signed request of another system. An unknown address and a wrong signature look alike.
    pub async fn run_external(
        self: &Arc<Self>,
        id: &str,
        signed: &str,
        body: &[u8],
        arguments: Map<String, Value>,
    ) -> Result<RunRecord, Problem> {
        let refused = || fault(&JobFault::BadSignature);
        // The time is checked before rows are read: anyone can send such a request.
        let seconds = signed.strip_prefix("t=").and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
        let seconds = seconds.ok_or_else(refused)?;
        let age = self.clock.now_ms() / 1000 - i64::try_from(seconds).unwrap_or(i64::MAX);
        if age.abs() > TOLERANCE_SECONDS {
            return Err(refused());
        }
        let Some((job, access)) = self.external_job(id).await? else { return Err(refused()) };
        let expected = signature(access.key.as_bytes(), seconds, body);
        // Hashes are compared, so that the time does not depend on the first different byte.
        if Sha256::digest(&expected) != Sha256::digest(signed) {
            return Err(refused());
        }
        let nonce = Sha256::digest(format!("job {expected}"));
        let expires_ms = self.clock.now_ms() + 2 * TOLERANCE_SECONDS * 1000;
        let used = self.store.use_nonce(&nonce, expires_ms).await.map_err(|error| Problem::of(&error))?;
        if used != NonceUse::First {
            return Err(refused());
        }
        let Rights::Known(owner) = self.rights_of(&job.owner).await else { return Err(refused()) };
        let Some(definition) = self.definition_of(&job) else { return Err(refused()) };
        let source = match &job.definition {
            Some(_) => JobSource::Request,
            None => JobSource::Manifest { persona: None, origin: String::new() },
        };
        if matches!(job.state, JobState::Running | JobState::Cancelled) {
            return Err(fault(&JobFault::JobTransition {
                name: job.name.clone(),
                from: job.state,
                to: JobState::Running,
            }));
        }
        let known = KnownJob { key: job.key.clone(), source, definition, record: Some(job) };
        self.run_known(&owner, known, arguments, RunTrigger::External).await
    }

    async fn external_job(&self, id: &str) -> Result<Option<(JobRecord, ExternalAccess)>, Problem> {
        let permit = tokio::time::timeout(READ_WAIT, self.external_reads.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(too_many()) };
        let mut filter = WorkFilter { limit: Some(READ_PAGE), ..WorkFilter::of(WorkKind::Job) };
        for _ in 0..MAX_READ_PAGES {
            let page = self.store.work_rows(filter.clone()).await.map_err(|error| Problem::of(&error))?;
            for row in &page {
                let Ok(job) = record::<JobRecord>(row) else { continue };
                let accepts =
                    self.definition_of(&job).is_some_and(|definition| definition.accepts_external_requests);
                if accepts {
                    let access = self.access_of(&job).await?;
                    if access.id == id {
                        return Ok(Some((job, access)));
                    }
                }
            }
            match page.last() {
                Some(last) if page.len() >= READ_PAGE as usize => filter.before = Some(last.id.clone()),
                _ => break,
            }
        }
        Ok(None)
    }
}

fn too_many() -> Problem {
    Problem {
        code: "job.busy",
        blame: Blame::Gateway,
        message: "too many external requests for jobs arrive at the same time".into(),
        hint: Some("try again".into()),
    }
}
