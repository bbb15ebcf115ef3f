//! Verdicts on drafts made by the real stages.

use super::*;
use crate::call::{
    Approval, Consented, DefinitionChange, IncomingCall, Situation, authorise, draft, fingerprint, resolve,
};
use crate::caller::{Caller, ClientFacts};
use crate::catalog::{Catalog, Discovery, Naming, admit};
use crate::fault::Fault;
use crate::held::{HeldCall, HeldKind, HeldState};
use crate::json::RawJson;
use crate::server::ServerEntry;
use crate::server::tests::entry;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).expect("JSON")
}

/// One server `s` with the tools `get_x`, `delete_x` and `frob`.
fn catalog(change: impl FnOnce(&mut ServerEntry)) -> Catalog {
    let mut server = entry("s");
    change(&mut server);
    let schema = r#"{"type":"object","properties":{"to":{"type":"string"},"n":{"type":"array"}}}"#;
    let tools = ["get_x", "delete_x", "frob"];
    let tools = tools.map(|name| json(&format!(r#"{{"name":"{name}","inputSchema":{schema}}}"#)));
    let found = Discovery { tools: tools.to_vec(), ..Discovery::default() };
    let server = Arc::new(server);
    let part = admit(&server, &found, &Naming::default(), &|_| false);
    Catalog::new(1, BTreeMap::from([(server.name.clone(), Arc::new(part))]))
}

fn drafted(catalog: &Catalog, caller: Caller, tool: &str, arguments: &str, situation: Situation) -> Draft {
    let incoming = IncomingCall {
        caller: Arc::new(caller),
        client: Arc::new(ClientFacts { info: Some(json(r#"{"name":"cli"}"#)), ..ClientFacts::default() }),
        name: tool.to_owned(),
        arguments: Some(json(arguments)),
        meta: Vec::new(),
    };
    let permitted = authorise(resolve(incoming, catalog).expect("known")).expect("permitted");
    draft(permitted, situation).expect("fits")
}

fn ann() -> Caller {
    Caller::guest("ann", ["staff".to_owned()])
}

/// A verdict as one word.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Run => "run",
        Verdict::Ask { answerer: Answerer::CallerOrApprover, .. } => "ask",
        Verdict::Ask { answerer: Answerer::InPerson, .. } => "ask in person",
        Verdict::Ask { answerer: Answerer::ApproverOnly, .. } => "ask approver",
        Verdict::Queue { .. } => "queue",
        Verdict::Refuse { .. } => "refuse",
        Verdict::Hide => "hide",
    }
}

fn book(layers: Vec<Vec<Rule>>) -> RuleBook {
    RuleBook::new(layers.into_iter().map(LayerRules).collect()).expect("few")
}

fn rule(subject: RuleSubject, names: &[&str], effect: RuleEffect) -> Rule {
    let tools =
        ToolMatch { names: names.iter().map(|name| (*name).to_owned()).collect(), ..ToolMatch::default() };
    Rule::new(subject, tools, [], effect, None).expect("a rule")
}

#[test]
fn the_first_match_wins_in_a_layer_and_the_strictest_across() {
    use RuleEffect::{Allow, Ask, AskApprover, Deny, Hide, Plan};
    use RuleSubject::{AllCallers, Client, Group, Persona, User};
    let group = |name: &str| Group(name.into());
    let cases: Vec<(Vec<Vec<Rule>>, &str)> = vec![
        (vec![], "run"),
        (vec![vec![rule(AllCallers, &["s_get_*"], Deny)]], "run"),
        (vec![vec![rule(AllCallers, &["s_delete_*"], Deny)]], "refuse"),
        (vec![vec![rule(AllCallers, &["delete_x"], Ask)]], "ask in person"),
        (vec![vec![rule(AllCallers, &["delete_x"], AskApprover)]], "ask approver"),
        (vec![vec![rule(AllCallers, &[], AskApprover)], vec![rule(AllCallers, &[], Ask)]], "ask approver"),
        (vec![vec![rule(AllCallers, &["mcp.s.*"], Plan)]], "queue"),
        (vec![vec![rule(group("staff"), &[], Allow), rule(AllCallers, &[], Deny)]], "run"),
        (vec![vec![rule(group("ops"), &[], Allow), rule(AllCallers, &[], Deny)]], "refuse"),
        (vec![vec![rule(AllCallers, &[], Allow)], vec![rule(User("ann".into()), &[], Ask)]], "ask in person"),
        (vec![vec![rule(AllCallers, &[], Deny)], vec![rule(AllCallers, &[], Allow)]], "refuse"),
        (vec![vec![rule(Client("cli".into()), &[], Hide)]], "hide"),
        (vec![vec![rule(Client("other".into()), &[], Hide)]], "run"),
        (vec![vec![rule(Persona("dev".into()), &[], Hide)]], "run"),
    ];
    let catalog = catalog(|_| {});
    for (at, (layers, expected)) in cases.into_iter().enumerate() {
        let draft = drafted(&catalog, ann(), "s_delete_x", "{}", Situation::default());
        assert_eq!(word(&book(layers).judge(&draft)), expected, "case {at}");
    }
}

/// A rule that plans won over one that asks an approver, so the caller could decide the step alone.
#[test]
fn a_rule_that_plans_does_not_cancel_an_approver_of_another_layer() {
    use RuleEffect::{Ask, AskApprover, Plan};
    let catalog = catalog(|_| {});
    let policies = |effects: [RuleEffect; 2]| -> Vec<Box<dyn Policy>> {
        let layers = effects.map(|effect| vec![rule(RuleSubject::AllCallers, &["s_delete_x"], effect)]);
        vec![Box::new(Arc::new(book(layers.into())))]
    };
    let judged = |effects, approval| {
        let situation = Situation { approval, ..Situation::default() };
        let draft = drafted(&catalog, ann(), "s_delete_x", r#"{"to":"a"}"#, situation);
        match judge(draft, &policies(effects)).expect("not refused") {
            Judgement::Run(_) => ("run", None),
            Judgement::Ask(waiting) => ("ask", Some(waiting.answerer)),
            Judgement::Queue(waiting) => ("queue", Some(waiting.answerer)),
        }
    };
    let step = |answerer, by| Some(approval(&catalog, HeldKind::Plan, answerer, by));
    for effects in [[Plan, AskApprover], [AskApprover, Plan]] {
        assert_eq!(judged(effects, None), ("queue", Some(Answerer::ApproverOnly)), "{effects:?}");
        // The caller's own approval of the step does not answer the question.
        let own = step(Answerer::CallerOrApprover, "ann");
        assert_eq!(judged(effects, own), ("ask", Some(Answerer::ApproverOnly)), "{effects:?}");
        assert_eq!(judged(effects, step(Answerer::ApproverOnly, "bo")), ("run", None), "{effects:?}");
    }
    assert_eq!(judged([Plan, Ask], None), ("queue", Some(Answerer::InPerson)));
}

#[test]
fn rules_match_effects_and_arguments() {
    let catalog = catalog(|_| {});
    let by_effect = |word: &str| {
        let tools = ToolMatch { side_effects: vec![word.into()], ..ToolMatch::default() };
        Rule::new(RuleSubject::AllCallers, tools, [], RuleEffect::Deny, None).expect("a rule")
    };
    for (tool, effect, expected) in [
        ("s_delete_x", "destructive", "refuse"),
        ("s_delete_x", "network", "refuse"), // its label
        ("s_delete_x", "read", "run"),
        ("s_get_x", "read", "refuse"),
        ("s_frob", "write", "refuse"), // unknown counts as a write
    ] {
        let draft = drafted(&catalog, ann(), tool, "{}", Situation::default());
        assert_eq!(word(&book(vec![vec![by_effect(effect)]]).judge(&draft)), expected, "{tool} {effect}");
    }
    let on = |pointer: &str, pattern: &str| {
        let arguments = [(pointer.to_owned(), pattern.to_owned())];
        Rule::new(RuleSubject::AllCallers, ToolMatch::default(), arguments, RuleEffect::Deny, None)
            .expect("a rule")
    };
    let long = format!(r#"{{"to":"{}"}}"#, "x".repeat(70 << 10));
    for (arguments, pointer, pattern, expected) in [
        (r#"{"to":"bob@evil.example"}"#, "/to", "@evil\\.example$", "refuse"),
        (r#"{"to":"bob@good.example"}"#, "/to", "@evil\\.example$", "run"),
        (r#"{"to":"b\u006fb"}"#, "to", "^bob$", "refuse"), // another spelling of the same text
        (r#"{}"#, "/to", ".*", "run"),
        (r#"{"n":[1,{"a/b":2}]}"#, "/n/1/a~1b", "^2$", "refuse"),
        (&long, "/to", "^y$", "refuse"), // too long to look at
    ] {
        let draft = drafted(&catalog, ann(), "s_frob", arguments, Situation::default());
        assert_eq!(word(&book(vec![vec![on(pointer, pattern)]]).judge(&draft)), expected, "{pattern}");
    }
    // A server that parses doubles reads 9999; one that parses decimals does not.
    let close = r#"{"n":[9999.00000000000000000000000001]}"#;
    for (effect, pattern, expected) in [
        (RuleEffect::Deny, "^9999$", "refuse"),
        (RuleEffect::Deny, "01$", "refuse"),
        (RuleEffect::Allow, "^9999$", "ask in person"),
        (RuleEffect::Allow, "01$", "ask in person"),
        (RuleEffect::Allow, "^9999", "run"),
    ] {
        let arguments = [("/n/0".to_owned(), pattern.to_owned())];
        let on_number = Rule::new(RuleSubject::AllCallers, ToolMatch::default(), arguments, effect, None);
        let otherwise = rule(RuleSubject::AllCallers, &[], RuleEffect::Ask);
        let draft = drafted(&catalog, ann(), "s_frob", close, Situation::default());
        let book = book(vec![vec![on_number.expect("a rule"), otherwise]]);
        assert_eq!(word(&book.judge(&draft)), expected, "{effect:?} {pattern}");
    }
    let bomb = Rule::new(
        RuleSubject::AllCallers,
        ToolMatch::default(),
        [("/a".to_owned(), r"(\w{1,200}){1,20}q".to_owned())],
        RuleEffect::Deny,
        None,
    );
    assert_eq!(bomb.expect_err("too large").code(), "config.bad-rule");
}

#[test]
fn built_in_policies_ask_queue_and_refuse() {
    let planning = || Situation { plan: Some(Uuid::nil()), ..Situation::default() };
    let consented = || Situation { consent: Consented::Yes, ..Situation::default() };
    let changed = || Situation { change: DefinitionChange::Changed, ..Situation::default() };
    let none = Situation::default;
    let catalog = catalog(|server| {
        server.tools.require_approval = vec!["delete_*".into()];
        let four_eyes = serde_json::json!({ "approval": "approver" });
        server.tools.overrides.insert("frob".into(), four_eyes);
    });
    let cases: Vec<(Box<dyn Policy>, &str, Situation, &str)> = vec![
        (Box::new(RequireApproval), "s_delete_x", none(), "ask in person"),
        (Box::new(RequireApproval), "s_delete_x", consented(), "ask in person"), // each time
        (Box::new(RequireApproval), "s_frob", none(), "ask approver"),
        (Box::new(RequireApproval), "s_get_x", none(), "run"),
        (Box::new(DefaultAsk::Writes), "s_get_x", none(), "run"),
        (Box::new(DefaultAsk::Writes), "s_frob", none(), "ask"),
        (Box::new(DefaultAsk::Always), "s_get_x", none(), "ask"),
        (Box::new(RequireConsent::Every), "s_get_x", none(), "ask"), // a name is not proof
        (Box::new(RequireConsent::Every), "s_get_x", consented(), "run"),
        (Box::new(RequireConsent::Written), "s_get_x", none(), "run"),
        (Box::new(ChangedToolPolicy(OnChange::Ask)), "s_get_x", changed(), "ask"),
        (Box::new(ChangedToolPolicy(OnChange::Block)), "s_get_x", changed(), "refuse"),
        (Box::new(ChangedToolPolicy(OnChange::Allow)), "s_get_x", changed(), "run"),
        (Box::new(ChangedToolPolicy(OnChange::Block)), "s_get_x", none(), "run"),
        (Box::new(PlanMode(PlanReads::Names)), "s_get_x", planning(), "run"),
        (Box::new(PlanMode(PlanReads::Trusted)), "s_get_x", planning(), "queue"),
        (Box::new(PlanMode(PlanReads::Names)), "s_frob", planning(), "queue"),
        (Box::new(PlanMode(PlanReads::Names)), "s_delete_x", none(), "run"),
    ];
    for (at, (policy, tool, situation, expected)) in cases.into_iter().enumerate() {
        let draft = drafted(&catalog, ann(), tool, "{}", situation);
        assert_eq!(word(&policy.judge(&draft)), expected, "case {at}: {tool}");
    }
}

#[test]
fn consent_and_safety_levels_ask_by_the_terms_of_the_tool() {
    let catalog = catalog(|server| {
        let mut set = |tool: &str, terms: serde_json::Value| {
            server.tools.overrides.insert(tool.into(), terms);
        };
        set(
            "get_x",
            serde_json::json!({ "side_effects": "read_external_service", "safety_level": "critical" }),
        );
        set("delete_x", serde_json::json!({ "requires_consent": true, "safety_level": "medium" }));
        set("frob", serde_json::json!({ "requires_consent": false, "safety_level": "high" }));
    });
    let cases: Vec<(Box<dyn Policy>, &str, &str)> = vec![
        (Box::new(RequireConsent::Every), "s_get_x", "run"), // known to only read
        (Box::new(RequireConsent::Every), "s_delete_x", "ask"),
        (Box::new(RequireConsent::Written), "s_delete_x", "ask"),
        (Box::new(RequireConsent::Every), "s_frob", "run"),
        (Box::new(RequireApproval), "s_get_x", "ask approver"),
        (Box::new(RequireApproval), "s_delete_x", "run"),
        (Box::new(RequireApproval), "s_frob", "ask in person"),
    ];
    for (at, (policy, tool, expected)) in cases.into_iter().enumerate() {
        let draft = drafted(&catalog, ann(), tool, "{}", Situation::default());
        assert_eq!(word(&policy.judge(&draft)), expected, "case {at}: {tool}");
    }
}

#[test]
fn the_owner_in_local_mode_approves_critical_calls_in_person() {
    let catalog = catalog(|server| {
        let critical = serde_json::json!({ "safety_level": "critical" });
        server.tools.overrides.insert("get_x".into(), critical);
        let four_eyes = serde_json::json!({ "safety_level": "critical", "approval": "approver" });
        server.tools.overrides.insert("frob".into(), four_eyes);
    });
    let cases = [
        (Caller::owner("me"), "s_get_x", "ask in person"),
        (Caller::owner("me"), "s_frob", "ask approver"),
        (Caller::operator("me"), "s_get_x", "ask approver"),
        (ann(), "s_get_x", "ask approver"),
    ];
    for (caller, tool, expected) in cases {
        let user = caller.user.clone();
        let draft = drafted(&catalog, caller, tool, "{}", Situation::default());
        assert_eq!(word(&RequireApproval.judge(&draft)), expected, "{user} {tool}");
    }
}

#[test]
fn plan_mode_believes_a_read_only_hint_unless_the_name_says_otherwise() {
    let server = Arc::new(entry("s"));
    let tools = ["frob", "delete_x"].map(|name| {
        let hint = r#""annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}"#;
        json(&format!(r#"{{"name":"{name}",{hint}}}"#))
    });
    let found = Discovery { tools: tools.to_vec(), ..Discovery::default() };
    let part = admit(&server, &found, &Naming::default(), &|_| false);
    let catalog = Catalog::new(1, BTreeMap::from([(server.name.clone(), Arc::new(part))]));
    let cases = [
        (PlanReads::Names, "s_frob", "run"),
        (PlanReads::Names, "s_delete_x", "queue"),
        (PlanReads::Trusted, "s_frob", "queue"),
    ];
    for (reads, tool, expected) in cases {
        let situation = Situation { plan: Some(Uuid::nil()), ..Situation::default() };
        let draft = drafted(&catalog, ann(), tool, "{}", situation);
        assert_eq!(word(&PlanMode(reads).judge(&draft)), expected, "{reads:?} {tool}");
    }
}

/// An approval of `s_delete_x` with `{"to":"a"}`, from a held call of this kind and answerer.
fn approval(catalog: &Catalog, kind: HeldKind, answerer: Answerer, by: &str) -> Approval {
    let draft = drafted(catalog, ann(), "s_delete_x", r#"{"to":"a"}"#, Situation::default());
    let held = HeldCall {
        id: Uuid::nil(),
        kind,
        user: "ann".into(),
        persona: None,
        session: None,
        level: None,
        identified_by: None,
        client: String::new(),
        origin: None,
        server: draft.tool.server.name.clone(),
        tool: draft.tool.name.to_string(),
        exposed: draft.tool.exposed.to_string(),
        digest: *draft.tool.digest(),
        arguments: draft.arguments.clone(),
        arguments_sha256: fingerprint(&draft.arguments),
        question: String::new(),
        answerer,
        created_ms: 0,
        expires_ms: None,
        state: HeldState::Approved,
        decided_by: Some(by.into()),
        decided_ms: Some(0),
        decision_note: None,
        edited: None,
        remember: None,
        claimed_ms: Some(0),
        outcome: None,
        plan: None,
    };
    assert!(Approval::of(&HeldCall { claimed_ms: None, ..held.clone() }).is_none(), "not claimed");
    assert!(Approval::of(&HeldCall { state: HeldState::Done, ..held.clone() }).is_none(), "over");
    Approval::of(&held).expect("approved and claimed")
}

#[test]
fn an_approval_covers_one_call_and_questions_that_person_may_answer() {
    use Answerer::{ApproverOnly, CallerOrApprover, InPerson};
    use HeldKind::{Approval, Plan};
    let asks = |answerer| Verdict::Ask { reason: String::new(), answerer };
    let queue = || Verdict::Queue { reason: String::new() };
    let refuse = || Verdict::Refuse { reason: String::new() };
    struct Says(Verdict);
    impl Policy for Says {
        fn judge(&self, _: &Draft) -> Verdict {
            self.0.clone()
        }
    }
    let catalog = catalog(|_| {});
    let cases = [
        (Approval, CallerOrApprover, "ann", r#"{"to":"a"}"#, asks(CallerOrApprover), "run"),
        (Approval, CallerOrApprover, "ann", r#"{"to":"b"}"#, asks(CallerOrApprover), "ask"), // other arguments
        (Approval, CallerOrApprover, "ann", r#"{"to":"a"}"#, asks(InPerson), "ask"),
        (Approval, CallerOrApprover, "ann", r#"{"to":"a"}"#, asks(ApproverOnly), "ask"),
        (Approval, CallerOrApprover, "bo", r#"{"to":"a"}"#, asks(ApproverOnly), "ask"), // another question
        (Approval, InPerson, "ann", r#"{"to":"a"}"#, asks(CallerOrApprover), "run"),
        (Approval, InPerson, "ann", r#"{"to":"a"}"#, asks(InPerson), "run"),
        (Approval, InPerson, "bo", r#"{"to":"a"}"#, asks(ApproverOnly), "ask"),
        (Approval, ApproverOnly, "bo", r#"{"to":"a"}"#, asks(ApproverOnly), "run"),
        (Approval, ApproverOnly, "bo", r#"{"to":"a"}"#, asks(InPerson), "run"),
        (Approval, ApproverOnly, "ann", r#"{"to":"a"}"#, asks(ApproverOnly), "ask"), // her own call
        (Approval, ApproverOnly, "bo", r#"{"to":"a"}"#, queue(), "queue"), // an approval does not bypass a plan
        (Plan, CallerOrApprover, "ann", r#"{"to":"a"}"#, queue(), "run"),
        (Plan, CallerOrApprover, "ann", r#"{"to":"a"}"#, refuse(), "call.refused"),
        (Plan, ApproverOnly, "bo", r#"{"to":"a"}"#, Verdict::Hide, "call.unknown-tool"),
    ];
    for (at, (kind, answerer, by, arguments, verdict, expected)) in cases.into_iter().enumerate() {
        let approval = Some(approval(&catalog, kind, answerer, by));
        let draft =
            drafted(&catalog, ann(), "s_delete_x", arguments, Situation { approval, ..Situation::default() });
        let policies: Vec<Box<dyn Policy>> = vec![Box::new(Says(verdict)), Box::new(Says(Verdict::Run))];
        let found = match judge(draft, &policies) {
            Ok(Judgement::Run(_)) => "run",
            Ok(Judgement::Ask(_)) => "ask",
            Ok(Judgement::Queue(_)) => "queue",
            Err(fault) => fault.code(),
        };
        assert_eq!(found, expected, "case {at}");
    }
}

#[test]
fn hiding_rules_remove_tools_from_every_list() {
    use crate::catalog::{ListKind, Lookup};
    let rules = book(vec![vec![
        rule(RuleSubject::User("bo".into()), &["s_delete_*"], RuleEffect::Allow),
        rule(RuleSubject::Group("staff".into()), &["s_delete_*"], RuleEffect::Hide),
    ]]);
    let rules = Arc::new(rules);
    assert!(rules.hides_anything());
    let catalog = catalog(|_| {});
    let veiled = |caller: Caller| Caller { hiding_rules: Some(rules.clone()), ..caller };
    let listed = |caller: &Caller| {
        let list = catalog.list(ListKind::Tools, caller);
        String::from_utf8(list.pieces.concat()).expect("text").contains("s_delete_x")
    };
    let bo = Caller::guest("bo", ["staff".to_owned()]);
    for (caller, sees) in [
        (ann(), true), // without rules
        (veiled(ann()), false),
        (veiled(bo), true),
        (veiled(Caller::guest("cy", [])), true),
    ] {
        assert_eq!(listed(&caller), sees, "{caller:?}");
        assert_eq!(matches!(catalog.tool("s_delete_x", &caller), Lookup::Found(_)), sees);
        assert_eq!(matches!(catalog.tool("delete_x", &caller), Lookup::Found(_)), sees);
    }
}
