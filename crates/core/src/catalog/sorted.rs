//! All tools of a snapshot sorted by name, and which of them each view includes.
//!
//! Built on first use. A view is a list of indices, extended as far as it has been read and kept as long as the
//! snapshot, so the cost of a page depends on its length only, however many tools and personas there are.

use super::tool::Tool;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How many views are kept. Beyond that, all are rebuilt on use.
const MAX_VIEWS: usize = 64;

/// Tools sorted by name, and views of them.
#[derive(Debug, Default)]
pub(crate) struct SortedTools {
    tools: OnceLock<Box<[Arc<Tool>]>>,
    views: Mutex<HashMap<String, Arc<SortedView>>>,
}

impl SortedTools {
    /// All tools, sorted by name.
    pub(crate) fn tools<'a>(&self, all: impl Iterator<Item = &'a Arc<Tool>>) -> &[Arc<Tool>] {
        self.tools.get_or_init(|| {
            let mut tools: Vec<Arc<Tool>> = all.cloned().collect();
            tools.sort_unstable_by(|a, b| a.exposed.cmp(&b.exposed));
            tools.into()
        })
    }

    /// The view with this key; a new one is empty.
    pub(crate) fn view(&self, key: String) -> Arc<SortedView> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if views.len() >= MAX_VIEWS && !views.contains_key(&key) {
            views.clear();
        }
        views.entry(key).or_default().clone()
    }
}

/// The tools that a caller sees, as far as they have been requested.
#[derive(Debug, Default)]
pub(crate) struct SortedView(Mutex<ViewProgress>);

#[derive(Debug, Default)]
struct ViewProgress {
    /// The indices of visible tools.
    seen: Vec<u32>,
    /// The index of the next tool to check.
    next: u32,
}

impl SortedView {
    /// The index of the n-th visible tool.
    pub(crate) fn place(
        &self,
        at: usize,
        tools: &[Arc<Tool>],
        sees: impl Fn(&Tool) -> bool,
    ) -> Option<usize> {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ViewProgress { seen, next } = &mut *progress;
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
    fn a_view_is_extended_only_as_far_as_it_is_read() {
        let definition = |number| {
            RawJson::parse(format!(r#"{{"name":"t{number}","inputSchema":{{"type":"object"}}}}"#))
                .expect("JSON")
        };
        let found = Discovery { tools: (0..10).map(definition).collect(), ..Discovery::default() };
        let tools = admit(&Arc::new(entry("s")), &found, &Naming::default(), &|_| false).tools;
        let progress = Cell::new(0);
        let odd = |tool: &Tool| {
            progress.set(progress.get() + 1);
            tool.name.ends_with(['1', '3', '5', '7', '9'])
        };
        let view = SortedView::default();
        let steps = [(0, Some(1), 2), (0, Some(1), 2), (2, Some(5), 6), (5, None, 10), (4, Some(9), 10)];
        for (at, place, looks) in steps {
            assert_eq!((view.place(at, &tools, odd), progress.get()), (place, looks), "{at}");
        }
    }

    #[test]
    fn views_are_cached_by_key_up_to_a_limit() {
        let sorted = SortedTools::default();
        assert!(Arc::ptr_eq(&sorted.view("a".into()), &sorted.view("a".into())));
        (0..MAX_VIEWS * 2).for_each(|number| drop(sorted.view(number.to_string())));
        assert!(sorted.views.lock().expect("a lock").len() <= MAX_VIEWS);
    }
}
