//! Reading the configuration again: on request, on a signal, and when a file changes.

use crate::outward::Outward;
use crate::{callers, gateway, terms};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use toolbooth_config::watch::{Watch, watch};
use toolbooth_config::{LoadFailure, Loaded, Sources};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_server::identify::Difference;
use toolbooth_server::mcp::Door;
use toolbooth_server::rest::{ConfigStatus, Reload};
use toolbooth_upstream::http::Fetch;

/// The files that are watched; a reload may find others.
#[derive(Clone)]
pub struct Watched {
    watch: Option<Arc<Watch>>,
    news: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Watched {
    /// Watches these files from now on.
    pub fn new(files: &[PathBuf]) -> Self {
        let (changed, news) = mpsc::channel(8);
        let watch = watch(files.to_vec(), changed);
        if let Err(error) = &watch {
            tracing::warn!("files cannot be watched here ({error}); `toolbooth reload` reads them again");
        }
        Self { watch: watch.ok().map(Arc::new), news: Arc::new(Mutex::new(news)) }
    }

    fn set(&self, files: Vec<PathBuf>) {
        if let Some(watch) = &self.watch {
            watch.set_files(files);
        }
    }

    /// Reads the configuration again whenever a file changes.
    pub async fn follow(self, reload: Reload) {
        let mut news = self.news.lock().await;
        while news.recv().await.is_some() {
            now(&reload).await;
        }
    }
}

/// Reads the configuration again and brings the servers in line; all of it or nothing.
pub fn reloader(door: Arc<Door>, sources: Sources, watched: Watched, status: Arc<ConfigStatus>) -> Reload {
    let sources = Arc::new(Mutex::new(sources));
    Arc::new(move || {
        let (door, sources, watched) = (door.clone(), sources.clone(), watched.clone());
        let status = status.clone();
        Box::pin(async move {
            let mut sources = sources.lock().await;
            let done = apply(&door, &mut sources, &watched, &status).await;
            if let Err(problem) = &done {
                status.failed(problem);
                let event = Event::new(EventKind::ConfigError).code(problem.code);
                door.engine.emit(event.with("message", problem.message.as_str()));
            }
            done
        })
    })
}

/// The files of a configuration that are there, as others are told of them.
pub fn read_files(loaded: &Loaded) -> Vec<String> {
    let read = loaded.files.iter().filter(|file| file.is_file());
    read.map(|file| file.display().to_string()).collect()
}

async fn apply(
    door: &Door,
    sources: &mut Sources,
    watched: &Watched,
    status: &ConfigStatus,
) -> Result<serde_json::Value, Problem> {
    let loaded = toolbooth_config::load_with_trust(sources).map_err(|failure: LoadFailure| {
        watched.set(failure.files.clone());
        Problem::of(&failure)
    })?;
    watched.set(loaded.files.clone());
    sources.good_manifests = loaded.good_manifests.clone();
    for finding in loaded.findings.iter().filter(|finding| finding.is_error()) {
        tracing::error!(code = finding.code, "config.error: {finding}");
        let event = Event::new(EventKind::ConfigError).code(finding.code);
        door.engine.emit(event.with("message", finding.to_string().as_str()));
    }
    let terms = terms::terms(&loaded.settings)?;
    let directory = callers::directory(&loaded, Arc::new(Fetch::default()))?;
    let outward = Outward::of(&loaded.settings)?;
    let engine = &door.engine;
    let plans = gateway::plans(&loaded, &gateway::vaults(&loaded.settings, engine.store()));
    let applied = engine.apply(plans).await.map_err(|error| Problem::of(&error))?;
    engine.set_terms(terms);
    engine.offer_own_tools().await;
    engine.offer_manifests(gateway::manifests(&loaded)).await;
    outward.put_to_work(engine);
    // Groups and personas follow the file; how callers are recognised does not, until the next start.
    if door.identity.set_directory(directory) == Difference::Some {
        engine.announce_all_lists();
    }
    status.read_from(read_files(&loaded));
    let findings: Vec<String> = loaded.findings.iter().map(toolbooth_config::render).collect();
    Ok(serde_json::json!({ "applied": applied, "findings": findings }))
}

/// Reads the configuration again and says in the log what came of it.
pub async fn now(reload: &Reload) {
    match reload().await {
        Ok(report) => tracing::info!("the configuration was read again: {}", report["applied"]),
        Err(problem) => {
            tracing::error!(
                "the configuration was not applied, the last good one stays: {}",
                problem.message
            );
        }
    }
}
