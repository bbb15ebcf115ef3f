//! The guide's pages about clients, generated from the table.

use super::rewire::sample;
use super::spec::{ClientSpec, GATEWAY_NAME, GatewayEntry, ServerLayout, VariableForm};
use super::table::CLIENTS;
use crate::parse::Syntax;

const GENERATED: &str = "<!-- Generated from crates/config/src/clients/table.rs; do not edit. -->\n";

/// The page about one client.
pub fn client_page(spec: &ClientSpec) -> String {
    let ClientSpec { name, title, syntax, section, .. } = spec;
    let mut page = format!("{GENERATED}# {title}\n\n");
    page.push_str(&format!(
        "`toolbooth up --client {name}` imports the servers of {title}, connects {title} to the gateway and replaces its \
         old entries. `toolbooth connect {name}` only adds the gateway. Both can be undone with `--undo`.\n\n"
    ));
    page.push_str("## Files\n\n");
    let mut places: Vec<String> = spec.files.iter().map(|place| place.shown()).collect();
    places.dedup();
    for place in places {
        page.push_str(&format!("- `{place}`\n"));
    }
    for path in spec.project_files {
        page.push_str(&format!(
            "- `{path}` in a project: read by `toolbooth config import {name}` in that folder, never changed\n"
        ));
    }
    let servers = match spec.layout {
        ServerLayout::Map => format!("a map under `{section}`"),
        ServerLayout::NamedList => format!("a list under `{section}`"),
    };
    let (kind, fence) = match syntax {
        Syntax::Json => ("JSON, with comments and trailing commas", "json"),
        Syntax::Toml => ("TOML", "toml"),
        Syntax::Yaml => ("YAML", "yaml"),
    };
    page.push_str(&format!("\nThe format is {kind}; the servers are {servers}.\n"));
    let variables = match spec.variables {
        VariableForm::Literal => "Variables are not expanded in this file.",
        VariableForm::Braces => "Variables are written as `${NAME}` or `${env:NAME}`.",
        VariableForm::Dollar => "Variables are written as `$NAME` or `${NAME}`.",
        VariableForm::CurlyEnv => "Variables are written as `{env:NAME}`.",
        VariableForm::Secrets => "Variables are written as `${{ secrets.NAME }}`.",
    };
    page.push_str(&format!("{variables}\n"));
    page.push_str("\n## Entry of the gateway\n\n");
    let stdio =
        GatewayEntry::Stdio { command: "/usr/local/bin/toolbooth".into(), args: vec!["stdio".into()] };
    let http = GatewayEntry::Http { url: "http://127.0.0.1:8665/mcp".into() };
    page.push_str(&format!("```{fence}\n{}```\n", sample(spec.id, &stdio)));
    match spec.entry(GATEWAY_NAME, &http) {
        Some(_) => page.push_str(&format!(
            "\nWith `toolbooth connect {name} --url URL`:\n\n```{fence}\n{}```\n",
            sample(spec.id, &http)
        )),
        None => page.push_str("\nThe file does not support URLs.\n"),
    }
    page.push_str(&format!("\n## After a change\n\n{}\n", spec.apply));
    if !spec.note.is_empty() {
        page.push_str(&format!("\n{}\n", spec.note));
    }
    page
}

/// The index of the pages.
pub fn clients_index() -> String {
    let mut page = format!(
        "{GENERATED}# Clients\n\n`toolbooth up` finds these clients. `toolbooth connect NAME` connects one of them.\n\n\
         | client | name | file | page |\n|---|---|---|---|\n"
    );
    for spec in &CLIENTS {
        let file = spec.files.iter().map(|place| place.shown()).find(|file| file.starts_with('~'));
        page.push_str(&format!(
            "| {} | `{}` | `{}` | [{}.md]({}.md) |\n",
            spec.title,
            spec.name,
            file.unwrap_or_default(),
            spec.name,
            spec.name
        ));
    }
    page
}
