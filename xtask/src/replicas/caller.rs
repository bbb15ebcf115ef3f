//! A client that makes calls by REST and in both eras of MCP, each request on a new connection.

use super::http::{ReceivedAnswer, ReplicaUser};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
/// How often a client opens a new session for one request.
const MOST_SESSIONS: usize = 8;

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallWay {
    Rest,
    ModernMcp,
    LegacyMcp,
}

impl CallWay {
    pub const ALL: [Self; 3] = [Self::Rest, Self::ModernMcp, Self::LegacyMcp];
}

/// The end of a call as its client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallReply {
    /// A result.
    Done,
    /// An error with a reason.
    Explained(String),
    /// The connection ended before the answer.
    Unanswered,
}

/// A client with its own session.
#[derive(Debug)]
pub struct ReplicaCaller {
    user: ReplicaUser,
    session: Option<String>,
    /// What the client can do, as it says when it opens a session.
    capabilities: Value,
    /// How often a replica did not know the session.
    pub lost_sessions: usize,
}

impl ReplicaCaller {
    /// A client of this user.
    pub fn new(user: ReplicaUser) -> Self {
        Self { user, session: None, capabilities: json!({}), lost_sessions: 0 }
    }

    /// A client of this user that can be asked questions.
    pub fn asked(user: ReplicaUser) -> Self {
        Self { capabilities: json!({ "elicitation": {} }), ..Self::new(user) }
    }

    /// Calls a tool.
    pub fn call(&mut self, way: CallWay, tool: &str, arguments: &Value) -> CallReply {
        let answer = match way {
            CallWay::Rest => self.by_rest(tool, &json!({ "arguments": arguments, "wait": 30 })),
            CallWay::ModernMcp => self.modern(
                "tools/call",
                json!({ "name": tool, "arguments": arguments }),
                Some(tool),
                json!({}),
            ),
            CallWay::LegacyMcp => self.legacy("tools/call", &json!({ "name": tool, "arguments": arguments })),
        };
        match answer {
            Ok(answer) => ended(&answer),
            Err(_) => CallReply::Unanswered,
        }
    }

    /// Calls a tool by REST with this body.
    pub fn by_rest(&self, tool: &str, body: &Value) -> Result<ReceivedAnswer> {
        self.user.send("POST", &format!("/tools/{tool}/call"), "", &body.to_string())
    }

    /// Makes a request of the modern era; `name` is the tool that it names.
    pub fn modern(
        &self,
        method: &str,
        mut params: Value,
        name: Option<&str>,
        capabilities: Value,
    ) -> Result<ReceivedAnswer> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": { "name": "xtask", "version": "0" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let headers = format!("MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n{name}");
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.user.send("POST", "/mcp", &headers, &body.to_string())
    }

    /// Makes a request in the session of this client, and opens a new one if a replica does not know it.
    pub fn legacy(&mut self, method: &str, params: &Value) -> Result<ReceivedAnswer> {
        for _ in 0..MOST_SESSIONS {
            let session = match &self.session {
                Some(session) => session.clone(),
                None => self.open_session()?,
            };
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            let headers = session_headers(&session);
            let answer = self.user.send("POST", "/mcp", &headers, &body.to_string())?;
            // The request was not accepted, so it may be repeated.
            if answer.status != 404 {
                self.session = Some(session);
                return Ok(answer);
            }
            self.lost_sessions += 1;
            self.session = None;
        }
        bail!("no replica knows the session of another one")
    }

    /// Calls a tool in a new session. A question of its server is answered with this content through `other`.
    pub fn legacy_asked(&self, tool: &str, content: &Value, other: &ReplicaUser) -> Result<CallReply> {
        let headers = session_headers(&self.open_session()?);
        let params = json!({ "name": tool, "arguments": {} });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let mut refusal = None;
        let answer = self.user.watch("/mcp", &headers, &body.to_string(), |message| {
            if message["method"] != "elicitation/create" {
                return Ok(());
            }
            let result = json!({ "action": "accept", "content": content });
            let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            let taken = other.send("POST", "/mcp", &headers, &reply.to_string())?;
            if taken.status != 202 {
                refusal = Some(ended(&taken));
                bail!("the answer was refused");
            }
            Ok(())
        });
        match refusal {
            Some(refusal) => Ok(refusal),
            None => answer.map(|answer| greeted(&answer, content)),
        }
    }

    /// Opens a session; returns its id.
    pub fn open_session(&self) -> Result<String> {
        let client = json!({ "protocolVersion": LEGACY, "capabilities": self.capabilities,
            "clientInfo": { "name": "xtask", "version": "0" } });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client });
        let answer = self.user.send("POST", "/mcp", "", &body.to_string())?;
        let session = answer.session.with_context(|| format!("no session: {:.200}", answer.body))?;
        let headers = session_headers(&session);
        let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        // A replica that does not know the session answers with 404; the first request finds out.
        drop(self.user.send("POST", "/mcp", &headers, &body.to_string()));
        Ok(session)
    }
}

/// The headers of a request in a session.
fn session_headers(session: &str) -> String {
    format!("MCP-Protocol-Version: {LEGACY}\r\nMcp-Session-Id: {session}\r\n")
}

/// The reason of a result that does not contain what the client answered.
pub const OTHER_ANSWER: &str = "the result of another answer";

/// The end of a call of `ask_name`, which greets the name in the answer.
pub fn greeted(answer: &ReceivedAnswer, content: &Value) -> CallReply {
    let greeting = format!("Hello, {}!", content["name"].as_str().unwrap_or_default());
    match ended(answer) {
        CallReply::Done if !answer.body.contains(&greeting) => CallReply::Explained(OTHER_ANSWER.into()),
        end => end,
    }
}

/// The end of a call with this answer.
pub fn ended(answer: &ReceivedAnswer) -> CallReply {
    let Ok(body) = answer.json() else {
        return CallReply::Explained(format!("status {}", answer.status));
    };
    let reason = if let Some(code) = body["code"].as_str() {
        code.to_owned()
    } else if body["error"].is_object() {
        let error = &body["error"];
        let text = error["data"]["toolbooth"]["code"].as_str().or(error["message"].as_str());
        format!("JSON-RPC {}: {}", error["code"], beginning(text.unwrap_or_default()))
    } else if body["result"]["isError"] == true {
        let text = body["result"]["content"][0]["text"].as_str().unwrap_or("tool error");
        beginning(text)
    } else if answer.status == 200 && body["result"].is_object() {
        return CallReply::Done;
    } else {
        format!("status {}", answer.status)
    };
    CallReply::Explained(reason)
}

/// The beginning of a text, for the report.
fn beginning(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(70).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_a_result_or_a_reason() {
        let cases = [
            (200, r#"{"result":{"content":[],"isError":false}}"#, CallReply::Done),
            (503, r#"{"code":"store.unreachable"}"#, CallReply::Explained("store.unreachable".into())),
            (
                200,
                r#"{"error":{"code":-32603,"message":"out of order"}}"#,
                CallReply::Explained("JSON-RPC -32603: out of order".into()),
            ),
            (
                200,
                r#"{"result":{"content":[{"text":"late\nvery"}],"isError":true}}"#,
                CallReply::Explained("late".into()),
            ),
            (202, r#"{"held":"7"}"#, CallReply::Explained("status 202".into())),
            (503, "", CallReply::Explained("status 503".into())),
        ];
        for (status, body, expected) in cases {
            let answer = ReceivedAnswer { status, session: None, body: body.into() };
            assert_eq!(ended(&answer), expected, "{body}");
        }
    }
}
