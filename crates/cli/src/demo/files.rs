//! `files`: reads an uploaded file, and creates a report with files.

use super::conversation::{BundledCall, BundledReply, BundledServer};
use super::fetch;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The longest title of a report.
const LONGEST_TITLE: usize = 200;
/// The style of a report. It is part of the page, because a page in a frame has no network.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;color:#1b1c1a;background:#fff;max-width:640px;margin:32px auto;padding:0 24px}\
    h1{font-size:24px;margin:0 0 16px}table{border-collapse:collapse;width:100%}\
    th,td{text-align:right;padding:6px 12px;border-bottom:1px solid #deded9;font-variant-numeric:tabular-nums}th{color:#5b5d57}\
    th:last-child,td:last-child{width:60%;text-align:left}meter{width:100%;height:12px}";

/// The server.
#[derive(Debug)]
pub(super) struct FilesServer;

#[async_trait]
impl BundledServer for FilesServer {
    fn name(&self) -> &'static str {
        "files"
    }

    fn tools(&self) -> Value {
        json!([
            {"name": "size", "description": "Reads a file of your session and tells its size, type and SHA-256.",
             "annotations": {"readOnlyHint": true, "idempotentHint": true},
             "inputSchema": {"type": "object", "properties": {
                "filename": {"type": "string", "format": "toolbooth-file", "description": "The name of an uploaded file."},
                "original_filename": {"type": "string", "description": "That name; supplied by the gateway."}},
                "required": ["filename"]}},
            {"name": "make_report", "description": "Makes a small report: a page to look at and its numbers as a table.",
             "annotations": {"readOnlyHint": true, "idempotentHint": true},
             "inputSchema": {"type": "object", "properties": {
                "title": {"type": "string", "maxLength": LONGEST_TITLE, "description": "What the report is called."},
                "rows": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 5, "description": "How many rows of numbers."}},
                "required": ["title"]}},
        ])
    }

    async fn call(&self, call: BundledCall) -> Option<BundledReply> {
        let outcome = match call.tool.as_str() {
            "size" => size(&call).await,
            "make_report" => make_report(&call),
            _ => return None,
        };
        Some(outcome.unwrap_or_else(|refused| refused))
    }
}

async fn size(call: &BundledCall) -> Result<BundledReply, BundledReply> {
    let url = call.text("filename")?;
    let measured = fetch::measure(url).await.map_err(|why| BundledReply::failed(&why))?;
    Ok(BundledReply::object(&json!({"results": {
        "filename": call.arguments["original_filename"], "bytes": measured.bytes,
        "mime": measured.mime, "sha256": measured.sha256,
    }})))
}

fn make_report(call: &BundledCall) -> Result<BundledReply, BundledReply> {
    let title: String = call.text("title")?.chars().take(LONGEST_TITLE).collect();
    let rows = call.arguments["rows"].as_u64().unwrap_or(5).clamp(1, 1000);
    let squares = || (1..=rows).map(|number| (number, number * number));
    let table: String = squares().map(|(number, square)| format!("{number},{square}\n")).collect();
    let highest = rows * rows;
    let cells: String = squares()
        .map(|(number, square)| {
            let bar = format!(
                "<meter min=\"0\" max=\"{highest}\" value=\"{square}\">{square} of {highest}</meter>"
            );
            format!("<tr><td>{number}</td><td>{square}</td><td>{bar}</td></tr>\n")
        })
        .collect();
    let heading = escaped(&title);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{heading}</title><style>{STYLE}</style></head>\n<body><h1>{heading}</h1>\n<table>\n<tr><th>n</th><th>n²</th><th>n² as a bar</th></tr>\n{cells}</table></body></html>\n"
    );
    let file = |name: &str, mime: &str, description: &str, content: &str| json!({"name": name, "mime": mime, "description": description, "b64": STANDARD.encode(content)});
    Ok(BundledReply::object(&json!({
        "results": {"title": title, "rows": rows, "sum_of_squares": squares().map(|(_, square)| square).sum::<u64>()},
        "artifacts": [
            file("report.html", "text/html", "The report as a page.", &page),
            file("numbers.csv", "text/csv", "Its numbers.", &format!("n,square\n{table}")),
        ],
        "display": {"open_canvas": true, "primary_file": "report.html", "mode": "replace", "title": title},
        "meta_data": {"made_by": "toolbooth"},
    })))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::conversation::tests::call;
    use super::*;

    #[tokio::test]
    async fn a_report_follows_the_contract() {
        let result = call(FilesServer, "make_report", json!({"title": "<Squares>", "rows": 3})).await;
        let made = &result["structuredContent"];
        assert_eq!(made["results"], json!({"title": "<Squares>", "rows": 3, "sum_of_squares": 14}));
        let content = |index: usize| {
            let b64 = made["artifacts"][index]["b64"].as_str().expect("content");
            String::from_utf8(STANDARD.decode(b64).expect("base64")).expect("text")
        };
        assert!(content(0).contains("<h1>&lt;Squares&gt;</h1>"), "{}", content(0));
        assert_eq!(content(1), "n,square\n1,1\n2,4\n3,9\n");
        assert_eq!(made["display"]["primary_file"], made["artifacts"][0]["name"]);
    }
}
