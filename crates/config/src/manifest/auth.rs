//! `auth` of a manifest entry: the names of the variables with credentials.

use super::fields::{EntryReader, Extras, LocatedNode};
use crate::node::Value;
use crate::parse::dotenv::is_variable_name;
use serde_json::{Map, Value as Json};
use toolbooth_core::manifest::AuthHints;

const KNOWN: [&str; 6] = ["required", "type", "env", "envs", "scopes", "docs"];

/// Reads `auth`: a boolean, or a map.
pub(super) fn read(reader: &mut EntryReader<'_>, spot: Option<LocatedNode<'_>>) -> Option<AuthHints> {
    let spot = spot.filter(|spot| !spot.is_null())?;
    if spot.node.members().is_none() {
        let required = reader.flag(Some(spot.clone()))?;
        if matches!(spot.node.value, Value::Bool(_)) {
            reader.warn(&spot, format_args!("`auth` is read as {{\"required\": {required}}}"));
        }
        return Some(AuthHints { required, ..AuthHints::default() });
    }
    reader.keys(&spot, &KNOWN, Extras::All);
    let mut fields = Map::new();
    let mut put = |key: &str, value: Option<Json>| {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value);
        }
    };
    put("required", reader.flag(spot.member("required")).map(Json::from));
    for key in ["type", "docs"] {
        put(key, reader.text(spot.member(key)).map(Json::from));
    }
    let scopes = spot.member("scopes");
    // OAuth writes scopes as one string, separated by spaces.
    put(
        "scopes",
        match scopes.as_ref().map(|scopes| &scopes.node.value) {
            Some(Value::Text(text)) => Some(Json::from(text.shown())),
            _ => reader.texts(scopes).map(Json::from),
        },
    );
    for key in ["env", "envs"] {
        put(key, envs(reader, spot.member(key)));
    }
    let hints = AuthHints::read(&Json::Object(fields));
    for env in &hints.envs {
        if !is_variable_name(&env.name) {
            reader.error(&spot, format_args!("`{}` in `auth` is not a valid variable name", env.name));
        }
    }
    Some(hints)
}

/// Reads variable names: one name, a list of names, or a map from names to their attributes.
fn envs(reader: &mut EntryReader<'_>, spot: Option<LocatedNode<'_>>) -> Option<Json> {
    let spot = spot.filter(|spot| !spot.is_null())?;
    let Some(members) = spot.node.members() else {
        return match spot.node.value {
            Value::Text(_) => reader.text(Some(spot)).map(Json::from),
            _ => reader.texts(Some(spot)).map(Json::from),
        };
    };
    let mut read = Map::new();
    for (key, node) in members {
        let one = spot.inside(&key.text, node);
        let about = match node.value {
            Value::Null => Json::Object(Map::new()),
            Value::Text(_) => reader.text(Some(one)).map(Json::from)?,
            _ => {
                let one = reader.map(Some(one))?;
                let mut about = Map::new();
                for flag in ["required", "optional"] {
                    if let Some(value) = reader.flag(one.member(flag)) {
                        about.insert(flag.to_owned(), Json::from(value));
                    }
                }
                if let Some(name) = reader.text(one.member("name")) {
                    about.insert("name".to_owned(), Json::from(name));
                }
                Json::Object(about)
            }
        };
        read.insert(key.text.clone(), about);
    }
    Some(Json::Object(read))
}
