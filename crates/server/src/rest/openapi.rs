//! The OpenAPI document: put together from the endpoints when somebody first asks, then kept as bytes.
//!
//! What an endpoint's attribute says is its own; what holds for all of them is added here: the way to say
//! who calls, the refusals of the door, and that a refusal is a problem document.

use super::asked::Nothing;
use super::endpoint::{Access, Endpoint};
use super::problem::{CONTENT_TYPE, ProblemView};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;
use utoipa::PartialSchema;

/// What a reader of the document is told first.
const ABOUT: &str = "\
Tools of many MCP servers behind one address, for programs that speak no MCP. (The MCP endpoint is `/mcp`.)

Every refusal is a problem document (RFC 9457) with a `code` that does not change; `toolbooth explain CODE` \
tells more of it. A gateway on one's own machine needs no credential; others take a bearer token. Every request \
may say `X-Toolbooth-Persona: NAME` to look through a persona, and `Toolbooth-Session: NAME` for the conversation \
it belongs to. What a caller may not use looks as if it did not exist.";

/// Reads the OpenAPI document of this gateway.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "This document.", body = Object)))]
pub async fn document(_: Nothing) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text()).into_response()
}

/// The document, which is the same as long as the gateway runs.
fn text() -> Bytes {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let whole = || assemble(super::ENDPOINTS);
    DOCUMENT.get_or_init(|| whole().to_string().into()).clone()
}

/// The document of these endpoints.
pub fn assemble(tables: &[(Access, &[Endpoint])]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut nouns: Vec<&str> = Vec::new();
    for (access, endpoints) in tables {
        for endpoint in *endpoints {
            let mut told = serde_json::to_value((endpoint.tells)()).unwrap_or_default();
            if let Some(Value::Object(more)) = told.pointer_mut("/components/schemas").map(Value::take) {
                schemas.extend(more);
            }
            if !nouns.contains(&endpoint.noun) {
                nouns.push(endpoint.noun);
            }
            let Some(Value::Object(items)) = told.get_mut("paths").map(Value::take) else { continue };
            for (path, item) in items {
                let Value::Object(operations) = item else { continue };
                // A path that takes all the rest is written like any other.
                let place = paths.entry(path.replace("{*", "{")).or_insert_with(|| json!({}));
                for (method, mut operation) in operations {
                    relax(&mut operation, &schemas);
                    dress(&mut operation, endpoint, *access);
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
                    "description": "A token of the gateway's own, or one of an issuer that it trusts.",
                },
            },
        },
    })
}

/// A body of which nothing is required may be left out: no body is read as an empty one.
fn relax(operation: &mut Value, schemas: &Map<String, Value>) {
    let schema = operation.pointer("/requestBody/content/application~1json/schema/$ref");
    let name = schema.and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
    let Some(schema) = name.and_then(|name| schemas.get(name)) else { return };
    if schema.get("required").is_none() {
        operation["requestBody"]["required"] = false.into();
    }
}

/// Adds to an operation what holds for every operation of its kind.
fn dress(operation: &mut Value, endpoint: &Endpoint, access: Access) {
    operation["operationId"] = endpoint.id.into();
    operation["tags"] = json!([endpoint.noun]);
    let has_body = operation.get("requestBody").is_some();
    // A gateway in local mode asks for nothing, so nothing is one of the ways.
    operation["security"] = match access {
        Access::Anybody => json!([]),
        Access::Caller | Access::Administrator => json!([{}, { "token": [] }]),
    };
    operation["x-toolbooth-access"] = access.word().into();
    let mut common = vec![
        (400, "The request is wrong: `request.bad-path`, `request.bad-query`, `request.bad-body`."),
        (500, "The gateway is at fault; its log tells more."),
    ];
    if access != Access::Anybody {
        common.push((401, "`auth.required` or `auth.refused`: who calls is not known."));
        common.push((403, "`persona.unknown`: no such persona for this caller."));
        common.push((429, "`auth.too-many-attempts`: too many bad credentials came from this address."));
        common.push((503, "`auth.unavailable`: who calls cannot be found out at the moment."));
    }
    if has_body {
        common.push((408, "`request.too-slow`: the body came too slowly."));
        common.push((413, "`request.too-large`: the body is longer than a request may be."));
    }
    if operation.pointer("/requestBody/content/application~1json").is_some() {
        common.push((415, "`request.not-json`: the body is not said to be JSON."));
    }
    let responses = &mut operation["responses"];
    for (status, description) in common {
        match responses.get_mut(status.to_string()) {
            None => responses[status.to_string()] = json!({ "description": description }),
            Some(told) => {
                let own = told["description"].as_str().unwrap_or_default();
                told["description"] = format!("{own} {description}").trim().into();
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
                assert!(operation["summary"].is_string(), "{} says what it does", endpoint.id);
                known += 1;
            }
        }
        let items = document["paths"].as_object().expect("paths").values();
        assert_eq!(items.map(|item| item.as_object().map_or(0, Map::len)).sum::<usize>(), known);
        // Two types of one name would describe each other's answers.
        let mut schemas = Map::new();
        for endpoint in tables.iter().flat_map(|(_, endpoints)| *endpoints) {
            let told = serde_json::to_value((endpoint.tells)()).unwrap_or_default();
            let components = told.pointer("/components/schemas").and_then(Value::as_object);
            for (name, schema) in components.into_iter().flatten() {
                let earlier = schemas.entry(name.clone()).or_insert_with(|| schema.clone());
                assert_eq!(earlier, schema, "two types are called {name}");
            }
        }
        // A route that is added by hand would be in no document.
        assert!(!include_str!("mod.rs").contains(".route("));
    }
}
