//! The roll: all tools of a snapshot in the order of their names, and who sees which of them.
//!
//! It is made when somebody first asks. A view is a list of places on it, found out as far as somebody has read and
//! kept for as long as the snapshot: a page costs what is on the page, however many tools and personas there are.

use super::tool::Tool;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How many views are kept; beyond that they are made anew.
const MAX_VIEWS: usize = 64;

/// Tools by name, and views of them.
#[derive(Debug, Default)]
pub(super) struct Roll {
    tools: OnceLock<Box<[Arc<Tool>]>>,
    views: Mutex<HashMap<String, Arc<View>>>,
}

impl Roll {
    /// All tools, by name.
    pub(super) fn tools<'a>(&self, all: impl Iterator<Item = &'a Arc<Tool>>) -> &[Arc<Tool>] {
        self.tools.get_or_init(|| {
            let mut tools: Vec<Arc<Tool>> = all.cloned().collect();
            tools.sort_unstable_by(|a, b| a.exposed.cmp(&b.exposed));
            tools.into()
        })
    }

    /// A view; nobody has read in it where it was not asked for before.
    pub(super) fn view(&self, key: String) -> Arc<View> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if views.len() >= MAX_VIEWS && !views.contains_key(&key) {
            views.clear();
        }
        views.entry(key).or_default().clone()
    }
}

/// The tools that somebody sees, as far as they were asked for.
#[derive(Debug, Default)]
pub(super) struct View(Mutex<Looked>);

#[derive(Debug, Default)]
struct Looked {
    /// The places of tools that are seen.
    seen: Vec<u32>,
    /// The tool that is looked at next.
    next: u32,
}

impl View {
    /// The place of a tool, counted among those that are seen.
    pub(super) fn place(
        &self,
        at: usize,
        tools: &[Arc<Tool>],
        sees: impl Fn(&Tool) -> bool,
    ) -> Option<usize> {
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Looked { seen, next } = &mut *looked;
        while seen.len() <= at {
            if sees(tools.get(*next as usize)?) {
                seen.push(*next);
            }
            *next += 1;
        }
        seen.get(at).map(|place| *place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Discovery, Naming, admit};
    use crate::json::RawJson;
    use crate::server::tests::entry;
    use std::cell::Cell;

    #[test]
    fn a_view_is_made_as_far_as_somebody_reads() {
        let definition = |number| {
            RawJson::parse(format!(r#"{{"name":"t{number}","inputSchema":{{"type":"object"}}}}"#))
                .expect("JSON")
        };
        let found = Discovery { tools: (0..10).map(definition).collect(), ..Discovery::default() };
        let tools = admit(&Arc::new(entry("s")), &found, &Naming::default(), &|_| false).tools;
        let looked = Cell::new(0);
        let odd = |tool: &Tool| {
            looked.set(looked.get() + 1);
            tool.name.ends_with(['1', '3', '5', '7', '9'])
        };
        let view = View::default();
        let steps = [(0, Some(1), 2), (0, Some(1), 2), (2, Some(5), 6), (5, None, 10), (4, Some(9), 10)];
        for (at, place, looks) in steps {
            assert_eq!((view.place(at, &tools, odd), looked.get()), (place, looks), "{at}");
        }
    }

    #[test]
    fn views_are_kept_by_their_keys_up_to_a_number() {
        let roll = Roll::default();
        assert!(Arc::ptr_eq(&roll.view("a".into()), &roll.view("a".into())));
        (0..MAX_VIEWS * 2).for_each(|number| drop(roll.view(number.to_string())));
        assert!(roll.views.lock().expect("a lock").len() <= MAX_VIEWS);
    }
}
