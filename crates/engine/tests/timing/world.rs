//! An engine on paused time with scripted servers.

use crate::peer::{ScriptedPeer, open};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::call::IncomingCall;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::Naming;
use toolbooth_core::clock::{Clock, TimeSource};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::manifest::{Manifest, ManifestScope, Overlay, ProviderKind, ProviderSpec};
use toolbooth_core::retry::{Jitter, RetryTerms};
use toolbooth_core::server::{EraChoice, ServerEntry, SideEffects, Transport};
use toolbooth_engine::{
    AbsentCaller, Answer, CallRequest, DesiredServer, DesiredState, Engine, EngineOptions, FileStorage,
    LoadedManifests, QuestionHandling, Rights, RightsSource, Terms,
};
use toolbooth_store::{MemoryStore, Retention};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::http::ServerCredential;
use toolbooth_upstream::open::OpenContext;
use toolbooth_upstream::peer::ResultReading;
use toolbooth_upstream::process::Reaper;

/// The wall time at which every test begins.
pub const BEGIN_MS: i64 = 1_800_000_000_000;

/// The hard limit on the duration of a call.
pub const MAX_CALL: Duration = Duration::from_secs(3600);

/// Wall time that passes with the paused time of the runtime.
#[derive(Debug)]
struct PausedTime(Instant);

impl TimeSource for PausedTime {
    fn wall(&self) -> Duration {
        Duration::from_millis(BEGIN_MS.unsigned_abs()) + self.0.elapsed()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Every absent caller still has all rights.
struct EveryoneIsOwner;

#[async_trait]
impl RightsSource for EveryoneIsOwner {
    async fn rights(&self, caller: AbsentCaller<'_>) -> Rights {
        Rights::Known(Arc::new(Caller::owner(caller.user)))
    }
}

/// The settings of a world.
pub struct Setup {
    pub terms: Terms,
    pub files: FileStorage,
    pub entries: Vec<ServerEntry>,
    pub manifests: Vec<Manifest>,
    pub store: Arc<MemoryStore>,
}

impl Setup {
    /// These servers, whose tools only read, and retries without jitter.
    pub fn with(peers: &[&Arc<ScriptedPeer>]) -> Self {
        let mut terms = Terms::default();
        terms.routing.retry = RetryTerms { jitter: Jitter::None, ..RetryTerms::default() };
        let entry = |peer: &&Arc<ScriptedPeer>| {
            let transport = Transport::Bundled(peer.name.to_owned());
            let mut entry = ServerEntry::with_defaults(peer.name.parse().expect("a name"), transport);
            entry.defaults.side_effects = SideEffects::ReadExternalService;
            entry
        };
        Self {
            terms,
            files: FileStorage::in_memory(),
            entries: peers.iter().map(entry).collect(),
            manifests: Vec::new(),
            store: Arc::new(MemoryStore::new(Retention::default())),
        }
    }

    /// The same, with the store of an earlier run.
    pub fn store(mut self, store: &Arc<MemoryStore>) -> Self {
        self.store = store.clone();
        self
    }

    /// The same, with other entries.
    pub fn entries(mut self, change: impl Fn(&mut ServerEntry)) -> Self {
        self.entries.iter_mut().for_each(change);
        self
    }

    /// The same, with servers whose tools change something.
    pub fn writing(self) -> Self {
        self.entries(|entry| entry.defaults.side_effects = SideEffects::Write)
    }

    /// The same, with servers of the legacy era.
    pub fn legacy(self) -> Self {
        self.entries(|entry| entry.era = EraChoice::Legacy)
    }

    /// The same, with other settings.
    pub fn terms(mut self, change: impl FnOnce(&mut Terms)) -> Self {
        change(&mut self.terms);
        self
    }

    /// The same, with a manifest that overrides fields of a server's tool.
    pub fn overlay(mut self, tool: &str, overlay: Overlay) -> Self {
        self.manifests.push(manifest(tool, overlay));
        self
    }

    /// The same, with the tool `job`, which the servers provide in order.
    pub fn job(mut self, overlay: Overlay) -> Self {
        let provider = |(index, entry): (usize, &ServerEntry)| ProviderSpec {
            id: format!("mcp:{}", entry.name),
            kind: ProviderKind::Mcp { server: entry.name.clone(), tool: "work".to_owned() },
            priority: i64::try_from(index).expect("few"),
            health_check_interval: Duration::ZERO,
            auth: None,
            arguments: None,
            result: None,
        };
        let providers = self.entries.iter().enumerate().map(provider).collect();
        self.manifests.push(Manifest {
            description: Some("Does a job".to_owned()),
            parameters: Some(RawJson::trusted(r#"{"type":"object"}"#)),
            providers,
            ..manifest("job", overlay)
        });
        self
    }

    /// Starts the engine, and waits until all servers that start at once are connected.
    pub async fn start(self) -> World {
        let Self { terms, files, entries, manifests, store } = self;
        let clock = Arc::new(Clock::new(PausedTime(Instant::now())));
        let options = EngineOptions {
            clock,
            naming: Naming::default(),
            max_call: MAX_CALL,
            letter_key: None,
            event_ring: 100,
            tools_per_server: 100,
            mcp_data_bytes: 10_000,
        };
        let open_context = OpenContext {
            host_environment: BTreeMap::new(),
            allowed_environment: Vec::new(),
            reaper: Reaper::current_exe(),
            bundled: open,
            own_executable: "toolbooth".into(),
            roots: None,
            answer_limit: 1 << 20,
        };
        let desired = |entry: ServerEntry| DesiredServer {
            name: entry.name.clone(),
            hash: String::new(),
            state: DesiredState::Run(Arc::new(entry), ServerCredential::None),
        };
        let desired: Vec<DesiredServer> = entries.into_iter().map(desired).collect();
        let engine = Engine::start(options, terms, store, files, open_context, desired).await;
        let engine = engine.expect("it starts");
        let rights_source: Arc<dyn RightsSource> = Arc::new(EveryoneIsOwner);
        engine.set_rights_source(&rights_source);
        let entries = manifests.into();
        engine.catalog().set_manifests(LoadedManifests { entries, ..LoadedManifests::default() }).await;
        let caller = Arc::new(Caller::owner("ann"));
        engine.catalog().wait_for_servers(&caller).await;
        World { engine, caller, _rights_source: rights_source }
    }
}

fn manifest(name: &str, overlay: Overlay) -> Manifest {
    Manifest {
        name: name.to_owned(),
        scope: ManifestScope::Shared,
        origin: "test".to_owned(),
        overlay,
        description: None,
        parameters: None,
        groups: None,
        providers: Vec::new(),
    }
}

/// A running engine.
pub struct World {
    pub engine: Arc<Engine>,
    pub caller: Arc<Caller>,
    _rights_source: Arc<dyn RightsSource>,
}

/// A request for a tool.
pub fn request(caller: &Arc<Caller>, name: &str) -> CallRequest {
    let capabilities = RawJson::trusted(r#"{"elicitation":{}}"#);
    CallRequest {
        incoming: IncomingCall {
            caller: caller.clone(),
            client: Arc::new(ClientFacts { capabilities, ..ClientFacts::default() }),
            name: name.to_owned(),
            arguments: None,
            meta: Vec::new(),
        },
        readiness: None,
        round: Round::default(),
        progress: ProgressMode::Unwanted,
        questions: QuestionHandling::DuringCall,
        reading: ResultReading::Whole,
        approval_wait: None,
        timeout: None,
        id: None,
    }
}

impl World {
    /// A request for a tool.
    pub fn request(&self, name: &str) -> CallRequest {
        request(&self.caller, name)
    }

    /// Makes a call whose client sees and answers nothing, and returns its outcome and how long it took in
    /// milliseconds.
    pub async fn call(&self, name: &str) -> (String, u128) {
        let began = Instant::now();
        let outcome = self.engine.call(self.request(name), &CallLink::silent()).await;
        (outcome_of(&outcome), began.elapsed().as_millis())
    }
}

/// The outcome of a call in one line: the code of the problem, or the text of the result.
pub fn outcome_of(outcome: &Result<Answer, Problem>) -> String {
    match outcome {
        Ok(Answer::Result { result, .. }) => {
            let content = result.member("content").expect("content").elements().expect("a list");
            let text = content[0].member("text").expect("a text");
            text.string().expect("a string").into_owned()
        }
        Ok(Answer::Held { .. }) => "held".to_owned(),
        Ok(Answer::Error(error)) => format!("error {}", error.code),
        Ok(other) => format!("{other:?}"),
        Err(problem) => problem.code.to_owned(),
    }
}
