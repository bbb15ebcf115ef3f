//! One unit of work: a call, or a list with all its pages. The answer is checked, because wrong answers must not count.

use crate::client::BenchConnection;
use crate::era::BenchEra;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use memchr::memmem;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The most pages of a list.
const PAGE_LIMIT: usize = 10_000;

/// A request that is repeated.
#[derive(Debug, Clone)]
pub struct Work {
    method: &'static str,
    name: Option<String>,
    params: Value,
    /// The params as text.
    ready: String,
    /// The least length of a correct answer.
    min_bytes: usize,
}

impl Work {
    /// A call of this tool.
    pub fn call(tool: &str, arguments: &Value, era: BenchEra, min_bytes: usize) -> Self {
        let params = era.complete(json!({ "name": tool, "arguments": arguments }));
        Self {
            method: "tools/call",
            name: Some(tool.to_owned()),
            ready: params.to_string(),
            params,
            min_bytes,
        }
    }

    /// The whole list of tools.
    pub fn list(era: BenchEra, min_bytes: usize) -> Self {
        let params = era.complete(json!({}));
        Self { method: "tools/list", name: None, ready: params.to_string(), params, min_bytes }
    }

    fn request(&self, id: u64, cursor: Option<&str>) -> Bytes {
        let params = match cursor {
            None => Cow::Borrowed(&self.ready),
            Some(cursor) => {
                let mut params = self.params.clone();
                params["cursor"] = json!(cursor);
                Cow::Owned(params.to_string())
            }
        };
        let method = self.method;
        Bytes::from(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"
        ))
    }

    /// Performs it once, and returns the pages of the answer.
    pub async fn perform(&self, connection: &mut BenchConnection, id: u64) -> Result<Vec<Bytes>> {
        let mut pages: Vec<Bytes> = Vec::new();
        let mut cursor = None;
        loop {
            let request = self.request(id, cursor.as_deref());
            let answer = connection.post(self.method, self.name.as_deref(), request).await?;
            check(&answer)?;
            cursor = if self.method == "tools/list" { next_cursor(&answer) } else { None };
            pages.push(answer);
            if cursor.is_none() {
                break;
            }
            ensure!(pages.len() < PAGE_LIMIT, "the list has too many pages");
        }
        let length: usize = pages.iter().map(Bytes::len).sum();
        ensure!(length >= self.min_bytes, "the answer has only {length} bytes");
        Ok(pages)
    }
}

/// The number of tools in these pages of a list.
pub fn count_tools(pages: &[Bytes]) -> usize {
    pages.iter().map(|page| memmem::find_iter(page, b"\"inputSchema\":").count()).sum()
}

fn check(answer: &Bytes) -> Result<()> {
    let head = &answer[..answer.len().min(300)];
    let wrong = || format!("no result: {}", String::from_utf8_lossy(head));
    // Both keys are near the start or the end of an answer of any length.
    let tail = &answer[answer.len().saturating_sub(300)..];
    let result = memmem::find(head, b"\"result\":").or_else(|| memmem::find(tail, b"\"result\":"));
    result.with_context(wrong)?;
    ensure!(memmem::find(tail, b"\"isError\":true").is_none(), wrong());
    Ok(())
}

/// The cursor of the next page, found without parsing the page.
fn next_cursor(page: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\"nextCursor\":";
    // The cursor is before or after the tools; a schema in between might have a property with this name.
    let edge = 1000.min(page.len());
    let end = &page[page.len() - edge..];
    let value = [end, &page[..edge]]
        .into_iter()
        .find_map(|part| Some(&part[memmem::find(part, KEY)? + KEY.len()..]))?;
    serde_json::Deserializer::from_slice(value).into_iter::<String>().next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_is_found_at_either_end() {
        let cases = [
            (r#"{"result":{"tools":[],"nextCursor":"a\"b"}}"#, Some("a\"b")),
            (r#"{"result":{"nextCursor":"7","tools":[]}}"#, Some("7")),
            (r#"{"result":{"tools":[]}}"#, None),
        ];
        for (page, expected) in cases {
            assert_eq!(next_cursor(page.as_bytes()).as_deref(), expected, "{page}");
        }
    }

    #[test]
    fn only_results_pass() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false}}"#, true),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#, false),
        ];
        for (answer, good) in cases {
            assert_eq!(check(&Bytes::from_static(answer.as_bytes())).is_ok(), good, "{answer}");
        }
    }
}
