//! Entries for packages: the command that downloads and runs a package.

use super::RegistryInputs;
use super::inputs::{InputFallback, InputReader, MAX_INPUTS, is_variable_name};
use serde_json::{Map, Value as Json, json};

/// The kinds of packages: the registry, the programs that can run it, and the addresses of that registry.
const KINDS: [(&str, &[&str], &[&str]); 4] = [
    ("npm", &["npx", "bunx"], &["https://registry.npmjs.org"]),
    ("pypi", &["uvx"], &["https://pypi.org"]),
    ("oci", &["docker", "podman"], &[]),
    ("nuget", &["dnx"], &["https://api.nuget.org", "https://api.nuget.org/v3/index.json"]),
];

/// Makes an entry for the first package that can be used. Adds the reasons for the others.
pub(super) fn choose(
    packages: &[Json],
    inputs: &RegistryInputs<'_>,
    reader: &mut InputReader<'_>,
    reasons: &mut Vec<String>,
) -> Option<Map<String, Json>> {
    for package in packages {
        match runner(package, inputs) {
            Ok(program) => return Some(entry(package, program, reader)),
            Err(reason) => reasons.push(reason),
        }
    }
    None
}

/// The program that runs a package, or the reason why it cannot be used.
fn runner(package: &Json, inputs: &RegistryInputs<'_>) -> Result<&'static str, String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let (kind, identifier) = (text("registryType"), text("identifier"));
    let named = format!("the package `{identifier}`");
    let Some((_, programs, addresses)) = KINDS.iter().find(|(known, ..)| *known == kind) else {
        return Err(format!("{named} is of the kind `{kind}`, which is not supported"));
    };
    if !is_identifier(kind, identifier) || !is_version(text("version")) {
        return Err(format!("{named} has a name or version that is not valid"));
    }
    let base = text("registryBaseUrl").trim_end_matches('/');
    if !base.is_empty() && !addresses.is_empty() && !addresses.contains(&base) {
        return Err(format!("{named} is in another package registry ({base})"));
    }
    let transport = package["transport"]["type"].as_str().unwrap_or("stdio");
    if transport != "stdio" {
        return Err(format!("{named} is reached by `{transport}` instead of standard input and output"));
    }
    let hinted = programs.iter().find(|program| **program == text("runtimeHint"));
    let found = hinted.into_iter().chain(programs.iter()).find(|program| (inputs.is_installed)(program));
    found.copied().ok_or_else(|| format!("{named} needs `{}`, which is not installed", programs[0]))
}

/// A package name that no program takes for an option, a path, or an address outside the registry: npm and uv also accept
/// URLs, archives and repositories.
fn is_identifier(kind: &str, text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "@/._-:+".contains(c);
    let is_short = (1..=300).contains(&text.len());
    let is_plain =
        is_short && text.chars().all(allowed) && !text.starts_with(['-', '.', '/']) && !text.contains("..");
    let name = match (kind, text.strip_prefix('@').and_then(|rest| rest.split_once('/'))) {
        // An image, whose registry is part of its name.
        ("oci", _) => return is_plain,
        ("npm", Some((scope, name))) if !scope.is_empty() && !scope.contains(['@', ':', '+']) => name,
        _ => text,
    };
    is_plain && !name.is_empty() && !name.contains(['@', '/', ':', '+'])
}

fn is_version(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    text.len() <= 100 && text.chars().all(allowed) && !text.starts_with('-')
}

fn entry(package: &Json, program: &'static str, reader: &mut InputReader<'_>) -> Map<String, Json> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let (identifier, version) = (text("identifier"), text("version"));
    let environment = environment(package, reader);
    let mut words: Vec<String> = Vec::new();
    let given = arguments(&package["runtimeArguments"], reader);
    match program {
        "npx" => words.push("-y".into()),
        "docker" | "podman" => {
            words.extend(["run", "-i", "--rm"].map(str::to_owned));
            for name in environment.keys() {
                words.extend(["-e".to_owned(), name.clone()]);
            }
        }
        _ => {}
    }
    // Programs accept a flag twice, but `run` of a container program is a command.
    let fixed = ["-y", "--yes", "run", "-i", "--rm", "--interactive"];
    words.extend(given.into_iter().filter(|word| !fixed.contains(&word.as_str())));
    words.push(match program {
        "docker" | "podman" => image(identifier, version),
        _ if version.is_empty() => identifier.to_owned(),
        _ => format!("{identifier}@{version}"),
    });
    if program == "dnx" {
        words.extend(["--yes", "--"].map(str::to_owned));
    }
    words.extend(arguments(&package["packageArguments"], reader));
    let mut entry = Map::new();
    entry.insert("command".into(), json!(program));
    entry.insert("args".into(), json!(words));
    if !environment.is_empty() {
        entry.insert("env".into(), Json::Object(environment));
    }
    entry
}

/// The name of an image with its version, unless it has a tag or a digest already.
fn image(identifier: &str, version: &str) -> String {
    let last = identifier.rsplit('/').next().unwrap_or(identifier);
    match version.is_empty() || last.contains([':', '@']) {
        true => identifier.to_owned(),
        false => format!("{identifier}:{version}"),
    }
}

fn arguments(list: &Json, reader: &mut InputReader<'_>) -> Vec<String> {
    let mut words = Vec::new();
    for argument in list.as_array().into_iter().flatten().take(MAX_INPUTS) {
        let named = argument["name"].as_str().filter(|_| argument["type"] == "named");
        let label = named.or_else(|| argument["valueHint"].as_str()).unwrap_or("argument");
        let label = label.trim_start_matches('-').to_owned();
        let has_value =
            ["value", "default", "isRequired", "format"].iter().any(|key| !argument[*key].is_null());
        match (named, reader.value(argument, &label, InputFallback::Missing)) {
            (Some(flag), Some(value)) => words.extend([super::inputs::literal(flag), value]),
            // A flag without a value, such as `--verbose`.
            (Some(flag), None) if !has_value => words.push(super::inputs::literal(flag)),
            (None, Some(value)) => words.push(value),
            _ => {}
        }
    }
    words
}

fn environment(package: &Json, reader: &mut InputReader<'_>) -> Map<String, Json> {
    let mut environment = Map::new();
    for variable in package["environmentVariables"].as_array().into_iter().flatten().take(MAX_INPUTS) {
        let Some(name) = variable["name"].as_str().filter(|name| is_variable_name(name)) else { continue };
        if let Some(value) = reader.value(variable, name, InputFallback::Variable(name)) {
            environment.insert(name.to_owned(), Json::from(value));
        }
    }
    environment
}
