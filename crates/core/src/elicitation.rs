//! Screens a server's question before it reaches a person.
//!
//! Clients show the question as the gateway's, so the gateway adds the server's name. Forms are not for secrets: what
//! is typed there passes through client and gateway in clear text. The protocol has URLs for that (`mode: "url"`), so
//! a form that asks for a secret is refused. Texts are reduced to one line without hidden characters; a question that
//! parsers could read differently is refused.

use crate::json::{RawJson, StrictError, check_strictly, with_members};
use crate::lint::{revealed, suspicious};
use serde_json::Value;
use std::borrow::Cow;

/// The maximum depth to which a form's schema is searched.
const MAX_DEPTH: usize = 8;
/// The maximum nesting depth of a question.
const MAX_NESTING: usize = 64;
/// Members of a form's schema that are only displayed; all others are data and must be returned unchanged.
const SHOWN: [&str; 3] = ["title", "description", "enumNames"];
/// Characters that break a line.
const LINE_BREAKS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
/// The maximum size of a form; longer ones are refused.
const MAX_BYTES: usize = 256 << 10;
/// Words that name a secret, also as part of longer words.
const PARTS: [&str; 8] =
    ["password", "passwd", "passphrase", "passcode", "secret", "credential", "apikey", "privatekey"];
/// Words that name a secret on their own.
const WORDS: [&str; 11] =
    ["token", "otp", "totp", "pin", "cvv", "cvc", "ssn", "mfa", "2fa", "pwd", "passkey"];
/// Pairs of words that name a secret together.
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

/// Words that mark a sentence as a warning.
const WARNINGS: [&str; 5] = ["not", "never", "don", "avoid", "without"];

/// Errors of a question: it asks for a secret, or cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElicitationFault {
    /// One of its fields is for a secret.
    #[error(
        "the form asks for a secret (`{0}`); secrets are asked for with `mode: \"url\"`, never in a form"
    )]
    Secret(String),
    /// It is too long to be checked.
    #[error("the form is too long to be checked")]
    TooLong,
    /// Parsers could read it differently.
    #[error("the question is ambiguous: {0}")]
    Ambiguous(String),
    /// It has hidden characters where they cannot be escaped.
    #[error("the question has hidden characters or line breaks in {0}")]
    Hidden(&'static str),
}

/// Refuses a question with a duplicate key: the gateway could check one value and the client show the other.
pub fn unambiguous(question: &RawJson) -> Result<(), ElicitationFault> {
    check_strictly(question.as_bytes(), MAX_NESTING).map_err(|error| match error {
        StrictError::Token(_) => ElicitationFault::TooLong,
        StrictError::Twice(_) | StrictError::HalfCharacter => {
            ElicitationFault::Ambiguous(revealed(&error.to_string()).chars().take(200).collect())
        }
    })
}

/// The parameters of `elicitation/create` for a client: with the server's name, in visible characters. Refuses forms
/// that ask for secrets.
pub fn screened(server: &str, params: RawJson) -> Result<RawJson, ElicitationFault> {
    unambiguous(&params)?;
    let mut changes = Vec::new();
    if let Some(schema) = params.member("requestedSchema") {
        if schema.as_bytes().len() > MAX_BYTES {
            return Err(ElicitationFault::TooLong);
        }
        // Text that cannot be parsed as a tree nests too deep for any form.
        let mut form: Value = schema.read().map_err(|_| ElicitationFault::TooLong)?;
        if let Some(field) = secret_field(&form, 0) {
            return Err(ElicitationFault::Secret(field));
        }
        if clean(&mut form, FormRole::Schema)? == Changed::Yes {
            changes.push(("requestedSchema", RawJson::from_value(&form)));
        }
    }
    let url = params.member("url");
    if url.as_ref().and_then(RawJson::string).is_some_and(|url| !is_plain(&url)) {
        return Err(ElicitationFault::Hidden("its URL"));
    }
    let message = params.member("message");
    let message = message.as_ref().and_then(RawJson::string).unwrap_or_default();
    let message = RawJson::from_value(&format!("Server `{server}` asks: {}", one_line(&message)));
    changes.push(("message", message));
    with_members(&params, &changes).map_err(|_| ElicitationFault::Ambiguous("it is not an object".to_owned()))
}

/// Splits the message of a screened question into the name of its server and the server's own text.
pub fn asked_by(message: &str) -> Option<(&str, &str)> {
    message.strip_prefix("Server `")?.split_once("` asks: ")
}

/// The role of a part of a form's schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FormRole {
    /// A schema, or a list of them.
    Schema,
    /// Fields by name; the server chooses the names.
    Fields,
    /// A text that is only displayed.
    Shown,
    /// The default value of a field.
    Default,
}

/// Whether cleaning changed anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    Yes,
    No,
}

/// Escapes hidden characters in the displayed texts of a form. Field names and choices are returned to the server
/// unchanged, so a form with hidden characters in those is refused.
fn clean(part: &mut Value, role: FormRole) -> Result<Changed, ElicitationFault> {
    let mut changed = Changed::No;
    match part {
        Value::String(text) => match role {
            FormRole::Shown => {
                if let Cow::Owned(line) = one_line(text) {
                    *text = line;
                    changed = Changed::Yes;
                }
            }
            // It fills the input field, which may have several lines.
            FormRole::Default if suspicious(text).is_none() => {}
            _ if is_plain(text) => {}
            _ => return Err(ElicitationFault::Hidden("a value of its form")),
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
                    return Err(ElicitationFault::Hidden("a name of its form"));
                }
                let role = match (role, name.as_str()) {
                    (FormRole::Schema, "properties") => FormRole::Fields,
                    (FormRole::Schema, name) if SHOWN.contains(&name) => FormRole::Shown,
                    (FormRole::Schema, "default") => FormRole::Default,
                    (FormRole::Schema | FormRole::Fields, _) => FormRole::Schema,
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

/// A server's text as one line without hidden characters. With line breaks it could look like several texts, one of
/// them from the client or the gateway.
fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(LINE_BREAKS) {
        return match revealed(text) {
            // An owned copy is made for every text that is not ASCII.
            Cow::Owned(same) if same == text => Cow::Borrowed(text),
            other => other,
        };
    }
    let lines: Vec<&str> = text.split(LINE_BREAKS).map(str::trim).filter(|line| !line.is_empty()).collect();
    Cow::Owned(revealed(&lines.join(" ")).into_owned())
}

/// The first field of a form that asks for a secret.
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

/// Whether a person types into a field. A boolean or a choice cannot reveal a secret.
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

/// Whether a sentence may be a warning: many forms warn against typing a secret into a harmless field.
fn warns(sentence: &str) -> bool {
    words_of(sentence).iter().any(|word| WARNINGS.contains(&word.as_str()))
}

/// The words of a name or a sentence, in lower case: `apiKey`, `api_key` and `API key` have the same two.
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
    fn a_question_names_its_server() {
        let asked = screened("bank", form(json!({ "name": { "type": "string" } }))).expect("a question");
        assert_eq!(asked.member("message").expect("text").as_str(), r#""Server `bank` asks: Well?""#);
        let bare = screened("bank", RawJson::trusted(&br#"{"mode":"url","url":"https://x/"}"#[..]))
            .expect("a visit");
        assert_eq!(bare.as_str(), r#"{"mode":"url","url":"https://x/","message":"Server `bank` asks: "}"#);
    }

    #[test]
    fn forms_that_ask_for_secrets_are_refused() {
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
            assert!(
                matches!(screened("s", form(fields.clone())), Err(ElicitationFault::Secret(_))),
                "{fields}"
            );
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

    // Line breaks and characters that reorder text would change what a person reads.
    #[test]
    fn a_question_is_one_visible_line() {
        let message = "Fine.\r\n\n  Toolbooth asks: \u{202e}really\u{200b}?";
        let city = json!({ "title": "Ci\u{202e}ty", "description": "One\ntwo é", "default": "a\nb" });
        let schema = json!({ "properties": { "title": { "type": "string" }, "city": city } });
        let params = RawJson::from_value(&json!({ "message": message, "requestedSchema": schema }));
        let asked: Value = screened("bank", params).expect("a question").read().expect("JSON");
        let expected = "Server `bank` asks: Fine. Toolbooth asks: \\u{202e}really\\u{200b}?";
        assert_eq!(asked["message"], expected);
        let fields = &asked["requestedSchema"]["properties"];
        assert_eq!(fields["city"]["title"], "Ci\\u{202e}ty");
        assert_eq!(fields["city"]["description"], "One two é");
        assert_eq!(fields["city"]["default"], "a\nb");
        assert_eq!(fields["title"]["type"], "string");
        // A form without hidden characters keeps every byte.
        let spelled =
            r#"{"message":"Schön?","requestedSchema": {"properties":{"stra\u00dfe":{"maximum":1.00}}}}"#;
        let asked = screened("bank", RawJson::trusted(spelled)).expect("a question");
        assert_eq!(asked.as_str(), spelled.replace("Schön?", "Server `bank` asks: Schön?"));
    }

    #[test]
    fn hidden_characters_in_returned_values_are_refused() {
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
            assert!(
                matches!(screened("s", form(fields.clone())), Err(ElicitationFault::Hidden(_))),
                "{fields}"
            );
        }
        for url in ["https://x/\u{202e}", "https://x/\nhttps://y/"] {
            let params = RawJson::from_value(&json!({ "mode": "url", "url": url }));
            assert_eq!(screened("s", params), Err(ElicitationFault::Hidden("its URL")));
        }
    }

    // Of two equal keys, the gateway would check one, and the client might show the other.
    #[test]
    fn a_duplicate_key_is_refused() {
        let cases = [
            r#"{"message":"?","requestedSchema":{"properties":{"password":{}}},"requestedSchema":{}}"#,
            r#"{"message":"?","requestedSchema":{},"requested\u0053chema":{}}"#,
            r#"{"message":"?","requestedSchema":{"properties":{"a":{"title":"PIN","title":"City"}}}}"#,
            r#"{"message":"?","message":"!"}"#,
        ];
        for text in cases {
            let fault = screened("s", RawJson::trusted(text));
            assert!(matches!(fault, Err(ElicitationFault::Ambiguous(_))), "{text}: {fault:?}");
        }
        let deep = format!(r#"{{"message":"?","x":{}{}}}"#, "[".repeat(80), "]".repeat(80));
        assert_eq!(screened("s", RawJson::trusted(deep)), Err(ElicitationFault::TooLong));
    }
}
