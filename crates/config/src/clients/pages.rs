//! The guide's pages about clients, generated from the table.

use super::name_lists::ListEffect;
use super::place::{ClientFilePlace, GATEWAY_NAME};
use super::rewire::sample;
use super::spec::{ClientSpec, GatewayEntry, OffSwitch, ServerLayout, VariableForm};
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
    let mut places: Vec<String> = spec.files.iter().map(file_line).collect();
    places.dedup();
    page.push_str(&places.concat());
    for path in spec.project_files {
        page.push_str(&format!(
            "- `{path}` in a project: read by `toolbooth config import {name}` in that folder, never changed\n"
        ));
    }
    if let Some(folder) = spec.folder.map(|place| place.shown()) {
        page.push_str(&format!(
            "- `{folder}/*`, each in YAML or JSON: servers are taken over, the gateway is not added\n"
        ));
        let project = folder.trim_start_matches("~/");
        page.push_str(&format!(
            "- `{project}/*` in a project: read by `toolbooth config import {name}` in that folder, never changed\n"
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
    page.push_str("Comments, order and other keys stay when an entry is changed.\n\n## Variables\n\n");
    page.push_str(&variables(spec));
    page.push_str("\n## Servers that are turned off\n\n");
    page.push_str(&turned_off(spec));
    page.push_str("\n## Entry of the gateway\n\n");
    let stdio = GatewayEntry::stdio("/usr/local/bin/toolbooth", vec!["stdio".into()]);
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

/// The line of a file, with the variable that moves it.
fn file_line(place: &ClientFilePlace) -> String {
    match place.variable() {
        Some(name) => format!("- `{}`, or in the folder that `{name}` names\n", place.shown()),
        None => format!("- `{}`\n", place.shown()),
    }
}

/// How variables are written, and what an import makes of them.
fn variables(spec: &ClientSpec) -> String {
    let mut text = match spec.variables {
        VariableForm::Literal => "Variables are not expanded in this file, and an import takes every text literally.",
        VariableForm::Braces => {
            "Variables are written as `${NAME}` or `${env:NAME}`, and an import keeps them: set them for the gateway."
        }
        VariableForm::Dollar => {
            "Variables are written as `$NAME` or `${NAME}`. An import writes `${NAME}`: set them for the gateway."
        }
        VariableForm::CurlyEnv => {
            "Variables are written as `{env:NAME}`. An import writes `${NAME}`: set them for the gateway."
        }
        VariableForm::Secrets => {
            "Variables are written as `${{ secrets.NAME }}`. An import writes `${NAME}`: set them for the gateway, because the client keeps their values in its own store."
        }
    }
    .to_owned();
    if spec.variables == VariableForm::Braces && !spec.project_files.is_empty() {
        text.push_str(
            " `${workspaceFolder}` becomes the folder of the project; an entry of the user that contains it stays in the client.",
        );
    }
    text.push_str(" Secrets that are written into an entry move to `imported.env`.\n");
    text
}

/// Where the client keeps which servers it does not use.
fn turned_off(spec: &ClientSpec) -> String {
    let mut text = match spec.off {
        OffSwitch::Entry(field) => format!("A server with `{field}` in its entry is imported as disabled.\n"),
        OffSwitch::Outside => format!(
            "{} stores outside its file which servers are turned off, so all servers of the file are imported as enabled. `toolbooth servers disable NAME` turns one off.\n",
            spec.title
        ),
        OffSwitch::Nowhere if spec.lists.is_empty() => {
            "The file has no field for it, so all its servers are imported as enabled. `toolbooth servers disable NAME` turns one off.\n".to_owned()
        }
        OffSwitch::Nowhere => String::new(),
    };
    if !spec.lists.is_empty() {
        text.push_str("| list | file | server |\n|---|---|---|\n");
    }
    for list in spec.lists {
        let place = list.file.or(spec.files.first().copied()).map(|place| place.shown());
        let of_project = if list.is_per_project() { " of a project" } else { "" };
        let effect = match (list.effect, list.is_per_project()) {
            (ListEffect::Allows, _) => "imported as disabled if the list does not name it",
            (ListEffect::Disables, false) => "imported as disabled if the list names it",
            (ListEffect::Disables, true) => "imported as disabled if it is a server of the same project",
        };
        text.push_str(&format!(
            "| `{}`{of_project} | `{}` | {effect} |\n",
            list.shown(),
            place.unwrap_or_default()
        ));
    }
    if spec.lists.iter().any(|list| list.effect == ListEffect::Allows) {
        text.push_str(&format!(
            "\n{} ignores a server that a list of allowed servers does not name, so `up` and `connect` add the gateway to such a list. `--undo` restores it.\n",
            spec.title
        ));
    }
    text
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
