use super::*;
use serde_json::json;

fn made(
    description: &Json,
    choice: RegistryChoice,
    values: &[(&str, &str)],
) -> Result<RegistryEntry, RegistryError> {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let server = RegistryServer::read(description.to_string().as_bytes()).expect("a description");
    let is_installed = |program: &str| program != "dnx";
    server.entry(&RegistryInputs { server: "weather", values: &values, choice, is_installed: &is_installed })
}

fn described(packages: Json, remotes: Json) -> Json {
    json!({ "server": {
        "name": "io.github.ann/weather", "description": "Costs $5", "version": "1.2.0",
        "packages": packages, "remotes": remotes,
    } })
}

#[test]
fn packages_become_commands() {
    let package = |kind: &str, identifier: &str| {
        json!([{ "registryType": kind, "identifier": identifier, "version": "1.2.0",
            "transport": { "type": "stdio" },
            "packageArguments": [
                { "type": "named", "name": "--units", "default": "metric" },
                { "type": "positional", "valueHint": "city", "isRequired": true },
                { "type": "positional", "valueHint": "street" },
            ],
            "environmentVariables": [
                { "name": "WEATHER_KEY", "isRequired": true, "isSecret": true, "description": "The key." },
                { "name": "WEATHER_HOST", "value": "${HOME}" },
                { "name": "LD PRELOAD", "value": "x" },
                { "name": "WEATHER_LANG" },
            ] }])
    };
    let cases = [
        ("npm", "@ann/weather", "npx", "-y @ann/weather@1.2.0 --units metric Ulm"),
        ("pypi", "weather", "uvx", "weather@1.2.0 --units metric Ulm"),
        (
            "oci",
            "ghcr.io/ann/weather",
            "docker",
            "run -i --rm -e WEATHER_KEY -e WEATHER_HOST ghcr.io/ann/weather:1.2.0 --units metric Ulm",
        ),
    ];
    for (kind, identifier, program, words) in cases {
        let made =
            made(&described(package(kind, identifier), json!([])), RegistryChoice::Any, &[("city", "Ulm")]);
        let made = made.expect("an entry");
        let args: Vec<&str> =
            made.entry["args"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        assert_eq!((made.entry["command"].as_str(), args.join(" ").as_str()), (Some(program), words));
        assert_eq!(
            made.entry["env"],
            json!({ "WEATHER_KEY": "${WEATHER_KEY}", "WEATHER_HOST": "$${HOME}" }),
            "no value refers to a variable that the description did not declare"
        );
        assert_eq!(made.entry["description"], "Costs $$5");
        let needed = NeededVariable { name: "WEATHER_KEY".into(), about: "The key.".into() };
        assert_eq!(made.variables, [needed]);
    }
    let missing = made(&described(package("npm", "w"), json!([])), RegistryChoice::Any, &[]);
    assert_eq!(missing.expect_err("a value is missing").code(), "registry.missing-input");
}

#[test]
fn unusable_packages_are_refused_with_a_reason() {
    let cases = [
        (json!({ "registryType": "npm", "identifier": "--registry=http://evil" }), "is not valid"),
        (json!({ "registryType": "npm", "identifier": "../evil" }), "is not valid"),
        (json!({ "registryType": "npm", "identifier": "a", "version": "1 --x" }), "is not valid"),
        (json!({ "registryType": "npm", "identifier": "https://evil.example/x.tgz" }), "is not valid"),
        (json!({ "registryType": "npm", "identifier": "evil/repository" }), "is not valid"),
        (json!({ "registryType": "npm", "identifier": "github:evil/x" }), "is not valid"),
        (json!({ "registryType": "npm", "identifier": "@evil/x@npm:y" }), "is not valid"),
        (json!({ "registryType": "pypi", "identifier": "git+https://evil.example/x" }), "is not valid"),
        (json!({ "registryType": "pypi", "identifier": "@evil/x" }), "is not valid"),
        (json!({ "registryType": "mcpb", "identifier": "https://x/y.mcpb" }), "not supported"),
        (json!({ "registryType": "nuget", "identifier": "A.B" }), "needs `dnx`"),
        (
            json!({ "registryType": "npm", "identifier": "a", "registryBaseUrl": "https://npm.evil" }),
            "another",
        ),
        (
            json!({ "registryType": "npm", "identifier": "a",
                "transport": { "type": "streamable-http", "url": "http://localhost:1" } }),
            "streamable-http",
        ),
    ];
    for (package, part) in cases {
        let error =
            made(&described(json!([package]), json!([])), RegistryChoice::Any, &[]).expect_err("refused");
        assert_eq!(error.code(), "registry.no-way");
        assert!(error.to_string().contains(part), "{error}");
    }
    let program = json!([{ "registryType": "npm", "identifier": "a", "runtimeHint": "rm" }]);
    let made = made(&described(program, json!([])), RegistryChoice::Any, &[]).expect("an entry");
    assert_eq!(made.entry["command"], "npx", "only known programs are run");
}

#[test]
fn remote_servers_become_urls() {
    let remotes = json!([
        { "type": "sse", "url": "https://weather.example/sse" },
        { "type": "streamable-http", "url": "https://weather.example/{tenant}/mcp",
          "variables": { "tenant": { "isRequired": true } },
          "headers": [
            { "name": "Authorization", "value": "Bearer {key}", "isSecret": true,
              "variables": { "key": { "isRequired": true, "isSecret": true } } },
            { "name": "X-Plan", "isRequired": true },
            { "name": "Bad Name", "value": "x" } ] },
    ]);
    let made_entry = made(&described(json!([]), remotes), RegistryChoice::Any, &[("tenant", "acme")]);
    let made_entry = made_entry.expect("an entry");
    assert_eq!(made_entry.entry["url"], "https://weather.example/acme/mcp");
    assert_eq!(
        made_entry.entry["headers"],
        json!({ "Authorization": "Bearer ${WEATHER_KEY}", "X-Plan": "${WEATHER_X_PLAN}" })
    );
    for url in
        ["http://weather.example/mcp", "https://{host}/mcp", "https://a@b/mcp", "https:///mcp", "file:///x"]
    {
        let remotes = json!([{ "type": "streamable-http", "url": url }]);
        let error = made(&described(json!([]), remotes), RegistryChoice::Any, &[]).expect_err(url);
        assert_eq!(error.code(), "registry.no-way", "{url}");
    }
}

#[test]
fn deleted_servers_and_other_texts_are_refused() {
    let mut deleted =
        described(json!([]), json!([{ "type": "streamable-http", "url": "https://a.example/mcp" }]));
    deleted["_meta"] = json!({ OFFICIAL: { "status": "deleted" } });
    let error = made(&deleted, RegistryChoice::Any, &[]).expect_err("refused");
    assert_eq!(error.code(), "registry.deleted");
    for text in ["", "[]", "{}", r#"{"server": {"name": 3}}"#, "<html>"] {
        assert!(RegistryServer::read(text.as_bytes()).is_err(), "{text}");
    }
    let named = RegistryServer::read(br#"{"name": "com.example/.My Server."}"#).expect("a description");
    assert_eq!(named.short_name(), "My-Server");
}
