//! The roll: all tools of a snapshot in the order of their names, and who sees which of them.
//!
//! It is made when somebody first asks. A view is a list of places on it, kept for as long as the snapshot:
//! a page costs what is on the page, however many tools and personas there are.

use super::tool::Tool;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// How many views are kept; beyond that they are made anew.
const MAX_VIEWS: usize = 64;

/// Tools by name, and views of them.
#[derive(Debug, Default)]
pub(super) struct Roll {
    tools: OnceLock<Box<[Arc<Tool>]>>,
    views: Mutex<HashMap<String, Arc<[u32]>>>,
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

    /// The places of a view.
    pub(super) fn places(&self, view: String, make: impl FnOnce() -> Vec<u32>) -> Arc<[u32]> {
        let views = || self.views.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = views().get(&view) {
            return known.clone();
        }
        let made: Arc<[u32]> = make().into(); // Without the lock: others need not wait.
        let mut views = views();
        if views.len() >= MAX_VIEWS {
            views.clear();
        }
        views.insert(view, made.clone());
        made
    }
}
