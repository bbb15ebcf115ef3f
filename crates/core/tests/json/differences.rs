//! The deliberate differences between our readers and serde_json's `Value`.

use serde_json::Value;
use toolbooth_core::json::{
    ANY_DEPTH, JsonCursor, JsonDialect, RawJson, StrictError, TokenError, Tokenizer, check_strictly,
};

fn is_accepted(text: &str) -> bool {
    crate::agreement::tokens(JsonDialect::Plain, [text.as_bytes()]).is_some()
}

fn has_value(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).expect("JSON")
}

#[test]
fn numbers_are_passed_on_and_not_converted() {
    for number in ["1e400", "-1e400", "1E+9999"] {
        assert!(is_accepted(number) && !has_value(number), "{number}");
        assert_eq!(json(&format!("[{number}]")).elements().expect("an array")[0].as_str(), number);
    }
    let long = "12345678901234567890123.00";
    assert_eq!(json(long).as_str(), long);
}

#[test]
fn the_depth_limit_is_chosen_by_the_reader() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(is_accepted(&nested(100_000)) && !has_value(&nested(128)) && has_value(&nested(127)));
    let read = Tokenizer::read_all(nested(65).as_bytes(), 64, |_| std::ops::ControlFlow::Continue(()));
    assert_eq!(read, Err(TokenError::TooDeep(64)));
    assert_eq!(check_strictly(nested(65).as_bytes(), 64), Err(TokenError::TooDeep(64).into()));
}

#[test]
fn half_of_a_surrogate_pair_is_accepted_in_a_value_and_refused_in_a_key() {
    for half in [r"\ud800", r"\udc00", r"\ud800\u0061", r"\udc00\ud800"] {
        let value = format!(r#"{{"a":"{half}"}}"#);
        assert!(is_accepted(&value) && !has_value(&value), "{half}");
        assert_eq!(check_strictly(value.as_bytes(), ANY_DEPTH), Ok(()), "{half}");
        assert!(json(&value).member("a").is_some_and(|text| text.string().is_none()), "{half}");
        let key = format!(r#"{{"{half}":1}}"#);
        assert_eq!(check_strictly(key.as_bytes(), ANY_DEPTH), Err(StrictError::HalfCharacter), "{half}");
        assert!(json(&key).members().is_err(), "{half}");
        // The cursor shows a replacement character, because it also reads results that only pass through.
        assert!(JsonCursor::new(&key, 0).member_spans()[0].key.starts_with('\u{fffd}'), "{half}");
    }
}

#[test]
fn a_duplicate_key_is_refused_by_the_strict_check_and_otherwise_the_last_one_counts() {
    for text in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#] {
        assert!(is_accepted(text) && has_value(text), "{text}");
        assert_eq!(check_strictly(text.as_bytes(), ANY_DEPTH), Err(StrictError::Twice("a".into())), "{text}");
        assert_eq!(json(text).member("a").expect("a").as_str(), "2");
        assert_eq!(json(text).pick(["a"]), [Some("2")]);
    }
}

#[test]
fn comments_and_trailing_commas_are_accepted_only_in_their_dialect() {
    for text in ["[1,]", "{\"a\":1,}", "// c\n1", "/* c */ [1, /**/ 2] // c", "[1 //]\n]"] {
        assert!(!is_accepted(text) && !has_value(text), "{text}");
        assert!(crate::agreement::tokens(JsonDialect::Commented, [text.as_bytes()]).is_some(), "{text}");
    }
    for text in ["[,]", "{,}", "[1,,]", "/* c 1", "/ 1", "1 /", "[1 /*]", "/*/ 1", "\"// c", "// c", ""] {
        assert!(crate::agreement::tokens(JsonDialect::Commented, [text.as_bytes()]).is_none(), "{text}");
    }
}
