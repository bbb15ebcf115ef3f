//! The request body of an operation.

use super::schema::SchemaResolver;
use serde_json::{Map, Value as Json, json};

/// The argument that is the whole body, if its parts are not arguments of their own.
pub(super) const BODY: &str = "body";
/// The maximum length of a media type.
const MAX_TYPE: usize = 100;

/// How the arguments of a tool become a body.
pub(super) enum OperationBody {
    /// The operation has none.
    Absent,
    /// Each property of the JSON object is an argument of its own.
    Properties { properties: Map<String, Json>, required: Vec<String> },
    /// One argument is the whole body.
    Whole {
        schema: Json,
        /// The media type, if it is not JSON.
        content_type: Option<String>,
    },
}

/// Reads the body of an operation; `taken` are the names of its other arguments.
pub(super) fn read<'a>(
    resolver: &mut SchemaResolver<'a>,
    operation: &'a Json,
    taken: &[String],
) -> Result<OperationBody, String> {
    let Some(body) = operation.get("requestBody") else { return Ok(OperationBody::Absent) };
    let body = resolver.target(body).ok_or("its request body is in another document")?;
    let is_required = body["required"] == true;
    let Some(content) = body["content"].as_object().filter(|content| !content.is_empty()) else {
        return Ok(OperationBody::Absent);
    };
    let essence = |kind: &str| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = |kind: &str| kind == "application/json" || kind.ends_with("+json") || kind == "*/*";
    let json_media = content.iter().find(|(kind, _)| is_json(&essence(kind)));
    let Some((_, media)) = json_media else {
        let text = content.keys().map(|kind| essence(kind)).find(|kind| is_text_type(kind));
        return match text {
            Some(kind) => {
                Ok(OperationBody::Whole { schema: json!({ "type": "string" }), content_type: Some(kind) })
            }
            None if !is_required => Ok(OperationBody::Absent),
            None => {
                let kinds: Vec<String> = content.keys().take(3).map(|kind| super::cut(kind, 60)).collect();
                Err(format!("its request body is not JSON ({})", kinds.join(", ")))
            }
        };
    };
    let schema = media.get("schema").map_or_else(|| json!({}), |schema| resolver.schema(schema));
    Ok(match flattened(&schema, taken) {
        Some((properties, mut required)) => {
            if !is_required {
                required.clear();
            }
            OperationBody::Properties { properties, required }
        }
        None => OperationBody::Whole { schema, content_type: None },
    })
}

/// Whether a media type is text and can be a header's value. It comes from the document and is in a manifest, so it
/// must not contain a reference to a variable.
fn is_text_type(kind: &str) -> bool {
    kind.starts_with("text/")
        && kind.len() <= MAX_TYPE
        && kind.chars().all(|c| c.is_ascii_alphanumeric() || "/.+-_".contains(c))
}

/// The properties of a closed, plain object whose names can be arguments beside the others.
fn flattened(schema: &Json, taken: &[String]) -> Option<(Map<String, Json>, Vec<String>)> {
    let members = schema.as_object()?;
    let combines = ["allOf", "anyOf", "oneOf", "not"].iter().any(|key| members.contains_key(*key));
    let is_open = members.get("additionalProperties").is_some_and(|more| *more != json!(false));
    let properties = members.get("properties")?.as_object()?;
    let fits = |name: &String| is_argument_name(name) && !taken.contains(name);
    if combines || is_open || properties.is_empty() || !properties.keys().all(fits) {
        return None;
    }
    let required = members.get("required").and_then(Json::as_array).into_iter().flatten();
    let required = required.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    Some((properties.clone(), required))
}

/// Whether a name can be an argument for all clients and in templates.
pub(super) fn is_argument_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}
