//! Converts one written entry to a complete `ServerEntry`, or reports its errors.

use super::context::{EntryContext, EntryInputs};
use super::file::{IdempotencyField, IdempotencyMap, InjectField, InjectMap, ServerFile};
use super::{argument_words, auth, rules, transport};
use crate::dialect::Flavor;
use crate::expand::{self, Variables};
use crate::finding::{Finding, Severity};
use crate::node::{Node, Value};
use crate::read::{dotted as dotted_steps, read_all};
use crate::report::{self, ReadSubject};
use std::time::Duration;
use toolbooth_core::manifest::ConsentTerm;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::{
    InjectionSettings, Restart, ServerDescription, ServerEntry, Share, ToolDefaults, Transport,
};

/// The group of all authenticated callers.
const AUTHENTICATED_GROUP: &str = "users";

/// Fields with text for people, whose variables are not expanded: what they show must not be a secret.
const PROSE: [&str; 4] = ["description", "short_description", "author", "help_email"];

/// Whether the variables of an entry are expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expansion {
    /// Yes; an unset variable is an error.
    Strict,
    /// No: the file is not trusted.
    Withheld,
}

/// Reads, expands and completes an entry. If it returns no entry, at least one finding is an error.
pub(crate) fn normalise(
    inputs: &EntryInputs<'_>,
    name: &ServerName,
    written: &Node,
    expansion: Expansion,
) -> (Option<ServerEntry>, Vec<Finding>) {
    let mut node = written.clone();
    let mut findings = Vec::new();
    // A disabled server does not need its variables.
    let disabled = is_disabled(&node);
    if let Err(key) = argument_words::split_args(&mut node) {
        let mark = node.get(key).map_or(node.mark, |args| args.mark);
        let finding = Finding::error(
            "config.wrong-value",
            format!("server `{name}`: `{key}` has a quote that is not closed"),
        )
        .at(inputs.texts, mark)
        .about(format!("servers.{name}.{key}"));
        findings.push(finding.hint(r#"close it, or write a list: ["-y", "server"]"#));
    }
    if expansion == Expansion::Strict {
        for expand::Unexpanded { path, mark, error } in expand_fields(&mut node, inputs.variables) {
            if disabled {
                continue;
            }
            let mut finding = Finding::error("config.variable", format!("server `{name}`: {error}"))
                .at(inputs.texts, mark)
                .about(format!("servers.{name}.{}", dotted_steps(&path)));
            finding.hint = error.hint();
            findings.push(finding);
        }
    }
    let (file, errors) = read_all::<ServerFile>(&node);
    let subject =
        ReadSubject { name: &format!("server `{name}`"), key: &format!("servers.{name}"), also_known: &[] };
    findings.extend(errors.iter().map(|error| report::finding(inputs.texts, &subject, error)));
    let Some(file) = file else { return (None, findings) };
    let misread = !errors.is_empty();
    let mut context = EntryContext { inputs, name, node: &node, findings };
    let entry = complete(&mut context, file, disabled);
    let mut findings = context.findings;
    if misread {
        // A misspelt field is not missing, and has already been reported.
        findings.retain(|finding| finding.code != "config.no-transport");
    }
    let broken = findings.iter().any(Finding::is_error);
    (entry.filter(|_| !broken), findings)
}

/// Expands the variables of all fields except prose.
fn expand_fields(node: &mut Node, variables: &Variables) -> Vec<expand::Unexpanded> {
    let mut prose = Vec::new();
    if let Some(members) = node.members_mut() {
        for (key, value) in members.iter_mut().filter(|(key, _)| PROSE.contains(&key.text.as_str())) {
            let empty = Node { value: Value::Null, mark: value.mark };
            prose.push((key.text.clone(), std::mem::replace(value, empty)));
        }
    }
    let errors = expand::expand_tree(node, variables);
    for (key, written) in prose {
        let member =
            node.members_mut().and_then(|members| members.iter_mut().find(|(name, _)| name.text == key));
        if let Some((_, value)) = member {
            *value = written;
        }
    }
    errors
}

/// Whether an entry is disabled.
pub(crate) fn is_disabled(node: &Node) -> bool {
    let says = |key: &str| node.get(key).and_then(Node::truth);
    says("enabled") == Some(false) || says("disabled") == Some(true)
}

/// Fills in the defaults. All fields are destructured, so that none can be forgotten.
fn complete(context: &mut EntryContext<'_>, file: ServerFile, disabled: bool) -> Option<ServerEntry> {
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
        discovery_interval,
        restart,
        era,
        merge: _,    // settled when layers were merged
        enforced: _, // the same
    } = file;
    let fields =
        transport::TransportFields { command, args, cwd, env, url, headers, transport, kind, bundled };
    let transport = transport::choose(context, fields, disabled)?;
    let fields = auth::AuthFields { auth, auth_type, auth_token, auth_header, oauth, scopes };
    let (auth, auth_hints) = auth::choose(context, fields, &transport)?;
    let defaults = ToolDefaults::default();
    let default_timeout = default_timeout.map(|field| field.0);
    check_times(context, default_timeout, timeout.map(|field| field.0));
    let is_bundled = matches!(transport, Transport::Bundled(_));
    let injects_all = context.inputs.flavor == Flavor::FlatAtlas || is_bundled;
    // A bundled server is part of this binary, so its annotations are trusted.
    let usual_trust = if is_bundled { Some(true) } else { defaults.trust_annotations };
    let forward_headers = auth::forwarded(context, forward_headers, wormhole, &transport);
    Some(ServerEntry {
        name: context.name.clone(),
        transport,
        auth,
        forward_headers,
        groups: admitted(context, groups),
        personas: persona.into_iter().chain(personas).flat_map(|field| field.0).collect(),
        folder: None,
        about: ServerDescription { description, short_description, author, help_email },
        enabled: !disabled,
        auto_connect: auto_connect.unwrap_or(true),
        lazy: lazy.unwrap_or(false),
        share: share.unwrap_or(Share::Auto),
        tools: rules::choose(
            context,
            rules::ToolRuleFields { tools, allow_tools, deny_tools, require_approval },
        ),
        defaults: ToolDefaults {
            side_effects: side_effects.unwrap_or(defaults.side_effects),
            default_timeout,
            allow_parallel,
            requires_consent: requires_consent.map_or(defaults.requires_consent, ConsentTerm::written),
            approval: approval.unwrap_or(defaults.approval),
            idempotency_key: requires_key(idempotency_key, defaults.idempotency_key),
            trust_annotations: trust_annotations.or(usual_trust),
            auth: auth_hints,
            version,
        },
        inject: injected(
            inject,
            if injects_all { InjectionSettings::all() } else { InjectionSettings::default() },
        ),
        timeout: timeout.map_or(Duration::from_secs(30), |field| field.0),
        connect_timeout: connect_timeout.map_or(Duration::from_secs(30), |field| field.0),
        health_check_interval: health_check_interval.map_or(Duration::from_secs(60), |field| field.0),
        discovery_interval: discovery_interval
            .or(health_check_interval)
            .map_or(Duration::from_secs(300), |field| field.0),
        restart: restart.unwrap_or(Restart::Backoff),
        era: era.unwrap_or_default(),
        compliance_level,
    })
}

fn check_times(context: &mut EntryContext<'_>, default_timeout: Option<Duration>, timeout: Option<Duration>) {
    if default_timeout.is_some_and(|time| time < Duration::from_secs(1)) {
        context.error(
            "config.wrong-value",
            &["default_timeout"],
            "`default_timeout` must be at least one second",
        );
    }
    // Some programs use milliseconds, and a timeout of three hours is rarely intended.
    if timeout.is_some_and(|time| time >= Duration::from_secs(10_000)) {
        let hint = Some("write seconds, or a unit: \"30s\", \"500ms\"");
        let sentence = "`timeout` is almost three hours or more; is it meant in milliseconds?";
        context.note_with(Severity::Warning, "config.long-timeout", &["timeout"], sentence, hint);
    }
    if timeout.is_some_and(|time| time.is_zero()) {
        context.error("config.wrong-value", &["timeout"], "`timeout` must be greater than zero");
    }
}

fn admitted(context: &mut EntryContext<'_>, groups: Option<Vec<String>>) -> Vec<String> {
    match groups {
        None => vec![AUTHENTICATED_GROUP.to_owned()],
        Some(groups) => {
            if groups.is_empty() {
                let hint = "leave `groups` out to admit every authenticated caller";
                let sentence = "`groups` is empty, so no caller may use the server";
                context.note_with(Severity::Warning, "config.no-groups", &["groups"], sentence, Some(hint));
            }
            groups
        }
    }
}

/// Whether calls carry an idempotency key; `usual` if the entry does not specify it.
fn requires_key(field: Option<IdempotencyField>, usual: bool) -> bool {
    match field {
        Some(IdempotencyField::Switch(required)) => required,
        Some(IdempotencyField::Map(IdempotencyMap { required })) => required,
        None => usual,
    }
}

/// The arguments to inject; `usual` if the entry does not specify any.
fn injected(inject: Option<InjectField>, usual: InjectionSettings) -> InjectionSettings {
    match inject {
        Some(InjectField::Switch(true)) => InjectionSettings::all(),
        Some(InjectField::Switch(false)) => InjectionSettings::none(),
        Some(InjectField::Map(InjectMap { identity, mcp_data, files })) => {
            let default = InjectionSettings::default();
            InjectionSettings {
                identity: identity.unwrap_or(default.identity),
                mcp_data: mcp_data.unwrap_or(default.mcp_data),
                files: files.unwrap_or(default.files),
            }
        }
        None => usual,
    }
}
