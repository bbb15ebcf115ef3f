//! What callers with one view of the catalog are shown, in each form: made when first asked for.

use super::index::Lookup;
use super::listing::{ListBytes, ListKind};
use super::snapshot::Catalog;
use super::tool::Tool;
use crate::caller::Caller;
use crate::exposure::{Loaded, Shape, ShapeKey, Size, Terms, size};
use crate::permission::{Extent, Permission, on_tool, tools_extent};
use bytes::{Bytes, BytesMut};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many views are kept; beyond that the cache starts anew.
const MAX_VIEWS: usize = 256;
/// How many forms of one view are kept; beyond that they are made anew.
const MAX_SHAPES: usize = 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All views of one snapshot.
#[derive(Debug, Default)]
pub(super) struct Views(Mutex<HashMap<String, Arc<View>>>);

impl Views {
    fn of(&self, key: String) -> Arc<View> {
        let mut views = lock(&self.0);
        if let Some(view) = views.get(&key) {
            return view.clone();
        }
        if views.len() >= MAX_VIEWS {
            views.clear();
        }
        let view = Arc::new(View { key: key.clone(), state: Mutex::default() });
        views.insert(key, view.clone());
        view
    }
}

/// One view: the tools that some callers have in common.
#[derive(Debug)]
pub struct View {
    key: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sizes: Vec<(u64, Size)>,
    lists: Vec<(ShapeKey, Arc<ListBytes>)>,
}

impl Catalog {
    /// A caller's view.
    pub fn view(&self, caller: &Caller) -> Arc<View> {
        self.views().of(self.view_key(caller))
    }

    /// How much of a view fits into the budget; found out once.
    pub fn size_of(&self, view: &View, caller: &Caller, terms: &Terms) -> Size {
        let mut state = lock(&view.state);
        let key = terms.key();
        if let Some((_, known)) = state.sizes.iter().find(|(known, _)| *known == key) {
            return *known;
        }
        let found = size(self, caller, terms);
        // Terms change with the configuration; those of long ago are nobody's.
        if state.sizes.len() >= MAX_SHAPES {
            state.sizes.clear();
        }
        state.sizes.push((key, found));
        found
    }

    /// The list of tools in one form, as ready bytes.
    pub fn shaped(&self, view: &View, caller: &Caller, shape: &Shape<'_>) -> Arc<ListBytes> {
        let mut state = lock(&view.state);
        let key = shape.key();
        if let Some((_, list)) = state.lists.iter().find(|(known, _)| *known == key) {
            return list.clone();
        }
        let tools = self.visible(caller).flat_map(|server| &server.tools);
        let list = match shape.is_plain(tools) {
            true => self.list(ListKind::Tools, caller),
            false => Arc::new(self.write(caller, shape, &[])),
        };
        if state.lists.len() >= MAX_SHAPES {
            state.lists.clear();
        }
        state.lists.push((key, list.clone()));
        list
    }

    /// The same with what a session has loaded.
    pub fn shaped_with(
        &self,
        view: &View,
        caller: &Caller,
        shape: &Shape<'_>,
        loaded: &Loaded,
    ) -> Arc<ListBytes> {
        if loaded.is_empty() {
            return self.shaped(view, caller, shape);
        }
        let key = format!("{} {:?} {}", self.revision, shape.key(), view.key);
        loaded.list(key, |names| self.write(caller, shape, names))
    }

    /// A tool of servers that a caller may use, by any accepted name: not one of the gateway's own.
    pub fn served_tool(&self, name: &str, caller: &Caller) -> Lookup<'_> {
        match self.tool(name, caller) {
            Lookup::Found(tool) if tool.server.is_own() => Lookup::Unknown,
            found => found,
        }
    }

    fn write(&self, caller: &Caller, shape: &Shape<'_>, loaded: &[Box<str>]) -> ListBytes {
        let mut others = false;
        let mut texts: Vec<Bytes> = Vec::with_capacity(self.servers().len());
        for server in self.visible(caller) {
            let granted = |tool: &&Arc<Tool>| on_tool(caller, tool) == Permission::Granted;
            let entries: Vec<_> =
                server.tools.iter().filter(granted).map(|tool| (tool, shape.entry(tool, loaded))).collect();
            others |= !entries.is_empty() && !server.entry.is_own();
            let as_they_are = !server.entry.is_own()
                && tools_extent(caller, server) == Extent::Whole
                && entries.iter().all(|(tool, entry)| {
                    entry.as_ref().is_some_and(|entry| std::ptr::eq(&**entry, &raw const tool.definition))
                });
            if as_they_are {
                texts.push(server.tools_text.clone());
                continue;
            }
            let mut text = BytesMut::new();
            for entry in entries.iter().filter_map(|(_, entry)| entry.as_ref()) {
                if !text.is_empty() {
                    text.extend_from_slice(b",");
                }
                text.extend_from_slice(entry.as_bytes());
            }
            texts.push(text.freeze());
        }
        // The gateway's own tools are of no use to somebody who has no others.
        if !others {
            texts.clear();
        }
        ListBytes::join(ListKind::Tools, texts.iter())
    }
}
