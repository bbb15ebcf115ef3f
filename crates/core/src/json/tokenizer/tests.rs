//! Compares the tokenizer with serde_json, and with itself in pieces.

use super::*;
use proptest::prelude::*;

/// A token without its borrow.
type OwnedToken = (TokenKind, usize, Range<usize>, Option<Vec<u8>>, bool);

fn tokens<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    depth: usize,
) -> Result<Vec<OwnedToken>, TokenError> {
    let mut seen = Vec::new();
    let mut each = |token: Token<'_>| {
        seen.push((token.kind, token.depth, token.range, token.spelled.map(<[u8]>::to_vec), token.escaped));
        ControlFlow::Continue(())
    };
    let mut tokenizer = Tokenizer::new(depth);
    for piece in pieces {
        tokenizer.push(piece, &mut each)?;
    }
    tokenizer.finish(&mut each)?;
    Ok(seen)
}

fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

#[test]
fn tokens_have_their_positions_and_spelling() {
    use TokenKind::*;
    let text = br#" {"a\u0062": [1.5e3, "x"], "b":null}"#;
    let found = tokens([&text[..]], 8).expect("JSON");
    let shown: Vec<_> = found
        .iter()
        .map(|(kind, depth, range, _, escaped)| (*kind, *depth, &text[range.clone()], *escaped))
        .collect();
    let expected: [(TokenKind, usize, &[u8], bool); 9] = [
        (ObjectStart, 0, b"{", false),
        (Key, 1, br#""a\u0062""#, true),
        (ArrayStart, 1, b"[", false),
        (Number, 2, b"1.5e3", false),
        (Text, 2, br#""x""#, false),
        (ArrayEnd, 1, b"]", false),
        (Key, 1, br#""b""#, false),
        (Null, 1, b"null", false),
        (ObjectEnd, 0, b"}", false),
    ];
    assert_eq!(shown, expected);
    for (kind, _, range, spelled, _) in &found {
        let has_text = !matches!(kind, ObjectStart | ObjectEnd | ArrayStart | ArrayEnd);
        assert_eq!(spelled.as_deref(), has_text.then_some(&text[range.clone()]));
    }
}

#[test]
fn long_values_are_not_carried_and_long_keys_are() {
    for length in [LONGEST_SPELLED - 2, LONGEST_SPELLED - 1] {
        let text = format!(r#"{{"{}":"{}"}}"#, "k".repeat(500), "v".repeat(length));
        for size in [1, 7, 63, 64, 65, 66, 1000] {
            let found = tokens(text.as_bytes().chunks(size), 2).expect("JSON");
            assert_eq!(found[1].3.as_ref().map(Vec::len), Some(502), "by {size}");
            assert_eq!(found[2].3.is_some(), length + 2 <= LONGEST_SPELLED, "{length} by {size}");
        }
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for (depth, limit) in
        [(3, 3), (128, 128), (4, 3), (129, 128), (129, 1000), (100_000, 64), (100_000, ANY_DEPTH)]
    {
        let found = tokens([nested(depth).as_bytes()], limit);
        let expected = (depth > limit).then_some(TokenError::TooDeep(limit));
        assert_eq!(found.err(), expected, "{depth} in {limit}");
    }
}

#[test]
fn invalid_json_is_refused() {
    let cases: [&[u8]; 24] = [
        b"",
        b" ",
        b"{",
        b"[1,]",
        b"{,}",
        br#"{"a"}"#,
        br#"{"a":}"#,
        br#"{"a":1,}"#,
        b"[1 2]",
        b"01",
        b"1.",
        b"-",
        b"1e",
        b"+1",
        b"tru",
        b"truex",
        b"nul",
        b"1 2",
        b"{}x",
        b"\"\x01\"",
        br#""\x""#,
        br#""\u12g4""#,
        b"\"\xff\"",
        b"\xef\xbb\xbf{}",
    ];
    for text in cases {
        assert!(!is_json(text) && tokens([text], 8).is_err(), "{}", String::from_utf8_lossy(text));
        assert!(tokens(text.chunks(1), 8).is_err(), "{}", String::from_utf8_lossy(text));
    }
    assert!(tokens([&b"\"\xc3"[..], &b"\xa9\""[..]], 1).is_ok(), "a character may span two pieces");
    assert!(tokens([&b"\"\xc3"[..], &b"\""[..]], 1).is_err());
}

/// Ten MiB in small pieces: every byte is read once, however the text is cut.
#[test]
fn a_long_head_in_small_pieces_is_read_once() {
    let mut tokenizer = Tokenizer::new(8);
    let mut each = |_: Token<'_>| ControlFlow::Continue(());
    tokenizer.push(b"{\"id\":", &mut each).expect("JSON");
    let began = std::time::Instant::now();
    for _ in 0..(10 << 20) / 16 {
        tokenizer.push(b"                ", &mut each).expect("space");
    }
    tokenizer.push(b"1}", &mut each).expect("JSON");
    tokenizer.finish(&mut each).expect("JSON");
    // If each piece were parsed from the start again, this would read three thousand gigabytes.
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Bytes that are nearly JSON: fragments in any order, some of them cut or changed.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let pieces = r#"{ } [ ] , : " \ \u00e9 \u12 \n "a" "a": 1 -1 0 01 1.5 1. 1e3 1E-2 - true false nul null é 😀 {} [] "x":1 {"a":[1,{"b":null}]} "\"\\" [1,2]"#;
    let blank = [" ", "\n", "\u{1}"];
    let piece = prop::sample::select(pieces.split(' ').chain(blank).collect::<Vec<&str>>());
    (prop::collection::vec(piece, 0..12), prop::option::of((any::<prop::sample::Index>(), any::<u8>())))
        .prop_map(|(pieces, change)| {
            let mut text = pieces.concat().into_bytes();
            if let Some((place, byte)) = change
                && !text.is_empty()
            {
                let place = place.index(text.len());
                text[place] = byte;
            }
            text
        })
}

/// Any JSON, some of it written with white space.
fn document() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[a-z\"\\\\é\u{0}-\u{20}\u{1f600}]{0,90}".prop_map(Into::into),
    ];
    let value = leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-c\"\\\\é]{0,4}", inner, 0..5)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    });
    (value, any::<bool>()).prop_map(|(value, pretty)| {
        if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }
            .expect("JSON")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_serde_json(text in nearly()) {
        prop_assert_eq!(tokens([&text[..]], ANY_DEPTH).is_ok(), is_json(&text), "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn it_agrees_with_serde_json_on_changed_documents(text in document(), place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        prop_assert!(tokens([text.as_bytes()], ANY_DEPTH).is_ok(), "{}", text);
        let mut changed = text.clone().into_bytes();
        let place = place.index(changed.len());
        changed[place] = byte;
        prop_assert_eq!(tokens([&changed[..]], ANY_DEPTH).is_ok(), is_json(&changed), "{}", String::from_utf8_lossy(&changed));
        changed.remove(place);
        prop_assert_eq!(tokens([&changed[..]], ANY_DEPTH).is_ok(), is_json(&changed), "{}", String::from_utf8_lossy(&changed));
    }

    #[test]
    fn the_cuts_do_not_change_the_result(text in prop_oneof![nearly(), document().prop_map(String::into_bytes)], cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([text.len()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let pieces: Vec<&[u8]> = starts.zip(ends).map(|(from, to)| &text[from..to]).collect();
        match (tokens([&text[..]], 16), tokens(pieces, 16)) {
            (Ok(whole), Ok(cut)) => prop_assert_eq!(whole, cut),
            (whole, cut) => prop_assert_eq!(whole.is_ok(), cut.is_ok()),
        }
    }
}
