//! Manifests applied to what servers offer: overlays, virtual tools, personas, and who sees which.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::policy::{LayerRules, Rule, RuleBook, RuleEffect, RuleSubject, ToolMatch};
use toolbooth_core::call::{IncomingCall, Policy, Situation, Verdict, authorise, draft, resolve};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{
    Assembly, AssemblyInput, Catalog, CatalogParts, Discovery, EntryOutcome, ListKind, Lookup, Naming,
    NamingStyle, Tool, ToolGate, admit, assemble,
};
use toolbooth_core::effects::Rung;
use toolbooth_core::json::RawJson;
use toolbooth_core::manifest::{Manifest, ManifestScope, Overlay, ProviderKind, ProviderSpec};
use toolbooth_core::names::ServerName;
use toolbooth_core::persona::{Inherit, Persona};
use toolbooth_core::registry::{is_shared, owner_of};
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{InjectionSettings, RemoteEndpoint, ServerEntry, SideEffects, Transport};

fn server(name: &str) -> ServerEntry {
    let url = SecretText::plain("http://x");
    let transport = Transport::Http(RemoteEndpoint { url, headers: Default::default() });
    ServerEntry::with_defaults(name.parse().unwrap(), transport)
}

fn entry(name: &str) -> Manifest {
    Manifest {
        name: name.into(),
        scope: ManifestScope::Shared,
        origin: "tools/a.json:1:1".into(),
        overlay: Overlay::default(),
        description: None,
        parameters: None,
        groups: None,
        providers: Vec::new(),
    }
}

fn provider(id: &str, kind: ProviderKind) -> ProviderSpec {
    let health_check_interval = Duration::from_secs(60);
    ProviderSpec {
        id: id.into(),
        kind,
        priority: 0,
        health_check_interval,
        auth: None,
        arguments: None,
        result: None,
    }
}

fn mcp(server: &str, tool: &str) -> ProviderSpec {
    provider(
        &format!("mcp:{server}"),
        ProviderKind::Mcp { server: server.parse().unwrap(), tool: tool.into() },
    )
}

fn model() -> ProviderSpec {
    provider("openai", ProviderKind::OpenAi { model: None, prompt: None })
}

fn raw(value: Value) -> RawJson {
    RawJson::from_value(&value)
}

/// Servers with their tools' definitions.
struct World {
    base: CatalogParts,
    known: Vec<Arc<ServerEntry>>,
    naming: Naming,
    gate: ToolGate,
    earlier: CatalogParts,
}

impl World {
    fn new(servers: Vec<(ServerEntry, Vec<Value>)>) -> Self {
        Self::named(servers, NamingStyle::ServerTool)
    }

    fn named(servers: Vec<(ServerEntry, Vec<Value>)>, style: NamingStyle) -> Self {
        let naming = Naming { style, ..Naming::default() };
        let mut base = CatalogParts::new();
        for (entry, tools) in servers {
            let tools = tools.into_iter().map(raw).collect();
            let entry = Arc::new(entry);
            let part = admit(&entry, &Discovery { tools, ..Discovery::default() }, &naming, &|_| false);
            base.insert(entry.name.clone(), Arc::new(part));
        }
        Self { base, known: Vec::new(), naming, gate: ToolGate::default(), earlier: CatalogParts::new() }
    }

    fn with(&mut self, manifests: &[Manifest]) -> Assembly {
        let configured = |name: &ServerName| self.known.iter().find(|entry| entry.name == *name).cloned();
        let assembly = assemble(AssemblyInput {
            base: &self.base,
            manifests,
            naming: &self.naming,
            gate: &self.gate,
            configured: &configured,
            owner: &|_| None,
            earlier: &self.earlier,
        });
        self.earlier = assembly.parts.clone();
        assembly
    }

    fn catalog(&mut self, manifests: &[Manifest]) -> Catalog {
        Catalog::new(1, self.with(manifests).parts)
    }
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("The {name}."), "inputSchema": { "type": "object", "properties": { "q": { "type": "string" } } } })
}

fn names(catalog: &Catalog, caller: &Caller) -> Vec<String> {
    let list = catalog.list(ListKind::Tools, caller);
    let text: Vec<u8> = list.pieces.iter().flat_map(|piece| piece.to_vec()).chain(*b"}").collect();
    let list: Value = serde_json::from_slice(&text).unwrap();
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn found(catalog: &Catalog, name: &str, caller: &Caller) -> Option<Arc<Tool>> {
    match catalog.tool(name, caller) {
        Lookup::Found(tool) => Some(tool.clone()),
        _ => None,
    }
}

fn as_persona(caller: &Caller, name: &str) -> Caller {
    let persona = Persona::new(name, None, Inherit::Shared, None).unwrap();
    Caller { persona: Some(Arc::new(persona)), ..caller.clone() }
}

/// The name of a tool no longer repeats its server. Entries that were written for the long name must still apply: one of
/// them may require an approval.
#[test]
fn an_entry_applies_under_the_long_and_the_short_name() {
    let me = Caller::owner("me");
    for name in ["git_push", "git_git_push", "mcp.git.git_push"] {
        let mut world = World::new(vec![(server("git"), vec![tool("git_push"), tool("log")])]);
        let over = Manifest {
            overlay: Overlay { timeout: Some(Duration::from_secs(5)), ..Overlay::default() },
            ..entry(name)
        };
        let catalog = world.catalog(&[over]);
        let mut listed = names(&catalog, &me);
        listed.sort();
        assert_eq!(listed, ["git_log", "git_push"], "{name}");
        for spelling in ["git_push", "git_git_push", "mcp.git.git_push"] {
            let tool = found(&catalog, spelling, &me).unwrap();
            assert_eq!((&*tool.name, tool.terms.timeout.as_secs()), ("git_push", 5), "{name} {spelling}");
        }
    }
}

#[test]
fn an_overlay_replaces_texts_and_terms_and_keeps_supplied_parameters() {
    let mut fs = server("fs");
    fs.inject = InjectionSettings::all();
    let source = json!({ "name": "write", "description": "Writes.", "inputSchema": { "type": "object",
        "properties": { "path": { "type": "string" }, "username": { "type": "string" } } }, "x": 1 });
    let mut world = World::new(vec![(fs, vec![source, tool("read")])]);
    let over = Manifest {
        description: Some("Writes a note.".into()),
        parameters: Some(raw(json!({ "type": "object", "properties": {
            "path": {}, "username": {}, "_atlas_user": {}, "note": {} }, "required": ["username", "note"] }))),
        overlay: Overlay {
            timeout: Some(Duration::from_secs(5)),
            side_effects: Some(SideEffects::Write),
            requires_consent: Some(false),
            ..Overlay::default()
        },
        ..entry("fs_write")
    };
    let plain = world.catalog(&[]);
    let me = Caller::owner("me");
    let digest = *found(&plain, "fs_write", &me).unwrap().digest();
    let catalog = world.catalog(&[over]);
    let tool = found(&catalog, "mcp.fs.write", &me).unwrap();
    assert_eq!(
        tool.definition.as_str(),
        r#"{"name":"fs_write","description":"Writes a note.","inputSchema":{"type":"object","properties":{"path":{},"note":{}},"required":["note"]},"x":1}"#
    );
    let injected = tool.injected.as_ref().unwrap();
    assert!(injected.hides("username") && injected.hides("_atlas_user"));
    assert_eq!((tool.terms.timeout.as_secs(), tool.terms.requires_consent.is_required()), (5, false));
    assert_eq!(tool.effect().rung, Rung::Write);
    assert_eq!(*tool.digest(), digest, "an operator's overrides need no approval");
    assert_eq!(names(&catalog, &me), ["fs_read", "fs_write"]);

    // An overlay whose schema omits the identity parameter still leaves it to the gateway.
    let bare = Manifest { parameters: Some(raw(json!({ "type": "object" }))), ..entry("fs_write") };
    let catalog = world.catalog(&[bare]);
    let tool = found(&catalog, "fs_write", &me).unwrap();
    assert!(tool.injected.as_ref().unwrap().hides("username"));
}

#[test]
fn each_entry_has_its_outcome() {
    let web = server("web");
    let mut world = World::new(vec![(web, vec![tool("find"), tool("open")])]);
    world.known.push(Arc::new(server("late")));
    let cases: [(Manifest, EntryOutcome); 8] = [
        (entry("web_find"), EntryOutcome::Overlay { tool: "mcp.web.find".into() }),
        (entry("mcp.web.find"), EntryOutcome::Overlay { tool: "mcp.web.find".into() }),
        (entry("find"), EntryOutcome::Overlay { tool: "mcp.web.find".into() }), // the only tool with this own name
        (
            Manifest { providers: vec![mcp("web", "open")], ..entry("look") },
            EntryOutcome::Overlay { tool: "mcp.web.open".into() },
        ),
        (Manifest { providers: vec![mcp("late", "x")], ..entry("later") }, EntryOutcome::Waiting),
        (Manifest { providers: vec![mcp("web", "open"), model()], ..entry("both") }, EntryOutcome::Virtual),
        (
            Manifest { providers: vec![mcp("web", "find"), model()], ..entry("web_find") },
            EntryOutcome::Overlay { tool: "mcp.web.find".into() },
        ),
        // Its own server no longer serves it, which is reported.
        (
            Manifest { providers: vec![model()], ..entry("web_find") },
            EntryOutcome::Replacement { tool: "mcp.web.find".into() },
        ),
    ];
    for (manifest, outcome) in cases {
        let name = manifest.name.clone();
        assert_eq!(world.with(&[manifest]).entries[0].outcome, outcome, "{name}");
    }
}

#[test]
fn a_wrapped_tool_has_its_new_name_and_its_old_ones() {
    let mut world = World::new(vec![(server("web"), vec![tool("browser.find")])]);
    let catalog =
        world.catalog(&[Manifest { providers: vec![mcp("web", "browser.find")], ..entry("look up") }]);
    let me = Caller::owner("me");
    assert_eq!(names(&catalog, &me), ["look_up"]);
    for name in ["look_up", "web_browser_find", "mcp.web.browser.find", "web_browser.find"] {
        assert!(found(&catalog, name, &me).is_some(), "{name}");
    }
}

#[test]
fn a_virtual_tool_has_the_schema_of_its_first_provider() {
    let mut fs = server("fs");
    fs.inject = InjectionSettings::all();
    fs.tools.require_approval = vec!["delete_*".into()];
    let source = json!({ "name": "delete_note", "description": "Deletes.", "inputSchema": { "type": "object",
        "properties": { "id": {}, "username": { "type": "string" } } } });
    let mut world = World::new(vec![(fs, vec![source])]);
    let entries = [Manifest { providers: vec![model(), mcp("fs", "delete_note")], ..entry("drop") }];
    let catalog = world.catalog(&entries);
    let me = Caller::owner("me");
    let tool = found(&catalog, "drop", &me).unwrap();
    assert_eq!(
        tool.definition.as_str(),
        r#"{"name":"drop","description":"Deletes.","inputSchema":{"type":"object","properties":{"id":{}}}}"#
    );
    assert!(tool.injected.as_ref().unwrap().hides("username"));
    assert!(tool.needs_approval, "as the tool that serves it does");
    assert_eq!(tool.effect().rung, Rung::Destructive, "as its most dangerous provider");
    assert_eq!((tool.canonical().as_str(), tool.terms.providers.len()), ("tool.drop", 2));
    assert!(found(&catalog, "tool.drop", &me).is_some());

    // With its own schema, parameters that the gateway supplies to its server are still supplied.
    let own = raw(json!({ "type": "object", "properties": { "id": {}, "username": {} } }));
    let catalog = world.catalog(&[Manifest { parameters: Some(own), ..entries[0].clone() }]);
    let tool = found(&catalog, "drop", &me).unwrap();
    assert!(tool.injected.as_ref().unwrap().hides("username"));
    assert!(!tool.definition.as_str().contains("username"));

    // Unknown servers: any arguments are accepted, and the label counts.
    let label = Overlay { side_effects: Some(SideEffects::System), ..Overlay::default() };
    let catalog =
        world.catalog(&[Manifest { providers: vec![mcp("no", "x"), model()], overlay: label, ..entry("v") }]);
    let tool = found(&catalog, "v", &me).unwrap();
    assert_eq!(tool.input_schema().as_str(), r#"{"type":"object"}"#);
    assert_eq!(tool.effect().rung, Rung::System);
}

#[test]
fn a_virtual_tool_is_visible_to_callers_who_may_use_a_provider() {
    let mut vault = server("vault");
    vault.groups = vec!["staff".into()];
    let mut late = server("late");
    late.groups = vec!["ops".into()];
    let mut world = World::new(vec![(vault, vec![tool("get")]), (server("open"), vec![tool("x")])]);
    world.known.push(Arc::new(late));
    let two = |providers: Vec<ProviderSpec>, name: &str| Manifest { providers, ..entry(name) };
    let entries = [
        two(vec![mcp("vault", "get"), mcp("late", "y")], "both"),
        two(vec![mcp("vault", "get"), model()], "free"),
        two(vec![mcp("vault", "gone"), mcp("nowhere", "x")], "nothing"),
        Manifest { groups: Some(vec!["ops".into()]), ..two(vec![model()], "grouped") },
    ];
    let catalog = world.catalog(&entries);
    let cases: [(&[&str], &[&str]); 4] = [
        (&[], &["free", "open_x"]),
        (&["staff"], &["both", "free", "open_x", "vault_get"]),
        (&["ops"], &["both", "free", "grouped", "open_x"]),
        (&["staff", "ops"], &["both", "free", "grouped", "open_x", "vault_get"]),
    ];
    for (groups, expected) in cases {
        let ann = Caller::guest("ann", groups.iter().map(|group| (*group).to_owned()));
        let mut listed = names(&catalog, &ann);
        listed.sort();
        assert_eq!(listed, expected, "{groups:?}");
        for name in ["both", "free", "nothing", "grouped"] {
            assert_eq!(found(&catalog, name, &ann).is_some(), expected.contains(&name), "{groups:?} {name}");
        }
    }
}

#[test]
fn a_personas_own_version_replaces_the_shared_one() {
    let mut world = World::new(vec![(server("fs"), vec![tool("read"), tool("write")])]);
    let for_atlas =
        |manifest: Manifest| Manifest { scope: ManifestScope::Persona("Atlas".into()), ..manifest };
    let said = |text: &str, manifest: Manifest| Manifest { description: Some(text.into()), ..manifest };
    let only = Overlay { persona_allowlist: Some(vec!["Bo".into()]), ..Overlay::default() };
    let entries = [
        said("shared", Manifest { providers: vec![model()], ..entry("v") }),
        for_atlas(said("own", Manifest { providers: vec![model()], ..entry("v") })),
        said("shared", Manifest { providers: vec![model()], ..entry("w") }),
        for_atlas(said("own", entry("w"))),
        for_atlas(said("own", entry("fs_read"))),
        Manifest { overlay: only, ..entry("fs_write") },
    ];
    let catalog = world.catalog(&entries);
    let me = Caller::owner("me");
    let (atlas, bo) = (as_persona(&me, "Atlas"), as_persona(&me, "Bo"));
    let cases = [
        (&me, ["shared", "shared", "The read."]),
        (&atlas, ["own", "own", "own"]),
        (&bo, ["shared", "shared", "The read."]),
    ];
    for (caller, expected) in cases {
        for (name, text) in ["v", "w", "fs_read"].into_iter().zip(expected) {
            let tool = found(&catalog, name, caller).unwrap();
            assert_eq!(tool.description().as_deref(), Some(text), "{name} {:?}", caller.persona_name());
        }
        let mut listed = names(&catalog, caller);
        listed.sort();
        let is_bo = caller.persona_name() == Some("Bo");
        let expected: &[&str] =
            if is_bo { &["fs_read", "fs_write", "v", "w"] } else { &["fs_read", "v", "w"] };
        assert_eq!(listed, expected, "each name once, and an allowlist holds");
    }
}

#[test]
fn a_rule_about_a_tool_applies_to_tools_it_serves() {
    let mut world = World::new(vec![(server("fs"), vec![tool("read")])]);
    let catalog = world.catalog(&[Manifest { providers: vec![mcp("fs", "read"), model()], ..entry("v") }]);
    let me = Caller::owner("me");
    let rule = |name: &str, effect: RuleEffect| {
        let tools = ToolMatch { names: vec![name.into()], ..ToolMatch::default() };
        let rule = Rule::new(RuleSubject::AllCallers, tools, [], effect, None).unwrap();
        Arc::new(RuleBook::new(vec![LayerRules(vec![rule])]).unwrap())
    };
    let verdict = |effect: RuleEffect| {
        let incoming = IncomingCall {
            caller: Arc::new(me.clone()),
            client: Arc::default(),
            name: "v".into(),
            arguments: None,
            meta: Vec::new(),
        };
        let permitted = authorise(resolve(incoming, &catalog).unwrap()).unwrap();
        rule("mcp.fs.*", effect).judge(&draft(permitted, Situation::default()).unwrap())
    };
    assert!(matches!(verdict(RuleEffect::Deny), Verdict::Refuse { .. }));
    assert!(matches!(verdict(RuleEffect::Plan), Verdict::Queue { .. }));
    // The serving tool asks its own question, for every caller.
    assert_eq!(verdict(RuleEffect::Ask), Verdict::Run);
    assert_eq!(verdict(RuleEffect::AskApprover), Verdict::Run);
    assert_eq!(verdict(RuleEffect::Allow), Verdict::Run);
    // If it is hidden, the provider no longer counts; the model still does.
    let hiding = Caller { hiding_rules: Some(rule("mcp.fs.*", RuleEffect::Hide)), ..me.clone() };
    assert!(found(&catalog, "v", &hiding).is_some() && found(&catalog, "fs_read", &hiding).is_none());
    let alone =
        world.catalog(&[Manifest { providers: vec![mcp("fs", "read"), mcp("fs", "gone")], ..entry("v") }]);
    assert!(found(&alone, "v", &hiding).is_none() && found(&alone, "v", &me).is_some());
}

#[test]
fn a_name_given_by_the_operator_belongs_to_no_other_tool() {
    let servers = vec![(server("a"), vec![tool("look")]), (server("web"), vec![tool("find")])];
    let mut world = World::named(servers, NamingStyle::Bare);
    let catalog =
        world.catalog(&[Manifest { providers: vec![mcp("web", "find"), model()], ..entry("look") }]);
    let me = Caller::owner("me");
    assert!(found(&catalog, "look", &me).unwrap().server.is_virtual());
    let listed = names(&catalog, &me);
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().any(|name| name.starts_with("look_")), "{listed:?}");
}

#[test]
fn unchanged_parts_keep_their_identity() {
    let mut world = World::new(vec![(server("fs"), vec![tool("read")]), (server("b"), vec![tool("x")])]);
    let entries = [
        Manifest { description: Some("D".into()), ..entry("fs_read") },
        Manifest { providers: vec![mcp("fs", "read"), model()], ..entry("v") },
    ];
    let first = world.with(&entries).parts;
    let second = world.with(&entries).parts;
    for (name, part) in &first {
        assert!(Arc::ptr_eq(part, &second[name]), "{name}");
    }
    assert_eq!(first.len(), 3);
}

#[test]
fn of_two_entries_for_one_tool_the_first_applies_and_the_second_is_reported() {
    let mut world = World::new(vec![(server("web"), vec![tool("find")])]);
    let said = |text: &str, manifest: Manifest| Manifest { description: Some(text.into()), ..manifest };
    let wrap = |name: &str| Manifest { providers: vec![mcp("web", "find")], ..entry(name) };
    let cases = [
        [entry("web_find"), entry("mcp.web.find")],
        [wrap("look"), wrap("seek")],
        [wrap("look"), entry("web_find")],
        [entry("web_find"), wrap("look")],
    ];
    let me = Caller::owner("me");
    for [first, second] in cases {
        let name = format!("{} and {}", first.name, second.name);
        let entries = [said("first", first), said("second", second)];
        let assembly = world.with(&entries);
        assert_eq!(
            assembly.entries[0].outcome,
            EntryOutcome::Overlay { tool: "mcp.web.find".into() },
            "{name}"
        );
        assert!(
            matches!(&assembly.entries[1].outcome, EntryOutcome::SetAside(why) if why.contains("mcp.web.find")),
            "{name}"
        );
        let catalog = Catalog::new(1, assembly.parts);
        let tool = found(&catalog, "mcp.web.find", &me).unwrap();
        assert_eq!(tool.description().as_deref(), Some("first"), "{name}");
    }
}

/// An entry under the id of a server's tool must not put something else in its place.
#[test]
fn an_id_is_never_given_to_another_tool() {
    let mut world = World::new(vec![(server("bank"), vec![tool("transfer")])]);
    for providers in [vec![model()], vec![mcp("bank", "other"), model()]] {
        let assembly = world.with(&[Manifest { providers, ..entry("mcp.bank.transfer") }]);
        assert!(matches!(assembly.entries[0].outcome, EntryOutcome::SetAside(_)), "{:?}", assembly.entries);
        let catalog = Catalog::new(1, assembly.parts);
        let me = Caller::owner("me");
        assert_eq!(names(&catalog, &me), ["bank_transfer"]);
        assert!(found(&catalog, "mcp.bank.transfer", &me).unwrap().terms.providers.is_empty());
    }
}

/// T05: the servers `a` and `a.b` may have tools of the same id. It is ambiguous which is meant, so neither is used.
#[test]
fn an_id_shared_by_two_tools_is_ambiguous() {
    let mut world = World::new(vec![(server("a"), vec![tool("b.c")]), (server("a.b"), vec![tool("c")])]);
    let assembly = world.with(&[Manifest { description: Some("mine".into()), ..entry("mcp.a.b.c") }]);
    assert_eq!(assembly.entries[0].outcome, EntryOutcome::Waiting);
    let catalog = Catalog::new(1, assembly.parts);
    assert!(
        matches!(catalog.tool("mcp.a.b.c", &Caller::owner("me")), Lookup::Ambiguous(tools) if tools.len() == 2)
    );
}

/// Audit H1: what is denied under one name is not available under another, nor through a tool of a manifest.
#[test]
fn denied_tools_are_excluded_under_every_name() {
    let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let renamed = Manifest { providers: vec![mcp("bank", "transfer")], ..entry("send_money") };
    let served = Manifest { providers: vec![mcp("bank", "transfer"), mcp("bank", "pay")], ..entry("wallet") };
    let ann = Caller::guest("ann", []);
    // Allowed, denied, and the tools that are left.
    let cases: [(&[&str], &[&str], &[&str]); 8] = [
        (&[], &[], &["bank_pay", "send_money", "wallet"]),
        (&[], &["bank_transfer"], &["bank_pay", "wallet"]),
        (&[], &["send_money"], &["bank_pay", "wallet"]),
        (&[], &["wallet"], &["bank_pay", "send_money"]),
        (&[], &["mcp__bank__*"], &[]),
        (&["send_money"], &[], &["send_money"]),
        (&["mcp.bank.pay", "wallet"], &[], &["bank_pay", "wallet"]),
        (&["*"], &["*"], &[]),
    ];
    for (allow, deny, expected) in cases {
        let mut world = World::new(vec![(server("bank"), vec![tool("pay"), tool("transfer")])]);
        world.gate = ToolGate::new(&texts(allow), &texts(deny)).unwrap();
        let manifests = [renamed.clone(), served.clone()];
        let catalog = world.catalog(&manifests);
        let mut left = names(&catalog, &ann);
        left.sort();
        assert_eq!(left, expected, "{allow:?} {deny:?}");
        if deny == ["send_money"] {
            let wallet = found(&catalog, "wallet", &ann).unwrap();
            let backing = wallet.bounds.iter().flat_map(|bounds| &bounds.backing);
            let behind: Vec<&str> = backing.flat_map(|one| one.tools()).map(|tool| &*tool.name).collect();
            assert_eq!(behind, ["pay"], "a denied tool is reachable through a manifest tool");
        }
        // An unchanged part keeps its allocation, so that no change is reported.
        let again = world.with(&manifests).parts;
        let same = again.iter().all(|(name, part)| Arc::ptr_eq(part, &catalog.servers()[name]));
        assert!(same, "{allow:?} {deny:?}");
    }
}

#[test]
fn an_entry_without_providers_binds_to_the_only_tool_with_its_own_name() {
    let labelled = Manifest {
        overlay: Overlay { side_effects: Some(SideEffects::None), ..Overlay::default() },
        ..entry("google_search")
    };
    let mut world =
        World::new(vec![(server("browser"), vec![tool("google_search")]), (server("b"), vec![tool("x")])]);
    let assembly = world.with(std::slice::from_ref(&labelled));
    assert_eq!(
        assembly.entries[0].outcome,
        EntryOutcome::Overlay { tool: "mcp.browser.google_search".into() }
    );
    let catalog = Catalog::new(1, assembly.parts);
    let ann = Caller::owner("ann");
    let bound = found(&catalog, "google_search", &ann).unwrap();
    assert_eq!((&*bound.exposed, bound.terms.side_effects), ("google_search", SideEffects::None));

    let mut world = World::new(vec![
        (server("a"), vec![tool("google_search")]),
        (server("b"), vec![tool("google_search")]),
    ]);
    let assembly = world.with(std::slice::from_ref(&labelled));
    let EntryOutcome::SetAside(reason) = &assembly.entries[0].outcome else { panic!("{assembly:?}") };
    assert!(reason.contains("several servers"), "{reason}");

    // A server cannot take an entry for another server's tool, nor a permission, by the name of its own tool.
    let mut world = World::new(vec![(server("evil"), vec![tool("bank_pay"), tool("mcp.bank.pay")])]);
    world.known.push(Arc::new(server("bank")));
    let entries = [entry("bank_pay"), entry("mcp.bank.pay")];
    for report in world.with(&entries).entries {
        assert_eq!(report.outcome, EntryOutcome::Waiting, "{}", report.name);
    }
    let mut world = World::new(vec![(server("evil"), vec![tool("google_search")])]);
    let catalog = world.catalog(&[labelled]);
    let persona = Persona::new("dev", Some(&["google_*".to_owned()]), Inherit::Nothing, None).unwrap();
    let dev = Caller { persona: Some(Arc::new(persona)), ..ann };
    assert!(found(&catalog, "google_search", &dev).is_none());
}

#[test]
fn a_persona_overrides_fields_of_a_shared_entry_with_one_provider() {
    let shared = Manifest { providers: vec![mcp("fs", "read")], ..entry("look") };
    let own = Manifest {
        scope: ManifestScope::Persona("Atlas".into()),
        description: Some("The way Atlas likes it.".into()),
        ..entry("look")
    };
    let mut world = World::new(vec![(server("fs"), vec![tool("read")])]);
    let assembly = world.with(&[shared, own]);
    assert_eq!(assembly.entries[1].outcome, EntryOutcome::Overlay { tool: "mcp.fs.read".into() });
    let catalog = Catalog::new(1, assembly.parts);
    let ann = Caller::owner("ann");
    let described = |caller: &Caller| found(&catalog, "look", caller).unwrap().description();
    assert_eq!(described(&as_persona(&ann, "Atlas")).as_deref(), Some("The way Atlas likes it."));
    assert_eq!(described(&ann).as_deref(), Some("The read."));
}

#[test]
fn a_personas_version_of_a_tool_is_its_own() {
    let own = Manifest {
        scope: ManifestScope::Persona("Atlas".into()),
        providers: vec![mcp("fs", "read")],
        ..entry("atlas_read")
    };
    let mut world = World::new(vec![(server("fs"), vec![tool("read"), tool("write")])]);
    let catalog = world.catalog(&[own]);
    let ann = Caller::owner("ann");
    let atlas = as_persona(&ann, "atlas");
    let version = found(&catalog, "atlas_read", &atlas).expect("names of personas compare without case");
    assert_eq!((is_shared(&version), owner_of(&version)), (false, Some("Atlas")));
    let shared = found(&catalog, "fs_write", &atlas).unwrap();
    assert_eq!((is_shared(&shared), owner_of(&shared)), (true, None));
    assert_eq!(found(&catalog, "atlas_read", &ann).map(|tool| tool.exposed.to_string()), None);
}
