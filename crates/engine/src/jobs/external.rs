//! Signed requests of other systems that start jobs.
//!
//! A job that accepts them has an address and a key of its own, which its owner can read. The address is the sealed
//! name of the job, so that a request to a made-up address reads no rows. The signature is that of the gateway's
//! webhooks: `Toolbooth-Signature: t=SECONDS,v1=HEX` over the seconds, a dot and the body.

use super::{JobSource, Jobs, KnownJob, fault};
use crate::keys::sealing_key;
use crate::rights_source::Rights;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::event::signature;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::hex;
use toolbooth_core::job::{JobFault, JobRecord, JobState, RunRecord, RunTrigger};
use toolbooth_core::keyed_hash::keyed_hash;
use toolbooth_store::NonceUse;
use toolbooth_wire::state::{NONCE_BYTES, Sealer};

/// The name of the key in the store.
const KEY_NAME: &str = "job-request-key";
/// How old a signature may be, and how far in the future.
const TOLERANCE_SECONDS: i64 = 300;
/// What sealed addresses are bound to.
const ADDRESS: &[u8] = b"toolbooth job address";
/// The longest address that is opened.
const MAX_ADDRESS_CHARS: usize = 4096;

/// Where and how another system starts a job.
#[derive(Debug, Clone)]
pub struct ExternalAccess {
    /// The id in the path `/job-requests/{id}`.
    pub id: String,
    /// The key of the signature.
    pub key: String,
}

/// Makes and reads the addresses and keys of jobs.
struct ExternalKeys {
    secret: [u8; 32],
    sealer: Sealer,
}

impl ExternalKeys {
    fn new(secret: [u8; 32]) -> Self {
        Self { sealer: Sealer::new(&keyed_hash(&secret, &[b"sealed address"])), secret }
    }

    /// The address and key of a job. Both depend on the owner: another owner of a manifest job gets another address.
    fn access(&self, user: &str, job: &str) -> Option<ExternalAccess> {
        let payload = serde_json::to_vec(&(user, job)).ok()?;
        // The same job has the same address each time it is shown.
        let hash = keyed_hash(&self.secret, &[b"nonce of an address", &payload]);
        let (nonce, _) = hash.split_first_chunk::<NONCE_BYTES>()?;
        let key = keyed_hash(&self.secret, &[b"key of a job", user.as_bytes(), job.as_bytes()]);
        let id = self.sealer.seal_with_nonce(*nonce, &payload, ADDRESS)?;
        Some(ExternalAccess { id, key: hex::encode(&key) })
    }

    /// The owner and the key in the store of the job with this address.
    fn open(&self, id: &str) -> Option<(String, String)> {
        if id.len() > MAX_ADDRESS_CHARS {
            return None;
        }
        serde_json::from_slice(&self.sealer.open(id, ADDRESS)?).ok()
    }
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
        let access = self.external_keys().await?.access(&record.owner.user, &record.key);
        access.map(Some).ok_or_else(|| no_address(&record.name))
    }

    async fn external_keys(&self) -> Result<ExternalKeys, Problem> {
        Ok(ExternalKeys::new(sealing_key(&*self.store, KEY_NAME).await?))
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
        let keys = self.external_keys().await?;
        let Some((user, key)) = keys.open(id) else { return Ok(None) };
        let accepts = |job: &JobRecord| {
            job.owner.user == user
                && self.definition_of(job).is_some_and(|definition| definition.accepts_external_requests)
        };
        let Some(job) = self.job_record(&key).await?.filter(accepts) else { return Ok(None) };
        Ok(keys.access(&user, &key).map(|access| (job, access)))
    }
}

fn no_address(name: &str) -> Problem {
    Problem {
        code: "job.unreadable",
        blame: Blame::Gateway,
        message: format!("the address of `{name}` cannot be made"),
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_one_job_of_one_user() {
        let keys = ExternalKeys::new([7; 32]);
        let access = |user: &str, job: &str| keys.access(user, job).expect("an address");
        let brief = access("ann", "brief");
        assert_eq!(brief.id, access("ann", "brief").id, "it stays the same");
        assert_eq!(keys.open(&brief.id), Some(("ann".to_owned(), "brief".to_owned())));
        for other in [access("bob", "brief"), access("ann", "other")] {
            assert_ne!((&brief.id, &brief.key), (&other.id, &other.key));
            assert_ne!(brief.key, other.key);
        }
        assert_eq!(ExternalKeys::new([8; 32]).open(&brief.id), None);
        assert_eq!(keys.open(&brief.key), None);
    }
}
