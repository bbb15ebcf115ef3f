use super::*;
use crate::expand::references;
use expect_test::expect;
use serde_json::json;

fn options() -> OpenApiOptions {
    OpenApiOptions { name: "pets".into(), ..OpenApiOptions::default() }
}

fn document(paths: Json) -> Json {
    json!({ "openapi": "3.0.3", "info": { "title": "Pets", "version": "1" },
        "servers": [{ "url": "https://{region}.pets.example/v1/", "variables": { "region": { "default": "eu" } } }],
        "paths": paths,
        "components": { "schemas": {
            "Pet": { "type": "object", "required": ["id", "name"], "properties": {
                "id": { "type": "integer", "readOnly": true },
                "name": { "type": "string", "nullable": true, "example": "Rex" },
                "parent": { "$ref": "#/components/schemas/Pet" } } } },
          "securitySchemes": {
            "token": { "type": "http", "scheme": "bearer" },
            "key": { "type": "apiKey", "in": "query", "name": "api_key" },
            "cookie": { "type": "apiKey", "in": "cookie", "name": "session" } } } })
}

fn only(paths: Json) -> Json {
    let tools = read(&document(paths), &options()).expect("tools");
    assert_eq!(tools.entries.len(), 1);
    tools.entries[0].clone()
}

#[test]
fn an_operation_becomes_a_tool_with_a_request() {
    let entry = only(json!({ "/pets/{petId}/toys": {
        "parameters": [{ "name": "petId", "in": "path", "required": true, "schema": { "type": "string" } }],
        "get": { "operationId": "listToys", "summary": "Lists toys.", "parameters": [
            { "name": "limit", "in": "query", "description": "How many.",
              "schema": { "type": "integer", "minimum": 0, "exclusiveMinimum": true } },
            { "name": "X-Trace", "in": "header" } ] } } }));
    expect![[r#"
        {
          "name": "pets_listToys",
          "description": "Lists toys.",
          "side_effects": "read_external_service",
          "parameters": {
            "type": "object",
            "properties": {
              "limit": {
                "type": "integer",
                "exclusiveMinimum": 0,
                "description": "How many."
              },
              "petId": {
                "type": "string"
              }
            },
            "required": [
              "petId"
            ],
            "additionalProperties": false
          },
          "providers": [
            {
              "name": "http",
              "config": {
                "method": "GET",
                "url": "https://eu.pets.example/v1/pets/{petId}/toys"
              }
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&entry).expect("JSON"));
}

#[test]
fn bodies_become_arguments() {
    let post = |body: Json, parameters: Json| {
        let entry = only(json!({ "/pets": { "post": { "requestBody": body, "parameters": parameters } } }));
        (entry["parameters"].clone(), entry["providers"][0]["config"].clone())
    };
    let pet = json!({ "$ref": "#/components/schemas/Pet" });
    let of =
        |schema: &Json| json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    // A plain object: its properties are arguments, and a schema that contains itself ends.
    let (schema, config) = post(of(&pet), json!([]));
    assert_eq!(schema["properties"]["name"], json!({ "type": ["string", "null"] }));
    assert_eq!(schema["properties"]["id"], Json::Null, "only answers contain it");
    assert_eq!(schema["properties"]["parent"], json!({}));
    assert_eq!(schema["required"], json!(["name"]));
    assert_eq!(config, json!({ "method": "POST", "url": "https://eu.pets.example/v1/pets" }));
    // Names that collide, and values other than objects: one argument is the body.
    let query = json!([{ "name": "name", "in": "query" }, { "name": "body", "in": "query" }]);
    let (schema, config) = post(of(&pet), query);
    assert_eq!(schema["required"], json!(["body_2"]));
    assert_eq!(config["body"], "{body_2}");
    assert_eq!(config["query"], json!({ "name": "{name}", "body": "{body}" }));
    let (schema, config) = post(of(&json!({ "type": "array", "items": pet })), json!([]));
    assert_eq!((&schema["properties"]["body"]["type"], &config["body"]), (&json!("array"), &json!("{body}")));
    let text = json!({ "required": true, "content": { "text/plain; charset=utf-8": {} } });
    let (_, config) = post(text, json!([]));
    assert_eq!(config["headers"], json!({ "Content-Type": "text/plain" }));
}

#[test]
fn a_media_type_cannot_refer_to_a_variable() {
    let long = format!("text/{}", "x".repeat(100));
    for kind in ["text/${HOME}", "text/{body}", "text/a b", "text/a\r\nX-Other: b", long.as_str()] {
        let body = json!({ "required": true, "content": { kind: {} } });
        let made = read(&document(json!({ "/pets": { "post": { "requestBody": body } } })), &options());
        assert!(matches!(made, Err(OpenApiError::Nothing(_))), "{kind}: {made:?}");
    }
    let body = json!({ "required": true, "content": { "text/${HOME}": {}, "text/vnd.a-b_c+d": {} } });
    let entry = only(json!({ "/pets": { "post": { "requestBody": body } } }));
    assert_eq!(entry["providers"][0]["config"]["headers"], json!({ "Content-Type": "text/vnd.a-b_c+d" }));
}

#[test]
fn parameters_that_are_not_plain_names_are_renamed() {
    let entry = only(json!({ "/find": { "get": { "parameters": [
        { "name": "filter[name]", "in": "query", "schema": { "type": "string" } },
        { "name": "tags", "in": "query", "schema": { "type": "array", "items": { "type": "string" } } } ] } } }));
    assert_eq!(entry["name"], "pets_get_find");
    let config = &entry["providers"][0]["config"];
    assert_eq!(config["query"], json!({ "filter[name]": "{filter_name}", "tags": "{tags}" }));
    assert_eq!(entry["parameters"]["properties"]["tags"]["type"], "string");
    let plain = only(json!({ "/find": { "get": { "parameters": [
        { "name": "tags", "in": "query", "schema": { "type": "array", "items": { "type": "string" } } } ] } } }));
    assert_eq!(plain["providers"][0]["config"]["query"], Json::Null, "lists are repeated values");
    assert_eq!(plain["parameters"]["properties"]["tags"]["type"], "array");
}

#[test]
fn credentials_become_variables() {
    let secured =
        |security: Json| read(&document(json!({ "/a": { "get": { "security": security } } })), &options());
    let tools = secured(json!([{ "token": [] }])).expect("tools");
    let config = &tools.entries[0]["providers"][0]["config"];
    assert_eq!(config["headers"], json!({ "Authorization": "Bearer ${PETS_TOKEN}" }));
    assert_eq!(tools.variables[0].name, "PETS_TOKEN");
    let tools = secured(json!([{ "cookie": [] }, { "key": [] }])).expect("tools");
    assert_eq!(
        tools.entries[0]["providers"][0]["config"]["url"],
        "https://eu.pets.example/v1/a?api_key=${PETS_KEY}"
    );
    assert!(secured(json!([{}])).expect("tools").variables.is_empty());
    let refused = secured(json!([{ "cookie": [] }])).expect_err("not supported");
    assert!(refused.to_string().contains("`cookie` (apiKey) is not supported"), "{refused}");
    let own = OpenApiOptions { headers: vec![("X-Key".into(), "${MINE}".into())], ..options() };
    let tools =
        read(&document(json!({ "/a": { "get": { "security": [{ "token": [] }] } } })), &own).expect("tools");
    assert_eq!(tools.entries[0]["providers"][0]["config"]["headers"], json!({ "X-Key": "${MINE}" }));
}

#[test]
fn each_of_several_api_keys_has_its_own_variable() {
    let mut document =
        document(json!({ "/a": { "get": { "security": [{ "app-id": [], "app-key": [] }] } } }));
    document["components"]["securitySchemes"] = json!({
        "app-id": { "type": "apiKey", "in": "header", "name": "X-App-Id" },
        "app-key": { "type": "apiKey", "in": "header", "name": "X-App-Key" },
    });
    let tools = read(&document, &options()).expect("tools");
    assert_eq!(
        tools.entries[0]["providers"][0]["config"]["headers"],
        json!({ "X-App-Id": "${PETS_APP_ID_KEY}", "X-App-Key": "${PETS_APP_KEY_KEY}" })
    );
}

/// A document must not read variables of the environment or choose another host.
#[test]
fn texts_of_the_document_are_not_templates() {
    let tools = read(
        &document(json!({
            "/x/${HOME}/$metadata": { "get": { "description": "${HOME}\u{202e}" } },
            "/../admin": { "get": {} },
            "/a?x=1": { "get": {} },
            "/a/{b}": { "get": {} },
            "@evil.example/": { "get": {} },
        })),
        &options(),
    );
    let refused = tools.expect_err("none of them is valid");
    assert!(refused.to_string().contains("GET /x/${HOME}/$metadata: its path"), "{refused}");
    let entry = only(json!({ "/$metadata": { "get": { "description": "${HOME}\u{202e}" } } }));
    let url = entry["providers"][0]["config"]["url"].as_str().expect("a URL");
    assert_eq!(url, "https://eu.pets.example/v1/%24metadata");
    assert!(references(url).is_empty());
    assert_eq!(entry["description"], "${HOME}\\u{202e}", "descriptions are not expanded");
}

/// A document from elsewhere must not send requests to this machine or its network.
#[test]
fn a_document_does_not_choose_a_local_service() {
    let base_url = |url: &str, changes: OpenApiOptions| {
        let mut document = document(json!({ "/pets": { "get": {} } }));
        document["servers"] = json!([{ "url": url }]);
        read(&document, &changes).map(|tools| tools.base_url)
    };
    for host in [
        "localhost:8080",
        "LOCALHOST.",
        "a.localhost",
        "127.0.0.1",
        "2130706433",
        "0.0.0.0",
        "10.0.0.5",
        "100.64.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[fd00::1]",
        "[fe80::1]",
        "[::ffff:10.0.0.5]",
    ] {
        let url = format!("http://{host}/v1");
        let made = base_url(&url, options());
        assert!(matches!(made, Err(OpenApiError::LocalServer(_))), "{url}: {made:?}");
        let elsewhere = Some("https://pets.example/openapi.json".to_owned());
        let made = base_url(&url, OpenApiOptions { document_url: elsewhere, ..options() });
        assert!(matches!(made, Err(OpenApiError::LocalServer(_))), "{url}: {made:?}");
        let made = base_url(&url, OpenApiOptions { base_url: Some(url.clone()), ..options() });
        assert!(made.is_ok(), "{url}: {made:?}");
        let beside = Some(format!("http://{host}/openapi.json"));
        let made = base_url("/v1", OpenApiOptions { document_url: beside, ..options() });
        assert!(made.is_ok(), "{url}: {made:?}");
    }
    for url in ["https://8.8.8.8/v1", "https://[2606:4700::1]/v1", "https://localhost.example/v1"] {
        assert_eq!(base_url(url, options()).as_deref(), Ok(url));
    }
}

#[test]
fn names_are_unique_and_short() {
    let long = "x".repeat(100);
    let tools = read(
        &document(json!({ "/a": { "get": { "operationId": long }, "put": { "operationId": long } },
            "/b": { "get": { "operationId": "Überblick über alles" }, "post": { "operationId": "…" } } })),
        &options(),
    );
    let tools = tools.expect("tools");
    let names: Vec<&str> = tools.entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
    let short = format!("pets_{}", "x".repeat(55));
    let second = format!("pets_{}_2", "x".repeat(50));
    assert_eq!(names, [short.as_str(), &second, "pets_berblick_ber_alles", "pets_post_b"]);
}

#[test]
fn operations_can_be_chosen() {
    let paths = json!({ "/pets": { "get": { "operationId": "listPets", "tags": ["read"] }, "post": {} },
        "/toys": { "get": { "operationId": "listToys" } } });
    let count = |include: &[&str]| {
        let include = include.iter().map(|glob| (*glob).to_owned()).collect();
        read(&document(paths.clone()), &OpenApiOptions { include, ..options() })
            .map(|tools| tools.entries.len())
    };
    assert_eq!(count(&[]), Ok(3));
    assert_eq!(count(&["read"]), Ok(1));
    assert_eq!(count(&["list*"]), Ok(2));
    assert_eq!(count(&["POST /pets", "/toys"]), Ok(2));
    assert_eq!(count(&["[a"]), Err(OpenApiError::BadPattern("[a".into())));
}

#[test]
fn other_documents_are_refused() {
    let cases = [
        ("[]", "openapi.not-supported"),
        ("swagger: '2.0'", "openapi.not-supported"),
        ("openapi: 4.0.0", "openapi.not-supported"),
        ("openapi: 3.1.0\npaths: {}", "openapi.no-server"),
        ("openapi: 3.1.0\nservers: [{url: 'ftp://x/'}]", "openapi.no-server"),
        ("openapi: 3.1.0\nservers: [{url: 'https://{host}/'}]", "openapi.no-server"),
        ("openapi: 3.1.0\nservers: [{url: 'https://a.example'}]\npaths: {}", "openapi.nothing"),
        ("{", "openapi.unreadable"),
    ];
    for (text, code) in cases {
        let refused = parse(Path::new("api.yaml"), text.as_bytes())
            .and_then(|document| read(&document, &options()))
            .expect_err(text);
        assert_eq!(refused.code(), code, "{text}: {refused}");
    }
    let relative =
        json!({ "openapi": "3.1.0", "servers": [{ "url": "../v2" }], "paths": { "/a": { "get": {} } } });
    let from = OpenApiOptions { document_url: Some("https://a.example/docs/x/api.json".into()), ..options() };
    assert_eq!(read(&relative, &from).expect("tools").base_url, "https://a.example/docs/v2");
}

/// A small document can describe a very large schema.
#[test]
fn schemas_have_limits() {
    let mut schemas = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({ "$ref": format!("#/components/schemas/L{}", level + 1) });
        let wide = json!({ "type": "object", "properties": { "a": next, "b": next, "c": next } });
        schemas.insert(format!("L{level}"), wide);
    }
    let mut bomb = document(json!({ "/a": { "post": { "requestBody": { "required": true, "content": {
        "application/json": { "schema": { "$ref": "#/components/schemas/L0" } } } } } } }));
    bomb["components"]["schemas"] = Json::Object(schemas);
    match read(&bomb, &options()) {
        Ok(tools) => assert!(tools.entries[0].to_string().len() < 100_000),
        Err(error) => assert_eq!(error.code(), "openapi.nothing"),
    }
    let circle = json!({ "/a": { "get": { "parameters": [{ "$ref": "#/paths/~1a/get/parameters/0" }] } } });
    assert!(read(&document(circle), &options()).is_err());
}
