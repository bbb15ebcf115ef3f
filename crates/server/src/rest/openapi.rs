//! The OpenAPI document: assembled from the endpoints on the first request, then cached as bytes.
//!
//! An endpoint's attribute has its own parameters and responses. What all endpoints share is added here: the security
//! scheme, the common errors, and that errors are problem documents.

use super::endpoint::{Access, Endpoint};
use super::extract::NoQuery;
use super::problem::{CONTENT_TYPE, ProblemView};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;
use utoipa::PartialSchema;

/// The introduction of the document.
const ABOUT: &str = "\
The tools of many MCP servers behind one address, for programs that do not use MCP. (The MCP endpoint is `/mcp`.)

Every error is a problem document (RFC 9457) with a stable `code`; `toolbooth explain CODE` describes it. A gateway in \
`local` mode needs no credential; others require a bearer token. Every request may select a persona with \
`X-Toolbooth-Persona: NAME` and name its session with `Toolbooth-Session: NAME`. Resources that a caller may not use are \
reported as if they did not exist.";

/// Returns the OpenAPI document of this gateway.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "This document.", body = Object)))]
pub async fn document(_: NoQuery) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text()).into_response()
}

/// The document, which is constant while the gateway runs.
fn text() -> Bytes {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let whole = || assemble(super::ENDPOINTS);
    DOCUMENT.get_or_init(|| whole().to_string().into()).clone()
}

/// Assembles the document of these endpoints.
pub fn assemble(tables: &[(Access, &[Endpoint])]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut nouns: Vec<&str> = Vec::new();
    for (access, endpoints) in tables {
        for endpoint in *endpoints {
            let mut described = serde_json::to_value((endpoint.openapi)()).unwrap_or_default();
            if let Some(Value::Object(more)) = described.pointer_mut("/components/schemas").map(Value::take) {
                schemas.extend(more);
            }
            if !nouns.contains(&endpoint.noun) {
                nouns.push(endpoint.noun);
            }
            let Some(Value::Object(items)) = described.get_mut("paths").map(Value::take) else { continue };
            for (path, item) in items {
                let Value::Object(operations) = item else { continue };
                // OpenAPI has no syntax for a path parameter that matches several segments.
                let place = paths.entry(path.replace("{*", "{")).or_insert_with(|| json!({}));
                for (method, mut operation) in operations {
                    relax(&mut operation, &schemas);
                    add_common(&mut operation, endpoint, *access);
                    place[method] = operation;
                }
            }
        }
    }
    schemas.insert("Problem".into(), serde_json::to_value(ProblemView::schema()).unwrap_or_default());
    nouns.sort_unstable();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolbooth",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "tags": nouns.iter().map(|noun| json!({ "name": noun })).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token issued by the gateway or by a trusted issuer.",
                },
            },
        },
    })
}

/// Marks a body without required fields as optional: a missing body is read as an empty object.
fn relax(operation: &mut Value, schemas: &Map<String, Value>) {
    let schema = operation.pointer("/requestBody/content/application~1json/schema/$ref");
    let name = schema.and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
    let Some(schema) = name.and_then(|name| schemas.get(name)) else { return };
    if schema.get("required").is_none() {
        operation["requestBody"]["required"] = false.into();
    }
}

/// Adds the parts that all operations of this access level share.
fn add_common(operation: &mut Value, endpoint: &Endpoint, access: Access) {
    operation["operationId"] = endpoint.id.into();
    operation["tags"] = json!([endpoint.noun]);
    let has_body = operation.get("requestBody").is_some();
    // `{}` means that no credential is needed, which is the case in `local` mode.
    operation["security"] = match access {
        Access::Public => json!([]),
        Access::Caller | Access::Administrator => json!([{}, { "token": [] }]),
    };
    operation["x-toolbooth-access"] = access.word().into();
    let mut common = vec![
        (400, "The request is not valid: `request.bad-path`, `request.bad-query` or `request.bad-body`."),
        (500, "The gateway failed. Its log has the reason."),
    ];
    if access != Access::Public {
        common.push((401, "`auth.required` or `auth.refused`: the credential is missing or not valid."));
        common.push((403, "`persona.unknown`: the persona does not exist or the caller may not use it."));
        common.push((
            429,
            "`auth.too-many-attempts`: too many invalid credentials were sent from this address.",
        ));
        common.push((503, "`auth.unavailable`: credentials cannot be checked at the moment."));
    }
    if has_body {
        common.push((408, "`request.too-slow`: the body arrived too slowly."));
        common.push((413, "`request.too-large`: the body is too large."));
    }
    if operation.pointer("/requestBody/content/application~1json").is_some() {
        common.push((415, "`request.not-json`: Content-Type is not `application/json`."));
    }
    let responses = &mut operation["responses"];
    for (status, description) in common {
        match responses.get_mut(status.to_string()) {
            None => responses[status.to_string()] = json!({ "description": description }),
            Some(existing) => {
                let own = existing["description"].as_str().unwrap_or_default();
                existing["description"] = format!("{own} {description}").trim().into();
            }
        }
    }
    let Some(responses) = responses.as_object_mut() else { return };
    for (_, response) in responses.iter_mut().filter(|(status, _)| status.starts_with(['4', '5'])) {
        if response.get("content").is_none() {
            let schema = json!({ "$ref": "#/components/schemas/Problem" });
            response["content"][CONTENT_TYPE]["schema"] = schema;
        }
    }
    responses.sort_keys();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_in_the_document_and_nothing_else_is() {
        let tables = super::super::ENDPOINTS;
        let document = assemble(tables);
        let mut known = 0;
        for endpoint in tables.iter().flat_map(|(_, endpoints)| *endpoints) {
            for method in (endpoint.methods)() {
                let method = serde_json::to_value(&method).unwrap_or_default();
                let method = method.as_str().unwrap_or_default().to_lowercase();
                let path = (endpoint.path)().replace("{*", "{");
                let operation = &document["paths"][&path][&method];
                assert_eq!(operation["operationId"], endpoint.id, "{method} {path}");
                assert!(operation["summary"].is_string(), "{} has a summary", endpoint.id);
                known += 1;
            }
        }
        let items = document["paths"].as_object().expect("paths").values();
        assert_eq!(items.map(|item| item.as_object().map_or(0, Map::len)).sum::<usize>(), known);
        // Two types with the same schema name would describe each other's responses.
        let mut schemas = Map::new();
        for endpoint in tables.iter().flat_map(|(_, endpoints)| *endpoints) {
            let described = serde_json::to_value((endpoint.openapi)()).unwrap_or_default();
            let components = described.pointer("/components/schemas").and_then(Value::as_object);
            for (name, schema) in components.into_iter().flatten() {
                let earlier = schemas.entry(name.clone()).or_insert_with(|| schema.clone());
                assert_eq!(earlier, schema, "two types have the schema name {name}");
            }
        }
        // A route that is added by hand would be missing from the document.
        assert!(!include_str!("mod.rs").contains(".route("));
    }
}
