//! `toolbooth tools diff`, `accept` and `release`: tools that changed or are in quarantine.

use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Tone, line, moment, plain};
use bytes::Bytes;
use serde_json::{Value, json};

/// Shows how tools differ from their accepted version: one tool, or all changed ones.
pub async fn diff(gateway: &GatewayHandle, global: &GlobalOptions, name: Option<&str>) -> CommandResult {
    let names = match name {
        Some(name) => {
            super::find(gateway, name).await?;
            vec![name.to_owned()]
        }
        None => {
            gateway.connect(ServerSelection::AutoConnected).await;
            let changed = gateway.get("/changes").await?;
            let tools = changed["tools"].as_array().cloned().unwrap_or_default();
            tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
        }
    };
    let mut diffs = Vec::with_capacity(names.len());
    for name in &names {
        diffs.push(gateway.get(&format!("/tools/{}/diff", segment(name))).await?);
    }
    if global.json {
        match (name, diffs.pop()) {
            (Some(_), Some(one)) => render::print_json(&one),
            (_, last) => {
                diffs.extend(last);
                render::print_json(&json!({ "tools": diffs }));
            }
        }
        return Ok(Exit::Ok);
    }
    if diffs.is_empty() {
        render::print("No tool has changed since it was accepted.\n");
        return Ok(Exit::Ok);
    }
    let paint = Paint::stdout();
    let drawn: Vec<String> = diffs.iter().map(|diff| draw(diff, paint)).collect();
    render::print(&drawn.join("\n"));
    Ok(Exit::Ok)
}

fn draw(diff: &Value, paint: Paint) -> String {
    let name = line(diff["name"].as_str().unwrap_or_default());
    let short = |digest: &Value| digest.as_str().unwrap_or_default().chars().take(12).collect::<String>();
    let accepted = &diff["accepted"];
    let when = || {
        let at = accepted["at_ms"].as_i64().map(moment).unwrap_or_default();
        format!("accepted {at}, {}", line(accepted["by"].as_str().unwrap_or_default()))
    };
    match diff["state"].as_str().unwrap_or_default() {
        "new" => return format!("{name} has not been used yet, so there is no accepted version.\n"),
        "same" => return format!("{name} has not changed ({}).\n", when()),
        _ => {}
    }
    let mut out = format!(
        "{}\n{}\n",
        paint.tone(Tone::Bad, &format!("--- {name} ({}, {})", when(), short(&accepted["digest"]))),
        paint.tone(Tone::Good, &format!("+++ {name} (now, {})", short(&diff["now"])))
    );
    match diff["diff"].as_str() {
        None => out.push_str("The accepted text was not stored; the digests differ.\n"),
        Some("") => out.push_str(
            "Its text is the same; its providers or the arguments from the gateway have changed.\n",
        ),
        Some(text) => {
            for line in plain(text).lines() {
                let tone = match line.chars().next() {
                    Some('@') => Tone::Dim,
                    Some('-') => Tone::Bad,
                    Some('+') => Tone::Good,
                    _ => Tone::Strong,
                };
                out.push_str(&paint.tone(tone, line));
                out.push('\n');
            }
        }
    }
    out
}

/// Accepts the current version of tools. The request names the digest that was just read.
pub async fn accept(gateway: &GatewayHandle, global: &GlobalOptions, names: &[String]) -> CommandResult {
    let mut accepted = Vec::with_capacity(names.len());
    for name in names {
        super::find(gateway, name).await?;
        let path = format!("/tools/{}", segment(name));
        let diff = gateway.get(&format!("{path}/diff")).await?;
        let body = json!({ "digest": diff["now"] }).to_string();
        let answer = post(gateway, &format!("{path}/accept"), Some(Bytes::from(body))).await?;
        if !global.json {
            let name = line(answer["name"].as_str().unwrap_or(name));
            render::print(&format!("Accepted {name}.\n"));
        }
        accepted.push(answer);
    }
    if global.json {
        render::print_json(&json!({ "tools": accepted }));
    }
    Ok(Exit::Ok)
}

/// Releases tools from quarantine.
pub async fn release(gateway: &GatewayHandle, global: &GlobalOptions, names: &[String]) -> CommandResult {
    // An embedded gateway knows its tools only after the servers have listed them.
    gateway.connect(ServerSelection::AutoConnected).await;
    let mut released = Vec::with_capacity(names.len());
    for name in names {
        let answer = post(gateway, &format!("/tools/{}/release", segment(name)), None).await?;
        if !global.json {
            let reason = line(answer["quarantined"]["reason"].as_str().unwrap_or_default());
            let name = line(answer["name"].as_str().unwrap_or(name));
            render::print(&format!("Released {name} ({reason}).\n"));
        }
        released.push(answer);
    }
    if global.json {
        render::print_json(&json!({ "tools": released }));
    }
    Ok(Exit::Ok)
}

async fn post(gateway: &GatewayHandle, path: &str, body: Option<Bytes>) -> Result<Value, CommandFailure> {
    read(&gateway.post("the tool", path, body).await?)
}
