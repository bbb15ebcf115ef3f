//! What becomes of a server's question before it reaches a person.
//!
//! The client shows it as the gateway's, so the gateway says whose it is. A form is not the place for a secret: what is
//! typed there goes to the server through client and gateway, in clear text. The protocol has addresses for that
//! (`mode: "url"`), so a form that asks for one is refused.

use crate::json::{RawJson, with_members};
use serde_json::Value;

/// How deep a form's schema is looked into.
const MAX_DEPTH: usize = 8;
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
}

/// The parameters of `elicitation/create` as they are put to a client: with the server's name, and without forms that
/// ask for secrets.
pub fn screened(server: &str, params: RawJson) -> Result<RawJson, FormFault> {
    if let Some(schema) = params.member("requestedSchema") {
        if schema.as_bytes().len() > MAX_BYTES {
            return Err(FormFault::TooLong);
        }
        // What cannot be read as a tree nests too deep for any form.
        let schema: Value = schema.read().map_err(|_| FormFault::TooLong)?;
        if let Some(field) = secret_field(&schema, 0) {
            return Err(FormFault::Secret(field));
        }
    }
    let message = params.member("message");
    let message = message.as_ref().and_then(RawJson::string).unwrap_or_default();
    let told = RawJson::from_value(&format!("Server `{server}` asks: {message}"));
    Ok(with_members(&params, &[("message", told)]).unwrap_or(params))
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
}
