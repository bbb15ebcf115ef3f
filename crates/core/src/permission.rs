//! The one decision: what a caller may see and use. Every list and every call asks here.
//!
//! Whoever passes has been let through by the server's groups, by its personas, by the list of the
//! persona the caller picked, by the operator's rules that hide, and by the bounds of the tool itself. All of
//! them only ever take away.

use crate::caller::{Admin, Caller};
use crate::catalog::{Backing, Bounds, Evenness, Offer, ServerCatalog, Tool};
use crate::compliance::{Meeting, meet};
use crate::event::{Audience, Event};
use crate::persona::Persona;
use crate::server::ServerEntry;
use std::sync::Arc;

/// The answer to "may this caller use this?". What is hidden must look as if it did not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// The caller may see and use it.
    Granted,
    /// For this caller it does not exist.
    Hidden,
}

/// How much of a server a caller may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All that it offers.
    Whole,
    /// What the caller's persona names.
    Part,
    /// Nothing.
    Nothing,
}

/// Decides on a server as such: any of its groups admits, and it is shared or of the caller's persona.
pub fn on_server(caller: &Caller, server: &ServerEntry) -> Permission {
    let admitted = server.groups.iter().any(|group| caller.groups.contains(group));
    let persona = caller.persona_name();
    let belongs = server.personas.is_empty() || server.personas.iter().any(|name| Some(&**name) == persona);
    if server.enabled && admitted && belongs { Permission::Granted } else { Permission::Hidden }
}

/// Decides on one tool.
pub fn on_tool(caller: &Caller, tool: &Tool) -> Permission {
    if caller.veil.as_deref().is_some_and(|rules| rules.hides(caller, tool)) {
        return Permission::Hidden;
    }
    if tool.bounds.as_deref().is_some_and(|bounds| !is_within(caller, bounds, &tool.server)) {
        return Permission::Hidden;
    }
    on_one(caller, &tool.server, |persona| persona.names_tool(tool))
}

/// What keeps a tool from a caller, for the operator's record.
pub fn why_hidden(caller: &Caller, tool: &Tool) -> &'static str {
    let server = &tool.server;
    if !server.groups.iter().any(|group| caller.groups.contains(group)) {
        return "group";
    }
    if caller.veil.as_deref().is_some_and(|rules| rules.hides(caller, tool)) {
        return "rule";
    }
    match on_server(caller, server) {
        Permission::Hidden => "persona",
        Permission::Granted if caller.persona.is_some() => "persona or the tool's own bounds",
        Permission::Granted => "the tool's own bounds",
    }
}

/// Whether a caller is within the bounds of one tool.
fn is_within(caller: &Caller, bounds: &Bounds, server: &ServerEntry) -> bool {
    let Bounds { only_for, shadowed_for, groups, personas, backing } = bounds;
    let persona = caller.persona_name();
    let is = |name: &str| persona == Some(name);
    only_for.as_deref().is_none_or(is)
        && !shadowed_for.iter().any(|name| is(name))
        && groups.as_ref().is_none_or(|groups| groups.iter().any(|group| caller.groups.contains(group)))
        && personas.as_ref().is_none_or(|personas| personas.iter().any(|name| is(name)))
        && (!server.is_virtual() || backing.iter().any(|backing| may_use(caller, backing)))
}

fn may_use(caller: &Caller, backing: &Backing) -> bool {
    match backing {
        Backing::Open => true,
        Backing::Unheard(server) => {
            on_server(caller, server) == Permission::Granted && meet(caller, server) == Meeting::Allowed
        }
        Backing::Tools(_) => on_backing(caller, backing).is_some(),
        Backing::Itself | Backing::Nobody => false,
    }
}

/// The tool behind a provider, as this caller may use it. What may not be called by its own name may not be
/// called through another tool either.
pub fn on_backing<'a>(caller: &Caller, backing: &'a Backing) -> Option<&'a Arc<Tool>> {
    let usable = |tool: &&Arc<Tool>| {
        on_tool(caller, tool) == Permission::Granted && meet(caller, &tool.server) == Meeting::Allowed
    };
    backing.tools().iter().find(usable)
}

/// Decides on one prompt, resource or template.
pub fn on_offer(caller: &Caller, offer: &Offer) -> Permission {
    let server = offer.server.name.as_str();
    on_one(caller, &offer.server, |persona| persona.names_offer(server, &offer.key, &offer.exposed))
}

/// How many of a server's tools a caller may see, without a look at every name.
pub fn tools_extent(caller: &Caller, server: &ServerCatalog) -> Extent {
    match extent(caller, &server.entry) {
        // A rule may hide any of them, and some may be for others.
        Extent::Whole if caller.veil.is_some() || server.evenness == Evenness::Uneven => Extent::Part,
        extent => extent,
    }
}

/// How much of a server's offer a caller may see, rules that hide single tools aside.
pub fn extent(caller: &Caller, server: &ServerEntry) -> Extent {
    match (on_server(caller, server), caller.persona.as_deref()) {
        (Permission::Hidden, _) => Extent::Nothing,
        (Permission::Granted, None) => Extent::Whole,
        (Permission::Granted, Some(_)) if server.is_own() => Extent::Whole,
        (Permission::Granted, Some(persona)) if persona.takes_whole_server(&server.personas) => Extent::Whole,
        (Permission::Granted, Some(_)) => Extent::Part,
    }
}

fn on_one(caller: &Caller, server: &ServerEntry, names: impl Fn(&Persona) -> bool) -> Permission {
    match extent(caller, server) {
        Extent::Whole => Permission::Granted,
        Extent::Part if caller.persona.as_deref().is_some_and(names) => Permission::Granted,
        Extent::Part | Extent::Nothing => Permission::Hidden,
    }
}

/// Decides whether a caller may take up a persona: any of its groups admits, and without groups everybody.
pub fn on_persona(caller: &Caller, persona: &Persona) -> Permission {
    match persona.groups() {
        Some(groups) if !groups.iter().any(|group| caller.groups.contains(group)) => Permission::Hidden,
        _ => Permission::Granted,
    }
}

/// What there is now of what events are about.
pub trait Known {
    /// The entry of a server.
    fn server(&self, name: &str) -> Option<Arc<ServerEntry>>;
    /// A tool, by its server and that server's own name for it.
    fn tool(&self, server: &str, name: &str) -> Option<Arc<Tool>>;
}

/// Decides whether a caller may hear of an event: their own, and those of servers and tools that they may see
/// at this moment. Those who look after the gateway hear everything.
pub fn on_event(caller: &Caller, event: &Event, known: &dyn Known) -> Permission {
    let server = || event.server.as_deref();
    let granted = match event.kind.audience() {
        _ if caller.admin == Admin::Yes => true,
        Audience::Keepers => false,
        Audience::User => event.user.as_deref() == Some(&*caller.user),
        Audience::Server => server()
            .and_then(|name| known.server(name))
            .is_some_and(|entry| on_server(caller, &entry) == Permission::Granted),
        Audience::Tool => server()
            .zip(event.tool.as_deref())
            .and_then(|(server, tool)| known.tool(server, tool))
            .is_some_and(|tool| on_tool(caller, &tool) == Permission::Granted),
    };
    if granted { Permission::Granted } else { Permission::Hidden }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persona::Inherit;
    use crate::server::tests::entry;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn any_group_admits_and_none_admits_nobody() {
        let cases: [(&[&str], &[&str], Permission); 5] = [
            (&["users"], &[], Permission::Granted),
            (&["staff"], &[], Permission::Hidden),
            (&["staff", "ops"], &["ops"], Permission::Granted),
            (&["Staff"], &["staff"], Permission::Hidden), // names compare exactly
            (&[], &["staff"], Permission::Hidden),
        ];
        for (admitted, groups, expected) in cases {
            let mut server = entry("s");
            server.groups = texts(admitted);
            let ann = Caller::guest("ann", texts(groups));
            assert_eq!(on_server(&ann, &server), expected, "{admitted:?} {groups:?}");
        }
        let mut server = entry("s");
        server.groups = vec![];
        assert_eq!(on_server(&Caller::owner("me"), &server), Permission::Hidden);
    }

    #[test]
    fn a_persona_takes_away_and_never_adds() {
        use Permission::{Granted, Hidden};
        type Case =
            (&'static str, &'static [&'static str], Option<&'static [&'static str]>, Inherit, Permission);
        // Groups of the server, its personas, the persona's list, what it inherits.
        let cases: [Case; 14] = [
            ("users", &[], None, Inherit::Nothing, Hidden),
            ("users", &[], None, Inherit::Shared, Granted),
            ("users", &[], Some(&[]), Inherit::Nothing, Hidden),
            ("users", &[], Some(&["fs_read"]), Inherit::Nothing, Granted),
            ("users", &[], Some(&["fs.re*"]), Inherit::Nothing, Granted),
            ("users", &[], Some(&["mcp.fs.read"]), Inherit::Nothing, Granted),
            ("users", &[], Some(&["mcp_fs_*"]), Inherit::Nothing, Granted),
            ("users", &[], Some(&["read"]), Inherit::Nothing, Hidden), // any server could call a tool so
            ("users", &[], Some(&["git_*"]), Inherit::Nothing, Hidden),
            ("users", &[], Some(&["git_*"]), Inherit::Shared, Granted),
            ("users", &["dev"], None, Inherit::Shared, Granted),
            ("users", &["dev"], Some(&["git_*"]), Inherit::Shared, Hidden),
            ("users", &["ops"], Some(&["*"]), Inherit::Shared, Hidden), // another persona's
            ("staff", &[], Some(&["*"]), Inherit::Shared, Hidden),      // not a right of the caller's
        ];
        for (group, personas, list, inherit, expected) in cases {
            let mut server = entry("fs");
            server.groups = texts(&[group]);
            server.personas = texts(personas);
            let tool = Tool::bare(Arc::new(server), "read", "fs_read");
            let list = list.map(texts);
            let mut caller = Caller::guest("ann", []);
            let alone = on_tool(&caller, &tool);
            caller.persona =
                Some(Arc::new(Persona::new("dev", list.as_deref(), inherit, None).expect("globs")));
            assert_eq!(on_tool(&caller, &tool), expected, "{group} {personas:?} {list:?} {inherit:?}");
            if alone == Hidden && personas.is_empty() {
                assert_eq!(expected, Hidden, "a persona adds nothing");
            }
        }
        let mut server = entry("fs");
        server.personas = texts(&["dev"]);
        assert_eq!(on_server(&Caller::owner("me"), &server), Hidden, "without its persona it is not there");
    }

    struct OneServer(Arc<ServerEntry>);

    impl Known for OneServer {
        fn server(&self, name: &str) -> Option<Arc<ServerEntry>> {
            (self.0.name.as_str() == name).then(|| self.0.clone())
        }

        fn tool(&self, server: &str, name: &str) -> Option<Arc<Tool>> {
            let tool = (name == "read").then(|| self.server(server)).flatten();
            tool.map(|entry| Arc::new(Tool::bare(entry, "read", "fs_read")))
        }
    }

    #[test]
    fn an_event_is_heard_by_those_it_is_for() {
        use crate::event::EventKind;
        let mut server = entry("fs");
        server.groups = texts(&["staff"]);
        let known = OneServer(Arc::new(server));
        let of = |kind: EventKind, user: Option<&str>, server: &str, tool: &str| {
            let mut event = Event::new(kind).server(&server.parse().expect("a name")).tool(tool);
            event.user = user.map(Into::into);
            event
        };
        let (ann, bob) = (Caller::guest("ann", texts(&["staff"])), Caller::guest("bob", []));
        let admin = Caller { admin: Admin::Yes, ..Caller::guest("root", []) };
        // Who hears it: ann, bob; root always.
        let cases = [
            (of(EventKind::ToolResult, Some("ann"), "fs", "read"), [true, false]),
            (of(EventKind::ToolResult, Some("bob"), "fs", "read"), [false, true]),
            (of(EventKind::CallHeld, None, "fs", "read"), [false, false]),
            (of(EventKind::ServerError, None, "fs", "read"), [true, false]),
            (of(EventKind::ServerError, Some("bob"), "fs", "read"), [true, false]),
            (of(EventKind::ServerConnected, None, "gone", "read"), [false, false]),
            (of(EventKind::CatalogChanged, None, "fs", "read"), [true, false]),
            (of(EventKind::ToolChanged, None, "fs", "read"), [true, false]),
            (of(EventKind::ToolChanged, None, "fs", "gone"), [false, false]),
            (of(EventKind::ConfigError, Some("ann"), "fs", "read"), [false, false]),
        ];
        for (event, expected) in cases {
            let heard = [&ann, &bob].map(|caller| on_event(caller, &event, &known) == Permission::Granted);
            assert_eq!(heard, expected, "{event:?}");
            assert_eq!(on_event(&admin, &event, &known), Permission::Granted, "{event:?}");
        }
    }
}
