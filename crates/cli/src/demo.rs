//! The servers that come with the binary: something real to look at before anything is configured.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Their names.
pub const NAMES: [&str; 1] = ["demo"];

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// Runs one on standard input and output.
pub fn run(name: &str) -> ExitCode {
    if !NAMES.contains(&name) {
        eprintln!("there is no bundled server `{name}`; known: {}", NAMES.join(", "));
        return ExitCode::from(2);
    }
    let stdin = std::io::stdin();
    let mut flaky_calls = 0_u64;
    for line in stdin.lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { continue };
        let answer = answer(method, &message["params"], &mut flaky_calls);
        let reply = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, text)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
            }
        };
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{reply}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn answer(method: &str, params: &Value, flaky_calls: &mut u64) -> Result<Value, (i64, String)> {
    let info = json!({"name": "toolbooth-demo", "version": env!("CARGO_PKG_VERSION")});
    match method {
        "server/discover" => Ok(json!({
            "resultType": "complete", "supportedVersions": [MODERN, LEGACY], "capabilities": {"tools": {}},
            "ttlMs": 3_600_000, "cacheScope": "public", "_meta": {"io.modelcontextprotocol/serverInfo": info},
        })),
        "initialize" => {
            Ok(json!({"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": info}))
        }
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({
            "resultType": "complete", "tools": tools(), "ttlMs": 3_600_000, "cacheScope": "public",
        })),
        "tools/call" => call(params, flaky_calls),
        other => Err((-32601, format!("Method not found: {other}"))),
    }
}

fn tools() -> Value {
    let schema = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    let read_only = json!({"readOnlyHint": true, "idempotentHint": true});
    json!([
        {"name": "echo", "description": "Returns the text it was given, unchanged.", "annotations": read_only,
         "inputSchema": schema(json!({"text": {"type": "string", "description": "What to return."}}), json!(["text"]))},
        {"name": "time", "description": "Tells the current time in UTC, as seconds since 1970.", "annotations": read_only,
         "inputSchema": schema(json!({}), json!([]))},
        {"name": "hash", "description": "Computes the SHA-256 of a text, in hexadecimal.", "annotations": read_only,
         "inputSchema": schema(json!({"text": {"type": "string", "description": "What to hash."}}), json!(["text"]))},
        {"name": "slow", "description": "Waits for some milliseconds before it answers; shows deadlines at work.", "annotations": read_only,
         "inputSchema": schema(json!({"milliseconds": {"type": "integer", "minimum": 0, "maximum": 60000, "description": "How long to wait."}}), json!(["milliseconds"]))},
        {"name": "flaky", "description": "Fails on every other call; shows how errors look.", "annotations": read_only,
         "inputSchema": schema(json!({}), json!([]))},
    ])
}

fn call(params: &Value, flaky_calls: &mut u64) -> Result<Value, (i64, String)> {
    let name = params["name"].as_str().unwrap_or_default();
    let arguments = &params["arguments"];
    let text = |key: &str| {
        arguments[key].as_str().map(str::to_owned).ok_or_else(|| format!("`{key}` must be a string"))
    };
    let outcome = match name {
        "echo" => text("text"),
        "hash" => text("text")
            .map(|text| Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()),
        "time" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(now.as_secs().to_string())
        }
        "slow" => {
            let wait = arguments["milliseconds"].as_u64().unwrap_or(0).min(60_000);
            std::thread::sleep(Duration::from_millis(wait));
            Ok(format!("waited {wait} ms"))
        }
        "flaky" => {
            *flaky_calls += 1;
            if *flaky_calls % 2 == 1 {
                Ok("it worked this time".into())
            } else {
                Err("it failed this time".into())
            }
        }
        other => return Err((-32602, format!("Unknown tool: {other}"))),
    };
    let (text, is_error) = match outcome {
        Ok(text) => (text, false),
        Err(text) => (text, true),
    };
    Ok(json!({"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": is_error}))
}
