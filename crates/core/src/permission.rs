//! The permission decision: what a caller may see and use. Every list and every call uses it.
//!
//! Access needs the server's groups, the server's personas, a compatible compliance level, the tool list of the chosen
//! persona, the operator's hiding rules, the bounds of the tool, and a key if users give their own to the server. Each
//! of them only takes access away.

mod visible;
mod work;

pub use work::{on_job, on_owned_work, on_task};

use crate::caller::{Admin, Caller};
use crate::catalog::{Backing, Bounds, CatalogItem, ServerCatalog, Tool, ToolAccess};
use crate::event::{Event, EventAudience};
use crate::own_prompt::{OwnPrompt, PromptAudience};
use crate::persona::{Persona, is_same_name};
use crate::server::ServerEntry;
use crate::skill::Skill;
use std::sync::Arc;

/// The decision on one item. A hidden item must look as if it did not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// The caller may see and use it.
    Granted,
    /// For this caller, it does not exist.
    Hidden,
}

/// How much of a server a caller may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerVisibility {
    /// Everything that it offers.
    Whole,
    /// Only what the caller's persona names.
    Part,
    /// Nothing.
    Nothing,
}

/// Decides on a server: the caller is in one of its groups, it is shared or belongs to the caller's persona and folder,
/// and the caller's compliance level may use it.
pub fn on_server(caller: &Caller, server: &ServerEntry) -> Permission {
    let admitted = server.groups.iter().any(|group| caller.groups.contains(group));
    let belongs = server.personas.is_empty() || server.personas.iter().any(|name| has_persona(caller, name));
    let is_here = server.folder.is_none() || server.folder == caller.folder;
    let compatible = compatibility(caller, server) == Compatibility::Allowed;
    match server.enabled && admitted && belongs && is_here && compatible {
        true => Permission::Granted,
        false => Permission::Hidden,
    }
}

/// Whether the caller has chosen the persona with this name.
fn has_persona(caller: &Caller, name: &str) -> bool {
    caller.persona_name().is_some_and(|chosen| is_same_name(chosen, name))
}

/// Decides on one tool.
pub fn on_tool(caller: &Caller, tool: &Tool) -> Permission {
    if caller.hiding_rules.as_deref().is_some_and(|rules| rules.hides(caller, tool)) {
        return Permission::Hidden;
    }
    if tool.bounds.as_deref().is_some_and(|bounds| !is_within(caller, bounds, &tool.server)) {
        return Permission::Hidden;
    }
    match (tool.skill(), caller.persona.as_deref()) {
        (Some(skill), _) if on_skill(caller, skill) == Permission::Hidden => Permission::Hidden,
        // A persona's list of skills admits their tools as well.
        (Some(skill), Some(persona)) if persona.names_skill(&skill.name) => on_server(caller, &tool.server),
        _ => on_one(caller, &tool.server, |persona| persona.includes_tool(tool)),
    }
}

/// The reason why a tool is hidden from a caller, for the audit log.
pub fn why_hidden(caller: &Caller, tool: &Tool) -> &'static str {
    let server = &tool.server;
    if !server.groups.iter().any(|group| caller.groups.contains(group)) {
        return "group";
    }
    if caller.hiding_rules.as_deref().is_some_and(|rules| rules.hides(caller, tool)) {
        return "rule";
    }
    if compatibility(caller, server) == Compatibility::Forbidden {
        return "compliance level";
    }
    if server.folder.is_some() && server.folder != caller.folder {
        return "folder";
    }
    match on_server(caller, server) {
        Permission::Granted if server.lacks_key_of(&caller.user) => "no key",
        Permission::Hidden => "persona",
        Permission::Granted if caller.persona.is_some() => "persona or the tool's own bounds",
        Permission::Granted => "the tool's own bounds",
    }
}

/// Whether the bounds of a tool admit a caller.
fn is_within(caller: &Caller, bounds: &Bounds, server: &ServerEntry) -> bool {
    let Bounds { only_for, shadowed_for, groups, personas, backing, only_with, only_without } = bounds;
    let is = |name: &str| has_persona(caller, name);
    let uses = |entry: &Arc<ServerEntry>| on_server(caller, entry) == Permission::Granted;
    only_for.as_deref().is_none_or(is)
        && !shadowed_for.iter().any(|name| is(name))
        && groups.as_ref().is_none_or(|groups| groups.iter().any(|group| caller.groups.contains(group)))
        && personas.as_ref().is_none_or(|personas| personas.iter().any(|name| is(name)))
        && (only_with.is_empty() || only_with.iter().any(uses))
        && !only_without.iter().any(uses)
        && (!server.is_virtual() || backing.iter().any(|backing| may_use(caller, backing)))
}

fn may_use(caller: &Caller, backing: &Backing) -> bool {
    match backing {
        Backing::Open => true,
        Backing::Undiscovered(server) => extent(caller, server) != ServerVisibility::Nothing,
        Backing::Tools(_) => on_backing(caller, backing).is_some(),
        Backing::Itself | Backing::Missing => false,
    }
}

/// The tool behind a provider, if the caller may use it. A tool that a caller may not call directly cannot be called
/// through another tool either.
pub fn on_backing<'a>(caller: &Caller, backing: &'a Backing) -> Option<&'a Arc<Tool>> {
    backing.tools().iter().find(|tool| on_tool(caller, tool) == Permission::Granted)
}

/// Whether a caller's level may use a server's level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compatibility {
    /// It may.
    Allowed,
    /// The caller's level does not list the server's.
    Forbidden,
}

/// Decides whether a caller's level may use a server. It may if either has no level.
pub fn compatibility(caller: &Caller, server: &ServerEntry) -> Compatibility {
    match (&caller.compliance_level, &server.compliance_level) {
        (Some(level), Some(other)) if !level.may_use(other) => Compatibility::Forbidden,
        _ => Compatibility::Allowed,
    }
}

/// Decides on one prompt, resource or template.
pub fn on_item(caller: &Caller, offer: &CatalogItem) -> Permission {
    let server = offer.server.name.as_str();
    on_one(caller, &offer.server, |persona| persona.includes_item(server, &offer.key, &offer.exposed))
}

/// Decides on a prompt of the gateway's own.
pub fn on_own_prompt(caller: &Caller, prompt: &OwnPrompt) -> Permission {
    let granted = match prompt.audience() {
        PromptAudience::Everyone => true,
        PromptAudience::Groups(groups) => groups.iter().any(|group| caller.groups.contains(group)),
        PromptAudience::Persona(name) => has_persona(caller, name),
    };
    if granted { Permission::Granted } else { Permission::Hidden }
}

/// Decides on a skill: it is shared or belongs to the caller's persona, the caller is in one of its groups, and the
/// persona's list of skills includes it. The steps of its plan are decided on one by one, as calls of their tools.
pub fn on_skill(caller: &Caller, skill: &Skill) -> Permission {
    let belongs = skill.persona.as_deref().is_none_or(|name| has_persona(caller, name));
    let admitted =
        skill.groups.as_ref().is_none_or(|groups| groups.iter().any(|group| caller.groups.contains(group)));
    let listed = caller.persona.as_deref().is_none_or(|persona| persona.includes_skill(&skill.name));
    if belongs && admitted && listed { Permission::Granted } else { Permission::Hidden }
}

/// How many of a server's tools a caller may see, without checking every tool.
pub fn tools_extent(caller: &Caller, server: &ServerCatalog) -> ServerVisibility {
    match extent(caller, &server.entry) {
        // A rule may hide any of them, and some may have their own bounds.
        ServerVisibility::Whole
            if caller.hiding_rules.is_some() || server.tool_access == ToolAccess::PerTool =>
        {
            ServerVisibility::Part
        }
        extent => extent,
    }
}

/// How much of a server a caller may see, without rules that hide individual tools.
pub fn extent(caller: &Caller, server: &ServerEntry) -> ServerVisibility {
    match (on_server(caller, server), caller.persona.as_deref()) {
        (Permission::Hidden, _) => ServerVisibility::Nothing,
        // The server listed its tools to a user with a key. Without one, the caller sees that there is a server.
        (Permission::Granted, _) if server.lacks_key_of(&caller.user) => ServerVisibility::Nothing,
        (Permission::Granted, None) => ServerVisibility::Whole,
        (Permission::Granted, Some(_)) if server.is_own() => ServerVisibility::Whole,
        (Permission::Granted, Some(persona)) if persona.includes_whole_server(&server.personas) => {
            ServerVisibility::Whole
        }
        (Permission::Granted, Some(_)) => ServerVisibility::Part,
    }
}

fn on_one(caller: &Caller, server: &ServerEntry, names: impl Fn(&Persona) -> bool) -> Permission {
    match extent(caller, server) {
        ServerVisibility::Whole => Permission::Granted,
        ServerVisibility::Part if caller.persona.as_deref().is_some_and(names) => Permission::Granted,
        ServerVisibility::Part | ServerVisibility::Nothing => Permission::Hidden,
    }
}

/// Decides whether a caller may use a persona: the caller is in one of its groups, or it has no groups.
pub fn on_persona(caller: &Caller, persona: &Persona) -> Permission {
    match persona.groups() {
        Some(groups) if !groups.iter().any(|group| caller.groups.contains(group)) => Permission::Hidden,
        _ => Permission::Granted,
    }
}

/// Looks up the servers and tools that events refer to.
pub trait EventSubjects {
    /// The entry of a server.
    fn server(&self, name: &str) -> Option<Arc<ServerEntry>>;
    /// A tool, by its server and that server's own name for it.
    fn tool(&self, server: &str, name: &str) -> Option<Arc<Tool>>;
}

/// Decides whether a caller may receive an event: their own events, and those about servers and tools that they may
/// see at the moment. Administrators receive all events.
pub fn on_event(caller: &Caller, event: &Event, known: &dyn EventSubjects) -> Permission {
    let server = || event.server.as_deref();
    let granted = match event.kind.audience() {
        _ if caller.admin == Admin::Yes => true,
        EventAudience::Administrators => false,
        EventAudience::User => event.user.as_deref() == Some(&*caller.user),
        EventAudience::Server => server()
            .and_then(|name| known.server(name))
            .is_some_and(|entry| extent(caller, &entry) != ServerVisibility::Nothing),
        EventAudience::Tool => server()
            .zip(event.tool.as_deref())
            .and_then(|(server, tool)| known.tool(server, tool))
            .is_some_and(|tool| on_tool(caller, &tool) == Permission::Granted),
    };
    if granted { Permission::Granted } else { Permission::Hidden }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compliance::Levels;
    use crate::persona::Inherit;
    use crate::server::tests::entry;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn any_group_admits_and_an_empty_list_admits_no_one() {
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
    fn a_persona_only_takes_access_away() {
        use Permission::{Granted, Hidden};
        type Case =
            (&'static str, &'static [&'static str], Option<&'static [&'static str]>, Inherit, Permission);
        // The server's groups, its personas, the persona's list, what it inherits.
        let cases: [Case; 15] = [
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
            ("users", &["Dev"], None, Inherit::Shared, Granted), // names of personas compare without case
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

    #[test]
    fn a_level_is_compared_only_if_caller_and_server_have_one() {
        use Compatibility::{Allowed, Forbidden};
        let cases = [
            (Some("HIPAA"), Some("HIPAA"), Allowed),
            (Some("HIPAA"), Some("Public"), Forbidden),
            (None, Some("HIPAA"), Allowed),
            (Some("HIPAA"), None, Allowed),
        ];
        for (mine, theirs, expected) in cases {
            let mut server = entry("s");
            server.compliance_level = theirs.map(str::to_owned);
            let mut caller = Caller::owner("ann");
            caller.compliance_level = mine.map(|name| Levels::default().level(name));
            assert_eq!(compatibility(&caller, &server), expected, "{mine:?} {theirs:?}");
            let granted = on_server(&caller, &server) == Permission::Granted;
            assert_eq!(granted, expected == Allowed, "lists and calls agree: {mine:?} {theirs:?}");
        }
    }

    #[test]
    fn tools_of_a_server_with_own_keys_are_shown_to_users_with_a_key() {
        use crate::server::{OutboundAuth, UserKeyEntry};
        let auth = UserKeyEntry::default();
        let holders = auth.holders.clone();
        let mut server = entry("shop");
        server.auth = OutboundAuth::UserKey(auth);
        let tool = Tool::bare(Arc::new(server.clone()), "buy", "shop_buy");
        let (ann, bob) = (Caller::guest("ann", []), Caller::guest("bob", []));
        assert_eq!(on_tool(&ann, &tool), Permission::Hidden);
        holders.replace(["ann".to_owned()].into());
        assert_eq!((on_tool(&ann, &tool), on_tool(&bob, &tool)), (Permission::Granted, Permission::Hidden));
        // Also not for administrators, whose rights add no tools.
        assert_eq!(on_tool(&Caller::owner("root"), &tool), Permission::Hidden);
        assert_eq!(on_server(&bob, &server), Permission::Granted, "they see that there is a server");
        assert_eq!(why_hidden(&bob, &tool), "no key");
        holders.replace([].into());
        assert_eq!(on_tool(&ann, &tool), Permission::Hidden, "a deleted key takes the tools away at once");
    }

    struct OneServer(Arc<ServerEntry>);

    impl EventSubjects for OneServer {
        fn server(&self, name: &str) -> Option<Arc<ServerEntry>> {
            (self.0.name.as_str() == name).then(|| self.0.clone())
        }

        fn tool(&self, server: &str, name: &str) -> Option<Arc<Tool>> {
            let tool = (name == "read").then(|| self.server(server)).flatten();
            tool.map(|entry| Arc::new(Tool::bare(entry, "read", "fs_read")))
        }
    }

    #[test]
    fn an_event_reaches_only_its_audience() {
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
        // The recipients: ann, bob; root always receives it.
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
