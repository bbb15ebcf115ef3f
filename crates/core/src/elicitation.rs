//! What becomes of a server's question before it reaches a person.
//!
//! The client shows it as the gateway's, so the gateway says whose it is. A form is not the place for a secret: what is
//! typed there goes to the server through client and gateway, in clear text. The protocol has addresses for that
//! (`mode: "url"`), so a form that asks for one is refused. What a person reads is one line without hidden characters; a
//! question that readers could read differently is refused.

use crate::json::{RawJson, with_members};
use crate::lint::{revealed, suspicious};
use crate::tokens::{StrictError, check_strictly};
use serde_json::Value;
use std::borrow::Cow;

/// How deep a form's schema is looked into.
const MAX_DEPTH: usize = 8;
/// How deep the whole question may nest.
const MAX_NESTING: usize = 64;
/// Members of a form's schema that are only shown; all others are data, which must come back as they are.
const SHOWN: [&str; 3] = ["title", "description", "enumNames"];
/// Characters that break a line.
const LINE_BREAKS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
/// Forms longer than this are not looked into, and refused.
const MAX_BYTES: usize = 256 << 10;
/// Words that name a secret, also inside of longer words.
const PARTS: [&str; 8] =
    ["password", "passwd", "passphrase", "passcode", "secret", "credential", "apikey", "privatekey"];
/// Words that name one on their own.
const WORDS: [&str; 11] =
    ["token", "otp", "totp", "pin", "cvv", "cvc", "ssn", "mfa", "2fa", "pwd", "passkey"];
/// Words that name one together.
const PAIRS: [(&str, &str); 8] = [
    ("api", "key"),
    ("private", "key"),
    ("access", "key"),
    ("card", "number"),
    ("security", "code"),
    ("verification", "code"),
    ("time", "code"),
    ("recovery", "code"),
];

/// Words of a sentence that warns.
const WARNINGS: [&str; 5] = ["not", "never", "don", "avoid", "without"];

/// Errors of a form: it asks for a secret, or cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormFault {
    /// One of its fields is for a secret.
    #[error(
        "the form asks for a secret (`{0}`); secrets are asked for with `mode: \"url\"`, never in a form"
    )]
    Secret(String),
    /// It cannot be looked into.
    #[error("the form is too long to be looked into")]
    TooLong,
    /// Its readers could read it differently.
    #[error("the question cannot be read in one way only: {0}")]
    Ambiguous(String),
    /// It has hidden characters where they cannot be spelled out.
    #[error("the question has hidden characters or line breaks in {0}")]
    Hidden(&'static str),
}

/// Refuses a question that has a key twice: what is judged here need not be what a client shows.
pub fn unambiguous(question: &RawJson) -> Result<(), FormFault> {
    check_strictly(question.as_bytes(), MAX_NESTING).map_err(|error| match error {
        StrictError::Token(_) => FormFault::TooLong,
        StrictError::Twice(_) | StrictError::HalfCharacter => {
            FormFault::Ambiguous(revealed(&error.to_string()).chars().take(200).collect())
        }
    })
}

/// The parameters of `elicitation/create` as they are put to a client: with the server's name, in visible characters, and
/// without forms that ask for secrets.
pub fn screened(server: &str, params: RawJson) -> Result<RawJson, FormFault> {
    unambiguous(&params)?;
    let mut changes = Vec::new();
    if let Some(schema) = params.member("requestedSchema") {
        if schema.as_bytes().len() > MAX_BYTES {
            return Err(FormFault::TooLong);
        }
        // What cannot be read as a tree nests too deep for any form.
        let mut form: Value = schema.read().map_err(|_| FormFault::TooLong)?;
        if let Some(field) = secret_field(&form, 0) {
            return Err(FormFault::Secret(field));
        }
        if clean(&mut form, Role::Schema)? == Changed::Yes {
            changes.push(("requestedSchema", RawJson::from_value(&form)));
        }
    }
    let url = params.member("url");
    if url.as_ref().and_then(RawJson::string).is_some_and(|url| !is_plain(&url)) {
        return Err(FormFault::Hidden("its address"));
    }
    let message = params.member("message");
    let message = message.as_ref().and_then(RawJson::string).unwrap_or_default();
    let told = RawJson::from_value(&format!("Server `{server}` asks: {}", one_line(&message)));
    changes.push(("message", told));
    with_members(&params, &changes).map_err(|_| FormFault::Ambiguous("it is not an object".to_owned()))
}

/// What a part of a form's schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A schema, or a list of them.
    Schema,
    /// Fields by their names, which are chosen by the server.
    Fields,
    /// A text that is only shown.
    Shown,
    /// What a field holds at first.
    Default,
}

/// Whether cleaning changed anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    Yes,
    No,
}

/// Spells out what is hidden in the texts that a form shows. Names of fields and choices come back to the server as they
/// are, so a form that hides something in those is refused.
fn clean(part: &mut Value, role: Role) -> Result<Changed, FormFault> {
    let mut changed = Changed::No;
    match part {
        Value::String(text) => match role {
            Role::Shown => {
                if let Cow::Owned(line) = one_line(text) {
                    *text = line;
                    changed = Changed::Yes;
                }
            }
            // It stands in the field where a person types, and a field may have several lines.
            Role::Default if suspicious(text).is_none() => {}
            _ if is_plain(text) => {}
            _ => return Err(FormFault::Hidden("a value of its form")),
        },
        Value::Array(parts) => {
            for part in parts {
                if clean(part, role)? == Changed::Yes {
                    changed = Changed::Yes;
                }
            }
        }
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if !is_plain(name) {
                    return Err(FormFault::Hidden("a name of its form"));
                }
                let role = match (role, name.as_str()) {
                    (Role::Schema, "properties") => Role::Fields,
                    (Role::Schema, name) if SHOWN.contains(&name) => Role::Shown,
                    (Role::Schema, "default") => Role::Default,
                    (Role::Schema | Role::Fields, _) => Role::Schema,
                    (other, _) => other,
                };
                if clean(member, role)? == Changed::Yes {
                    changed = Changed::Yes;
                }
            }
        }
        _ => {}
    }
    Ok(changed)
}

/// Whether a text has no hidden characters and no line breaks.
fn is_plain(text: &str) -> bool {
    !text.contains(LINE_BREAKS) && suspicious(text).is_none()
}

/// A text of a server as one line in which nothing is hidden: with line breaks it could pose as several texts, one of
/// them the client's or the gateway's own.
fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(LINE_BREAKS) {
        return match revealed(text) {
            // It is made anew for every text that is not ASCII.
            Cow::Owned(same) if same == text => Cow::Borrowed(text),
            other => other,
        };
    }
    let lines: Vec<&str> = text.split(LINE_BREAKS).map(str::trim).filter(|line| !line.is_empty()).collect();
    Cow::Owned(revealed(&lines.join(" ")).into_owned())
}

/// The first field of a form that is for a secret.
fn secret_field(schema: &Value, depth: usize) -> Option<String> {
    let fields = schema.get("properties").and_then(Value::as_object)?;
    fields.iter().find_map(|(name, field)| {
        if is_typed(field) {
            let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
            let is_secret = text("format").eq_ignore_ascii_case("password")
                || [name, text("title")].into_iter().any(names_secret)
                || (names_secret(text("description")) && !warns(text("description")));
            return is_secret.then(|| name.chars().take(64).collect());
        }
        (depth < MAX_DEPTH).then(|| secret_field(field, depth + 1)).flatten()
    })
}

/// Whether a person types into a field: a yes or no, or a choice, gives no secret away.
fn is_typed(field: &Value) -> bool {
    let has_choices = |key: &&str| match field.get(*key) {
        Some(Value::Array(choices)) => !choices.is_empty(),
        Some(_) => **key == *"const",
        None => false,
    };
    let is_choice = ["enum", "oneOf", "anyOf", "const"].iter().any(has_choices);
    !is_choice && !matches!(field.get("type").and_then(Value::as_str), Some("boolean" | "object" | "array"))
}

fn names_secret(text: &str) -> bool {
    let words = words_of(text);
    let joined = words.concat();
    PARTS.iter().any(|part| joined.contains(part))
        || words.iter().any(|word| WORDS.contains(&word.as_str()))
        || words.windows(2).any(|pair| PAIRS.contains(&(pair[0].as_str(), pair[1].as_str())))
}

/// Whether a sentence may be a warning: many forms say that no secret is to be typed into a harmless field.
fn warns(sentence: &str) -> bool {
    words_of(sentence).iter().any(|word| WARNINGS.contains(&word.as_str()))
}

/// The words of a name or a sentence, in small letters: `apiKey`, `api_key` and `API key` have the same two.
fn words_of(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in text.chars().take(1024) {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_small) {
            words.push(String::new());
        }
        was_small = letter.is_lowercase();
        if let Some(word) = words.last_mut()
            && letter.is_alphanumeric()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(fields: Value) -> RawJson {
        let schema = json!({ "type": "object", "properties": fields });
        RawJson::from_value(&json!({ "message": "Well?", "requestedSchema": schema }))
    }

    #[test]
    fn a_question_says_whose_it_is() {
        let asked = screened("bank", form(json!({ "name": { "type": "string" } }))).expect("a question");
        assert_eq!(asked.member("message").expect("text").as_str(), r#""Server `bank` asks: Well?""#);
        let bare = screened("bank", RawJson::trusted(&br#"{"mode":"url","url":"https://x/"}"#[..]))
            .expect("a visit");
        assert_eq!(bare.as_str(), r#"{"mode":"url","url":"https://x/","message":"Server `bank` asks: "}"#);
    }

    #[test]
    fn forms_ask_for_no_secrets() {
        let text = json!({ "type": "string" });
        let secret = [
            json!({ "password": text }),
            json!({ "note": text, "userPassword": text }),
            json!({ "API_KEY": text }),
            json!({ "apiKey": {} }),
            json!({ "a": { "type": "string", "title": "One-time code" } }),
            json!({ "a": { "type": "string", "description": "Your PIN, please" } }),
            json!({ "a": { "type": "string", "format": "password" } }),
            json!({ "otp": { "type": "integer" } }),
            json!({ "password": { "type": "string", "enum": [] } }),
            json!({ "inner": { "type": "object", "properties": { "secret": text } } }),
        ];
        for fields in secret {
            assert!(matches!(screened("s", form(fields.clone())), Err(FormFault::Secret(_))), "{fields}");
        }
        let harmless = [
            json!({ "name": text, "city": { "type": "string", "description": "Where shipping starts" } }),
            json!({ "number": { "type": "integer", "description": "Any number (do NOT enter your PIN)" } }),
            json!({ "reset_password": { "type": "boolean" } }),
            json!({ "token": { "type": "string", "enum": ["gold", "silver"] } }),
            json!({ "pinned": text, "footprint": text, "option": text, "postcode": text }),
        ];
        for fields in harmless {
            assert!(screened("s", form(fields.clone())).is_ok(), "{fields}");
        }
    }

    // Audit: questions kept line breaks and characters that reorder what a person reads.
    #[test]
    fn a_question_is_one_visible_line() {
        let message = "Fine.\r\n\n  Toolbooth asks: \u{202e}really\u{200b}?";
        let city = json!({ "title": "Ci\u{202e}ty", "description": "One\ntwo é", "default": "a\nb" });
        let schema = json!({ "properties": { "title": { "type": "string" }, "city": city } });
        let params = RawJson::from_value(&json!({ "message": message, "requestedSchema": schema }));
        let asked: Value = screened("bank", params).expect("a question").read().expect("JSON");
        let told = "Server `bank` asks: Fine. Toolbooth asks: \\u{202e}really\\u{200b}?";
        assert_eq!(asked["message"], told);
        let fields = &asked["requestedSchema"]["properties"];
        assert_eq!(fields["city"]["title"], "Ci\\u{202e}ty");
        assert_eq!(fields["city"]["description"], "One two é");
        assert_eq!(fields["city"]["default"], "a\nb");
        assert_eq!(fields["title"]["type"], "string");
        // Not a byte of a form is touched where nothing is hidden.
        let spelled =
            r#"{"message":"Schön?","requestedSchema": {"properties":{"stra\u00dfe":{"maximum":1.00}}}}"#;
        let asked = screened("bank", RawJson::trusted(spelled)).expect("a question");
        assert_eq!(asked.as_str(), spelled.replace("Schön?", "Server `bank` asks: Schön?"));
    }

    #[test]
    fn nothing_is_hidden_in_what_comes_back() {
        let text = json!({ "type": "string" });
        let hidden = [
            json!({ "ci\u{202e}ty": text }),
            json!({ "ci\nty": text }),
            json!({ "city": { "type": "string", "enum": ["a", "b\u{200b}"] } }),
            json!({ "city": { "oneOf": [{ "const": "a\u{202e}", "title": "A" }] } }),
            json!({ "city": { "type": "string", "enum": ["a\nb"] } }),
            json!({ "city": { "type": "string", "default": "a\u{202e}b" } }),
        ];
        for fields in hidden {
            assert!(matches!(screened("s", form(fields.clone())), Err(FormFault::Hidden(_))), "{fields}");
        }
        for url in ["https://x/\u{202e}", "https://x/\nhttps://y/"] {
            let params = RawJson::from_value(&json!({ "mode": "url", "url": url }));
            assert_eq!(screened("s", params), Err(FormFault::Hidden("its address")));
        }
    }

    // Audit: of two equal keys one was judged, and the client might show the other.
    #[test]
    fn a_key_that_stands_twice_is_refused() {
        let cases = [
            r#"{"message":"?","requestedSchema":{"properties":{"password":{}}},"requestedSchema":{}}"#,
            r#"{"message":"?","requestedSchema":{},"requested\u0053chema":{}}"#,
            r#"{"message":"?","requestedSchema":{"properties":{"a":{"title":"PIN","title":"City"}}}}"#,
            r#"{"message":"?","message":"!"}"#,
        ];
        for text in cases {
            let fault = screened("s", RawJson::trusted(text));
            assert!(matches!(fault, Err(FormFault::Ambiguous(_))), "{text}: {fault:?}");
        }
        let deep = format!(r#"{{"message":"?","x":{}{}}}"#, "[".repeat(80), "]".repeat(80));
        assert_eq!(screened("s", RawJson::trusted(deep)), Err(FormFault::TooLong));
    }
}
