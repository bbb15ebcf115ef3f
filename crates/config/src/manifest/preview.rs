//! What a person sees of the entries of a file before they trust it.

use crate::node::Node;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use toolbooth_core::skill::MAX_STEPS;

/// The entries of a file, each with its own label.
#[derive(Default)]
pub(super) struct ShownEntries {
    fields: BTreeMap<String, String>,
    /// The last number of each name.
    numbers: BTreeMap<String, usize>,
}

impl ShownEntries {
    /// Adds an entry. A further one of the same name gets a number, so that none hides another: the first is used.
    pub(super) fn add(&mut self, name: &str, shown: String) {
        let last = self.numbers.entry(name.to_owned()).or_default();
        // An entry may be named like the label of another one.
        loop {
            *last += 1;
            let label = match *last {
                1 => name.to_owned(),
                number => format!("{name} ({number})"),
            };
            if let Entry::Vacant(free) = self.fields.entry(label) {
                free.insert(shown);
                return;
            }
        }
    }

    /// The fields of the preview.
    pub(super) fn into_fields(self) -> BTreeMap<String, String> {
        self.fields
    }
}

/// The tools that a plan calls, in brackets.
pub(super) fn shown_tools(plan: Option<&Node>) -> Option<String> {
    let steps = plan.and_then(|plan| plan.elements().or_else(|| plan.get("steps")?.elements()));
    let tools = steps.unwrap_or_default().iter().filter_map(|step| step.get("tool")?.text());
    let tools: Vec<&str> = tools.take(MAX_STEPS).collect();
    (!tools.is_empty()).then(|| format!(" (calls {})", tools.join(", ")))
}
