//! Settings that are well written one by one but do not fit each other.

use crate::finding::Finding;
use crate::load::Desk;
use crate::node::{Mark, Node};
use crate::servers::{ConfiguredServer, ServerConfigState};
use crate::settings::{AuthMode, Rule, Settings};
use toolbooth_core::secret::SecretText;

/// The shortest key that signs anything.
const MIN_KEY: usize = 32;

/// The shortest text by which a proxy proves itself.
const MIN_PROXY_SECRET: usize = 16;

/// Words that show that a key was never replaced.
const PLACEHOLDERS: [&str; 8] =
    ["change", "example", "placeholder", "secret-key", "proxy-secret", "password", "your-", "xxxx"];

/// How a pattern is written.
pub(crate) const GLOB_HINT: &str =
    "`*` stands for any characters, `?` for one, `[ab]` and `{a,b}` for a choice";

/// Checks all settings together; what would open a door stops the load.
pub(crate) fn settings(desk: &mut Desk<'_>, merged: &Node, settings: &Settings) {
    doors(desk, merged, settings);
    keys(desk, merged, settings);
    addresses(desk, merged, settings);
    places(desk, merged, settings);
    ranges(desk, merged, settings);
    personas(desk, merged, settings);
    folders(desk, merged);
    for (key, globs) in [("allow_tools", &settings.allow_tools), ("deny_tools", &settings.deny_tools)] {
        for glob in globs {
            if globset::Glob::new(glob).is_err() {
                let finding =
                    Finding::error("config.bad-glob", format!("`{key}`: `{glob}` is not a pattern"));
                fail(desk, merged, &[key], finding.hint(GLOB_HINT));
            }
        }
    }
}

/// A persona whose list cannot be read would show too much or nothing.
fn personas(desk: &mut Desk<'_>, merged: &Node, settings: &Settings) {
    for (name, persona) in &settings.personas {
        let long = name.is_empty() || name.len() > 64;
        if long || name.chars().any(char::is_control) {
            let finding = Finding::error("config.bad-persona", "a persona's name has 1 to 64 characters");
            fail(desk, merged, &["personas", name], finding);
        }
        let unread = [
            ("allowed_skills", persona.allowed_skills.is_some()),
            ("flags", !persona.flags.is_empty()),
            ("prompt", persona.prompt.is_some()),
        ];
        for (key, _) in unread.into_iter().filter(|(_, is_set)| *is_set) {
            not_yet(desk, merged, &["personas", name, key]);
        }
        for glob in persona.allowed_tools.iter().flatten() {
            if globset::Glob::new(glob).is_err() {
                let sentence = format!("`personas.{name}.allowed_tools`: `{glob}` is not a pattern");
                let finding = Finding::error("config.bad-glob", sentence).hint(GLOB_HINT);
                fail(desk, merged, &["personas", name, "allowed_tools"], finding);
            }
        }
    }
}

/// Folders of which nothing is read yet.
fn folders(desk: &mut Desk<'_>, merged: &Node) {
    for key in ["skills", "jobs", "tasks"] {
        if merged.at(&["manifests", key]).is_some() {
            not_yet(desk, merged, &["manifests", key]);
        }
    }
}

/// A setting that is understood, and on which nothing acts.
fn not_yet(desk: &mut Desk<'_>, merged: &Node, path: &[&str]) {
    let sentence = format!("`{}` does nothing yet", path.join("."));
    let finding = Finding::warning("config.not-yet", sentence)
        .hint("nothing depends on it; take it away, or leave it for later");
    let finding = located(desk, merged, path, finding);
    desk.findings.push(finding);
}

fn fail(desk: &mut Desk<'_>, merged: &Node, path: &[&str], finding: Finding) {
    let finding = located(desk, merged, path, finding);
    desk.fatal(finding);
}

fn located(desk: &Desk<'_>, merged: &Node, path: &[&str], finding: Finding) -> Finding {
    let finding = finding.about(path.join("."));
    // The nearest part that is written down says where to look.
    let nearest = (1..=path.len()).rev().find_map(|length| merged.at(&path[..length]));
    match nearest {
        Some(node) => finding.at(&desk.texts, node.mark),
        None => finding,
    }
}

fn doors(desk: &mut Desk<'_>, merged: &Node, settings: &Settings) {
    let auth = &settings.auth;
    match auth.mode {
        AuthMode::Local if !settings.listen.is_loopback() => {
            let sentence = "with `auth.mode` `local`, everybody who can reach the gateway would be its owner";
            let finding = Finding::error("config.open-door", sentence)
                .hint("listen on 127.0.0.1, or set `auth.mode` to `token`, `header` or `jwt`");
            fail(desk, merged, &["listen"], finding);
        }
        AuthMode::Header if auth.header.secret.is_none() => {
            let sentence = "`auth.mode` `header` needs `auth.header.secret`, or anybody could name any user";
            let finding = Finding::error("config.no-proxy-secret", sentence)
                .hint("set it to the text that your proxy sends in `auth.header.secret_header`");
            fail(desk, merged, &["auth", "header", "secret"], finding);
        }
        AuthMode::Jwt if auth.jwt.issuer.is_none() || auth.jwt.audience.is_empty() => {
            let sentence = "`auth.mode` `jwt` needs `auth.jwt.issuer` and `auth.jwt.audience`";
            fail(desk, merged, &["auth", "jwt"], Finding::error("config.jwt-incomplete", sentence));
        }
        _ => {}
    }
}

fn keys(desk: &mut Desk<'_>, merged: &Node, settings: &Settings) {
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
            let finding = Finding::error("config.weak-key", format!("`{key}` still holds a placeholder"));
            fail(desk, merged, path, finding.hint("make one: `openssl rand -hex 32`"));
        } else if value.len() < shortest {
            let finding =
                Finding::error("config.weak-key", format!("`{key}` is shorter than {shortest} characters"));
            fail(desk, merged, path, finding.hint("make one: `openssl rand -hex 32`"));
        }
    }
}

fn addresses(desk: &mut Desk<'_>, merged: &Node, settings: &Settings) {
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
    for (path, url) in addresses {
        let fits =
            url::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !fits {
            let sentence = format!("`{}` is not an http or https address", path.join("."));
            let finding = located(desk, merged, &path, Finding::error("config.bad-url", sentence));
            desk.findings.push(finding);
        }
    }
}

/// Where state and files are kept: a gateway could not start with another place.
fn places(desk: &mut Desk<'_>, merged: &Node, settings: &Settings) {
    let url = |url: &Option<SecretText>| url.as_ref().map(|url| url.expose().to_owned());
    let store = url(&settings.store.url).and_then(|url| store_fault(&url));
    let blobs = url(&settings.blobs.url).and_then(|url| blobs_fault(&url));
    for (key, fault) in [("store", store), ("blobs", blobs)] {
        if let Some(finding) = fault {
            fail(desk, merged, &[key, "url"], finding);
        }
    }
}

fn store_fault(url: &str) -> Option<Finding> {
    if url == "memory:" {
        return None;
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let finding = Finding::error("store.not-built", "`store.url`: this build has no PostgreSQL store");
        return Some(finding.hint("use `sqlite:PATH`"));
    }
    let Some(path) = url.strip_prefix("sqlite:") else {
        let sentence = "`store.url` begins with neither `sqlite:` nor `memory:`";
        let hint = "write `sqlite:PATH` for a file, or `memory:` to keep nothing";
        return Some(Finding::error("store.bad-url", sentence).hint(hint));
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.contains('?') {
        let finding = Finding::error("store.bad-url", "`store.url` has parameters after `?`, and takes none");
        return Some(finding.hint("leave out `?` and what follows it"));
    }
    let is_file = !path.is_empty() && !path.ends_with('/') && !path.starts_with(':') && !path.contains('\0');
    let finding = || Finding::error("store.bad-url", "`store.url` names no file after `sqlite:`");
    (!is_file).then(|| finding().hint("write `sqlite:PATH`, or `memory:` to keep nothing"))
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
    let finding = || Finding::error("blobs.bad-url", "`blobs.url` names no place where files can be kept");
    (!fits).then(|| finding().hint("write `file:PATH`, `s3://BUCKET/PREFIX`, or `memory:` to keep none"))
}

fn ranges(desk: &mut Desk<'_>, merged: &Node, settings: &Settings) {
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
        (["limits", "body_bytes"], settings.limits.body_bytes, 1024, 1 << 32),
        (["limits", "upstream_bytes"], settings.limits.upstream_bytes, 1024, 1 << 32),
    ];
    for (path, value, low, high) in ranges {
        if !(low..=high).contains(&value) {
            let sentence = format!("`{}` is from {low} to {high}, not {value}", path.join("."));
            let finding = located(desk, merged, &path, Finding::error("config.out-of-range", sentence));
            desk.findings.push(finding);
        }
    }
    let factor = settings.retry.factor;
    if !(1.0..=100.0).contains(&factor) {
        let sentence = format!("`retry.factor` is from 1 to 100, not {factor}");
        let finding =
            located(desk, merged, &["retry", "factor"], Finding::error("config.out-of-range", sentence));
        desk.findings.push(finding);
    }
}

/// What is wrong with a rule's texts.
pub(crate) fn rule(desk: &Desk<'_>, rule: &Rule, mark: Mark) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |code, sentence: String, hint: Option<String>| {
        let mut finding = Finding::error(code, sentence).at(&desk.texts, mark);
        finding.hint = hint;
        findings.push(finding);
    };
    for glob in &rule.tools.names {
        if globset::Glob::new(glob).is_err() {
            let sentence = format!("`policy.rules`: `{glob}` is not a pattern for tool names");
            note("config.bad-glob", sentence, Some(GLOB_HINT.into()));
        }
    }
    for (pointer, pattern) in &rule.arguments {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            let sentence = format!("`policy.rules`: `{pointer}` is not a JSON pointer");
            note("config.bad-pointer", sentence, Some(format!("did you mean `/{pointer}`?")));
        }
        if regex::Regex::new(pattern).is_err() {
            let sentence = format!("`policy.rules`: `{pattern}` is not a regular expression");
            note("config.bad-regex", sentence, None);
        }
    }
    findings
}

/// Sets servers aside that would be handed what callers show to this gateway: the headers by which a proxy proves
/// itself and names its user, and cookies.
pub(crate) fn forwarded(desk: &mut Desk<'_>, settings: &Settings, servers: &mut [ConfiguredServer]) {
    let header = &settings.auth.header;
    for server in servers {
        let Some(entry) = server.state.entry() else { continue };
        let own = |name: &str| {
            name.eq_ignore_ascii_case(&header.secret_header) || name.eq_ignore_ascii_case(&header.name)
        };
        let Some((name, _)) = entry.forward_headers.iter().find(|(from, _)| own(from)) else { continue };
        let sentence = format!("`{name}` is shown to this gateway by its proxy and is not passed on");
        let mut finding =
            Finding::error("config.bad-header", format!("server `{}`: {sentence}", server.name))
                .about(format!("servers.{}.forward_headers.{name}", server.name))
                .hint("leave it out of `forward_headers`; a tool gets its caller's name by `inject`");
        let origin = &server.origin;
        (finding.file, finding.line, finding.column) = (origin.file.clone(), origin.line, origin.column);
        desk.findings.push(finding.clone());
        server.state = ServerConfigState::Broken(finding);
    }
}
