//! Tools that a legacy session has loaded by finding or describing them. They join that session's list.

use crate::catalog::ListBytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of loaded tools per session; the least recently used are unloaded first.
pub const MAX_LOADED: usize = 64;

/// The tools that a session has loaded, shared by all its requests.
#[derive(Debug, Default)]
pub struct LoadedTools {
    state: Mutex<LoadedState>,
}

#[derive(Debug, Default)]
struct LoadedState {
    /// Exposed names, the latest last.
    names: VecDeque<Box<str>>,
    /// The cached list, and the key it was built for.
    list: Option<(String, Arc<ListBytes>)>,
}

impl PartialEq for LoadedTools {
    /// Compares by identity: each session has its own.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for LoadedTools {}

impl LoadedTools {
    fn state(&self) -> MutexGuard<'_, LoadedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads tools by their exposed names and returns those that were not loaded before.
    pub fn add<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let mut state = self.state();
        let mut new = Vec::new();
        for name in names {
            match state.names.iter().position(|known| **known == *name) {
                Some(place) => {
                    // Used again: move it to the end.
                    let known = state.names.remove(place);
                    state.names.extend(known);
                }
                None => {
                    state.names.push_back(name.into());
                    new.push(name);
                }
            }
        }
        while state.names.len() > MAX_LOADED {
            state.names.pop_front();
        }
        if !new.is_empty() {
            state.list = None;
        }
        new
    }

    /// The exposed names of the loaded tools, the latest last.
    pub fn names(&self) -> Vec<Box<str>> {
        self.state().names.iter().cloned().collect()
    }

    /// Whether nothing is loaded.
    pub fn is_empty(&self) -> bool {
        self.state().names.is_empty()
    }

    /// The list with the loaded tools, rebuilt only when those or the key change.
    pub fn list(&self, key: String, make: impl FnOnce(&[Box<str>]) -> ListBytes) -> Arc<ListBytes> {
        let mut state = self.state();
        if let Some((made_for, list)) = &state.list
            && *made_for == key
        {
            return list.clone();
        }
        let list = Arc::new(make(state.names.make_contiguous()));
        state.list = Some((key, list.clone()));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_are_unloaded_first() {
        let loaded = LoadedTools::default();
        assert!(loaded.is_empty());
        assert_eq!(loaded.add(["a", "b", "a"]), ["a", "b"]);
        assert_eq!(loaded.add(["a"]), Vec::<&str>::new());
        let many: Vec<String> = (1..MAX_LOADED).map(|number| format!("t{number}")).collect();
        loaded.add(many.iter().map(String::as_str));
        loaded.list(String::new(), |names| {
            assert_eq!(names.len(), MAX_LOADED);
            assert_eq!(&*names[0], "a", "`b` was unused for longer");
            ListBytes::default()
        });
    }
}
