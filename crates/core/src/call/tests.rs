//! Calls passed through the real stages, from a caller's request to the arguments a server receives.

use super::inject::{
    FileFault, FileInjector, FileUrlSource, IdentityInjector, McpDataInjector, SignedUrl, UnknownName,
};
use super::*;
use crate::caller::{Caller, ClientFacts};
use crate::catalog::{Catalog, Discovery, Naming, admit};
use crate::fault::Fault;
use crate::json::RawJson;
use crate::names::ServerName;
use crate::server::tests::entry;
use crate::server::{InjectionSettings, ServerEntry};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ann has one file, `r.pdf`.
struct AnnsFiles(UnknownName);

impl FileUrlSource for AnnsFiles {
    fn url_for(
        &self,
        caller: &Caller,
        name: &str,
        server: &ServerName,
        call: &str,
    ) -> Result<SignedUrl, FileFault> {
        match (&*caller.user, name) {
            ("ann", "r.pdf") => Ok(SignedUrl::new(format!("https://gate/{server}/{call}?token=SECRET"))),
            _ => Err(FileFault::Unknown),
        }
    }

    fn unknown_names(&self) -> UnknownName {
        self.0
    }
}

struct World {
    catalog: Catalog,
    injectors: Vec<Box<dyn Injector>>,
    unknown: UnknownName,
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).expect("JSON")
}

fn run(judgement: Judgement) -> Judged {
    match judgement {
        Judgement::Run(judged) => judged,
        other => panic!("it does not run: {other:?}"),
    }
}

fn caller(user: &str, groups: &[&str]) -> Arc<Caller> {
    Arc::new(Caller::guest(user, groups.iter().map(|group| (*group).to_owned())))
}

fn catalog(servers: Vec<(ServerEntry, Vec<(&str, &str)>)>) -> Catalog {
    let mut parts = BTreeMap::new();
    for (entry, tools) in servers {
        let definition = |(name, schema): (&str, &str)| {
            json(&format!(r#"{{"name":"{name}","description":"Does {name}","inputSchema":{schema}}}"#))
        };
        let found = Discovery { tools: tools.into_iter().map(definition).collect(), ..Discovery::default() };
        let entry = Arc::new(entry);
        let part = admit(&entry, &found, &Naming::default(), &|_| false);
        assert_eq!(part.set_aside, [], "every tool of a test enters");
        parts.insert(entry.name.clone(), Arc::new(part));
    }
    Catalog::new(1, parts)
}

impl World {
    fn of(catalog: Catalog) -> Self {
        let injectors: Vec<Box<dyn Injector>> =
            vec![Box::new(IdentityInjector), Box::new(McpDataInjector::default()), Box::new(FileInjector)];
        Self { catalog, injectors, unknown: UnknownName::Refused }
    }

    /// One server `s` with `inject: true`, and one tool `t` with this schema.
    fn with(schema: &str) -> Self {
        let server = ServerEntry { inject: InjectionSettings::all(), ..entry("s") };
        Self::of(catalog(vec![(server, vec![("t", schema)])]))
    }

    fn call(&self, caller: &Arc<Caller>, tool: &str, arguments: &str) -> Result<Sealed, CallFault> {
        let incoming = IncomingCall {
            caller: caller.clone(),
            client: Arc::new(ClientFacts::default()),
            name: tool.to_owned(),
            arguments: Some(json(arguments)),
            meta: Vec::new(),
        };
        let drafted = draft(authorise(resolve(incoming, &self.catalog)?)?, Situation::default())?;
        let files = AnnsFiles(self.unknown);
        let context = SealContext { catalog: &self.catalog, call_id: &|| "c1".to_owned(), files: &files };
        seal(run(judge(drafted, &[])?), &self.injectors, &context)
    }

    /// The arguments that the server receives when Ann calls, or the error.
    fn ann(&self, arguments: &str) -> String {
        match self.call(&caller("ann", &[]), "s_t", arguments) {
            Ok(sealed) => sealed.arguments().to_string(),
            Err(fault) => fault.to_string(),
        }
    }
}

const WHO: &str = r#"{"type":"object","properties":{"to":{"type":"string"},"username":{"type":"string"}},"required":["username","to"]}"#;

#[test]
fn forged_identities_are_overwritten_wherever_declared() {
    let ann = r#"{"to":"bo","username":"ann"}"#;
    let open = r#"{"properties":{"username":{}},"additionalProperties":true}"#;
    let cases = [
        // (schema, the caller's arguments, the server's arguments)
        (WHO, r#"{"to":"bo"}"#, ann),
        (WHO, r#"{"to":"bo","username":"root"}"#, ann),
        (WHO, r#"{"username":"root","to":"bo"}"#, ann),
        (WHO, r#"{"user\u006eame":"root","to":"bo"}"#, ann),
        (WHO, r#"{"to":"bo","username":{"$ne":null}}"#, ann),
        (open, r#"{"username":"root","Username":"root","USERNAME":"r"}"#, r#"{"username":"ann"}"#),
        (
            open,
            r#"{"user\u200bname":"root","ｕｓｅｒｎａｍｅ":"root","usеrname":"r"}"#,
            r#"{"username":"ann"}"#,
        ),
        (open, r#"{"_ATLAS_USER":"root","_atlas_user":"root"}"#, r#"{"username":"ann"}"#),
        (open, r#"{"\ud800\u0075sername":"root","username\udc00":"root"}"#, r#"{"username":"ann"}"#),
        // Nested names are only data.
        (open, r#"{"o":{"username":"root"}}"#, r#"{"o":{"username":"root"},"username":"ann"}"#),
        (
            r##"{"$ref":"#/$defs/In","$defs":{"In":{"properties":{"to":{},"username":{"$ref":"#/$defs/T"}}},"T":{"type":"string"}}}"##,
            r#"{"to":"bo","username":"root"}"#,
            ann,
        ),
        (
            r#"{"properties":{"to":{}},"allOf":[{"properties":{"username":{}},"required":["username"]}]}"#,
            r#"{"to":"bo","username":"root"}"#,
            ann,
        ),
        // A tool that does not declare them receives none, whatever its schema accepts.
        (r#"{"type":"object"}"#, r#"{"username":"root","a":1}"#, r#"{"a":1}"#),
        (r#"{"properties":{"a":{}}}"#, r#"{"username":"root","a":1}"#, r#"{"a":1}"#),
        (r#"{"patternProperties":{"^u":{}}}"#, r#"{"username":"root","ux":1}"#, r#"{"ux":1}"#),
        // A name that the tool itself declares belongs to the caller, whether or not it is a look-alike.
        (
            r#"{"properties":{"Username":{},"username":{}}}"#,
            r#"{"Username":"bo","username":"root"}"#,
            r#"{"Username":"bo","username":"ann"}"#,
        ),
    ];
    for (schema, given, expected) in cases {
        assert_eq!(World::with(schema).ann(given), expected, "{schema} {given}");
    }
}

#[test]
fn ambiguous_calls_are_refused() {
    let cases = [
        (
            r#"{"properties":{"username":{"type":"array"}}}"#,
            "{}",
            "`s_t` declares `username` as something other than text, so the caller's identity cannot be supplied",
        ),
        (WHO, r#"{"to":"a","to":"b"}"#, r#"the arguments of `s_t` do not fit: the key "to" occurs twice"#),
        (
            WHO,
            r#"{"to":"a","username":"x","username":"y"}"#,
            r#"the arguments of `s_t` do not fit: the key "username" occurs twice"#,
        ),
        (WHO, "{}", r#"the arguments of `s_t` do not fit: "to" is required"#),
        (WHO, r#"{"to":7}"#, "the arguments of `s_t` do not fit: at `/to`: must be string, but is a number"),
        (WHO, "[1]", "the arguments of `s_t` must be an object, not an array"),
    ];
    for (schema, given, expected) in cases {
        assert_eq!(World::with(schema).ann(given), expected, "{given}");
    }
    // Without an injector the call fails.
    let mut world = World::with(WHO);
    world.injectors.clear();
    assert_eq!(world.ann(r#"{"to":"bo"}"#), "`s_t` was not called: the gateway could not supply `username`");
}

#[test]
fn dropped_arguments_are_reported_without_their_values() {
    let world = World::with(WHO);
    let sealed = world.call(
        &caller("ann", &[]),
        "s_t",
        r#"{"to":"b", "zzz" : 1,"username":"SECRET","USERNAME":"SECRET"}"#,
    );
    let sealed = sealed.expect("sealed");
    let warnings: Vec<String> = sealed.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            r#"argument "zzz" was dropped: the tool does not declare it"#,
            r#"argument "username" was dropped: the gateway supplies it"#,
            r#"argument "USERNAME" was dropped: it looks like one that the gateway supplies"#,
        ]
    );
    assert_eq!(sealed.public_arguments().as_str(), r#"{"to":"b"}"#);
    let many: String = (0..100).map(|n| format!(r#""k{n}":1,"#)).collect();
    let sealed = world.call(&caller("ann", &[]), "s_t", &format!(r#"{{{many}"to":"b"}}"#)).expect("sealed");
    assert_eq!(sealed.warnings().len(), MAX_WARNINGS);
    assert_eq!(sealed.warnings().last(), Some(&Warning::More(85)));
}

#[test]
fn arguments_that_lose_nothing_keep_every_byte() {
    let world = World::with(r#"{"properties":{"a":{},"n":{"type":"number"}}}"#);
    let given = "{ \"n\" : 1.50 ,\"a\":[1e2,\"\\u00e9\"]}";
    let sealed = world.call(&caller("ann", &[]), "s_t", given).expect("sealed");
    assert_eq!(sealed.arguments().as_str(), given);
    assert_eq!(sealed.arguments().as_bytes().as_ptr(), sealed.public_arguments().as_bytes().as_ptr());
}

#[test]
fn printing_a_sealed_call_shows_only_what_the_caller_gave() {
    let world = World::with(r#"{"properties":{"_mcp_data":{},"filename":{}}}"#);
    let sealed = world.call(&caller("ann", &[]), "s_t", r#"{"filename":"r.pdf"}"#).expect("sealed");
    let printed = format!("{sealed:?}");
    assert!(
        sealed.arguments().as_str().contains("SECRET") && sealed.arguments().as_str().contains("_mcp_data")
    );
    assert!(!printed.contains("SECRET") && !printed.contains("available_servers"), "{printed}");
}

#[test]
fn files_become_urls_and_unknown_ones_are_refused() {
    let schema = r#"{"properties":{"filename":{},"original_filename":{},"file_url":{},"file_names":{},"file_urls":{}}}"#;
    let world = World::with(schema);
    let url = "https://gate/s/c1?token=SECRET";
    let cases = [
        (
            r#"{"filename":"r.pdf","file_url":"http://evil"}"#,
            format!(r#"{{"filename":"{url}","original_filename":"r.pdf","file_url":"{url}"}}"#),
        ),
        (r#"{"file_names":["r.pdf"]}"#, format!(r#"{{"file_names":["{url}"],"file_urls":["{url}"]}}"#)),
        (r#"{"filename":null}"#, r#"{"filename":null}"#.into()),
        ("{}", "{}".into()),
        (
            r#"{"filename":"other.pdf"}"#,
            r#"`s_t` was not called: `filename` names the file "other.pdf", which is not among your files"#
                .into(),
        ),
        (
            r#"{"file_names":["r.pdf",3]}"#,
            r#"`s_t` was not called: `file_names` names the file "3", which is not among your files"#.into(),
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(world.ann(given), expected, "{given}");
    }
    let bob = world.call(&caller("bob", &[]), "s_t", r#"{"filename":"r.pdf"}"#);
    assert_eq!(bob.expect_err("another user's file").code(), "call.unknown-file");
    let mut passing = World::with(schema);
    passing.unknown = UnknownName::PassThrough;
    let cases = [
        (
            r#"{"filename":"other.pdf"}"#,
            r#"{"filename":"other.pdf","original_filename":"other.pdf","file_url":"other.pdf"}"#.to_owned(),
            r#"argument "filename" was sent as it is: "other.pdf" is not one of your files"#,
        ),
        (
            r#"{"filename":""}"#,
            r#"{"filename":"","original_filename":"","file_url":""}"#.to_owned(),
            r#"argument "filename" was sent as it is: "" is not one of your files"#,
        ),
        (
            r#"{"file_names":["r.pdf", 3,"out.txt"]}"#,
            format!(r#"{{"file_names":["{url}",3,"out.txt"],"file_urls":["{url}",3,"out.txt"]}}"#),
            r#"argument "file_names" was sent as it is: "3" is not one of your files"#,
        ),
    ];
    for (given, expected, warning) in cases {
        let sealed = passing.call(&caller("ann", &[]), "s_t", given).expect("sealed");
        assert_eq!(sealed.arguments().to_string(), expected, "{given}");
        assert_eq!(sealed.warnings()[0].to_string(), warning, "{given}");
    }
    let many: Vec<String> = (0..100).map(|n| format!("f{n}")).collect();
    let arguments = serde_json::json!({ "file_names": many }).to_string();
    let sealed = passing.call(&caller("ann", &[]), "s_t", &arguments).expect("sealed");
    assert_eq!(sealed.warnings().len(), MAX_WARNINGS);
    assert_eq!(sealed.warnings().last(), Some(&Warning::MoreNotFiles(85)));
}

fn two_groups() -> World {
    let planner = r#"{"properties":{"task":{},"_mcp_data":{"type":"object"},"_atlas_user":{}}}"#;
    let mut finance = entry("finance");
    finance.groups = vec!["finance".into()];
    finance.about.short_description = Some("Money".into());
    let mut off = entry("off");
    off.enabled = false;
    World::of(catalog(vec![
        (entry("plan"), vec![("go", planner)]),
        (finance, vec![("wire", r#"{"properties":{"sum":{}}}"#)]),
        (off, vec![("x", "{}")]),
    ]))
}

#[test]
fn mcp_data_lists_exactly_the_tools_a_caller_may_call() {
    let world = two_groups();
    let data_for = |user: &str, groups: &[&str]| {
        let sealed =
            world.call(&caller(user, groups), "plan_go", r#"{"_mcp_data":{"forged":1}}"#).expect("sealed");
        sealed.arguments().member("_mcp_data").expect("supplied").to_string()
    };
    let plan = r#"{"server_name":"plan","description":"","tools":[{"name":"plan_go","description":"Does go","parameters":{"properties":{"task":{}}}}]}"#;
    let finance = r#"{"server_name":"finance","description":"Money","tools":[{"name":"finance_wire","description":"Does wire","parameters":{"properties":{"sum":{}}}}]}"#;
    for _ in 0..500 {
        assert_eq!(data_for("ann", &[]), format!(r#"{{"available_servers":[{plan}]}}"#));
        assert_eq!(data_for("fay", &["finance"]), format!(r#"{{"available_servers":[{finance},{plan}]}}"#));
    }
}

#[test]
fn mcp_data_stays_within_its_budget() {
    let big = format!(r#"{{"properties":{{"a":{{"description":"{}"}}}}}}"#, "é\\n".repeat(700));
    let mut tools = vec![("plan", r#"{"properties":{"_mcp_data":{}}}"#)];
    let names: Vec<String> = (0..40).map(|n| format!("tool{n}")).collect();
    tools.extend(names.iter().map(|name| (&**name, &*big)));
    let catalog = catalog(vec![(entry("s"), tools)]);
    for budget in [0, 100, 500, 2_000, 10_000, 50_000, 500_000] {
        let catalog = Catalog::new(1, catalog.servers().clone());
        let world = World {
            catalog,
            injectors: vec![Box::new(IdentityInjector), Box::new(McpDataInjector::with_budget(budget))],
            unknown: UnknownName::Refused,
        };
        let sealed = world.call(&caller("ann", &[]), "s_plan", "{}").expect("sealed");
        let data = sealed.arguments().member("_mcp_data").expect("supplied");
        assert!(data.as_bytes().len() <= budget.max(64), "{budget}: {}", data.as_bytes().len());
        let cut = data.member("truncated").is_some();
        assert_eq!(cut, budget < 500_000, "{budget}");
        if budget == 10_000 {
            assert!(data.as_str().contains("s_tool39"), "names come before schemas");
        }
    }
}

proptest! {
    #[test]
    fn no_argument_of_a_caller_survives_under_a_supplied_name(
        keys in prop::collection::vec(prop_oneof![
            Just("username".to_owned()), Just("_atlas_user".to_owned()), Just("_mcp_data".to_owned()),
            Just("USERNAME".to_owned()), Just("user\u{200d}name".to_owned()), Just("to".to_owned()),
            "[a-zA-Z_\u{200b}е]{0,10}",
        ], 0..6),
        schema in 0..4_usize,
    ) {
        let schemas = [
            WHO,
            r#"{"properties":{"username":{},"_atlas_user":{},"_mcp_data":{}},"additionalProperties":true}"#,
            r#"{"type":"object"}"#,
            r##"{"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"properties":{"_atlas_user":{}},"additionalProperties":{}}}}"##,
        ];
        let members: Vec<String> = keys.iter().map(|key| format!("{}:\"FORGED\"", RawJson::from_value(key))).collect();
        let world = World::with(schemas[schema]);
        let Ok(sealed) = world.call(&caller("ann", &[]), "s_t", &format!("{{{}}}", members.join(","))) else {
            return Ok(());
        };
        for member in sealed.arguments().members().expect("an object") {
            let folded: String = member.key.to_lowercase().replace(['\u{200b}', '\u{200d}'], "").replace('е', "e");
            if ["username", "_atlas_user", "_mcp_data"].contains(&&*folded) {
                prop_assert!(!member.value.as_str().contains("FORGED"), "{:?}", member);
            }
        }
    }
}

/// A measurement, not a check: the cost of the stages of a small call.
#[test]
#[ignore = "a measurement: cargo test --release -p toolbooth-core drafting_and_sealing -- --ignored --nocapture"]
fn drafting_and_sealing_a_small_call_is_cheap() {
    let world =
        World::with(r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#);
    let ann = caller("ann", &[]);
    let arguments = json(r#"{"message":"hello there, how are you"}"#);
    for _ in 0..5 {
        let rounds = 100_000;
        let mut spent = std::time::Duration::ZERO;
        for _ in 0..rounds {
            let incoming = IncomingCall {
                caller: ann.clone(),
                client: Arc::new(ClientFacts::default()),
                name: "s_t".to_owned(),
                arguments: Some(arguments.clone()),
                meta: Vec::new(),
            };
            let permitted = authorise(resolve(incoming, &world.catalog).expect("found")).expect("permitted");
            let start = std::time::Instant::now();
            let judged =
                run(judge(draft(permitted, Situation::default()).expect("drafted"), &[]).expect("judged"));
            let context = SealContext {
                catalog: &world.catalog,
                call_id: &|| "c1".to_owned(),
                files: &AnnsFiles(UnknownName::Refused),
            };
            let sealed = seal(judged, &world.injectors, &context).expect("sealed");
            spent += start.elapsed();
            drop(sealed);
        }
        println!("draft, judge and seal: {:?}", spent / rounds);
    }
}
