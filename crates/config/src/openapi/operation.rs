//! One operation as a manifest entry.

use super::body::{self, BODY, OperationBody, is_argument_name};
use super::schema::{SchemaResolver, readable};
use super::security::{self, OpenApiVariable, RequestCredential};
use super::{ListedOperation, OpenApiOptions, cut};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;

/// The maximum length of the name of a tool, so that all clients accept it.
const MAX_NAME: usize = 60;
/// The maximum length of the description of a tool.
const MAX_DESCRIPTION: usize = 2000;
/// The maximum number of parameters of an operation.
const MAX_PARAMETERS: usize = 100;
/// The maximum size of the schema of the arguments.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// The maximum length of a path.
const MAX_PATH: usize = 1000;

/// Makes manifest entries of operations.
pub(super) struct OperationReader<'a> {
    document: &'a Json,
    options: &'a OpenApiOptions,
    base_url: &'a str,
    /// The variables that the entries need.
    pub variables: Vec<OpenApiVariable>,
}

/// A parameter of an operation that becomes an argument.
struct PlacedParameter {
    /// The name in the request.
    name: String,
    /// The name of the argument.
    argument: String,
    place: ParameterPlace,
    schema: Json,
    is_required: bool,
    /// Whether a list is one value of the request, separated by commas.
    is_joined: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParameterPlace {
    Path,
    Query,
}

impl<'a> OperationReader<'a> {
    pub fn new(document: &'a Json, options: &'a OpenApiOptions, base_url: &'a str) -> Self {
        Self { document, options, base_url, variables: Vec::new() }
    }

    /// The manifest entry of an operation, or the reason why it has none.
    pub fn entry(&mut self, one: &ListedOperation<'a>, names: &mut BTreeSet<String>) -> Result<Json, String> {
        if one.path.len() > MAX_PATH || !one.path.starts_with('/') {
            return Err("its path is not valid".into());
        }
        let mut resolver = SchemaResolver::new(self.document);
        let parameters = parameters(&mut resolver, one)?;
        let taken: Vec<String> = parameters.iter().map(|parameter| parameter.argument.clone()).collect();
        let body = body::read(&mut resolver, one.operation, &taken)?;
        let credentials = security::of_operation(self.document, one.operation, self.options)?;
        let config = self.config(one, &parameters, &body, &credentials)?;
        let schema = schema(&parameters, body);
        if schema.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(format!("its arguments need more than {MAX_SCHEMA_BYTES} bytes of schema"));
        }
        for (_, variable) in credentials {
            if !self.variables.contains(&variable) {
                self.variables.push(variable);
            }
        }
        let is_read = matches!(one.method, "get" | "head");
        Ok(json!({
            "name": self.name(one, names),
            "description": description(one),
            "side_effects": if is_read { "read_external_service" } else { "write" },
            "parameters": schema,
            "providers": [{ "name": "http", "config": config }],
        }))
    }

    fn config(
        &self,
        one: &ListedOperation<'_>,
        parameters: &[PlacedParameter],
        body: &OperationBody,
        credentials: &[(RequestCredential, OpenApiVariable)],
    ) -> Result<Json, String> {
        let mut config = Map::new();
        let mut url = format!("{}{}", self.base_url, path(one.path, parameters)?);
        let mut headers = Map::new();
        for (name, value) in &self.options.headers {
            headers.insert(name.clone(), json!(value));
        }
        for (credential, _) in credentials {
            match credential {
                RequestCredential::Header(name, value) => drop(headers.insert(name.clone(), json!(value))),
                RequestCredential::Query(name, value) => {
                    url.push_str(&format!("{}{name}={value}", if url.contains('?') { '&' } else { '?' }));
                }
            }
        }
        config.insert("method".into(), json!(one.method.to_uppercase()));
        config.insert("url".into(), json!(url));
        if needs_query(one, parameters) {
            let query = parameters.iter().filter(|parameter| parameter.place == ParameterPlace::Query);
            let pairs = query
                .map(|parameter| (parameter.name.clone(), Json::from(format!("{{{}}}", parameter.argument))));
            config.insert("query".into(), Json::Object(pairs.collect()));
        }
        match body {
            OperationBody::Absent | OperationBody::Properties { .. } => {}
            OperationBody::Whole { content_type, .. } => {
                config.insert(BODY.into(), json!(format!("{{{}}}", body_argument(parameters))));
                if let Some(kind) = content_type {
                    headers.insert("Content-Type".into(), json!(kind));
                }
            }
        }
        if let (OperationBody::Properties { properties, .. }, "get" | "head" | "delete") = (body, one.method)
        {
            // Only POST, PUT and PATCH put the other arguments into the body on their own.
            let parts = properties.keys().map(|name| (name.clone(), Json::from(format!("{{{name}}}"))));
            config.insert(BODY.into(), Json::Object(parts.collect()));
        }
        if !headers.is_empty() {
            config.insert("headers".into(), Json::Object(headers));
        }
        Ok(Json::Object(config))
    }

    /// A free name: the service and the operation id, or the method and the path.
    fn name(&self, one: &ListedOperation<'_>, names: &mut BTreeSet<String>) -> String {
        let own = match one.operation["operationId"].as_str() {
            Some(id) if id.chars().any(|c| c.is_ascii_alphanumeric()) => plain(id),
            _ => plain(&format!("{}{}", one.method, one.path)),
        };
        let whole = cut(&format!("{}_{own}", plain(&self.options.name)), MAX_NAME);
        let whole = whole.trim_end_matches(['_', '-']).to_owned();
        let numbered = (2..).map(|number| format!("{}_{number}", cut(&whole, MAX_NAME - 5)));
        let mut free = std::iter::once(whole.clone()).chain(numbered);
        let name = free.find(|name| !names.contains(name)).unwrap_or(whole);
        names.insert(name.clone());
        name
    }
}

/// The parameters of an operation, its own before those of its path.
fn parameters<'a>(
    resolver: &mut SchemaResolver<'a>,
    one: &ListedOperation<'a>,
) -> Result<Vec<PlacedParameter>, String> {
    let lists = [&one.operation["parameters"], &one.item["parameters"]];
    let written = lists.into_iter().flat_map(|list| list.as_array().into_iter().flatten());
    let mut found: Vec<PlacedParameter> = Vec::new();
    for parameter in written.take(MAX_PARAMETERS) {
        let parameter = resolver.target(parameter).ok_or("a parameter is in another document")?;
        let name = parameter["name"].as_str().filter(|name| (1..=100).contains(&name.len()));
        let Some(name) = name else { return Err("a parameter has no valid name".into()) };
        let is_required = parameter["required"] == true;
        let place = match parameter["in"].as_str() {
            Some("path") => ParameterPlace::Path,
            Some("query") => ParameterPlace::Query,
            _ if is_required && !is_set_by_gateway(name) => {
                return Err(format!("it requires the header or cookie `{}`", cut(name, 60)));
            }
            _ => continue,
        };
        if found.iter().any(|known| known.name == name && known.place == place) {
            continue;
        }
        found.push(PlacedParameter {
            name: name.to_owned(),
            argument: argument_name(name, &found),
            schema: parameter_schema(resolver, parameter),
            is_required: is_required || place == ParameterPlace::Path,
            is_joined: parameter["explode"] == false || place == ParameterPlace::Path,
            place,
        });
    }
    let needs_query = needs_query(one, &found);
    for parameter in &mut found {
        parameter.is_joined |= needs_query;
        join_list(parameter);
    }
    Ok(found)
}

/// Whether the request needs a `query` template. Without one, all arguments that are not in the path go into the query,
/// and lists as repeated values.
fn needs_query(one: &ListedOperation<'_>, parameters: &[PlacedParameter]) -> bool {
    let sends_body =
        matches!(one.method, "post" | "put" | "patch") || one.operation.get("requestBody").is_some();
    let mut query = parameters.iter().filter(|parameter| parameter.place == ParameterPlace::Query).peekable();
    query.peek().is_some() && (sends_body || query.any(|parameter| parameter.name != parameter.argument))
}

/// Makes a list that is one value of the request a text.
fn join_list(parameter: &mut PlacedParameter) {
    if !parameter.is_joined || parameter.schema["type"] != "array" {
        return;
    }
    let about = parameter.schema["description"].as_str().unwrap_or_default();
    let about = format!("{about} Several values are separated by commas.");
    parameter.schema = json!({ "type": "string", "description": about.trim() });
}

/// Headers that every request has anyway, or that security describes.
fn is_set_by_gateway(name: &str) -> bool {
    ["accept", "content-type", "authorization", "user-agent"].contains(&name.to_ascii_lowercase().as_str())
}

fn argument_name(name: &str, others: &[PlacedParameter]) -> String {
    let base = if is_argument_name(name) { name.to_owned() } else { cut(&plain(name), 60) };
    let base = if base.is_empty() { "value".to_owned() } else { base };
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    let mut free = std::iter::once(base.clone()).chain(numbered);
    free.find(|name| others.iter().all(|other| other.argument != *name)).unwrap_or(base)
}

fn parameter_schema<'a>(resolver: &mut SchemaResolver<'a>, parameter: &'a Json) -> Json {
    let content = parameter["content"].as_object().and_then(|content| content.values().next());
    let written = parameter.get("schema").or_else(|| content.and_then(|content| content.get("schema")));
    let mut schema = written.map_or_else(|| json!({}), |schema| resolver.schema(schema));
    if let (Json::Object(members), Some(about)) = (&mut schema, parameter["description"].as_str()) {
        members.insert("description".into(), Json::from(readable(about, 500)));
    }
    schema
}

/// The path as a template, with the names of the arguments.
fn path(written: &str, parameters: &[PlacedParameter]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, tail) = after.split_once('}').ok_or("its path is not valid")?;
        let known = parameters
            .iter()
            .find(|parameter| parameter.place == ParameterPlace::Path && parameter.name == name);
        let known =
            known.ok_or_else(|| format!("its path has the undeclared parameter `{}`", cut(name, 60)))?;
        out.push_str(&fixed(before)?);
        out.push_str(&format!("{{{}}}", known.argument));
        rest = tail;
    }
    out.push_str(&fixed(rest)?);
    Ok(out)
}

/// A part of the path that is not a parameter. `$` would start a variable of the environment.
fn fixed(part: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_graphic() && !"{}?#\\\"<>^`|".contains(c);
    match part.chars().all(is_plain) && !part.split('/').any(|segment| segment == "..") {
        true => Ok(part.replace('$', "%24")),
        false => Err("its path is not valid".into()),
    }
}

/// The argument that is the whole body; another name if a parameter has this one.
fn body_argument(parameters: &[PlacedParameter]) -> String {
    argument_name(BODY, parameters)
}

fn schema(parameters: &[PlacedParameter], body: OperationBody) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in parameters {
        properties.insert(parameter.argument.clone(), parameter.schema.clone());
        if parameter.is_required {
            required.push(parameter.argument.clone());
        }
    }
    match body {
        OperationBody::Absent => {}
        OperationBody::Properties { properties: parts, required: needed } => {
            properties.extend(parts);
            required.extend(needed);
        }
        OperationBody::Whole { schema, .. } => {
            let name = body_argument(parameters);
            properties.insert(name.clone(), schema);
            required.push(name);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn description(one: &ListedOperation<'_>) -> String {
    let text = |key: &str| one.operation[key].as_str().map(str::trim).filter(|text| !text.is_empty());
    let description = match (text("summary"), text("description")) {
        (Some(summary), Some(long)) if !long.starts_with(summary) => format!("{summary}\n\n{long}"),
        (_, Some(text)) | (Some(text), None) => text.to_owned(),
        (None, None) => format!("{} {}", one.method.to_uppercase(), one.path),
    };
    readable(&description, MAX_DESCRIPTION)
}

/// A text in the characters of tool names.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '-' => out.push(c),
            _ if !out.is_empty() && !out.ends_with('_') => out.push('_'),
            _ => {}
        }
    }
    out.trim_matches('_').to_owned()
}
