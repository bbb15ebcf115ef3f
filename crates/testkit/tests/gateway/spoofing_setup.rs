//! A gateway that receives forged identities, and servers that record the identities they receive.

use crate::token_users::{bearer, make_token};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer};

/// The identity that the attacker forges.
pub const VICTIM: &str = "root@corp";
/// The servers: over stdio, over HTTP in the modern era, over HTTP in the legacy era.
pub const SERVERS: [&str; 3] = ["std", "web", "old"];
/// The names of the injected identity arguments.
const NAMES: [&str; 3] = ["username", "_atlas_user", "_mcp_data"];

/// Schemas that declare the identity arguments in different ways, or accept them undeclared.
pub const TOOLS: &[(&str, &str)] = &[
    (
        "plain",
        r#"{"type":"object","properties":{"note":{},"username":{"type":"string"},"_atlas_user":{"type":"string"},"_mcp_data":{"type":"object"}},"required":["username"]}"#,
    ),
    ("closed", r#"{"properties":{"note":{},"username":{}},"additionalProperties":false}"#),
    ("open", r#"{"properties":{"username":{},"_mcp_data":{}},"additionalProperties":true}"#),
    ("undeclared", r#"{"type":"object"}"#),
    ("required_only", r#"{"type":"object","additionalProperties":{"type":"string"}}"#),
    ("pattern", r#"{"properties":{"note":{}},"patternProperties":{"^u":{},"name":{},"^_":{}}}"#),
    (
        "reference",
        r##"{"$ref":"#/$defs/In","$defs":{"In":{"properties":{"note":{},"username":{"$ref":"#/$defs/T"}}},"T":{"type":"string"}}}"##,
    ),
    ("encoded", r##"{"$ref":"#/%24defs/a~1b","$defs":{"a/b":{"properties":{"note":{},"username":{}}}}}"##),
    (
        "anchored",
        r##"{"$ref":"#in","$defs":{"In":{"$anchor":"in","properties":{"note":{},"username":{}}}}}"##,
    ),
    ("far", r#"{"$ref":"http://127.0.0.1:1/schema","properties":{"note":{}}}"#),
    (
        "all",
        r#"{"properties":{"note":{}},"allOf":[{"properties":{"username":{}},"required":["username"]},{"additionalProperties":true}]}"#,
    ),
    (
        "any",
        r#"{"anyOf":[{"properties":{"username":{"type":"string"}}},{"properties":{"note":{}}},{"additionalProperties":true}]}"#,
    ),
    ("one", r#"{"oneOf":[{"properties":{"username":{}},"required":["username"]},{"required":["nothing"]}]}"#),
    (
        "conditional",
        r#"{"if":{"properties":{"note":{}}},"then":{"properties":{"username":{}}},"else":{"additionalProperties":true}}"#,
    ),
    ("dependent", r#"{"dependentSchemas":{"note":{"properties":{"username":{}}}},"properties":{"note":{}}}"#),
    ("escaped", r#"{"properties":{"user\u006eame":{"type":"string"},"note":{}}}"#),
    ("renamed", r#"{"propertyNames":{"pattern":"."},"unevaluatedProperties":true}"#),
    (
        "nested",
        r#"{"properties":{"o":{"properties":{"username":{}}},"list":{"items":{"properties":{"username":{}}}},"username":{}}}"#,
    ),
    ("guarded", r#"{"properties":{"note":{},"username":{"type":"string"}},"additionalProperties":true}"#),
];

/// The tools as a server lists them.
pub fn listed() -> String {
    let one = |(name, schema): &(&str, &str)| format!(r#"{{"name":"{name}","inputSchema":{schema}}}"#);
    format!("[{}]", TOOLS.iter().map(one).collect::<Vec<_>>().join(","))
}

/// A gateway with three servers that get all injected arguments, and the user Ann.
pub struct SpoofingSetup {
    pub home: Home,
    pub gateway: Gateway,
    pub web: ScriptedServer,
    pub old: ScriptedServer,
    pub ann: String,
    /// An approver.
    pub bob: String,
}

impl SpoofingSetup {
    pub async fn open() -> Self {
        let home = Home::new(&[]);
        std::fs::write(home.path("tools.json"), listed()).unwrap();
        let (web, old) =
            (ScriptedServer::start(TestEra::Modern).await, ScriptedServer::start(TestEra::Legacy).await);
        for server in [&web, &old] {
            server.list(listed());
            server.answer(ScriptedAnswer::result(r#"{"content":[],"resultType":"complete"}"#));
        }
        let path = |name: &str| home.path(name).display().to_string();
        let std = hostile(&["catalogue", &path("tools.json"), &path("record.jsonl")]);
        let under_contract = |mut entry: Value| {
            entry["inject"] = true.into();
            entry
        };
        let settings = json!({
            "auth": { "mode": "token" },
            "approval": { "approvers": ["leads"] },
            "policy": { "consent": "client", "rules": [{ "tools": "*_guarded", "effect": "ask", "approval": "approver" }] },
        });
        let servers = [("std", std), ("web", web.entry()), ("old", old.entry())];
        home.configure(settings, &servers.map(|(name, entry)| (name, under_contract(entry))));
        let (root, _) = make_token(&home, None, VICTIM, &["--groups", "admin"]);
        let (ann, _) = make_token(&home, None, "ann", &[]);
        let (bob, _) = make_token(&home, None, "bob", &["--groups", "leads"]);
        let mut gateway = home.start().await;
        gateway.headers = bearer(&root);
        gateway.connected(&SERVERS).await;
        Self { home, gateway, web, old, ann, bob }
    }

    pub fn http(&self, token: &str) -> Http {
        Http::new(self.gateway.address).sending(&bearer(token))
    }

    /// The exact text of every call that reached a server.
    pub fn reached(&self) -> Vec<String> {
        let record = std::fs::read_to_string(self.home.path("record.jsonl")).unwrap_or_default();
        let mut all: Vec<String> = record.lines().map(str::to_owned).collect();
        for seen in [&self.web, &self.old].map(|server| server.seen("tools/call")).concat() {
            // No forged value is in a header.
            assert!(!seen.headers.contains(VICTIM), "{}", seen.headers);
            all.push(seen.body);
        }
        all
    }

    /// Checks that every call that reached a server names only this user; returns the number of calls.
    pub fn assert_all_name(&self, user: &str) -> usize {
        let reached = self.reached();
        let lies = reached
            .iter()
            .filter_map(|line| names_only(line, user).err().map(|why| format!("{why}: {line}")));
        let lies: Vec<String> = lies.collect();
        assert!(
            lies.is_empty(),
            "{} forgeries succeeded:\n{}",
            lies.len(),
            lies[..lies.len().min(50)].join("\n")
        );
        reached.len()
    }
}

/// The members of an object in order, including repeated ones.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> serde::de::Visitor<'de> for All {
            type Value = Members;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        reader.deserialize_map(All)
    }
}

fn members(text: &str) -> Result<Vec<(String, Box<RawValue>)>, String> {
    serde_json::from_str::<Members>(text).map(|members| members.0).map_err(|error| error.to_string())
}

fn only<'m>(all: &'m [(String, Box<RawValue>)], key: &str) -> Result<&'m str, String> {
    let mut found = all.iter().filter(|(name, _)| name == key);
    match (found.next(), found.next()) {
        (Some((_, value)), None) => Ok(value.get()),
        (None, _) => Err(format!("no `{key}`")),
        (Some(_), Some(_)) => Err(format!("`{key}` occurs twice")),
    }
}

/// Checks that a call names only this user.
fn names_only(line: &str, user: &str) -> Result<(), String> {
    let whole = members(line)?;
    let params = members(only(&whole, "params")?)?;
    let tool = serde_json::from_str::<String>(only(&params, "name")?).map_err(|error| error.to_string())?;
    let arguments = members(only(&params, "arguments")?)?;
    for (key, value) in &arguments {
        let value = value.get();
        match key.as_str() {
            "username" | "_atlas_user"
                if serde_json::from_str::<Value>(value).is_ok_and(|value| value == user) => {}
            "_mcp_data" if value.contains("available_servers") && !value.contains(VICTIM) => {}
            // Nested values and other arguments are data of the tool.
            "note" | "o" | "list" | "arguments" | "params" | "_meta" | "__proto__" => {}
            key if key.starts_with("filler") => {}
            _ => return Err(format!("a forged argument {key:?}: {value}")),
        }
    }
    for name in NAMES {
        if arguments.iter().any(|(key, _)| key == name) {
            only(&arguments, name)?;
        }
    }
    let (_, schema) = TOOLS.iter().find(|(name, _)| *name == tool).ok_or("the tool is unknown")?;
    let declared = schema.contains(r#""username":"#) || schema.contains("user\\u006eame");
    // These declarations are not recognized: the server gets no identity rather than a false one.
    if declared && !["anchored", "far"].contains(&tool.as_str()) {
        only(&arguments, "username")?;
    }
    if let Ok(meta) = only(&params, "_meta") {
        for (key, value) in members(meta)? {
            if key.to_lowercase().starts_with("toolbooth/")
                || (key.contains("clientInfo") && value.get().contains(VICTIM))
            {
                return Err(format!("a forged member of `_meta` {key:?}"));
            }
        }
    }
    Ok(())
}
