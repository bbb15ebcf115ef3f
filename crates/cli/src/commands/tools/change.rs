//! `toolbooth tools diff`, `accept` and `release`: tools that are not, or not yet, what somebody agreed to.

use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::own::Wanted;
use crate::reach::{Reach, read};
use crate::remote::segment;
use crate::render::{self, Paint, Tone, line, moment, plain};
use bytes::Bytes;
use serde_json::{Value, json};

/// Shows how tools differ from what was accepted of them: one, or all that do.
pub async fn diff(reach: &Reach, global: &Global, name: Option<&str>) -> Outcome {
    let names = match name {
        Some(name) => {
            super::find(reach, name).await?;
            vec![name.to_owned()]
        }
        None => {
            reach.connect(Wanted::Started).await;
            let changed = reach.get("/changes").await?;
            let tools = changed["tools"].as_array().cloned().unwrap_or_default();
            tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
        }
    };
    let mut diffs = Vec::with_capacity(names.len());
    for name in &names {
        diffs.push(reach.get(&format!("/tools/{}/diff", segment(name))).await?);
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
        render::print("Every tool is as it was accepted.\n");
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
        "new" => return format!("{name} was never used, so nothing was accepted yet.\n"),
        "same" => return format!("{name} is as it was accepted ({}).\n", when()),
        _ => {}
    }
    let mut out = format!(
        "{}\n{}\n",
        paint.tone(Tone::Bad, &format!("--- {name} ({}, {})", when(), short(&accepted["digest"]))),
        paint.tone(Tone::Good, &format!("+++ {name} (now, {})", short(&diff["now"])))
    );
    match diff["diff"].as_str() {
        None => out.push_str("The accepted text was not kept; the digests differ.\n"),
        Some("") => {
            out.push_str("Its own text is the same; what serves it, or what it is given, has changed.\n")
        }
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

/// Accepts tools as they are, each in the version that was just looked at.
pub async fn accept(reach: &Reach, global: &Global, names: &[String]) -> Outcome {
    let mut accepted = Vec::with_capacity(names.len());
    for name in names {
        super::find(reach, name).await?;
        let path = format!("/tools/{}", segment(name));
        let diff = reach.get(&format!("{path}/diff")).await?;
        let body = json!({ "digest": diff["now"] }).to_string();
        let answer = post(reach, &format!("{path}/accept"), Some(Bytes::from(body))).await?;
        if !global.json {
            let name = line(answer["name"].as_str().unwrap_or(name));
            render::print(&format!("{name} is accepted as it is.\n"));
        }
        accepted.push(answer);
    }
    if global.json {
        render::print_json(&json!({ "tools": accepted }));
    }
    Ok(Exit::Ok)
}

/// Lets tools out of quarantine as they are.
pub async fn release(reach: &Reach, global: &Global, names: &[String]) -> Outcome {
    // A gateway of the command's own knows no tool in quarantine before it has heard the servers.
    reach.connect(Wanted::Started).await;
    let mut released = Vec::with_capacity(names.len());
    for name in names {
        let answer = post(reach, &format!("/tools/{}/release", segment(name)), None).await?;
        if !global.json {
            let reason = line(answer["quarantined"]["reason"].as_str().unwrap_or_default());
            let name = line(answer["name"].as_str().unwrap_or(name));
            render::print(&format!("{name} is released as it is ({reason}).\n"));
        }
        released.push(answer);
    }
    if global.json {
        render::print_json(&json!({ "tools": released }));
    }
    Ok(Exit::Ok)
}

async fn post(reach: &Reach, path: &str, body: Option<Bytes>) -> Result<Value, Failure> {
    read(&reach.post("the tool", path, body).await?)
}
