//! The handshake with a server: detects its era and reads its capabilities.

use crate::connection::{Connection, Linked, OpenedPeer, our_info, our_instance};
use crate::error::{StartStage, UpstreamError};
use crate::http::ServerCredential;
use crate::link::CallLink;
use crate::peer::{EncodedRequest, Peer, PeerAnswer, QuestionPolicy, ResultReading};
use arc_swap::ArcSwap;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::secret::KnownSecrets;
use toolbooth_wire::codes::UNSUPPORTED_VERSION;
use toolbooth_wire::envelope::write_request;
use toolbooth_wire::meta::{INSTANCE, OutgoingMeta, SERVER_INFO};
use toolbooth_wire::{Era, Revision, RpcError};

/// How long a process may take to answer `server/discover` before it counts as a legacy server.
const DISCOVER_TIMEOUT: Duration = Duration::from_millis(1500);

/// Parameters of a handshake.
#[derive(Debug, Clone)]
pub(crate) struct HandshakeContext {
    /// The server's name.
    pub(crate) server: String,
    /// The era it used last time.
    pub(crate) hint: Option<Era>,
    /// The client capabilities announced to a legacy server.
    pub(crate) capabilities: RawJson,
    /// The timeout of each handshake request.
    pub(crate) time_limit: Duration,
    /// Secrets to mask in everything the server sends.
    pub(crate) secrets: KnownSecrets,
    /// The gateway's credential.
    pub(crate) credential: ServerCredential,
}

#[derive(Deserialize)]
struct DiscoverResult<'a> {
    #[serde(rename = "supportedVersions")]
    versions: Vec<String>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    instructions: Option<String>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InitializeResult<'a> {
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

/// The server's answer to the handshake, in either era.
struct ServerIntroduction {
    revision: Revision,
    capabilities: RawJson,
    server_info: Option<RawJson>,
    instructions: Option<String>,
    /// The gateway instance id, if the server is a Toolbooth gateway.
    instance: Option<RawJson>,
}

/// Performs the handshake. Tries the expected era first and the other one if that fails.
pub(crate) async fn perform_handshake(
    opened: OpenedPeer,
    context: &HandshakeContext,
) -> Result<Connection, UpstreamError> {
    let OpenedPeer { peer, linked } = opened;
    let introduction = if context.hint == Some(Era::Legacy) {
        match initialize(&*peer, context).await {
            Ok(introduction) => introduction,
            Err(HandshakeFailure::Upstream(error)) => return Err(error),
            Err(refusal) => match discover(&*peer, context, linked).await {
                Ok(introduction) => introduction,
                Err(_) => return Err(handshake_error(context, refusal)),
            },
        }
    } else {
        match discover(&*peer, context, linked).await {
            Ok(introduction) => introduction,
            Err(HandshakeFailure::Upstream(error)) => return Err(error),
            Err(first @ (HandshakeFailure::Other(_) | HandshakeFailure::Silence)) => {
                match initialize(&*peer, context).await {
                    Ok(introduction) => introduction,
                    // The server is not legacy but slow to start: by now it has read the first request.
                    Err(HandshakeFailure::Other(why)) if matches!(first, HandshakeFailure::Silence) => {
                        match discover(&*peer, context, linked).await {
                            Ok(introduction) => introduction,
                            Err(_) => return Err(handshake_error(context, HandshakeFailure::Other(why))),
                        }
                    }
                    Err(refusal) => return Err(handshake_error(context, refusal)),
                }
            }
        }
    };
    let instance = introduction.instance.as_ref().and_then(RawJson::string);
    if instance.as_deref() == Some(our_instance()) {
        return Err(own_gateway_error(&context.server));
    }
    Ok(connection(peer, linked, introduction, context))
}

/// The error for a gateway that is configured as its own server; it would list its own tools under ever
/// longer names.
fn own_gateway_error(server: &str) -> UpstreamError {
    UpstreamError::NotStarted(Box::new(Problem {
        code: "server.is-this-gateway",
        blame: Blame::Gateway,
        message: format!("server `{server}` is this gateway itself"),
        hint: Some(format!("remove `{server}` from the configuration: only clients connect to this address")),
    }))
}

fn connection(
    peer: Box<dyn Peer>,
    linked: Linked,
    introduction: ServerIntroduction,
    context: &HandshakeContext,
) -> Connection {
    let ServerIntroduction { revision, capabilities, server_info, instructions, instance: _ } = introduction;
    let era = revision.era();
    let secrets = context.secrets.clone();
    let masked = |json: RawJson| secrets.mask_json(&json).unwrap_or(json);
    let server_info = server_info.map(masked);
    let instructions = instructions.map(|text| secrets.mask(&text).into_owned());
    let may_ask = era == Era::Legacy && context.capabilities.as_str() != "{}";
    let tasks = capabilities.at(&["tasks", "requests", "tools", "call"]);
    let has_legacy_tasks = revision == Revision::V2025_11_25 && tasks.is_some_and(|tasks| tasks.is_object());
    Connection {
        server: context.server.clone(),
        era,
        revision,
        capabilities,
        has_legacy_tasks,
        server_info,
        instructions,
        peer,
        secrets,
        credential: context.credential.clone(),
        next_id: AtomicU64::new(10),
        mirrored: ArcSwap::default(),
        turns: (may_ask && linked == Linked::No).then(|| Arc::new(Semaphore::new(1))),
        turn_holder: Mutex::default(),
        question_policy: if may_ask { QuestionPolicy::Allowed } else { QuestionPolicy::No },
        opened: Instant::now(),
        last_used_ms: AtomicU64::new(0),
        log_verbosity: AtomicU64::new(0),
    }
}

fn handshake_error(context: &HandshakeContext, refusal: HandshakeFailure) -> UpstreamError {
    let server = context.server.clone();
    match refusal {
        HandshakeFailure::Upstream(error) => error,
        HandshakeFailure::Other(why) => {
            UpstreamError::BadAnswer { server, what: format!("the handshake failed: {why}") }
        }
        HandshakeFailure::Silence => {
            UpstreamError::StartTimeout { server, stage: StartStage::Handshake, after: context.time_limit }
        }
    }
}

enum HandshakeFailure {
    /// The other era is not tried.
    Upstream(UpstreamError),
    /// The other era is tried.
    Other(String),
    /// No answer in time; the other era is tried.
    Silence,
}

async fn send_request(
    peer: &dyn Peer,
    id: u64,
    method: &'static str,
    params: RawJson,
    time_limit: Duration,
) -> Result<Result<RawJson, RpcError>, HandshakeFailure> {
    let outbound = EncodedRequest {
        id,
        method,
        text: write_request(id, method, Some(&params)),
        name: None,
        headers: Vec::new(),
        reading: ResultReading::Whole,
        question_policy: QuestionPolicy::No,
    };
    match tokio::time::timeout(time_limit, peer.request(outbound, &CallLink::silent())).await {
        Err(_) => Err(HandshakeFailure::Silence),
        Ok(Ok(PeerAnswer::Whole(outcome))) => Ok(outcome),
        Ok(Ok(PeerAnswer::Long(long))) => Ok(Ok(long.whole())),
        Ok(Err(error)) => Err(match error {
            UpstreamError::BadAnswer { what, .. } => HandshakeFailure::Other(what),
            UpstreamError::SessionExpired { .. } => HandshakeFailure::Other("HTTP 404".into()),
            error => HandshakeFailure::Upstream(error),
        }),
    }
}

async fn request_discover(
    peer: &dyn Peer,
    id: u64,
    revision: Revision,
    time_limit: Duration,
) -> Result<Result<RawJson, RpcError>, HandshakeFailure> {
    peer.agreed(Era::Modern, revision);
    let own_info = our_info();
    let mut params = ObjectWriter::default();
    OutgoingMeta { revision: Some(revision), client_info: Some(&own_info), ..OutgoingMeta::default() }
        .write(&mut params);
    send_request(peer, id, "server/discover", params.finish(), time_limit).await
}

/// The newest modern revision among those that the server's error lists.
fn named_revision(error: &RpcError) -> Option<Revision> {
    let supported = error.data.as_ref()?.member("supported")?.read::<Vec<String>>().ok()?;
    let known = supported.iter().filter_map(|name| Revision::from_name(name));
    known.filter(|revision| revision.era() == Era::Modern).max()
}

async fn discover(
    peer: &dyn Peer,
    context: &HandshakeContext,
    linked: Linked,
) -> Result<ServerIntroduction, HandshakeFailure> {
    // A silent process is a legacy server; over HTTP, silence proves nothing.
    let time_limit = match linked {
        Linked::No => DISCOVER_TIMEOUT.min(context.time_limit),
        Linked::Yes => context.time_limit,
    };
    let first = request_discover(peer, 1, Revision::NEWEST_MODERN, time_limit).await?;
    let outcome = match first {
        // Retried with a revision that the server listed.
        Err(error) if error.code == UNSUPPORTED_VERSION => match named_revision(&error) {
            Some(revision) => request_discover(peer, 3, revision, time_limit).await?,
            None => Err(error),
        },
        other => other,
    };
    let result = match outcome {
        Ok(result) => result,
        Err(error) if error.code == UNSUPPORTED_VERSION => {
            return Err(HandshakeFailure::Other(error.message));
        }
        Err(error) if error.is_modern() => {
            // A modern server that requires something more: it can be used, request by request.
            let capabilities = RawJson::trusted(&b"{\"tools\":{},\"prompts\":{},\"resources\":{}}"[..]);
            return Ok(ServerIntroduction {
                revision: Revision::NEWEST_MODERN,
                capabilities,
                server_info: None,
                instructions: None,
                instance: None,
            });
        }
        Err(error) => return Err(HandshakeFailure::Other(error.message)),
    };
    let found: DiscoverResult<'_> =
        result.read().map_err(|error| HandshakeFailure::Other(error.to_string()))?;
    let supported = found.versions.iter().filter_map(|version| Revision::from_name(version));
    let Some(revision) = supported.filter(|revision| revision.era() == Era::Modern).max() else {
        return Err(HandshakeFailure::Other("it supports no known modern revision".into()));
    };
    peer.agreed(Era::Modern, revision);
    let part = |value: &RawValue| result.part(value).detached();
    Ok(ServerIntroduction {
        revision,
        capabilities: found.capabilities.map_or_else(RawJson::empty_object, part),
        server_info: found.meta.map(part).and_then(|meta| meta.member(SERVER_INFO)),
        instructions: found.instructions,
        instance: found.meta.map(part).and_then(|meta| meta.member(INSTANCE)),
    })
}

async fn initialize(
    peer: &dyn Peer,
    context: &HandshakeContext,
) -> Result<ServerIntroduction, HandshakeFailure> {
    peer.agreed(Era::Legacy, Revision::NEWEST_LEGACY);
    let mut params = ObjectWriter::default();
    params.text("protocolVersion", Revision::NEWEST_LEGACY.as_str());
    params.raw("capabilities", &context.capabilities);
    params.raw("clientInfo", &our_info());
    let outcome = send_request(peer, 2, "initialize", params.finish(), context.time_limit).await?;
    let result = outcome
        .map_err(|error| HandshakeFailure::Other(format!("error {}: {}", error.code, error.message)))?;
    let found: InitializeResult<'_> =
        result.read().map_err(|error| HandshakeFailure::Other(error.to_string()))?;
    // An unknown revision is newer or older than all known ones; use the nearest.
    let revision = match Revision::from_name(&found.version) {
        Some(revision) if revision.era() == Era::Legacy => revision,
        _ if found.version.as_str() < Revision::V2024_11_05.as_str() => Revision::V2024_11_05,
        _ => Revision::NEWEST_LEGACY,
    };
    peer.agreed(Era::Legacy, revision);
    peer.notify("notifications/initialized", None).await.map_err(HandshakeFailure::Upstream)?;
    let part = |value: &RawValue| result.part(value).detached();
    Ok(ServerIntroduction {
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
    fn a_refused_revision_is_replaced_by_one_the_server_lists() {
        let cases = [
            (r#"{"supported":["2025-11-25","2026-07-28"]}"#, Some(Revision::V2026_07_28)),
            (r#"{"supported":["2025-11-25"]}"#, None), // falls back to legacy
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
