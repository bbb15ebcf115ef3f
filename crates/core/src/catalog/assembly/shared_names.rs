//! Names that tools of several servers would have. Each caller sees the plain name, unless this caller may use another
//! server that has it.
//!
//! Admission gives the plain name to the server that listed it first, and a name with a hash to the others. A caller
//! who may not use the first server must not notice it, so for that caller the other tool has the plain name. Both
//! names lead to it. The tool gets two versions whose bounds exclude each other; all lists and lookups apply them.

use super::{AssemblyInput, CatalogParts, replace_tools};
use crate::catalog::naming::Naming;
use crate::catalog::tool::{Tool, ToolCaches};
use crate::json::{RawJson, with_members};
use crate::lint::reserved;
use crate::names::ServerName;
use crate::server::ServerEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A tool: its server, and the server's own name for it.
type ToolIdentity = (ServerName, Arc<str>);

/// The plain name of a tool, and the servers whose tools have precedence for it.
struct PlainName {
    name: String,
    rivals: Vec<Arc<ServerEntry>>,
}

/// Gives tools that have a name with a hash their plain name for callers who may use no server that has it.
pub(super) fn share_names(input: &AssemblyInput<'_>, parts: &mut CatalogParts) {
    let plain_names = plain_names(input, parts);
    let mut by_server: BTreeMap<&ServerName, HashMap<&str, &PlainName>> = BTreeMap::new();
    for ((server, own), plain) in &plain_names {
        by_server.entry(server).or_default().insert(&**own, plain);
    }
    for (server, names) in by_server {
        let Some(part) = parts.get(server).cloned() else { continue };
        let mut tools = Vec::with_capacity(part.tools.len() + names.len());
        for tool in &part.tools {
            match names
                .get(&*tool.name)
                .filter(|plain| hashed_from(tool, input.naming).as_ref() == Some(&plain.name))
            {
                Some(plain) => tools.extend(versions(tool, plain)),
                None => tools.push(tool.clone()),
            }
        }
        let shared = replace_tools(&part, tools, input.earlier);
        parts.insert(server.clone(), shared);
    }
}

/// The plain names that can be shared, by tool.
fn plain_names(input: &AssemblyInput<'_>, parts: &CatalogParts) -> BTreeMap<ToolIdentity, PlainName> {
    let mut claims: BTreeMap<String, Vec<ToolIdentity>> = BTreeMap::new();
    // Admission notes each tool that did not get its plain name; most servers have none.
    let renamed = parts.iter().filter(|(_, part)| part.set_aside.iter().any(|aside| aside.kind == "name"));
    for (server, part) in renamed {
        for tool in &part.tools {
            if let Some(plain) = hashed_from(tool, input.naming) {
                let claimants = claims.entry(plain).or_default();
                // Of several tools of one server, only the first can have the plain name.
                if !claimants.iter().any(|(known, _)| known == server) {
                    claimants.push((server.clone(), tool.name.clone()));
                }
            }
        }
    }
    if claims.is_empty() {
        return BTreeMap::new();
    }
    let mut shared = BTreeMap::new();
    let tools = || parts.iter().flat_map(|(server, part)| part.tools.iter().map(move |tool| (server, tool)));
    let held: Vec<(&ServerName, &str)> = tools()
        .map(|(server, tool)| (server, &*tool.exposed))
        .filter(|(_, name)| claims.contains_key(*name))
        .collect();
    for (plain, claimants) in &claims {
        let owner = (input.owner)(plain);
        // A manifest gave the name to another tool.
        if held.iter().any(|(server, name)| name == plain && Some(*server) != owner.as_ref()) {
            continue;
        }
        let entry = |server: &ServerName| {
            let listed = input.base.get(server).map(|part| part.entry.clone());
            listed.or_else(|| (input.configured)(server))
        };
        let mut rivals: Vec<Arc<ServerEntry>> = owner.as_ref().and_then(entry).into_iter().collect();
        for (server, own) in claimants.iter().filter(|(server, _)| Some(server) != owner.as_ref()) {
            let name = PlainName { name: plain.clone(), rivals: rivals.clone() };
            shared.insert((server.clone(), own.clone()), name);
            rivals.extend(entry(server));
        }
    }
    shared
}

/// The plain name of a tool that has a name with a hash because its plain name was taken.
fn hashed_from(tool: &Tool, naming: &Naming) -> Option<String> {
    if tool.server.is_own() || tool.server.is_virtual() {
        return None;
    }
    let server = tool.server.name.as_str();
    let plain = naming.expose_tool(server, &tool.name);
    let is_hashed = *tool.exposed != *plain && *tool.exposed == *naming.suffixed(&plain, server, &tool.name);
    // No caller sees a server's tool under the name of one of the gateway's own.
    (is_hashed && reserved(&plain).is_none()).then_some(plain)
}

/// The versions of a tool: under its name with a hash, and under its plain name.
fn versions(tool: &Arc<Tool>, plain: &PlainName) -> Vec<Arc<Tool>> {
    let renamed = with_members(&tool.definition, &[("name", RawJson::from_value(&plain.name))]);
    let Ok(definition) = renamed else { return vec![tool.clone()] };
    let mut without = copy_of(tool);
    without.hashed_name = Some(tool.exposed.clone());
    without.exposed = plain.name.as_str().into();
    without.definition = definition.detached();
    if plain.rivals.is_empty() {
        return vec![Arc::new(without)];
    }
    let mut with = copy_of(tool);
    with.bounds.get_or_insert_default().only_with = plain.rivals.clone();
    without.bounds.get_or_insert_default().only_without = plain.rivals.clone();
    vec![Arc::new(with), Arc::new(without)]
}

fn copy_of(tool: &Tool) -> Tool {
    Tool {
        server: tool.server.clone(),
        name: tool.name.clone(),
        exposed: tool.exposed.clone(),
        hashed_name: tool.hashed_name.clone(),
        definition: tool.definition.clone(),
        injected: tool.injected.clone(),
        terms: tool.terms.clone(),
        needs_approval: tool.needs_approval,
        bounds: tool.bounds.clone(),
        original: tool.original.clone(),
        entry_names: tool.entry_names.clone(),
        caches: ToolCaches::default(),
    }
}

#[cfg(test)]
mod tests {
    use crate::caller::Caller;
    use crate::catalog::{
        AssemblyInput, Catalog, CatalogParts, Discovery, ListKind, Lookup, Naming, ToolGate, admit, assemble,
    };
    use crate::json::RawJson;
    use crate::names::ServerName;
    use crate::server::tests::entry;
    use std::collections::HashMap;
    use std::sync::Arc;

    /// A catalog of servers with a group and tools each. Earlier servers own the names.
    fn catalog(servers: &[(&str, &str, &[&str])]) -> Catalog {
        let naming = Naming::default();
        let mut base = CatalogParts::new();
        let mut owners: HashMap<String, ServerName> = HashMap::new();
        for (name, group, tools) in servers {
            let mut server = entry(name);
            server.groups = vec![(*group).to_owned()];
            let server = Arc::new(server);
            let definition = |tool: &&str| {
                let text = format!(r#"{{"name":"{tool}","inputSchema":{{"type":"object"}}}}"#);
                RawJson::parse(text).expect("JSON")
            };
            let discovery =
                Discovery { tools: tools.iter().map(definition).collect(), ..Discovery::default() };
            let part = admit(&server, &discovery, &naming, &|name| owners.contains_key(name));
            for tool in &part.tools {
                owners.insert(tool.exposed.to_string(), server.name.clone());
            }
            base.insert(server.name.clone(), Arc::new(part));
        }
        let assembly = assemble(AssemblyInput {
            base: &base,
            manifests: &[],
            naming: &naming,
            gate: &ToolGate::default(),
            configured: &|_| None,
            owner: &|name| owners.get(name).cloned(),
            earlier: &CatalogParts::new(),
        });
        Catalog::new(1, assembly.parts)
    }

    fn names(catalog: &Catalog, caller: &Caller) -> Vec<String> {
        let entries = catalog.list(ListKind::Tools, caller).entries();
        entries.iter().map(|tool| tool.member("name").expect("a name").read().expect("a text")).collect()
    }

    fn server_of(catalog: &Catalog, name: &str, caller: &Caller) -> String {
        match catalog.tool(name, caller) {
            Lookup::Found(tool) => tool.server.name.to_string(),
            other => format!("{other:?}"),
        }
    }

    fn member(groups: &[&str]) -> Caller {
        Caller::guest("ann", groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_hidden_server_does_not_change_the_names_of_others() {
        let catalog = catalog(&[("x", "finance", &["y_z"]), ("x_y", "users", &["z"])]);
        let (both, one) = (member(&["finance"]), member(&[]));
        assert_eq!(names(&catalog, &one), ["x_y_z"]);
        assert_eq!(server_of(&catalog, "x_y_z", &one), "x_y");
        let seen = names(&catalog, &both);
        assert_eq!((seen.len(), seen[0].as_str()), (2, "x_y_z"), "{seen:?}");
        assert_eq!(server_of(&catalog, "x_y_z", &both), "x", "the owner keeps its name");
        // The name with a hash always leads to the same tool.
        for caller in [&both, &one] {
            assert_eq!(server_of(&catalog, &seen[1], caller), "x_y", "{seen:?}");
        }
        // A tool has one digest, whatever its name: approvals apply to all of its versions.
        let digest = |caller: &Caller| match catalog.tool("mcp.x_y.z", caller) {
            Lookup::Found(tool) => *tool.digest(),
            other => panic!("{other:?}"),
        };
        assert_eq!(digest(&both), digest(&one));
    }

    #[test]
    fn of_several_tools_that_share_a_name_each_caller_sees_one_under_it() {
        let servers: [(&str, &str, &[&str]); 3] =
            [("a", "one", &["b_c_d_e"]), ("a_b", "two", &["c_d_e"]), ("a_b_c", "three", &["d.e", "d_e"])];
        let catalog = catalog(&servers);
        let cases: [(&[&str], Option<&str>); 6] = [
            (&["one", "two", "three"], Some("a")),
            (&["two", "three"], Some("a_b")),
            (&["one", "three"], Some("a")),
            (&["three"], Some("a_b_c")),
            (&["two"], Some("a_b")),
            (&[], None),
        ];
        for (groups, owner) in cases {
            let caller = member(groups);
            let seen = names(&catalog, &caller);
            let unique: std::collections::BTreeSet<&String> = seen.iter().collect();
            assert_eq!(unique.len(), seen.len(), "{groups:?} {seen:?}");
            match owner {
                Some(owner) => assert_eq!(server_of(&catalog, "a_b_c_d_e", &caller), owner, "{groups:?}"),
                None => assert!(seen.is_empty(), "{seen:?}"),
            }
        }
    }
}
