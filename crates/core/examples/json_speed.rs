//! Measures the readers of JSON text: `cargo run --release -p toolbooth-core --example json_speed`.
//!
//! Prints the best time of many batches, which is the figure that other work on the machine disturbs least.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use toolbooth_core::json::{JsonCursor, JsonKind, RawJson, Tokenizer, check_strictly, nests_deeper};
use toolbooth_core::result::prescan;
use toolbooth_core::secret::KnownSecrets;

const BATCHES: usize = 40;
const BATCH: Duration = Duration::from_millis(25);

fn main() {
    for (name, text) in [("message of 2 KiB", message()), ("result of 1 MiB", result())] {
        println!("{name}: {} bytes", text.len());
        let json = RawJson::parse(text.clone()).unwrap_or_else(|_| RawJson::null());
        let bytes = text.as_bytes();
        let secrets = KnownSecrets::new(["correct-horse-battery"]);
        measure("prescan", || prescan(bytes).is_plain());
        measure("cursor: skip", || JsonCursor::new(&text, 0).skip().end);
        measure("cursor: members", || JsonCursor::new(&text, 0).member_spans().len());
        measure("cursor: every value", || visit(&mut JsonCursor::new(&text, 0)));
        measure("cursor: depth", || usize::from(nests_deeper(&text, 3)));
        measure("tokens", || {
            let mut count = 0_usize;
            let read = Tokenizer::read_all(bytes, 64, |_| {
                count += 1;
                ControlFlow::Continue(())
            });
            (read.is_ok(), count)
        });
        measure("strict check", || check_strictly(bytes, 64).is_ok());
        measure("mask secrets", || secrets.mask_json(&json).is_none());
    }
}

/// A request with nested arguments and a text of some lines.
fn message() -> String {
    let items: Vec<String> = (0..16)
        .map(|n| format!(r#"{{"id":{n},"name":"item {n}","tags":["a","b"],"price":{n}.50,"open":true}}"#))
        .collect();
    let text = r#"A line of the text, with a \"quoted\" word.\n"#.repeat(16);
    let items = items.join(",");
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"name":"notes.create","arguments":{{"title":"A title","body":"{text}","items":[{items}]}}}}}}"#
    )
}

/// A result with one long text.
fn result() -> String {
    let text =
        r#"A line of the text, with a \"quoted\" word and a path/to/a/file.rs:17.\n"#.repeat((1 << 20) / 72);
    format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}"#)
}

/// Reads every value with a cursor.
fn visit(cursor: &mut JsonCursor<'_>) -> usize {
    let mut length = 0;
    match cursor.kind() {
        JsonKind::Object => {
            let _ = cursor.members::<()>(|cursor, key| {
                length += key.len() + visit(cursor);
                Ok(())
            });
        }
        JsonKind::Array => {
            let _ = cursor.elements::<()>(|cursor| {
                length += visit(cursor);
                Ok(())
            });
        }
        JsonKind::Text => length += cursor.text().len(),
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => length += cursor.skip().len(),
    }
    length
}

fn measure<T>(name: &str, mut run: impl FnMut() -> T) {
    let began = Instant::now();
    black_box(run());
    let once = began.elapsed().max(Duration::from_nanos(50));
    let count = u32::try_from(BATCH.as_nanos() / once.as_nanos()).unwrap_or(1).clamp(1, 200_000);
    let best = (0..BATCHES).map(|_| {
        let began = Instant::now();
        for _ in 0..count {
            black_box(run());
        }
        began.elapsed() / count
    });
    let best = best.min().unwrap_or_default();
    println!("  {name:<22} {:>12.3} µs", best.as_nanos() as f64 / 1000.0);
}
