//! The one decision: what a caller may see and use. Every list and every call asks here.

use crate::caller::Caller;
use crate::server::ServerEntry;

/// The answer to "may this caller use this?". What is hidden must look as if it did not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// The caller may see and use it.
    Granted,
    /// For this caller it does not exist.
    Hidden,
}

/// Decides on everything that belongs to one server: any of its groups admits.
pub fn on_server(caller: &Caller, server: &ServerEntry) -> Permission {
    if server.enabled && server.groups.iter().any(|group| caller.groups.contains(group)) {
        Permission::Granted
    } else {
        Permission::Hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{Groups, Standing};
    use crate::server::tests::entry;
    use std::sync::Arc;

    #[test]
    fn any_group_admits_and_none_admits_nobody() {
        let ann = |groups: &[&str]| Caller {
            user: "ann".into(),
            groups: Groups::Named(Arc::new(groups.iter().map(|g| (*g).to_owned()).collect())),
            persona: None,
            session: None,
            standing: Standing::Guest,
        };
        let cases: [(&[&str], &[&str], Permission); 5] = [
            (&["users"], &[], Permission::Granted),
            (&["staff"], &[], Permission::Hidden),
            (&["staff", "ops"], &["ops"], Permission::Granted),
            (&["Staff"], &["staff"], Permission::Hidden), // names compare exactly
            (&[], &["staff"], Permission::Hidden),
        ];
        for (admitted, groups, expected) in cases {
            let mut server = entry("s");
            server.groups = admitted.iter().map(|g| (*g).to_owned()).collect();
            assert_eq!(on_server(&ann(groups), &server), expected, "{admitted:?} {groups:?}");
        }
        let mut server = entry("s");
        server.groups = vec![];
        assert_eq!(on_server(&Caller::owner("me"), &server), Permission::Hidden);
    }
}
