//! Schemas: resolves references inside the document, and turns the dialect of OpenAPI into plain JSON Schema.

use serde_json::{Map, Value as Json, json};

/// The maximum nesting of a schema; deeper parts accept anything.
const MAX_DEPTH: usize = 16;
/// The maximum number of schemas in one operation; further ones accept anything.
const MAX_SCHEMAS: usize = 3000;
/// The maximum number of references in a row.
const MAX_HOPS: usize = 10;
/// The maximum length of a description inside a schema.
const MAX_DESCRIPTION: usize = 500;

/// Keywords whose value is one schema.
const ONE: [&str; 4] = ["items", "additionalProperties", "not", "contains"];
/// Keywords whose value is a list of schemas.
const MANY: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords that are kept as they are.
const PLAIN: [&str; 17] = [
    "type",
    "enum",
    "const",
    "default",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "required",
];

/// Resolves the references of one operation.
pub(super) struct SchemaResolver<'a> {
    document: &'a Json,
    left: usize,
}

impl<'a> SchemaResolver<'a> {
    pub fn new(document: &'a Json) -> Self {
        Self { document, left: MAX_SCHEMAS }
    }

    /// The object that a `$ref` means, or the object itself. `None` for other documents and for circles.
    pub fn target(&self, node: &'a Json) -> Option<&'a Json> {
        let mut node = node;
        for _ in 0..MAX_HOPS {
            let Some(reference) = node.get("$ref") else { return Some(node) };
            node = self.document.pointer(&pointer(reference.as_str()?)?)?;
        }
        None
    }

    /// A schema without references.
    pub fn schema(&mut self, schema: &'a Json) -> Json {
        self.inlined(schema, &mut Vec::new())
    }

    fn inlined(&mut self, schema: &'a Json, above: &mut Vec<&'a str>) -> Json {
        if self.left == 0 || above.len() > MAX_DEPTH {
            return json!({});
        }
        self.left -= 1;
        let Json::Object(members) = schema else {
            // `true` and `false` are schemas as well.
            return if schema.is_boolean() { schema.clone() } else { json!({}) };
        };
        if let Some(reference) = members.get("$ref").and_then(Json::as_str) {
            // A schema that contains itself accepts anything at the second turn.
            let found = pointer(reference).and_then(|path| self.document.pointer(&path));
            let Some(found) = found.filter(|_| !above.contains(&reference)) else { return json!({}) };
            above.push(reference);
            let inlined = self.inlined(found, above);
            above.pop();
            return inlined;
        }
        above.push("");
        let plain = self.members(members, above);
        above.pop();
        Json::Object(plain)
    }

    fn members(&mut self, members: &'a Map<String, Json>, above: &mut Vec<&'a str>) -> Map<String, Json> {
        let mut out = Map::new();
        for (key, value) in members {
            let key = key.as_str();
            if PLAIN.contains(&key) {
                out.insert(key.to_owned(), value.clone());
            } else if key == "description" || key == "title" {
                if let Some(text) = value.as_str() {
                    out.insert(key.to_owned(), Json::from(readable(text, MAX_DESCRIPTION)));
                }
            } else if key == "properties" {
                let mut properties = Map::new();
                for (name, property) in value.as_object().into_iter().flatten() {
                    // Only answers contain them.
                    if property["readOnly"] != true {
                        properties.insert(name.clone(), self.inlined(property, above));
                    }
                }
                out.insert(key.to_owned(), Json::Object(properties));
            } else if ONE.contains(&key) {
                out.insert(key.to_owned(), self.inlined(value, above));
            } else if MANY.contains(&key) {
                let list = value.as_array().into_iter().flatten();
                let list: Vec<Json> = list.map(|schema| self.inlined(schema, above)).collect();
                out.insert(key.to_owned(), Json::Array(list));
            }
        }
        modernise(&mut out, members);
        out
    }
}

/// Rewrites the keywords of OpenAPI 3.0 that JSON Schema spells differently.
fn modernise(schema: &mut Map<String, Json>, written: &Map<String, Json>) {
    if written.get("nullable") == Some(&json!(true))
        && let Some(kind @ Json::String(_)) = schema.get("type").cloned()
    {
        schema.insert("type".into(), json!([kind, "null"]));
    }
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(flag) {
            Some(Json::Bool(true)) => match schema.shift_remove(limit) {
                Some(value) => drop(schema.insert(flag.into(), value)),
                None => drop(schema.shift_remove(flag)),
            },
            Some(Json::Bool(false)) => drop(schema.shift_remove(flag)),
            _ => {}
        }
    }
    // Required properties that only answers contain were left out.
    let known: Option<Vec<String>> =
        schema.get("properties").and_then(Json::as_object).map(|known| known.keys().cloned().collect());
    if let Some(known) = known
        && let Some(Json::Array(required)) = schema.get_mut("required")
    {
        required.retain(|name| name.as_str().is_some_and(|name| known.iter().any(|known| known == name)));
    }
}

/// The JSON pointer of a reference inside the document.
fn pointer(reference: &str) -> Option<String> {
    let path = reference.strip_prefix('#')?;
    (path.is_empty() || path.starts_with('/')).then(|| path.replace("%7B", "{").replace("%7D", "}"))
}

/// A text of the document for models: short, and without characters that hide or reorder text.
pub(super) fn readable(text: &str, most: usize) -> String {
    let mut short: String = text.trim().chars().take(most).collect();
    if text.trim().chars().count() > most {
        short.push('…');
    }
    toolbooth_core::lint::revealed(&short).into_owned()
}
