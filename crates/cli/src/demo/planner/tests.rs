//! Tests of plans, from a model's answer to a script.

use super::*;
use expect_test::expect;

fn data() -> Value {
    json!({"available_servers": [
        {"server_name": "demo", "description": "Small tools.", "tools": [
            {"name": "demo_echo", "description": "Returns the text.",
             "parameters": {"type": "object", "properties": {"text": {"type": "string", "description": "What."}}, "required": ["text"]}},
            {"name": "demo_slow", "description": "Waits.",
             "parameters": {"type": "object", "properties": {"milliseconds": {"type": "integer"}}}}]},
        {"server_name": "planner", "description": "", "tools": [{"name": "planner_plan_task", "description": "Plans."}]},
    ]})
}

fn call(sampling: SamplingSupport, answered: Option<(&str, &str)>) -> BundledReply {
    let answered = answered.map(|(said, state)| ModelAnswer {
        answer: json!({"role": "assistant", "content": {"type": "text", "text": said}}),
        state: state.to_owned(),
    });
    let arguments = json!({"task": "Say it's fine\nrm -rf /", "env_file": "my $env", "mcp_config": "it's", "_mcp_data": data()});
    plan_task(&BundledCall { tool: "plan_task".into(), arguments, sampling, answered })
        .unwrap_or_else(|refused| refused)
}

fn structured(reply: BundledReply) -> Value {
    match reply {
        BundledReply::Result(result) => result["structuredContent"].clone(),
        BundledReply::Ask { .. } => panic!("it asks"),
    }
}

#[test]
fn without_a_model_the_tools_are_listed() {
    let results = &structured(call(SamplingSupport::Impossible, None))["results"];
    assert_eq!(results["available_tools"], json!(["demo_echo", "demo_slow"]));
    expect![[r#"
        Server: demo (Small tools.)
          Tool: demo_echo
            Description: Returns the text.
            - text (string, required): What.
          Tool: demo_slow
            Description: Waits.
            - milliseconds (integer, optional)

    "#]]
    .assert_eq(results["reference"].as_str().expect("a text"));
}

#[test]
fn an_invalid_plan_is_returned_to_the_model_once_with_its_errors() {
    let cases = [
        ("I cannot.", "the answer has no JSON object"),
        ("{\"steps\": []}", "the plan has no steps"),
        (
            "{\"steps\": [{\"tool\": \"echo\"}]}",
            "step 1: there is no tool `echo` (did you mean `demo_echo`?)",
        ),
        (
            "{\"steps\": [{\"tool\": \"demo_echo\", \"arguments\": {\"text\": 1}}]}",
            "step 1: `demo_echo`: at `/text`:",
        ),
        ("{\"steps\": [{\"tool\": \"demo_echo\", \"arguments\": {}}]}", "is required"),
        (
            "{\"steps\": [{\"tool\": \"demo_slow\", \"arguments\": {\"ms\": 1}}]}",
            "`demo_slow` takes no argument `ms`",
        ),
        ("{\"steps\": [{\"tool\": \"demo_slow\", \"arguments\": [1]}]}", "`arguments` must be an object"),
        ("{\"steps\": [{\"tool\": \"planner_plan_task\"}]}", "no tool `planner_plan_task`"),
    ];
    for (said, expected) in cases {
        let BundledReply::Ask { params, state } = call(SamplingSupport::Possible, Some((said, "first")))
        else {
            panic!("it does not ask again: {said}");
        };
        assert_eq!(state, "second");
        assert_eq!(params["messages"][1]["content"]["text"], said);
        let complaint = params["messages"][2]["content"]["text"].as_str().expect("a text");
        assert!(complaint.contains(expected), "{complaint}");
        let BundledReply::Result(result) = call(SamplingSupport::Possible, Some((said, "second"))) else {
            panic!("it asks a third time: {said}");
        };
        assert_eq!(result["isError"], true);
        assert!(result.to_string().contains(&expected.replace('"', "\\\"")), "{result}");
    }
}

#[test]
fn the_script_has_exactly_the_calls_of_the_plan() {
    let said = "Here it is:\n```json\n{\"steps\": [\
        {\"tool\": \"demo_echo\", \"arguments\": {\"text\": \"it's $(id) `id`\"}, \"why\": \"first\\nrm -rf /\"},\
        {\"tool\": \"demo_slow\",\n \"arguments\": {\n\"milliseconds\": 1}}]}\n```";
    let made = structured(call(SamplingSupport::Possible, Some((said, "first"))));
    assert_eq!(
        made["results"]["plan"]["steps"][1],
        json!({"tool": "demo_slow", "arguments": {"milliseconds": 1}, "why": ""})
    );
    assert_eq!(made["results"]["script"], "say-it-s-fine-rm-rf.sh");
    let script = STANDARD.decode(made["artifacts"][0]["b64"].as_str().expect("content")).expect("base64");
    expect![[r##"
        #!/usr/bin/env bash
        # Say it's fine rm -rf /
        # Each line is one call, and the first that fails ends the script. TOOLBOOTH names another program.
        set -euo pipefail

        toolbooth=("${TOOLBOOTH:-toolbooth}" --env-file 'my $env' --mcp-config 'it'\''s')

        # 1. first rm -rf /
        "${toolbooth[@]}" call 'demo_echo' --args '{"text": "it'\''s $(id) `id`"}'

        # 2. demo_slow
        "${toolbooth[@]}" call 'demo_slow' --args '{ "milliseconds": 1}'
    "##]]
    .assert_eq(&String::from_utf8(script).expect("text"));
}
