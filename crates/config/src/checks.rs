//! Checks of setting values that their types cannot express, and of combinations of settings.

use crate::context::LoadContext;
use crate::finding::{Finding, GLOB_HINT};
use crate::node::{Mark, Node};
use crate::servers::{ConfiguredServer, EntryHistory, ServerConfigState};
use crate::settings::{AuthMode, RuleSettings, Settings};
use crate::suggest::nearest;
use std::collections::BTreeMap;
use toolbooth_core::names::ServerName;
use toolbooth_core::own_prompt::{self, MAX_DESCRIPTION_BYTES, MAX_PROMPTS, MAX_TEXT_BYTES};
use toolbooth_core::persona::{self, is_same_name};
use toolbooth_core::secret::SecretText;

/// The minimum length of a key, in bytes.
const MIN_KEY: usize = 32;

/// The minimum length of the secret that authenticates a proxy, in bytes.
const MIN_PROXY_SECRET: usize = 16;

/// Words that indicate that a key is still a placeholder.
const PLACEHOLDERS: [&str; 8] =
    ["change", "example", "placeholder", "secret-key", "proxy-secret", "password", "your-", "xxxx"];

/// Checks all settings. Errors that would weaken access control or prevent a start stop the load.
pub(crate) fn settings(context: &mut LoadContext<'_>, merged: &Node, settings: &Settings) {
    authentication(context, merged, settings);
    keys(context, merged, settings);
    urls(context, merged, settings);
    storage_urls(context, merged, settings);
    ranges(context, merged, settings);
    personas(context, merged, settings);
    prompts(context, merged, settings);
    let lists = [
        ("allow_tools", &settings.allow_tools),
        ("deny_tools", &settings.deny_tools),
        ("allow_server_tools", &settings.allow_server_tools),
        ("deny_server_tools", &settings.deny_server_tools),
    ];
    for (key, globs) in lists {
        for glob in globs {
            if globset::Glob::new(glob).is_err() {
                let finding =
                    Finding::error("config.bad-glob", format!("`{key}`: `{glob}` is not a valid glob"));
                fail(context, merged, &[key], finding.hint(GLOB_HINT));
            }
        }
    }
}

/// Checks personas; with an invalid list of tools, a persona would allow too much or nothing.
fn personas(context: &mut LoadContext<'_>, merged: &Node, settings: &Settings) {
    for (name, persona) in &settings.personas {
        let long = name.is_empty() || name.len() > 64;
        if long || name.chars().any(char::is_control) {
            let finding = Finding::error(
                "config.bad-persona",
                "a persona name must have 1 to 64 characters and no control characters",
            );
            fail(context, merged, &["personas", name], finding);
        }
        let is_same = |other: &&String| *other != name && is_same_name(other, name);
        if let Some(other) = settings.personas.keys().take_while(|other| *other != name).find(is_same) {
            let sentence = format!("the personas `{other}` and `{name}` differ in case only");
            let finding = Finding::error("config.bad-persona", sentence);
            let hint = "names of personas compare without case; rename one";
            fail(context, merged, &["personas", name], finding.hint(hint));
        }
        if !persona.flags.is_empty() {
            not_yet(context, merged, &["personas", name, "flags"]);
        }
        for glob in persona.allowed_tools.iter().flatten() {
            if globset::Glob::new(glob).is_err() {
                let sentence = format!("`personas.{name}.allowed_tools`: `{glob}` is not a valid glob");
                let finding = Finding::error("config.bad-glob", sentence).hint(GLOB_HINT);
                fail(context, merged, &["personas", name, "allowed_tools"], finding);
            }
        }
    }
}

/// Checks the prompts of the operator and of personas.
fn prompts(context: &mut LoadContext<'_>, merged: &Node, settings: &Settings) {
    let mut bad = |path: &[&str], sentence: String, hint: &str| {
        let finding = Finding::error("config.bad-prompt", sentence).hint(hint);
        fail(context, merged, path, finding);
    };
    for (name, persona) in &settings.personas {
        if let Some(reason) = persona.prompt.as_deref().and_then(text_fault) {
            let sentence = format!("`personas.{name}.prompt` {reason}");
            bad(&["personas", name, "prompt"], sentence, "shorten it, or remove it");
        }
    }
    if settings.prompts.len() > MAX_PROMPTS {
        let sentence =
            format!("there are {} prompts, over the limit of {MAX_PROMPTS}", settings.prompts.len());
        bad(&["prompts"], sentence, "remove some");
    }
    for (name, prompt) in &settings.prompts {
        let path = ["prompts", name.as_str()];
        if !own_prompt::is_valid_name(name) {
            let sentence = format!("`{name}` is not a valid name of a prompt");
            bad(&path, sentence, "use 1 to 64 ASCII letters, digits, `_` and `-`");
        }
        if let Some(reason) = text_fault(&prompt.text) {
            bad(&path, format!("`prompts.{name}.text` {reason}"), "give the text of the prompt as `text`");
        }
        if prompt.description.as_ref().is_some_and(|text| text.len() > MAX_DESCRIPTION_BYTES) {
            let sentence =
                format!("`prompts.{name}.description` is over the limit of {MAX_DESCRIPTION_BYTES} bytes");
            bad(&path, sentence, "shorten it");
        }
        let mut others = settings.personas.iter().filter(|(_, persona)| persona.prompt.is_some());
        if let Some((other, _)) = others.find(|(other, _)| persona::prompt_name(other) == *name) {
            let sentence = format!("the prompt of the persona `{other}` is also called `{name}`");
            bad(&path, sentence, "give the prompt another name");
        }
    }
}

/// The reason why a text cannot be a prompt.
fn text_fault(text: &str) -> Option<String> {
    match text.trim().is_empty() {
        true => Some("is empty".to_owned()),
        false => {
            (text.len() > MAX_TEXT_BYTES).then(|| format!("is over the limit of {MAX_TEXT_BYTES} bytes"))
        }
    }
}

/// Warns of a setting that is not implemented yet.
fn not_yet(context: &mut LoadContext<'_>, merged: &Node, path: &[&str]) {
    let sentence = format!("`{}` has no effect yet", path.join("."));
    let finding =
        Finding::warning("config.not-yet", sentence).hint("remove it, or keep it for a later version");
    let finding = located(context, merged, path, finding);
    context.findings.push(finding);
}

fn fail(context: &mut LoadContext<'_>, merged: &Node, path: &[&str], finding: Finding) {
    let finding = located(context, merged, path, finding);
    context.fatal(finding);
}

fn located(context: &LoadContext<'_>, merged: &Node, path: &[&str], finding: Finding) -> Finding {
    let finding = finding.about(path.join("."));
    // Point at the longest part of the path that is written in a file.
    let nearest = (1..=path.len()).rev().find_map(|length| merged.at(&path[..length]));
    match nearest {
        Some(node) => finding.at(&context.texts, node.mark),
        None => finding,
    }
}

fn authentication(context: &mut LoadContext<'_>, merged: &Node, settings: &Settings) {
    let auth = &settings.auth;
    match auth.mode {
        AuthMode::Local if !settings.listen.is_loopback() => {
            let sentence = "with `auth.mode` `local`, every client that can reach the gateway would have its owner's rights";
            let finding = Finding::error("config.open-door", sentence)
                .hint("listen on 127.0.0.1, or set `auth.mode` to `token`, `header` or `jwt`");
            fail(context, merged, &["listen"], finding);
        }
        AuthMode::Header if auth.header.secret.is_none() => {
            let sentence = "`auth.mode` `header` needs `auth.header.secret`; without it, any client could impersonate any user";
            let finding = Finding::error("config.no-proxy-secret", sentence)
                .hint("set it to the value that your proxy sends in the header `auth.header.secret_header`");
            fail(context, merged, &["auth", "header", "secret"], finding);
        }
        AuthMode::Jwt if auth.jwt.issuer.is_none() || auth.jwt.audience.is_empty() => {
            let sentence = "`auth.mode` `jwt` needs `auth.jwt.issuer` and `auth.jwt.audience`";
            fail(context, merged, &["auth", "jwt"], Finding::error("config.jwt-incomplete", sentence));
        }
        _ => {}
    }
    if let Some(scope) = auth.jwt.scopes.iter().find(|scope| !is_scope(scope)) {
        let sentence = format!("`auth.jwt.scopes` has `{}`, which is not a scope", scope.escape_default());
        let hint = "write each scope as its own text, without spaces, quotes and backslashes";
        let finding = Finding::error("config.bad-scope", sentence).hint(hint);
        fail(context, merged, &["auth", "jwt", "scopes"], finding);
    }
    let console = &auth.console;
    let problem = match &console.client_id {
        None if console.client_secret.is_some() => Some("`auth.console` needs `auth.console.client_id`"),
        Some(_) if auth.mode != AuthMode::Jwt => {
            Some("`auth.console` needs `auth.mode` `jwt`: the identity provider signs users in")
        }
        _ => None,
    };
    if let Some(sentence) = problem {
        fail(context, merged, &["auth", "console"], Finding::error("config.console-login", sentence));
    }
}

/// Whether a text is one scope (RFC 6749, 3.3).
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

fn keys(context: &mut LoadContext<'_>, merged: &Node, settings: &Settings) {
    let keys = [
        (["files", "key"].as_slice(), &settings.files.key),
        (["dead_letters", "key"].as_slice(), &settings.dead_letters.key),
        (["auth", "header", "secret"].as_slice(), &settings.auth.header.secret),
    ];
    for (path, key) in keys {
        let Some(value) = key.as_ref().map(|key| key.expose().to_ascii_lowercase()) else { continue };
        let key = path.join(".");
        let shortest = if path[0] == "auth" { MIN_PROXY_SECRET } else { MIN_KEY };
        let is_monotonous = value.chars().all(|c| value.starts_with(c));
        if is_monotonous || PLACEHOLDERS.iter().any(|word| value.contains(word)) {
            let finding = Finding::error("config.weak-key", format!("`{key}` is still a placeholder"));
            fail(context, merged, path, finding.hint("generate one with `openssl rand -hex 32`"));
        } else if value.len() < shortest {
            let finding =
                Finding::error("config.weak-key", format!("`{key}` is shorter than {shortest} characters"));
            fail(context, merged, path, finding.hint("generate one with `openssl rand -hex 32`"));
        }
    }
}

fn urls(context: &mut LoadContext<'_>, merged: &Node, settings: &Settings) {
    let mut addresses: Vec<(Vec<&str>, String)> = Vec::new();
    let mut add = |path: &[&'static str], url: Option<&str>| {
        addresses.extend(url.map(|url| (path.to_vec(), url.to_owned())));
    };
    add(&["public_url"], settings.public_url.as_deref());
    add(&["blobs", "endpoint"], settings.blobs.endpoint.as_deref());
    add(&["groups", "service_url"], settings.groups.service_url.as_deref());
    add(&["auth", "jwt", "issuer"], settings.auth.jwt.issuer.as_deref());
    add(&["auth", "jwt", "jwks_url"], settings.auth.jwt.jwks_url.as_deref());
    add(&["llm", "base_url"], settings.llm.base_url.as_ref().map(|url| url.expose()));
    let embeddings = settings.search.embeddings.as_ref().and_then(|embeddings| embeddings.url.as_ref());
    add(&["search", "embeddings", "url"], embeddings.map(|url| url.expose()));
    add(&["telemetry", "otlp_url"], settings.telemetry.otlp_url.as_ref().map(|url| url.expose()));
    for webhook in &settings.events.webhooks {
        add(&["events", "webhooks"], Some(webhook.url.expose()));
    }
    for hook in settings.hooks.pre_call.iter().chain(&settings.hooks.post_call) {
        add(&["hooks"], hook.url.as_ref().map(|url| url.expose()));
    }
    for (path, url) in addresses {
        let fits =
            url::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !fits {
            let sentence = format!("`{}` is not an http or https URL", path.join("."));
            let finding = located(context, merged, &path, Finding::error("config.bad-url", sentence));
            context.findings.push(finding);
        }
    }
}

/// Checks the URLs of the store and of the blob storage, without which a gateway cannot start.
fn storage_urls(context: &mut LoadContext<'_>, merged: &Node, settings: &Settings) {
    let url = |url: &Option<SecretText>| url.as_ref().map(|url| url.expose().to_owned());
    let store = url(&settings.store.url).and_then(|url| store_fault(&url));
    let blobs = url(&settings.blobs.url).and_then(|url| blobs_fault(&url));
    for (key, fault) in [("store", store), ("blobs", blobs)] {
        if let Some(finding) = fault {
            fail(context, merged, &[key, "url"], finding);
        }
    }
}

fn store_fault(url: &str) -> Option<Finding> {
    if url == "memory:" {
        return None;
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return None;
    }
    let Some(path) = url.strip_prefix("sqlite:") else {
        let sentence = "`store.url` must begin with `sqlite:`, `postgres://` or `memory:`";
        let hint = "write `sqlite:PATH` for a file, `postgres://USER@HOST/DATABASE` for several gateways, or `memory:` \
            for a store that is not persistent";
        return Some(Finding::error("store.bad-url", sentence).hint(hint));
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.contains('?') {
        let finding = Finding::error("store.bad-url", "`store.url` does not accept parameters after `?`");
        return Some(finding.hint("remove `?` and everything after it"));
    }
    let is_file = !path.is_empty() && !path.ends_with('/') && !path.starts_with(':') && !path.contains('\0');
    let finding = || Finding::error("store.bad-url", "`store.url` does not name a file after `sqlite:`");
    (!is_file).then(|| finding().hint("write `sqlite:PATH`, or `memory:` for a store that is not persistent"))
}

fn blobs_fault(url: &str) -> Option<Finding> {
    let fits = match (url.strip_prefix("s3://"), url.strip_prefix("file:")) {
        (Some(rest), _) => {
            let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            !name.is_empty() && name.chars().all(plain) && !prefix.contains(['?', '#', '\0'])
        }
        (_, Some(path)) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            !path.is_empty() && !path.contains(['?', '\0'])
        }
        (None, None) => url == "memory:",
    };
    let finding = || Finding::error("blobs.bad-url", "`blobs.url` is not a valid storage URL");
    (!fits).then(|| {
        finding()
            .hint("write `file:PATH`, `s3://BUCKET/PREFIX`, or `memory:` for storage that is not persistent")
    })
}

/// Enforces the ranges of numbers. The same ranges are attributes of the settings, so that editors show them.
fn ranges(context: &mut LoadContext<'_>, merged: &Node, settings: &Settings) {
    let ranges = [
        (["exposure", "max_tools_per_search"], u64::from(settings.exposure.max_tools_per_search), 1, 50),
        (
            ["exposure", "summary_description_limit"],
            u64::from(settings.exposure.summary_description_limit),
            1,
            10_000,
        ),
        (["naming", "max_length"], u64::from(settings.naming.max_length), 16, 256),
        (["lint", "min_score"], u64::from(settings.lint.min_score), 0, 100),
        (["retry", "attempts"], u64::from(settings.retry.attempts), 1, 20),
        (["access_log", "max_bytes"], settings.access_log.max_bytes, 1 << 16, 1 << 40),
        (["limits", "body_bytes"], settings.limits.body_bytes, 1024, 1 << 32),
        (["limits", "upstream_bytes"], settings.limits.upstream_bytes, 1024, 1 << 32),
        (["results", "recent_bytes"], settings.results.recent_bytes, 0, 1 << 30),
    ];
    for (path, value, low, high) in ranges {
        if !(low..=high).contains(&value) {
            let sentence = format!("`{}` must be from {low} to {high}, not {value}", path.join("."));
            let finding = located(context, merged, &path, Finding::error("config.out-of-range", sentence));
            context.findings.push(finding);
        }
    }
    let factor = settings.retry.factor;
    if !(1.0..=100.0).contains(&factor) {
        let sentence = format!("`retry.factor` must be from 1 to 100, not {factor}");
        let finding =
            located(context, merged, &["retry", "factor"], Finding::error("config.out-of-range", sentence));
        context.findings.push(finding);
    }
}

/// Checks the globs, pointers and regular expressions of a rule.
pub(crate) fn rule(context: &LoadContext<'_>, rule: &RuleSettings, mark: Mark) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |code, sentence: String, hint: Option<String>| {
        let mut finding = Finding::error(code, sentence).at(&context.texts, mark);
        finding.hint = hint;
        findings.push(finding);
    };
    for glob in &rule.tools.names {
        if globset::Glob::new(glob).is_err() {
            let sentence = format!("`policy.rules`: `{glob}` is not a valid glob for tool names");
            note("config.bad-glob", sentence, Some(GLOB_HINT.into()));
        }
    }
    for (pointer, pattern) in &rule.arguments {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            let sentence = format!("`policy.rules`: `{pointer}` is not a JSON pointer");
            note("config.bad-pointer", sentence, Some(format!("did you mean `/{pointer}`?")));
        }
        if regex::Regex::new(pattern).is_err() {
            let sentence = format!("`policy.rules`: `{pattern}` is not a valid regular expression");
            note("config.bad-regex", sentence, None);
        }
    }
    findings
}

/// Disables servers that would receive the headers by which the proxy authenticates itself and names its user.
pub(crate) fn forwarded(
    context: &mut LoadContext<'_>,
    settings: &Settings,
    servers: &mut [ConfiguredServer],
) {
    let header = &settings.auth.header;
    for server in servers {
        let Some(entry) = server.state.entry() else { continue };
        let own = |name: &str| {
            name.eq_ignore_ascii_case(&header.secret_header) || name.eq_ignore_ascii_case(&header.name)
        };
        let Some((name, _)) = entry.forward_headers.iter().find(|(from, _)| own(from)) else { continue };
        let sentence = format!("`{name}` authenticates the proxy to this gateway and cannot be forwarded");
        let mut finding =
            Finding::error("config.bad-header", format!("server `{}`: {sentence}", server.name))
                .about(format!("servers.{}.forward_headers.{name}", server.name))
                .hint("remove it from `forward_headers`; use `inject` to give a tool its caller's name");
        let origin = &server.origin;
        (finding.file, finding.line, finding.column) = (origin.file.clone(), origin.line, origin.column);
        context.findings.push(finding.clone());
        server.state = ServerConfigState::Broken(finding);
    }
}

/// Warns of compliance levels of servers that `compliance.levels` does not have.
pub(crate) fn compliance(
    context: &mut LoadContext<'_>,
    settings: &Settings,
    servers: &[ConfiguredServer],
    history: &BTreeMap<ServerName, EntryHistory>,
) {
    let levels = &settings.compliance.levels;
    if levels.is_empty() {
        return;
    }
    let known: Vec<&str> = levels
        .iter()
        .flat_map(|level| std::iter::once(&level.name).chain(&level.aliases))
        .map(String::as_str)
        .collect();
    for server in servers {
        let level = server.state.entry().and_then(|entry| entry.compliance_level.as_deref());
        let Some(level) = level.filter(|level| !known.contains(level)) else { continue };
        let name = &server.name;
        let sentence = format!("server `{name}`: `{level}` is not one of `compliance.levels`");
        let mut finding = Finding::warning("config.unknown-level", sentence);
        if let Some(node) = history.get(name).and_then(|entry| entry.node.get("compliance_level")) {
            finding = finding.at(&context.texts, node.mark);
        }
        let hint = match nearest(level, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of `{}`", known.join("`, `")),
        };
        context.findings.push(finding.about(format!("servers.{name}.compliance_level")).hint(hint));
    }
}
