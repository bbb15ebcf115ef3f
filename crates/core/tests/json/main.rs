//! The readers of JSON text agree with each other and with serde_json, on a corpus and on its mutations.
//!
//! `cargo xtask fuzz` runs these tests for a longer time.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

mod agreement;
mod differences;
mod mutate;

use std::path::{Path, PathBuf};

/// A folder of the corpus.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/json").join(name)
}

/// Parts of JSON and of text that is nearly JSON.
const FRAGMENTS: [&[u8]; 64] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u00e9",
    b"\\u12",
    b"\\ud800",
    b"\\udc00",
    b"\\ud83d\\ude00",
    b"\\n",
    b"\\/",
    b"\\x",
    b"\"a\"",
    b"\"a\":",
    b"\"\\u0061\":",
    b"\"\\ud800\":",
    b"\"id\":1",
    b"\"b\":[1,{}]",
    b"1",
    b"-1",
    b"0",
    b"-0",
    b"01",
    b"1.5",
    b"1.",
    b".5",
    b"1e3",
    b"1E-2",
    b"1e+",
    b"1e400",
    b"-",
    b"+1",
    b"12345678901234567890123",
    b"true",
    b"false",
    b"null",
    b"nul",
    b"True",
    b"NaN",
    b"{}",
    b"[]",
    b"[1,2]",
    b"{\"a\":1,\"a\":2}",
    b" ",
    b"\n",
    b"\t",
    b"\r\n",
    b"\x0c",
    b"\0",
    b"\x01",
    b"\x7f",
    b"\xff",
    b"\xc3",
    b"\xc3\xa9",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
    b"// c\n",
    b"/* c */",
    b"correct-horse",
];

#[test]
fn the_corpus_is_accepted_and_refused_as_its_folders_say() {
    for (folder_name, expected) in [("accepted", true), ("refused", false)] {
        for (name, text) in mutate::corpus(&folder(folder_name)) {
            assert_eq!(agreement::is_json(&text), expected, "serde_json on {folder_name}/{name}");
            for seed in 0..20 {
                agreement::check(&text, &mut mutate::Random::new(seed));
            }
        }
    }
}

#[test]
fn all_readers_agree_on_mutated_texts() {
    let corpus: Vec<Vec<u8>> = ["accepted", "refused"]
        .into_iter()
        .flat_map(|name| mutate::corpus(&folder(name)))
        .map(|(_, text)| text)
        .collect();
    mutate::fuzz(&corpus, &FRAGMENTS, agreement::check);
}
