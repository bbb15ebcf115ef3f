//! `toolbooth chat` with a scripted model.

use serde_json::{Value, json};
use std::process::{Output, Stdio};
use tokio::io::AsyncWriteExt;
use toolbooth_testkit::chat::{ChatReply, ChatServer};
use toolbooth_testkit::world::Home;
use toolbooth_testkit::world::terminal::Terminal;

const KEY: &str = "sk-test-0123456789abcdef";
const HASH_OF_HI: &str = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";

/// A configuration with a model and the bundled servers.
fn home(url: &str, more: Value) -> Home {
    let llm = json!({ "base_url": url, "api_key": KEY, "model": "small-1", "timeout_seconds": 2 });
    let mut settings = json!({ "llm": llm });
    for (key, value) in more.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    Home::with_settings(settings, &[])
}

/// Runs a command with text on standard input, and checks that its output does not contain the key.
async fn run(home: &Home, words: &[&str], input: &str) -> Output {
    let mut command = home.command(words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    for text in [&output.stdout, &output.stderr] {
        assert!(!String::from_utf8_lossy(text).contains("sk-"), "{}", String::from_utf8_lossy(text));
    }
    output
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The last tool result that the model received.
fn heard(request: &Value) -> String {
    let last =
        request["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    assert_eq!(last["role"], "tool", "{last}");
    last["content"].as_str().unwrap_or_default().to_owned()
}

fn call(name: &str, arguments: Value) -> ChatReply {
    ChatReply::calls("mcp_tool_call", json!({ "name": name, "arguments": arguments }))
}

#[tokio::test]
async fn model_searches_describes_and_calls_tools() {
    let script = [
        ChatReply::calls("mcp_tool_search", json!({ "query": "hash", "limit": 3 })),
        ChatReply::calls("mcp_tool_describe", json!({ "name": "demo_hash" })),
        call("demo_hash", json!({ "text": "hi" })),
        ChatReply::says("It is 8f43…\u{1b}[2J"),
    ];
    let chat = ChatServer::start(script).await.unwrap();
    let home = home(&chat.url, json!({}));
    let gateway = home.start().await;
    let output = run(&home, &["chat", "what is the hash of hi?"], "").await;
    assert_eq!(
        (output.status.code(), out(&output).as_str()),
        (Some(0), "It is 8f43…\u{1b}[2J\n"),
        "{}",
        err(&output)
    );
    assert!(err(&output).contains("→ demo_hash {\"text\":\"hi\"}"), "{}", err(&output));

    let seen = chat.seen();
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[0]["authorization"], format!("Bearer {KEY}"));
    assert_eq!((&seen[0]["model"], &seen[0]["stream"]), (&json!("small-1"), &json!(true)));
    let names: Vec<&Value> =
        seen[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(
        names,
        ["mcp_tool_search", "mcp_tool_list", "mcp_tool_describe", "mcp_tool_call"],
        "the catalog is not sent"
    );
    assert!(seen[0].to_string().len() < 4_000, "{}", seen[0].to_string().len());
    assert!(heard(&seen[1]).contains("demo_hash"), "{}", heard(&seen[1]));
    assert!(heard(&seen[2]).contains("\"required\":[\"text\"]"), "{}", heard(&seen[2]));
    assert_eq!(heard(&seen[3]), HASH_OF_HI);

    // It ran as any call: as the caller, with a row in the audit.
    let audit = gateway.http().get_json("/audit?limit=10").await.to_string();
    assert!(audit.contains("\"hash\""), "{audit}");
}

#[tokio::test]
async fn call_that_needs_approval_is_held_without_a_terminal() {
    let script = [
        call("identity_create_record", json!({ "title": "one" })),
        ChatReply::says("It waits."),
        call("demo_hash", json!({ "text": "hi" })),
        ChatReply::says("Done."),
    ];
    let chat = ChatServer::start(script).await.unwrap();
    let home = home(&chat.url, json!({ "approval": { "default": "writes" } }));
    let gateway = home.start().await;
    let output = run(&home, &["chat", "make a record", "--json"], "").await;
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    let response: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&response["answer"], &response["calls"][0]["outcome"]),
        (&json!("It waits."), &json!("held")),
        "{response}"
    );
    let id = response["calls"][0]["held"].as_str().unwrap().to_owned();
    assert!(
        heard(&chat.seen()[1]).starts_with(&format!("not run yet, held as {id}")),
        "{}",
        heard(&chat.seen()[1])
    );
    let held = gateway.http().get_json(&format!("/approvals/{id}")).await;
    assert_eq!((&held["state"], &held["arguments"]), (&json!("pending"), &json!({ "title": "one" })));

    // The same in the shell: the next line can approve, and calls without approval run.
    let session = format!("/approve {id}\nnow hash hi\n");
    let output = run(&home, &["shell"], &session).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("Approved identity_create_record: it ran."), "{}", out(&output));
    assert!(out(&output).ends_with("Done.\n"), "{}", out(&output));
    let held = gateway.http().get_json(&format!("/approvals/{id}")).await;
    assert_eq!(held["state"], "done");
}

#[tokio::test]
async fn in_plan_mode_calls_of_the_model_become_steps() {
    let script = [
        call("identity_create_record", json!({ "title": "one" })),
        call("identity_create_record", json!({ "title": "two" })),
        ChatReply::says("Both are in your plan."),
    ];
    let chat = ChatServer::start(script).await.unwrap();
    let home = home(&chat.url, json!({}));
    // Without a running gateway: the shell has its own.
    let session = "/plan on\nmake two records\n/plan approve all\n/plan off\n";
    let output = run(&home, &["shell"], session).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let response = out(&output);
    let done = response.matches("identity_create_record  done").count();
    assert!(response.contains("Both are in your plan.") && done == 2, "{response}");
    assert!(heard(&chat.seen()[1]).contains("queued as step 1 of plan"), "{}", heard(&chat.seen()[1]));
    assert!(heard(&chat.seen()[2]).contains("queued as step 2 of plan"));
}

#[tokio::test]
async fn shell_keeps_the_conversation_until_it_is_reset() {
    let script = ["Hello Ann.", "You are Ann.", "I do not know."].map(ChatReply::says);
    let chat = ChatServer::start(script).await.unwrap();
    let home = home(&chat.url, json!({}));
    let output = run(&home, &["shell"], "I am Ann\nwho am I?\n/new\nwho am I?\n").await;
    assert_eq!(
        out(&output),
        "Hello Ann.\nYou are Ann.\nStarted a new conversation.\nI do not know.\n",
        "{}",
        err(&output)
    );
    let said = |request: &Value| -> Vec<String> {
        let messages = request["messages"].as_array().unwrap().iter().skip(1);
        messages.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let seen = chat.seen();
    assert_eq!(said(&seen[1]), ["I am Ann", "Hello Ann.", "who am I?"]);
    assert_eq!(said(&seen[2]), ["who am I?"]);
}

#[tokio::test]
async fn model_errors_have_a_code_and_a_hint() {
    let cases = [
        (
            ChatReply::Refuses(401),
            "error[llm.refused]: the language model refused the request (HTTP 401)",
            "check `llm.api_key`",
        ),
        (
            ChatReply::Refuses(404),
            "error[llm.refused]: the language model refused the request (HTTP 404)",
            "and `llm.model`",
        ),
        (ChatReply::Refuses(429), "error[llm.rate-limited]", "request a higher limit"),
        (
            ChatReply::Refuses(500),
            "error[llm.refused]: the language model refused the request (HTTP 500)",
            "its answer: [redacted]",
        ),
        (ChatReply::Babbles, "error[llm.bad-answer]", "check `llm.base_url`"),
        (ChatReply::HangsUp, "error[llm.cut-off]: the language model's answer ended early", ""),
        (ChatReply::GivesUp, "error[llm.cut-off]: the language model reported an error", ""),
        (
            ChatReply::Stalls,
            "error[llm.timeout]: the language model did not answer within 2 s",
            "`llm.timeout_seconds`",
        ),
    ];
    let chat = ChatServer::start(cases.iter().map(|(reply, ..)| reply.clone())).await.unwrap();
    let home = home(&chat.url, json!({}));
    for (reply, error, hint) in &cases {
        let output = run(&home, &["chat", "hi"], "").await;
        assert_eq!(output.status.code(), Some(1), "{reply:?}");
        let text = err(&output).replace("\n  ", " ").replace("\n      ", " ");
        assert!(text.contains(error) && text.contains(hint), "{reply:?}: {text}");
    }
    // A failed turn is not kept in the conversation.
    let chat = ChatServer::start([ChatReply::Refuses(500), ChatReply::says("Yes.")]).await.unwrap();
    let home = self::home(&chat.url, json!({}));
    let output = run(&home, &["shell", "--keep-going"], "are you there?\nand now?\n").await;
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), "Yes.\n"));
    assert_eq!(chat.seen()[1]["messages"].as_array().unwrap().len(), 2);

    let without_endpoint = self::home("http://127.0.0.1:1/v1", json!({}));
    let output = run(&without_endpoint, &["chat", "hi"], "").await;
    assert!(
        err(&output).starts_with("error[llm.unreachable]: the language model cannot be reached"),
        "{}",
        err(&output)
    );
    let without = Home::with_settings(json!({}), &[]);
    let output = run(&without, &["chat", "hi"], "").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).starts_with("error[llm.not-configured]"), "{}", err(&output));
}

#[tokio::test]
async fn invalid_calls_are_reported_to_the_model() {
    let script = [
        ChatReply::Calls(vec![
            ("mcp_tool_call".into(), json!({ "name": "demo_hsah", "arguments": {} })),
            ("mcp_tool_call".into(), json!({ "name": "demo_hash", "arguments": { "text": 5 } })),
            ("demo_echo".into(), json!({ "text": "straight" })),
            ("demo_echo".into(), json!({ "text": "x".repeat(100_000) })),
        ]),
        ChatReply::says("Sorry."),
    ];
    let chat = ChatServer::start(script).await.unwrap();
    let home = home(&chat.url, json!({}));
    let output = run(&home, &["chat", "--json"], "try this\n").await;
    let response: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcomes: Vec<&Value> =
        response["calls"].as_array().unwrap().iter().map(|call| &call["outcome"]).collect();
    assert_eq!(outcomes, ["failed", "failed", "done", "done"], "{}", err(&output));
    let seen = chat.seen();
    assert_eq!(seen[0]["messages"][1]["content"], "try this");
    let messages = seen[1]["messages"].as_array().unwrap();
    let heard: Vec<&str> = messages[3..].iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert!(
        heard[0].contains("tool.unknown") && heard[0].contains("did you mean `demo_hash`?"),
        "{}",
        heard[0]
    );
    assert!(heard[1].contains("call.invalid-arguments"), "{}", heard[1]);
    assert_eq!(heard[2], "straight");
    assert!(heard[3].len() < 26_000, "the tool result for the model is limited: {}", heard[3].len());
}

#[tokio::test]
async fn endless_conversation_is_stopped() {
    let chat = ChatServer::start([0; 20].map(|_| call("demo_time", json!({})))).await.unwrap();
    let home = home(&chat.url, json!({}));
    let output = run(&home, &["chat", "go on"], "").await;
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("error[llm.no-end]"), "{}", err(&output));
    assert_eq!(chat.seen().len(), 16);
}

#[tokio::test]
async fn chat_options_take_effect() {
    let script = [
        ChatReply::calls("demo_hash", json!({ "text": "hi" })),
        ChatReply::says("8f43"),
        ChatReply::says("No."),
    ];
    let chat = ChatServer::start(script).await.unwrap();
    let home = home(&chat.url, json!({}));
    let file = home.path("answer.txt");
    let words = [
        "chat",
        "--tools",
        "demo_hash,demo_echo",
        "--model",
        "large-1",
        "-o",
        file.to_str().unwrap(),
        "hash",
        "this:",
    ];
    let output = run(&home, &words, "hi\n").await;
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), ""), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "8f43\n");
    let first = &chat.seen()[0];
    assert_eq!(
        (&first["model"], &first["messages"][1]["content"]),
        (&json!("large-1"), &json!("hash this:\n\nhi"))
    );
    let names: Vec<&Value> =
        first["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["demo_hash", "demo_echo"]);
    assert_eq!(heard(&chat.seen()[1]), HASH_OF_HI);

    let output = run(&home, &["chat", "--tools", "demo_hsah", "hi"], "").await;
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("did you mean `demo_hash`?"), "{}", err(&output));
    let output = run(&home, &["chat"], "  \n").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).starts_with("error[usage.prompt]: the question is empty"), "{}", err(&output));
}

#[tokio::test]
async fn chat_on_a_terminal_asks_for_approval() {
    let record = |title: &str| call("identity_create_record", json!({ "title": title }));
    let script = [record("one"), ChatReply::says("Made."), record("two"), ChatReply::says("As you wish.")];
    let chat = ChatServer::start(script).await.unwrap();
    let home = home(&chat.url, json!({ "approval": { "default": "writes" } }));
    let mut terminal = Terminal::run(home.command("shell")).unwrap();
    terminal.wait_for_text("Plain text is sent to small-1").await;
    terminal.wait_for_text("toolbooth> ").await;
    terminal.press("make a record\r");
    terminal.wait_for_text("Run it? [y/N/e(dit)] ").await;
    terminal.press("y\r");
    terminal.wait_for_text("Made.").await;
    terminal.wait_for_text("toolbooth> ").await;
    terminal.press("and another\r");
    terminal.wait_for_text("Run it? [y/N/e(dit)] ").await;
    terminal.press("\r");
    terminal.wait_for_text("As you wish.").await;
    terminal.wait_for_text("toolbooth> ").await;
    terminal.press("\u{4}");
    assert_eq!(terminal.wait_for_exit().await, Some(0));
    let seen = chat.seen();
    assert!(heard(&seen[1]).contains("\"title\":\"one\""), "{}", heard(&seen[1]));
    assert!(heard(&seen[3]).contains("call.rejected"), "{}", heard(&seen[3]));
}

/// Parity, Atlas UI 6.
#[tokio::test]
async fn a_named_model_has_its_own_endpoint_key_and_limit() {
    let first = ChatServer::start([]).await.unwrap();
    let second = ChatServer::start([ChatReply::says("second")]).await.unwrap();
    let endpoint = json!({
        "base_url": format!("{}/chat/completions", second.url), "model": "second-2", "max_tokens": 900,
    });
    let llm = json!({
        "base_url": first.url, "api_key": KEY, "model": "small-1", "endpoints": { "second": endpoint },
    });
    let home = home(&first.url, json!({ "llm": llm }));
    let output = run(&home, &["chat", "--model", "second", "hello"], "").await;
    assert_eq!(out(&output), "second\n", "{}", err(&output));
    let seen = &second.seen()[0];
    let sent = ["path", "model", "max_tokens", "authorization"].map(|key| seen[key].clone());
    // The key of the default endpoint is not sent to another one.
    assert_eq!(sent, [json!("/v1/chat/completions"), json!("second-2"), json!(900), json!("")]);
    assert!(first.seen().is_empty());
    let output = run(&home, &["chat", "--model", "third", "hello"], "").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("expected one of `second`"), "{}", err(&output));
}
