//! Collects the secret values of a configuration, which are masked in all output.

use toolbooth_config::{LoadedConfig, ServerConfigState, Settings};
use toolbooth_core::secret::{KnownSecrets, SecretText};
use toolbooth_core::server::{OutboundAuth, RemoteEndpoint, ServerEntry, Transport};

/// The values of the `${VAR}` of a configuration, and the gateway's own keys.
pub fn known_secrets(loaded: &LoadedConfig) -> KnownSecrets {
    let mut texts = of_settings(&loaded.settings);
    for server in &loaded.servers {
        if let ServerConfigState::Ready(entry) = &server.state {
            texts.extend(of_entry(entry));
        }
    }
    KnownSecrets::new(texts.into_iter().flat_map(SecretText::secrets))
}

fn of_settings(settings: &Settings) -> Vec<&SecretText> {
    let optional = [
        &settings.store.url,
        &settings.blobs.url,
        &settings.blobs.access_key,
        &settings.blobs.secret_key,
        &settings.auth.header.secret,
        &settings.auth.console.client_secret,
        &settings.groups.service_token,
        &settings.files.key,
        &settings.dead_letters.key,
        &settings.llm.base_url,
        &settings.llm.api_key,
        &settings.telemetry.otlp_url,
    ];
    let embeddings = settings.search.embeddings.iter();
    let embeddings = embeddings.flat_map(|endpoint| [&endpoint.url, &endpoint.key]).flatten();
    let webhooks = settings.events.webhooks.iter();
    let hooks = webhooks.flat_map(|hook| [Some(&hook.url), hook.secret.as_ref()]).flatten();
    let called = settings.hooks.pre_call.iter().chain(&settings.hooks.post_call);
    let hooks = hooks.chain(called.filter_map(|hook| hook.url.as_ref()));
    let headers = settings.telemetry.headers.values().chain(settings.llm.headers.values());
    let models = settings.llm.endpoints.values().flat_map(|endpoint| {
        let own = [&endpoint.base_url, &endpoint.api_key];
        own.into_iter().flatten().chain(endpoint.headers.values())
    });
    optional.into_iter().flatten().chain(embeddings).chain(headers).chain(models).chain(hooks).collect()
}

fn of_entry(entry: &ServerEntry) -> Vec<&SecretText> {
    let mut texts = Vec::new();
    match &entry.transport {
        Transport::Stdio { command, args, cwd: _, env } => {
            texts.push(command);
            texts.extend(args.iter().chain(env.values()));
        }
        Transport::Http(RemoteEndpoint { url, headers })
        | Transport::Sse(RemoteEndpoint { url, headers })
        | Transport::WebSocket(RemoteEndpoint { url, headers }) => {
            texts.push(url);
            texts.extend(headers.values());
        }
        Transport::Bundled(_) | Transport::Own | Transport::Virtual => {}
    }
    match &entry.auth {
        OutboundAuth::None => {}
        OutboundAuth::Bearer(token) => texts.push(token),
        OutboundAuth::ApiKey { header: _, key } => texts.push(key),
        OutboundAuth::OAuth(client) => texts.extend(client.client_secret.as_ref()),
        // Users' keys are not in the configuration. They are masked on the connections that use them.
        OutboundAuth::UserKey(_) => {}
    }
    texts
}

#[cfg(test)]
mod tests {
    /// Settings of this type: all but `env_file`, which is a path, are in `of_settings`.
    #[test]
    fn every_secret_setting_is_masked() {
        let sources = [
            include_str!("../../config/src/settings/access.rs"),
            include_str!("../../config/src/settings/limits.rs"),
            include_str!("../../config/src/settings/mod.rs"),
            include_str!("../../config/src/settings/outward.rs"),
            include_str!("../../config/src/settings/policy.rs"),
            include_str!("../../config/src/settings/shape.rs"),
        ];
        let is_secret = |line: &&str| line.trim().starts_with("pub ") && line.contains("SecretText");
        let secrets = sources.iter().flat_map(|source| source.lines()).filter(is_secret).count();
        assert_eq!(secrets, 22, "add a new secret setting to `of_settings`, then change this number");
    }
}
