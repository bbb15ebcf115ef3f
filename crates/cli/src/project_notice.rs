//! Tells whether the running gateway was started in another folder than the current one, which has servers of its own.

use crate::gateway;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::render::{self, line};
use std::path::Path;
use toolbooth_config::{LoadedConfig, ServerConfigState, Sources};

/// Whether the current folder defines servers, and the gateway was started elsewhere.
pub fn is_elsewhere(loaded: &LoadedConfig, sources: &Sources, record: &GatewayRecord) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let has_servers = loaded.servers.iter().any(|server| server.trust_file.is_some());
    has_servers && record.started_in.as_deref().is_some_and(|folder| real(folder) != real(&sources.cwd))
}

/// Says who can use the servers of the current folder, if a gateway runs that was started elsewhere.
pub fn of_this_folder(global: &GlobalOptions) -> Option<String> {
    let (sources, loaded) = gateway::load(global).ok()?;
    text(&loaded, &sources, &GatewayRecord::find(&loaded.settings.data_dir)?)
}

/// Says who can use the servers of the current folder, if the gateway was started elsewhere.
pub fn text(loaded: &LoadedConfig, sources: &Sources, record: &GatewayRecord) -> Option<String> {
    if !is_elsewhere(loaded, sources, record) {
        return None;
    }
    let own = loaded.servers.iter().filter(|server| server.trust_file.is_some());
    let names: Vec<String> = own.clone().map(|server| line(server.name.as_str())).collect();
    let needs_trust = own.clone().any(|server| matches!(server.state, ServerConfigState::NeedsTrust { .. }));
    let condition = if needs_trust { ", after `toolbooth trust`" } else { "" };
    let file = loaded.servers.iter().find_map(|server| server.trust_file.as_deref())?;
    let shown = file
        .strip_prefix(&sources.cwd)
        .map_or_else(|_| render::path(file), |name| name.display().to_string());
    let shown = line(&shown);
    Some(format!(
        "The gateway was started in {}. The servers in {shown} of this folder ({}) are for clients that run `toolbooth stdio` \
         here{condition}; `toolbooth config import {shown} --apply` adds them for all clients.",
        record.started_in.as_deref().map(render::path).unwrap_or_default(),
        names.join(", "),
    ))
}
