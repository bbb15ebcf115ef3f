//! The first words with a server: which era it speaks, and what it can do.

use crate::connection::{Connection, Linked, Opened, our_info, our_instance};
use crate::error::{Stage, UpstreamError};
use crate::http::Credential;
use crate::link::CallLink;
use crate::peer::{Asking, Outbound, Peer, PeerAnswer, Reading};
use arc_swap::ArcSwap;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_wire::codes::UNSUPPORTED_VERSION;
use toolbooth_wire::envelope::write_request;
use toolbooth_wire::meta::{INSTANCE, SERVER_INFO, Stamp};
use toolbooth_wire::{Era, Revision, RpcError};

/// How long a process may stay silent on `server/discover` before it is taken for a legacy server.
const SILENCE: Duration = Duration::from_millis(1500);

/// What is known before the first word.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    /// The server's name.
    pub(crate) server: String,
    /// The era it spoke last time.
    pub(crate) hint: Option<Era>,
    /// What a legacy server is told the client can do: an object.
    pub(crate) capabilities: RawJson,
    /// How long a handshake may take.
    pub(crate) patience: Duration,
    /// What the server must not repeat.
    pub(crate) secrets: KnownSecrets,
    /// The gateway's credential.
    pub(crate) credential: Credential,
}

#[derive(Deserialize)]
struct Discovered<'a> {
    #[serde(rename = "supportedVersions")]
    versions: Vec<String>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    instructions: Option<String>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Initialized<'a> {
    #[serde(rename = "protocolVersion")]
    version: String,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "serverInfo")]
    server_info: Option<&'a RawValue>,
    instructions: Option<String>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// What the server said in its first answer.
struct Introduction {
    revision: Revision,
    capabilities: RawJson,
    server_info: Option<RawJson>,
    instructions: Option<String>,
    /// Which gateway it is, if it is one of ours.
    instance: Option<RawJson>,
}

/// Shakes hands. A server known to be legacy is not asked for more than it knows, unless it surprises.
pub(crate) async fn shake(opened: Opened, opening: &Opening) -> Result<Connection, UpstreamError> {
    let Opened { peer, linked } = opened;
    let introduction = if opening.hint == Some(Era::Legacy) {
        match initialize(&*peer, opening).await {
            Ok(introduction) => introduction,
            Err(Refusal::Upstream(error)) => return Err(error),
            Err(refusal) => match discover(&*peer, opening, linked).await {
                Ok(introduction) => introduction,
                Err(_) => return Err(no_handshake(opening, refusal)),
            },
        }
    } else {
        match discover(&*peer, opening, linked).await {
            Ok(introduction) => introduction,
            Err(Refusal::Upstream(error)) => return Err(error),
            Err(first @ (Refusal::Other(_) | Refusal::Silence)) => match initialize(&*peer, opening).await {
                Ok(introduction) => introduction,
                // It was not legacy but slow to start: it has read the first question by now.
                Err(Refusal::Other(why)) if matches!(first, Refusal::Silence) => {
                    match discover(&*peer, opening, linked).await {
                        Ok(introduction) => introduction,
                        Err(_) => return Err(no_handshake(opening, Refusal::Other(why))),
                    }
                }
                Err(refusal) => return Err(no_handshake(opening, refusal)),
            },
        }
    };
    let instance = introduction.instance.as_ref().and_then(RawJson::string);
    if instance.as_deref() == Some(our_instance()) {
        return Err(leads_back(&opening.server));
    }
    Ok(connection(peer, linked, introduction, opening))
}

/// A gateway that is its own server would list its own tools under ever longer names.
fn leads_back(server: &str) -> UpstreamError {
    UpstreamError::NotStarted(Box::new(Problem {
        code: "server.is-this-gateway",
        blame: Blame::Gateway,
        message: format!("server `{server}` leads back to this gateway"),
        hint: Some(format!("take `{server}` out of the configuration: clients connect here, servers do not")),
    }))
}

fn connection(
    peer: Box<dyn Peer>,
    linked: Linked,
    introduction: Introduction,
    opening: &Opening,
) -> Connection {
    let Introduction { revision, capabilities, server_info, instructions, instance: _ } = introduction;
    let era = revision.era();
    let secrets = opening.secrets.clone();
    let masked = |json: RawJson| secrets.mask_json(&json).unwrap_or(json);
    let server_info = server_info.map(masked);
    let instructions = instructions.map(|text| secrets.mask(&text).into_owned());
    let may_ask = era == Era::Legacy && opening.capabilities.as_str() != "{}";
    Connection {
        server: opening.server.clone(),
        era,
        revision,
        capabilities,
        server_info,
        instructions,
        peer,
        secrets,
        credential: opening.credential.clone(),
        next_id: AtomicU64::new(10),
        mirrored: ArcSwap::default(),
        turns: (may_ask && linked == Linked::No).then(|| Arc::new(Semaphore::new(1))),
        holder: Mutex::default(),
        asking: if may_ask { Asking::Allowed } else { Asking::No },
        opened: Instant::now(),
        last_used_ms: AtomicU64::new(0),
        loudness: AtomicU64::new(0),
    }
}

fn no_handshake(opening: &Opening, refusal: Refusal) -> UpstreamError {
    let server = opening.server.clone();
    match refusal {
        Refusal::Upstream(error) => error,
        Refusal::Other(why) => {
            UpstreamError::BadAnswer { server, what: format!("the handshake failed: {why}") }
        }
        Refusal::Silence => {
            UpstreamError::StartTimeout { server, stage: Stage::Handshake, after: opening.patience }
        }
    }
}

enum Refusal {
    /// No use in trying the other era.
    Upstream(UpstreamError),
    /// Try the other era.
    Other(String),
    /// It said nothing; likewise.
    Silence,
}

async fn first_word(
    peer: &dyn Peer,
    id: u64,
    method: &'static str,
    params: RawJson,
    patience: Duration,
) -> Result<Result<RawJson, RpcError>, Refusal> {
    let outbound = Outbound {
        id,
        method,
        text: write_request(id, method, Some(&params)),
        name: None,
        headers: Vec::new(),
        reading: Reading::Whole,
        asking: Asking::No,
    };
    match tokio::time::timeout(patience, peer.request(outbound, &CallLink::silent())).await {
        Err(_) => Err(Refusal::Silence),
        Ok(Ok(PeerAnswer::Whole(outcome))) => Ok(outcome),
        Ok(Ok(PeerAnswer::Long(long))) => Ok(Ok(long.whole())),
        Ok(Err(error)) => Err(match error {
            UpstreamError::BadAnswer { what, .. } => Refusal::Other(what),
            UpstreamError::SessionExpired { .. } => Refusal::Other("HTTP 404".into()),
            error => Refusal::Upstream(error),
        }),
    }
}

async fn ask_who(
    peer: &dyn Peer,
    id: u64,
    revision: Revision,
    patience: Duration,
) -> Result<Result<RawJson, RpcError>, Refusal> {
    peer.agreed(Era::Modern, revision);
    let ours = our_info();
    let mut params = ObjectWriter::default();
    Stamp { revision: Some(revision), client_info: Some(&ours), ..Stamp::default() }.write(&mut params);
    first_word(peer, id, "server/discover", params.finish(), patience).await
}

/// The newest modern revision among those a server says it would have taken.
fn named_revision(error: &RpcError) -> Option<Revision> {
    let supported = error.data.as_ref()?.member("supported")?.read::<Vec<String>>().ok()?;
    let known = supported.iter().filter_map(|name| Revision::from_name(name));
    known.filter(|revision| revision.era() == Era::Modern).max()
}

async fn discover(peer: &dyn Peer, opening: &Opening, linked: Linked) -> Result<Introduction, Refusal> {
    // A silent process is a legacy one; over HTTP silence means nothing.
    let patience = match linked {
        Linked::No => SILENCE.min(opening.patience),
        Linked::Yes => opening.patience,
    };
    let first = ask_who(peer, 1, Revision::NEWEST_MODERN, patience).await?;
    let outcome = match first {
        // Asked once more in a revision that it named itself.
        Err(error) if error.code == UNSUPPORTED_VERSION => match named_revision(&error) {
            Some(revision) => ask_who(peer, 3, revision, patience).await?,
            None => Err(error),
        },
        other => other,
    };
    let result = match outcome {
        Ok(result) => result,
        Err(error) if error.code == UNSUPPORTED_VERSION => return Err(Refusal::Other(error.message)),
        Err(error) if error.is_modern() => {
            // A modern server that wants something of us: it can be asked, request by request.
            let capabilities = RawJson::trusted(&b"{\"tools\":{},\"prompts\":{},\"resources\":{}}"[..]);
            return Ok(Introduction {
                revision: Revision::NEWEST_MODERN,
                capabilities,
                server_info: None,
                instructions: None,
                instance: None,
            });
        }
        Err(error) => return Err(Refusal::Other(error.message)),
    };
    let found: Discovered<'_> = result.read().map_err(|error| Refusal::Other(error.to_string()))?;
    let spoken = found.versions.iter().filter_map(|version| Revision::from_name(version));
    let Some(revision) = spoken.filter(|revision| revision.era() == Era::Modern).max() else {
        return Err(Refusal::Other("it speaks no modern revision we know".into()));
    };
    peer.agreed(Era::Modern, revision);
    let part = |value: &RawValue| result.part(value).detached();
    Ok(Introduction {
        revision,
        capabilities: found.capabilities.map_or_else(RawJson::empty_object, part),
        server_info: found.meta.map(part).and_then(|meta| meta.member(SERVER_INFO)),
        instructions: found.instructions,
        instance: found.meta.map(part).and_then(|meta| meta.member(INSTANCE)),
    })
}

async fn initialize(peer: &dyn Peer, opening: &Opening) -> Result<Introduction, Refusal> {
    peer.agreed(Era::Legacy, Revision::NEWEST_LEGACY);
    let mut params = ObjectWriter::default();
    params.text("protocolVersion", Revision::NEWEST_LEGACY.as_str());
    params.raw("capabilities", &opening.capabilities);
    params.raw("clientInfo", &our_info());
    let outcome = first_word(peer, 2, "initialize", params.finish(), opening.patience).await?;
    let result =
        outcome.map_err(|error| Refusal::Other(format!("error {}: {}", error.code, error.message)))?;
    let found: Initialized<'_> = result.read().map_err(|error| Refusal::Other(error.to_string()))?;
    // A revision we do not know is younger or older than any of ours; the nearest is the best guess.
    let revision = match Revision::from_name(&found.version) {
        Some(revision) if revision.era() == Era::Legacy => revision,
        _ if found.version.as_str() < Revision::V2024_11_05.as_str() => Revision::V2024_11_05,
        _ => Revision::NEWEST_LEGACY,
    };
    peer.agreed(Era::Legacy, revision);
    peer.notify("notifications/initialized", None).await.map_err(Refusal::Upstream)?;
    let part = |value: &RawValue| result.part(value).detached();
    Ok(Introduction {
        revision,
        capabilities: found.capabilities.map_or_else(RawJson::empty_object, part),
        server_info: found.server_info.map(part),
        instructions: found.instructions,
        instance: found.meta.map(part).and_then(|meta| meta.member(INSTANCE)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_revision_leads_to_one_that_was_named() {
        let cases = [
            (r#"{"supported":["2025-11-25","2026-07-28"]}"#, Some(Revision::V2026_07_28)),
            (r#"{"supported":["2025-11-25"]}"#, None), // asked the old way instead
            (r#"{"supported":["2199-01-01"]}"#, None),
            (r#"{"supported":"2026-07-28"}"#, None),
        ];
        for (data, expected) in cases {
            let error = RpcError::new(UNSUPPORTED_VERSION, "no").with_data(RawJson::trusted(data));
            assert_eq!(named_revision(&error), expected, "{data}");
        }
        assert_eq!(named_revision(&RpcError::new(UNSUPPORTED_VERSION, "no")), None);
    }
}
