//! Views: the tool lists of callers with the same rights, in each form, built on first use.

use super::choice::{ExposureTerms, Size};
use super::surface::{ListShape, ShapeKey, size};
use crate::caller::Caller;
use crate::catalog::{Catalog, ListBytes, ListKind, Tool};
use crate::loaded_tools::LoadedTools;
use crate::permission::{Permission, ServerVisibility, on_tool, tools_extent};
use bytes::{Bytes, BytesMut};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many views are kept. Beyond that, the cache is cleared.
const MAX_VIEWS: usize = 256;
/// How many forms of one view are kept. Beyond that, they are rebuilt.
const MAX_SHAPES: usize = 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All views of one snapshot.
#[derive(Debug, Default)]
struct Views(Mutex<HashMap<String, Arc<CatalogView>>>);

impl Views {
    fn of(&self, key: String) -> Arc<CatalogView> {
        let mut views = lock(&self.0);
        if let Some(view) = views.get(&key) {
            return view.clone();
        }
        if views.len() >= MAX_VIEWS {
            views.clear();
        }
        let view = Arc::new(CatalogView { key: key.clone(), state: Mutex::default() });
        views.insert(key, view.clone());
        view
    }
}

/// One view: the tools that callers with the same rights see.
#[derive(Debug)]
pub struct CatalogView {
    key: String,
    state: Mutex<ViewState>,
}

#[derive(Debug, Default)]
struct ViewState {
    sizes: Vec<((u64, u32), Size)>,
    lists: Vec<(ShapeKey, Arc<ListBytes>)>,
}

impl Catalog {
    /// The view of a caller.
    pub fn view(&self, caller: &Caller) -> Arc<CatalogView> {
        self.views().get_or_compute(Views::default).of(self.view_key(caller))
    }

    /// The size of a view relative to a token budget; computed once.
    pub fn size_of(&self, view: &CatalogView, caller: &Caller, terms: &ExposureTerms, budget: u32) -> Size {
        let mut state = lock(&view.state);
        let key = (terms.key(), budget);
        if let Some((_, known)) = state.sizes.iter().find(|(known, _)| *known == key) {
            return *known;
        }
        let found = size(self, caller, terms, budget);
        // Terms change with the configuration, so old ones are no longer used.
        if state.sizes.len() >= MAX_SHAPES {
            state.sizes.clear();
        }
        state.sizes.push((key, found));
        found
    }

    /// The serialized list of tools in one form.
    pub fn shaped(&self, view: &CatalogView, caller: &Caller, shape: &ListShape<'_>) -> Arc<ListBytes> {
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

    /// Like [`Self::shaped`], with the tools that a session has loaded.
    pub fn shaped_with(
        &self,
        view: &CatalogView,
        caller: &Caller,
        shape: &ListShape<'_>,
        loaded: &LoadedTools,
    ) -> Arc<ListBytes> {
        if loaded.is_empty() {
            return self.shaped(view, caller, shape);
        }
        let key = format!("{} {:?} {}", self.revision, shape.key(), view.key);
        loaded.list(key, |names| self.write(caller, shape, names))
    }

    fn write(&self, caller: &Caller, shape: &ListShape<'_>, loaded: &[Box<str>]) -> ListBytes {
        let mut others = false;
        let mut texts: Vec<Bytes> = Vec::with_capacity(self.servers().len());
        for server in self.visible(caller) {
            let granted = |tool: &&Arc<Tool>| on_tool(caller, tool) == Permission::Granted;
            let entries: Vec<_> =
                server.tools.iter().filter(granted).map(|tool| (tool, shape.entry(tool, loaded))).collect();
            others |= !entries.is_empty() && !server.entry.is_own();
            let as_they_are = !server.entry.is_own()
                && tools_extent(caller, server) == ServerVisibility::Whole
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
        // The gateway's own tools are useless without other tools.
        if !others {
            texts.clear();
        }
        ListBytes::join(ListKind::Tools, texts.iter())
    }
}
