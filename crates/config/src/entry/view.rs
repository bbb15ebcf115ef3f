//! Converts a server entry to JSON: with values for hashing, or with templates for display.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;
use toolbooth_core::manifest::{ApprovalBy, ConsentTerm};
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{
    InjectionSettings, OAuthEntry, OutboundAuth, RemoteEndpoint, ServerDescription, ServerEntry,
    ToolDefaults, ToolRules, Transport, UserKeyEntry,
};

/// Whether the JSON contains secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reveal {
    /// Templates as written, for display.
    Templates,
    /// Expanded values, for hashing only.
    Values,
}

impl Reveal {
    fn text(self, text: &SecretText) -> &str {
        match self {
            Self::Templates => text.shown(),
            Self::Values => text.expose(),
        }
    }

    fn texts(self, map: &BTreeMap<String, SecretText>) -> BTreeMap<&str, &str> {
        map.iter().map(|(name, text)| (name.as_str(), self.text(text))).collect()
    }
}

/// All fields of an entry, named as in a file. The destructuring makes a new field fail to compile until it is added.
pub(crate) fn view(entry: &ServerEntry, reveal: Reveal) -> Json {
    let ServerEntry {
        name: _, // the key of the surrounding map
        transport,
        auth,
        forward_headers,
        groups,
        personas,
        folder: _, // set by the gateway, not by a file
        about: ServerDescription { description, short_description, author, help_email },
        enabled,
        auto_connect,
        lazy,
        share,
        tools: ToolRules { allow, deny, require_approval, overrides },
        defaults,
        inject: InjectionSettings { identity, mcp_data, files },
        timeout,
        connect_timeout,
        health_check_interval,
        discovery_interval,
        restart,
        era,
        compliance_level,
    } = entry;
    let ToolDefaults {
        side_effects,
        default_timeout,
        allow_parallel,
        requires_consent,
        approval,
        idempotency_key,
        trust_annotations,
        auth: auth_hints,
        version,
    } = defaults;
    let mut out = transport_view(transport, reveal);
    let rest = json!({
        "auth": auth_view(auth, reveal),
        "auth_hints": auth_hints,
        "forward_headers": forward_headers.iter().cloned().collect::<BTreeMap<_, _>>(),
        "groups": groups,
        "personas": personas,
        "description": description,
        "short_description": short_description,
        "author": author,
        "help_email": help_email,
        "enabled": enabled,
        "auto_connect": auto_connect,
        "lazy": lazy,
        "share": share,
        "tools": { "allow": allow, "deny": deny, "require_approval": require_approval, "overrides": overrides },
        "side_effects": side_effects,
        "default_timeout": default_timeout.map(seconds),
        "allow_parallel": allow_parallel.unwrap_or(false),
        "requires_consent": consent_view(*requires_consent, reveal),
        "approval": (*approval != ApprovalBy::None).then_some(approval),
        "idempotency_key": idempotency_key,
        "trust_annotations": trust_annotations,
        "version": version,
        "inject": { "identity": identity, "mcp_data": mcp_data, "files": files },
        "timeout": seconds(*timeout),
        "connect_timeout": seconds(*connect_timeout),
        "health_check_interval": seconds(*health_check_interval),
        "discovery_interval": seconds(*discovery_interval),
        "restart": restart,
        "era": era,
        "compliance_level": compliance_level,
    });
    if let (Json::Object(out), Json::Object(rest)) = (&mut out, rest) {
        out.extend(rest.into_iter().filter(|(_, value)| !value.is_null()));
    }
    out
}

/// `requires_consent`. The hash also covers whether it was written, because a written one is asked about.
fn consent_view(consent: ConsentTerm, reveal: Reveal) -> Json {
    match (consent, reveal) {
        (ConsentTerm::Written, Reveal::Values) => "written".into(),
        _ => consent.is_required().into(),
    }
}

fn seconds(time: Duration) -> Json {
    if time.subsec_nanos() == 0 { time.as_secs().into() } else { time.as_secs_f64().into() }
}

fn transport_view(transport: &Transport, reveal: Reveal) -> Json {
    let remote = |word: &str, remote: &RemoteEndpoint| {
        let RemoteEndpoint { url, headers } = remote;
        json!({ "transport": word, "url": reveal.text(url), "headers": reveal.texts(headers) })
    };
    match transport {
        Transport::Stdio { command, args, cwd, env } => {
            let args: Vec<&str> = args.iter().map(|text| reveal.text(text)).collect();
            let mut out = json!({ "transport": "stdio", "command": reveal.text(command), "args": args });
            if let (Json::Object(map), Some(cwd)) = (&mut out, cwd) {
                map.insert("cwd".into(), cwd.to_string_lossy().into());
            }
            if let Json::Object(map) = &mut out {
                map.insert("env".into(), json!(reveal.texts(env)));
            }
            out
        }
        Transport::Http(place) => remote("http", place),
        Transport::Sse(place) => remote("sse", place),
        Transport::WebSocket(place) => remote("ws", place),
        Transport::Bundled(name) => json!({ "bundled": name }),
        Transport::Own => json!({ "transport": "own" }),
        Transport::Virtual => json!({ "transport": "virtual" }),
    }
}

fn auth_view(auth: &OutboundAuth, reveal: Reveal) -> Json {
    match auth {
        OutboundAuth::None => json!("none"),
        OutboundAuth::Bearer(token) => json!({ "type": "bearer", "token": reveal.text(token) }),
        OutboundAuth::ApiKey { header, key } => {
            json!({ "type": "api_key", "header": header, "token": reveal.text(key) })
        }
        OutboundAuth::UserKey(UserKeyEntry { header: Some(header), holders: _ }) => {
            json!({ "type": "api_key", "header": header })
        }
        OutboundAuth::UserKey(UserKeyEntry { header: None, holders: _ }) => json!({ "type": "bearer" }),
        OutboundAuth::OAuth(OAuthEntry { client_id, client_secret, scopes }) => json!({
            "type": "oauth",
            "client_id": client_id.as_ref().map(|text| reveal.text(text)),
            "client_secret": client_secret.as_ref().map(|text| reveal.text(text)),
            "scopes": scopes,
        }),
    }
}
