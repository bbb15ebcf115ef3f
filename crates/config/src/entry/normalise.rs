//! One written entry to one complete `ServerEntry`, or to the reasons why not.

use super::file::{InjectField, InjectMap, ServerFile};
use super::{auth, rules, transport};
use crate::expand::{self, Variables};
use crate::finding::{Finding, Severity};
use crate::inputs::Sources;
use crate::node::{Mark, Node};
use crate::read::{dotted as dotted_steps, read_all};
use crate::report::{self, Subject};
use crate::texts::Texts;
use std::time::Duration;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::{About, Inject, Restart, ServerEntry, Share, ToolDefaults, Transport};

/// The group that every authenticated caller is in.
const EVERYBODY: &str = "users";

/// Which family of files an entry came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// Any file with a map of servers under a key of its own.
    Plain,
    /// A flat map of servers: these follow the whole injection contract.
    FlatAtlas,
}

/// Whether `${NAME}` may be looked up for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expansion {
    /// Yes; what is unset is an error.
    Strict,
    /// No: the file is not trusted.
    Withheld,
}

/// What normalising needs to know besides the entry.
pub(crate) struct Context<'a> {
    pub sources: &'a Sources,
    pub texts: &'a Texts,
    pub variables: &'a Variables,
    pub flavor: Flavor,
}

/// What normalising one entry collects on its way.
pub(crate) struct Desk<'a> {
    pub context: &'a Context<'a>,
    pub name: &'a ServerName,
    pub node: &'a Node,
    pub findings: Vec<Finding>,
}

impl Desk<'_> {
    /// Where a field stands, or the entry when it is not there.
    pub(crate) fn mark(&self, path: &[&str]) -> Mark {
        self.node.at(path).map_or(self.node.mark, |node| node.mark)
    }

    /// Notes something about a field.
    pub(crate) fn note(&mut self, severity: Severity, code: &'static str, path: &[&str], sentence: &str) {
        self.note_with(severity, code, path, sentence, None);
    }

    /// Notes something about a field, with what to do about it.
    pub(crate) fn note_with(
        &mut self,
        severity: Severity,
        code: &'static str,
        path: &[&str],
        sentence: &str,
        hint: Option<&str>,
    ) {
        let mark = self.mark(path);
        let mut finding = Finding::error(code, format!("server `{}`: {sentence}", self.name))
            .at(self.context.texts, mark)
            .about(dotted(self.name, path));
        finding.severity = severity;
        finding.hint = hint.map(str::to_owned);
        self.findings.push(finding);
    }

    pub(crate) fn error(&mut self, code: &'static str, path: &[&str], sentence: &str) {
        self.note(Severity::Error, code, path, sentence);
    }

    pub(crate) fn warn(&mut self, code: &'static str, path: &[&str], sentence: &str) {
        self.note(Severity::Warning, code, path, sentence);
    }
}

fn dotted(name: &ServerName, path: &[&str]) -> String {
    let mut key = format!("servers.{name}");
    for part in path {
        key.push('.');
        key.push_str(part);
    }
    key
}

/// Reads, expands and completes an entry. Without an entry, at least one finding is an error.
pub(crate) fn normalise(
    context: &Context<'_>,
    name: &ServerName,
    written: &Node,
    expansion: Expansion,
) -> (Option<ServerEntry>, Vec<Finding>) {
    let mut node = written.clone();
    let mut findings = Vec::new();
    // A server that is switched off needs no variables.
    let disabled = is_disabled(&node);
    if expansion == Expansion::Strict {
        for expand::Unexpanded { path, mark, error } in expand::expand_tree(&mut node, context.variables) {
            if disabled {
                continue;
            }
            let mut finding = Finding::error("config.variable", format!("server `{name}`: {error}"))
                .at(context.texts, mark)
                .about(format!("servers.{name}.{}", dotted_steps(&path)));
            finding.hint = error.hint();
            findings.push(finding);
        }
    }
    let (file, errors) = read_all::<ServerFile>(&node);
    let subject =
        Subject { name: &format!("server `{name}`"), key: &format!("servers.{name}"), also_known: &[] };
    findings.extend(errors.iter().map(|error| report::finding(context.texts, &subject, error)));
    let Some(file) = file else { return (None, findings) };
    let misread = !errors.is_empty();
    let mut desk = Desk { context, name, node: &node, findings };
    let entry = complete(&mut desk, file, disabled);
    let mut findings = desk.findings;
    if misread {
        // What a slip took away is not missing: it is misspelt, and that has been said.
        findings.retain(|finding| !matches!(finding.code, "config.no-transport" | "config.no-token"));
    }
    let broken = findings.iter().any(Finding::is_error);
    (entry.filter(|_| !broken), findings)
}

/// Whether an entry says that it is switched off.
pub(crate) fn is_disabled(node: &Node) -> bool {
    let says = |key: &str| node.get(key).and_then(Node::truth);
    says("enabled") == Some(false) || says("disabled") == Some(true)
}

/// Fills in every default. Every field is named, so that none can be forgotten.
fn complete(desk: &mut Desk<'_>, file: ServerFile, disabled: bool) -> Option<ServerEntry> {
    let ServerFile {
        command,
        args,
        cwd,
        env,
        url,
        headers,
        transport,
        kind,
        bundled,
        auth,
        auth_type,
        auth_token,
        auth_header,
        oauth,
        scopes,
        forward_headers,
        wormhole,
        groups,
        persona,
        personas,
        description,
        short_description,
        author,
        help_email,
        compliance_level,
        enabled: _,  // read before expansion, see `is_disabled`
        disabled: _, // the same
        auto_connect,
        lazy,
        share,
        tools,
        allow_tools,
        deny_tools,
        require_approval,
        side_effects,
        default_timeout,
        allow_parallel,
        requires_consent,
        approval,
        idempotency_key,
        trust_annotations,
        version,
        inject,
        timeout,
        connect_timeout,
        health_check_interval,
        restart,
        era,
        merge: _,    // settled when layers were merged
        enforced: _, // the same
    } = file;
    let reach = transport::Reach { command, args, cwd, env, url, headers, transport, kind, bundled };
    let transport = transport::choose(desk, reach, disabled)?;
    let credentials = auth::Credentials { auth, auth_type, auth_token, auth_header, oauth, scopes };
    let (auth, auth_hints) = auth::choose(desk, credentials, &transport)?;
    let defaults = ToolDefaults::default();
    let default_timeout = default_timeout.map(|field| field.0);
    check_times(desk, default_timeout, timeout.map(|field| field.0));
    let contract = desk.context.flavor == Flavor::FlatAtlas || matches!(transport, Transport::Bundled(_));
    let forward_headers = auth::forwarded(desk, forward_headers, wormhole, &transport);
    Some(ServerEntry {
        name: desk.name.clone(),
        transport,
        auth,
        forward_headers,
        groups: admitted(desk, groups),
        personas: persona.into_iter().chain(personas).flat_map(|field| field.0).collect(),
        about: About {
            description: spoken(desk, "description", description),
            short_description: spoken(desk, "short_description", short_description),
            author: spoken(desk, "author", author),
            help_email: spoken(desk, "help_email", help_email),
        },
        enabled: !disabled,
        auto_connect: auto_connect.unwrap_or(true),
        lazy: lazy.unwrap_or(false),
        share: share.unwrap_or(Share::Auto),
        tools: rules::choose(desk, rules::Written { tools, allow_tools, deny_tools, require_approval }),
        defaults: ToolDefaults {
            side_effects: side_effects.unwrap_or(defaults.side_effects),
            default_timeout,
            allow_parallel,
            requires_consent: requires_consent.unwrap_or(defaults.requires_consent),
            approval: approval.unwrap_or(defaults.approval),
            idempotency_key: idempotency_key.map_or(defaults.idempotency_key, |field| field.0),
            trust_annotations: trust_annotations.unwrap_or(defaults.trust_annotations),
            auth: auth_hints,
            version,
        },
        inject: injected(inject, if contract { Inject::contract() } else { Inject::default() }),
        timeout: timeout.map_or(Duration::from_secs(30), |field| field.0),
        connect_timeout: connect_timeout.map_or(Duration::from_secs(30), |field| field.0),
        health_check_interval: health_check_interval.map_or(Duration::from_secs(60), |field| field.0),
        restart: restart.unwrap_or(Restart::Backoff),
        era: era.unwrap_or_default(),
        compliance_level,
    })
}

fn check_times(desk: &mut Desk<'_>, default_timeout: Option<Duration>, timeout: Option<Duration>) {
    if default_timeout.is_some_and(|time| time < Duration::from_secs(1)) {
        desk.error("config.wrong-value", &["default_timeout"], "`default_timeout` is at least one second");
    }
    // Some programs count in thousandths; a call of three hours is rarely meant.
    if timeout.is_some_and(|time| time >= Duration::from_secs(10_000)) {
        let hint = Some("write seconds, or a unit: \"30s\", \"500ms\"");
        let sentence = "`timeout` is almost three hours or more; is it meant in milliseconds?";
        desk.note_with(Severity::Warning, "config.long-timeout", &["timeout"], sentence, hint);
    }
    if timeout.is_some_and(|time| time.is_zero()) {
        desk.error("config.wrong-value", &["timeout"], "`timeout` is more than nothing");
    }
}

fn admitted(desk: &mut Desk<'_>, groups: Option<Vec<String>>) -> Vec<String> {
    match groups {
        None => vec![EVERYBODY.to_owned()],
        Some(groups) => {
            if groups.is_empty() {
                let hint = "leave `groups` out to admit every authenticated caller";
                let sentence = "`groups` is empty, so nobody may use it";
                desk.note_with(Severity::Warning, "config.no-groups", &["groups"], sentence, Some(hint));
            }
            groups
        }
    }
}

/// A text that people and models will read: what was expanded into it is no secret any more.
fn spoken(desk: &mut Desk<'_>, key: &str, text: Option<String>) -> Option<String> {
    let written = desk.node.get(key).map(|node| node.shown());
    if let Some(serde_json::Value::String(template)) = written
        && !expand::references(&template).is_empty()
    {
        let sentence = format!("`{key}` is shown to people and models, and what its variables hold with it");
        desk.warn("config.spoken-variable", &[key], &sentence);
    }
    text
}

/// What is supplied; `usual` where nobody says.
fn injected(inject: Option<InjectField>, usual: Inject) -> Inject {
    match inject {
        Some(InjectField::Switch(true)) => Inject::contract(),
        Some(InjectField::Switch(false)) => Inject::nothing(),
        Some(InjectField::Choice(InjectMap { identity, mcp_data, files })) => {
            let default = Inject::default();
            Inject {
                identity: identity.unwrap_or(default.identity),
                mcp_data: mcp_data.unwrap_or(default.mcp_data),
                files: files.unwrap_or(default.files),
            }
        }
        None => usual,
    }
}
