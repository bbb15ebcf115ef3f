//! Every setting has a reader. The settings come from the schema; for each, this table names the line of code that acts
//! on it. A setting that is missing here, or whose line is gone, fails the test: no setting may be parsed and checked
//! and then ignored.
//!
//! Audit H1: `allow_tools` and `deny_tools` were parsed and checked, and nothing read them.

use How::{NotYet, Prose, Read};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// What acts on a setting.
enum How {
    /// A file, relative to `crates/cli/src`, and a line of code in it.
    Read(&'static str, &'static str),
    /// Not implemented; `config check` warns by this line of the checks.
    NotYet(&'static str),
    /// Text for readers of the file; no code acts on it.
    Prose,
}

const SETTINGS: &[(&str, How)] = &[
    ("listen", Read("callers.rs", "settings.listen")),
    ("public_url", Read("callers.rs", "settings.public_url")),
    ("data_dir", Read("gateway.rs", "settings.data_dir")),
    ("store.url", Read("gateway.rs", "settings.store.url")),
    ("blobs.url", Read("file_storage.rs", "settings.blobs.url")),
    ("blobs.endpoint", Read("file_storage.rs", "blobs.endpoint")),
    ("blobs.region", Read("file_storage.rs", "blobs.region")),
    ("blobs.access_key", Read("file_storage.rs", "blobs.access_key")),
    ("blobs.secret_key", Read("file_storage.rs", "blobs.secret_key")),
    ("auth.mode", Read("callers.rs", "auth.mode")),
    ("auth.local_users", Read("callers.rs", "auth.local_users")),
    ("auth.header.name", Read("callers.rs", "header.name")),
    ("auth.header.secret_header", Read("callers.rs", "header.secret_header")),
    ("auth.header.secret", Read("callers.rs", "header.secret")),
    ("auth.jwt.issuer", Read("callers.rs", "jwt.issuer")),
    ("auth.jwt.audience", Read("callers.rs", "jwt.audience")),
    ("auth.jwt.scopes", Read("callers.rs", "jwt.scopes")),
    ("auth.jwt.jwks_url", Read("callers.rs", "jwt.jwks_url")),
    ("auth.jwt.claims.user", Read("callers.rs", "claims.user")),
    ("auth.jwt.claims.groups", Read("callers.rs", "claims.groups")),
    ("auth.jwt.claims.persona", Read("callers.rs", "claims.persona")),
    ("auth.jwt.claims.compliance_level", Read("callers.rs", "claims.compliance_level")),
    ("auth.console.client_id", Read("callers.rs", "console.client_id")),
    ("auth.console.client_secret", Read("callers.rs", "console.client_secret")),
    ("auth.console.scopes", Read("callers.rs", "console.scopes")),
    ("auth.console.prompt", Read("callers.rs", "console.prompt")),
    ("auth.console.provider_name", Read("callers.rs", "console.provider_name")),
    ("auth.admin_group", Read("callers.rs", "settings.auth.admin_group")),
    ("groups.service_url", Read("callers.rs", "groups.service_url")),
    ("groups.service_token", Read("callers.rs", "groups.service_token")),
    ("groups.cache_seconds", Read("callers.rs", "groups.cache_seconds")),
    ("personas.*.allowed_tools", Read("callers.rs", "persona.allowed_tools")),
    ("personas.*.inherit", Read("callers.rs", "persona.inherit")),
    ("personas.*.groups", Read("callers.rs", "persona.groups")),
    ("personas.*.description", Read("callers.rs", "persona.description")),
    ("personas.*.prompt", Read("callers.rs", "persona.prompt")),
    ("prompts.*.description", Read("callers.rs", "prompt.description")),
    ("prompts.*.text", Read("callers.rs", "prompt.text")),
    ("prompts.*.groups", Read("callers.rs", "prompt.groups")),
    ("policy.consent", Read("terms.rs", "settings.policy.consent")),
    ("policy.plan.reads", Read("terms.rs", "settings.policy.plan.reads")),
    ("policy.on_change", Read("terms.rs", "settings.policy.on_change")),
    ("policy.rules.[].subject", Read("terms.rs", "rule.subject")),
    ("policy.rules.[].tools.names", Read("terms.rs", "tools.names")),
    ("policy.rules.[].tools.capability", Read("terms.rs", "tools.capability")),
    ("policy.rules.[].tools.side_effects", Read("terms.rs", "tools.side_effects")),
    ("policy.rules.[].arguments", Read("terms.rs", "rule.arguments")),
    ("policy.rules.[].effect", Read("terms.rs", "rule.effect")),
    ("policy.rules.[].approval", Read("terms.rs", "rule.approval")),
    ("policy.rules.[].reason", Read("terms.rs", "rule.reason")),
    ("approval.default", Read("terms.rs", "settings.approval.default")),
    ("approval.expires_seconds", Read("terms.rs", "settings.approval.expires_seconds")),
    ("approval.wait_seconds", Read("terms.rs", "settings.approval.wait_seconds")),
    ("approval.approvers", Read("terms.rs", "settings.approval.approvers")),
    ("exposure.mode", Read("terms.rs", "exposure_settings.mode")),
    ("exposure.clients", Read("terms.rs", "exposure_settings.clients")),
    ("exposure.personas", Read("terms.rs", "exposure_settings.personas")),
    ("exposure.always_load_tools", Read("terms.rs", "exposure_settings.always_load_tools")),
    ("exposure.summary_description_limit", Read("terms.rs", "exposure_settings.summary_description_limit")),
    ("exposure.max_tools_per_search", Read("terms.rs", "exposure_settings.max_tools_per_search")),
    ("exposure.sdk_tokens", Read("terms.rs", "exposure_settings.sdk_tokens")),
    ("exposure.tool_tokens", Read("terms.rs", "exposure_settings.tool_tokens")),
    ("search.answer_tokens", Read("terms.rs", "settings.search.answer_tokens")),
    ("search.embeddings.url", Read("terms.rs", "embeddings.url")),
    ("search.embeddings.model", Read("terms.rs", "embeddings.model")),
    ("search.embeddings.key", Read("terms.rs", "embeddings.key")),
    ("naming.style", Read("gateway.rs", "settings.naming.style")),
    ("naming.max_length", Read("gateway.rs", "settings.naming.max_length")),
    ("lint.min_score", Read("terms.rs", "settings.lint.min_score")),
    ("limits.result_tokens", Read("terms.rs", "settings.limits.result_tokens")),
    ("limits.max_call_seconds", Read("gateway.rs", "settings.limits.max_call_seconds")),
    ("limits.body_bytes", Read("gateway.rs", "settings.limits.body_bytes")),
    ("limits.upstream_bytes", Read("gateway.rs", "settings.limits.upstream_bytes")),
    ("limits.calls_per_minute", Read("terms.rs", "limits.calls_per_minute")),
    ("limits.runtime_seconds", Read("terms.rs", "limits.runtime_seconds")),
    ("limits.cost", Read("terms.rs", "limits.cost")),
    ("limits.artifacts", Read("terms.rs", "settings.limits.artifacts")),
    ("limits.artifact_bytes", Read("terms.rs", "settings.limits.artifact_bytes")),
    ("limits.mcp_data_bytes", Read("gateway.rs", "settings.limits.mcp_data_bytes")),
    ("limits.queue", Read("terms.rs", "limits.queue")),
    ("limits.tools_per_server", Read("gateway.rs", "settings.limits.tools_per_server")),
    ("limits.sessions", Read("gateway.rs", "settings.limits.sessions")),
    ("results.inspect", Read("terms.rs", "settings.results.inspect")),
    ("results.recent_bytes", Read("terms.rs", "settings.results.recent_bytes")),
    ("files.key", Read("file_storage.rs", "files.key")),
    ("files.url_seconds", Read("file_storage.rs", "files.url_seconds")),
    ("files.grace_seconds", Read("file_storage.rs", "files.grace_seconds")),
    ("files.max_upload_bytes", Read("file_storage.rs", "files.max_upload_bytes")),
    ("files.user_bytes", Read("file_storage.rs", "files.user_bytes")),
    ("files.user_files", Read("file_storage.rs", "files.user_files")),
    ("files.keep_days", Read("file_storage.rs", "files.keep_days")),
    ("files.max_uses", Read("file_storage.rs", "files.max_uses")),
    ("files.single_use", Read("file_storage.rs", "files.single_use")),
    ("files.unknown", Read("file_storage.rs", "files.unknown")),
    ("display.iframe_hosts", Read("terms.rs", "settings.display.iframe_hosts")),
    ("compliance.levels.[].name", Read("callers.rs", "level.name")),
    ("compliance.levels.[].description", Prose),
    ("compliance.levels.[].aliases", Read("callers.rs", "level.aliases")),
    ("compliance.levels.[].allowed_with", Read("callers.rs", "level.allowed_with")),
    ("llm.base_url", Read("terms.rs", "llm.base_url")),
    ("llm.api_key", Read("terms.rs", "llm.api_key")),
    ("llm.model", Read("terms.rs", "llm.model")),
    ("llm.allow", Read("terms.rs", "llm.allow")),
    ("llm.models", Read("terms.rs", "llm.models")),
    ("llm.max_tokens", Read("terms.rs", "llm.max_tokens")),
    ("llm.requests_per_call", Read("terms.rs", "llm.requests_per_call")),
    ("llm.tokens_per_day", Read("terms.rs", "llm.tokens_per_day")),
    ("llm.timeout_seconds", Read("terms.rs", "llm.timeout_seconds")),
    ("llm.headers", Read("terms.rs", "llm.headers")),
    ("llm.temperature", Read("chat_models.rs", "llm.temperature")),
    ("llm.endpoints.*.base_url", Read("chat_models.rs", "endpoint.base_url")),
    ("llm.endpoints.*.api_key", Read("chat_models.rs", "endpoint.api_key")),
    ("llm.endpoints.*.model", Read("chat_models.rs", "endpoint.model")),
    ("llm.endpoints.*.max_tokens", Read("chat_models.rs", "endpoint.max_tokens")),
    ("llm.endpoints.*.temperature", Read("chat_models.rs", "endpoint.temperature")),
    ("llm.endpoints.*.headers", Read("chat_models.rs", "endpoint.headers")),
    ("events.webhooks.[].url", Read("exporters.rs", "hook.url")),
    ("events.webhooks.[].types", Read("exporters.rs", "hook.types")),
    ("events.webhooks.[].secret", Read("exporters.rs", "hook.secret")),
    ("events.ring", Read("gateway.rs", "settings.events.ring")),
    ("hooks.pre_call.[].name", Read("call_hooks.rs", "hook.name")),
    ("hooks.pre_call.[].tools", Read("call_hooks.rs", "hook.tools")),
    ("hooks.pre_call.[].command", Read("call_hooks.rs", "hook.command")),
    ("hooks.pre_call.[].url", Read("call_hooks.rs", "hook.url")),
    ("hooks.pre_call.[].timeout_ms", Read("call_hooks.rs", "hook.timeout_ms")),
    ("hooks.pre_call.[].on_error", Read("call_hooks.rs", "hook.on_error")),
    ("hooks.post_call.[].name", Read("call_hooks.rs", "hook.name")),
    ("hooks.post_call.[].tools", Read("call_hooks.rs", "hook.tools")),
    ("hooks.post_call.[].command", Read("call_hooks.rs", "hook.command")),
    ("hooks.post_call.[].url", Read("call_hooks.rs", "hook.url")),
    ("hooks.post_call.[].timeout_ms", Read("call_hooks.rs", "hook.timeout_ms")),
    ("hooks.post_call.[].on_error", Read("call_hooks.rs", "hook.on_error")),
    ("audit.calls", Read("terms.rs", "settings.audit.calls")),
    ("audit.keep_days", Read("gateway.rs", "settings.audit.keep_days")),
    ("audit.keep_bytes", Read("gateway.rs", "settings.audit.keep_bytes")),
    ("access_log.path", Read("commands/serve/mod.rs", "access_log.path")),
    ("access_log.max_bytes", Read("commands/serve/mod.rs", "access_log.max_bytes")),
    ("dead_letters.max_replays", Read("terms.rs", "settings.dead_letters.max_replays")),
    ("dead_letters.schedule_seconds", Read("terms.rs", "settings.dead_letters.schedule_seconds")),
    ("dead_letters.key", Read("gateway.rs", "settings.dead_letters.key")),
    ("telemetry.otlp_url", Read("exporters.rs", "settings.telemetry.otlp_url")),
    ("telemetry.headers", Read("exporters.rs", "settings.telemetry.headers")),
    ("manifests.tools", Read("../../config/src/manifest/gather.rs", "manifests.tools")),
    ("manifests.personas", Read("../../config/src/manifest/gather.rs", "manifests.personas")),
    ("manifests.skills", Read("../../config/src/manifest/skills.rs", "manifests.skills")),
    ("manifests.jobs", Read("../../config/src/manifest/workflows.rs", "manifests.jobs")),
    ("registry.url", Read("commands/servers_add/registry.rs", "settings.registry.url")),
    ("manifests.tasks", Read("../../config/src/manifest/workflows.rs", "manifests.tasks")),
    ("env_file", Read("../../config/src/resolve.rs", "settings.env_file")),
    ("allow_tools", Read("terms.rs", "settings.allow_tools")),
    ("deny_tools", Read("terms.rs", "settings.deny_tools")),
    ("allow_server_tools", Read("terms.rs", "settings.allow_server_tools")),
    ("deny_server_tools", Read("terms.rs", "settings.deny_server_tools")),
    ("environment", Read("gateway.rs", "settings.environment")),
    ("roots", Read("gateway.rs", "settings.roots")),
    ("allowed_hosts", Read("gateway.rs", "settings.allowed_hosts")),
    ("allowed_origins", Read("gateway.rs", "settings.allowed_origins")),
    ("retry.attempts", Read("terms.rs", "retry.attempts")),
    ("retry.base", Read("terms.rs", "retry.base")),
    ("retry.factor", Read("terms.rs", "retry.factor")),
    ("retry.max", Read("terms.rs", "retry.max")),
    ("retry.jitter", Read("terms.rs", "retry.jitter")),
    ("drain_seconds", Read("commands/serve/mod.rs", "settings.drain_seconds")),
    ("personas.*.allowed_skills", Read("callers.rs", "persona.allowed_skills")),
    ("personas.*.flags", NotYet("persona.flags")),
];

const SERVER_FIELDS: &[(&str, How)] = &[
    ("command", Read("../../upstream/src/open.rs", "command")),
    ("args", Read("../../upstream/src/open.rs", "args")),
    ("cwd", Read("../../upstream/src/open.rs", "cwd")),
    ("env", Read("../../upstream/src/open.rs", "env")),
    ("url", Read("../../upstream/src/open.rs", "url")),
    ("headers", Read("../../upstream/src/open.rs", "headers")),
    ("transport", Read("../../upstream/src/open.rs", "Transport::WebSocket")),
    ("type", Read("../../upstream/src/open.rs", "Transport::WebSocket")),
    ("bundled", Read("../../upstream/src/open.rs", "Transport::Bundled")),
    ("auth", Read("gateway.rs", "entry.auth")),
    ("auth_type", Read("../../config/src/entry/auth.rs", "kind.or(auth_type)")),
    ("auth_token", Read("../../config/src/entry/auth.rs", "token.or(auth_token)")),
    ("auth_header", Read("../../config/src/entry/auth.rs", "header.or(auth_header)")),
    ("oauth", Read("sign_in.rs", "oauth")),
    ("scopes", Read("../../config/src/entry/auth.rs", "chain(scopes)")),
    ("forward_headers", Read("../../upstream/src/connection.rs", "entry.forward_headers")),
    ("wormhole", Read("../../config/src/entry/auth.rs", "wormhole == Some(true)")),
    ("groups", Read("../../core/src/permission.rs", "server.groups")),
    ("persona", Read("../../core/src/permission.rs", "server.personas")),
    ("personas", Read("../../core/src/permission.rs", "server.personas")),
    ("description", Read("../../server/src/rest/servers.rs", "about.description")),
    ("short_description", Read("../../server/src/rest/servers.rs", "about.short_description")),
    ("author", Read("../../server/src/rest/servers.rs", "about.author")),
    ("help_email", Read("../../server/src/rest/servers.rs", "about.help_email")),
    ("compliance_level", Read("../../core/src/permission.rs", "compliance_level")),
    ("enabled", Read("../../core/src/permission.rs", "server.enabled")),
    ("disabled", Read("../../config/src/entry/normalise.rs", "says(\"disabled\")")),
    ("auto_connect", Read("../../engine/src/servers/reload.rs", "entry.auto_connect")),
    ("lazy", Read("../../engine/src/servers/reload.rs", "entry.lazy")),
    ("share", Read("../../upstream/src/pool.rs", ".share")),
    ("tools", Read("../../core/src/catalog/filter.rs", "entry.tools")),
    ("allow_tools", Read("../../core/src/catalog/filter.rs", "rules.allow")),
    ("deny_tools", Read("../../core/src/catalog/filter.rs", "rules.deny")),
    ("require_approval", Read("../../core/src/catalog/filter.rs", "rules.require_approval")),
    ("side_effects", Read("../../core/src/manifest/terms.rs", "defaults.side_effects")),
    ("default_timeout", Read("../../core/src/manifest/terms.rs", "defaults.default_timeout")),
    ("allow_parallel", Read("../../core/src/manifest/terms.rs", "defaults.allow_parallel")),
    ("requires_consent", Read("../../core/src/manifest/terms.rs", "defaults.requires_consent")),
    ("approval", Read("../../core/src/catalog/tool.rs", "terms.approval")),
    ("idempotency_key", Read("../../core/src/manifest/terms.rs", "defaults.idempotency_key")),
    ("trust_annotations", Read("../../core/src/effects/mod.rs", "trust_annotations")),
    ("version", Read("../../core/src/manifest/terms.rs", "defaults.version")),
    ("inject", Read("../../core/src/catalog/admission.rs", "entry.inject")),
    ("timeout", Read("../../upstream/src/open.rs", "entry.timeout")),
    ("connect_timeout", Read("../../upstream/src/supervisor/task.rs", "connect_timeout")),
    ("health_check_interval", Read("../../upstream/src/supervisor/task.rs", "health_check_interval")),
    ("discovery_interval", Read("../../upstream/src/supervisor/task.rs", "discovery_interval")),
    ("restart", Read("../../upstream/src/supervisor/task.rs", "entry.restart")),
    ("era", Read("../../upstream/src/open.rs", "entry.era")),
    ("merge", Read("../../config/src/servers.rs", "\"merge\"")),
    ("enforced", Read("../../config/src/servers.rs", "\"enforced\"")),
];

/// Other spellings of settings, and keys that belong to no setting.
const SPELLINGS: [&str; 7] = [
    "exposure.alwaysLoadTools",
    "exposure.summaryDescriptionLimit",
    "exposure.maxToolsPerSearch",
    "exposure.lazyLoading",
    "search.embeddings.api_key",
    "policy.rules.[].tools.globs",
    "policy.rules.[].tools.capabilities",
];

/// Other spellings of a server's fields, and those of other programs that mean nothing here.
const FIELD_SPELLINGS: [&str; 27] = [
    "cmd",
    "command_args",
    "working_directory",
    "uri",
    "endpoint",
    "serverUrl",
    "httpUrl",
    "http_headers",
    "oauth_config",
    "autoConnect",
    "lazy_load",
    "lazyLoad",
    "enabled_tools",
    "disabled_tools",
    "timeout_seconds",
    "tool_timeout_sec",
    "startup_timeout_sec",
    "name",
    "title",
    "displayName",
    "gallery",
    "allow_edit",
    "poll_interval",
    "dev",
    "alwaysAllow",
    "autoApprove",
    "is_exclusive",
];

/// Keys at the top that hold servers or are other spellings.
const OTHER_TOPS: [&str; 18] = [
    "servers",
    "mcpServers",
    "mcp_servers",
    "mcp",
    "tools",
    "lazyLoading",
    "autoConnect",
    "auto_connect",
    "requestTimeout",
    "request_timeout",
    "alwaysLoadTools",
    "always_load_tools",
    "summaryDescriptionLimit",
    "summary_description_limit",
    "maxToolsPerSearch",
    "max_tools_per_search",
    "inputs",
    "enforced",
];

struct Walk<'a> {
    definitions: &'a Value,
    found: BTreeSet<String>,
}

impl Walk<'_> {
    /// Notes every path below a schema; says whether there was any.
    fn below(&mut self, schema: &Value, path: &str) -> bool {
        let schema = match schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
            Some(name) => &self.definitions.get(name).cloned().unwrap_or_default(),
            None => schema,
        };
        let mut any = false;
        for alternative in ["anyOf", "oneOf"].iter().flat_map(|key| schema[key].as_array()).flatten() {
            any |= self.below(alternative, path);
        }
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            let is_comment = key.starts_with(['$', '_']);
            if is_comment || key == "enforced" || (path.is_empty() && OTHER_TOPS.contains(&key.as_str())) {
                continue;
            }
            any = true;
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if !self.below(inner, &path) {
                self.found.insert(path);
            }
        }
        for (key, step) in [("additionalProperties", "*"), ("items", "[]")] {
            if schema[key].is_object() {
                any |= self.below(&schema[key], &format!("{path}.{step}"));
            }
        }
        any
    }
}

fn check(found: &BTreeSet<String>, table: &[(&str, How)]) {
    let listed: BTreeSet<String> = table.iter().map(|(path, _)| (*path).to_owned()).collect();
    let unread: Vec<_> = found.difference(&listed).collect();
    assert!(unread.is_empty(), "settings without a reader in this table: {unread:?}");
    let gone: Vec<_> = listed.difference(found).collect();
    assert!(gone.is_empty(), "listed here but not in the schema: {gone:?}");
    for (path, how) in table {
        let (file, line) = match how {
            Read(file, line) => (*file, *line),
            NotYet(line) => ("../../config/src/checks.rs", *line),
            Prose => continue,
        };
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let text =
            std::fs::read_to_string(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        assert!(
            code.into_iter().any(|code| code.contains(line)),
            "`{path}` is not read in {file} by `{line}`"
        );
    }
}

#[test]
fn every_setting_has_a_reader() {
    let schema = toolbooth_config::schema();
    let mut walk = Walk { definitions: &schema["$defs"], found: BTreeSet::new() };
    walk.below(&schema, "");
    for spelling in SPELLINGS {
        assert!(walk.found.remove(spelling), "{spelling}");
    }
    check(&walk.found, SETTINGS);
}

#[test]
fn every_field_of_a_server_has_a_reader() {
    let schema = toolbooth_config::schema();
    let fields = schema["$defs"]["Server"]["properties"].as_object().expect("fields of a server");
    let mut found: BTreeSet<String> =
        fields.keys().filter(|key| !key.starts_with(['$', '_'])).cloned().collect();
    for spelling in FIELD_SPELLINGS {
        assert!(found.remove(spelling), "{spelling}");
    }
    check(&found, SERVER_FIELDS);
}
