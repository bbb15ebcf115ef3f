//! Runs of text without spaces: the same few thousand make up nearly all texts of a catalog, so what one comes to is
//! found out once.

use crate::name_map::NameMap;

/// Longer runs are hardly met twice.
const MAX_RUN: usize = 32;
/// How many are remembered.
const MAX_KNOWN: usize = 1 << 16;

/// What runs of text come to: each to a list.
pub(super) struct Recurring<T> {
    known: NameMap<Box<str>, (u32, u32)>,
    /// The lists, one after the other; at last that of a run that is not remembered.
    lists: Vec<T>,
    /// How far the lists of those that are remembered go.
    kept: usize,
}

impl<T> Default for Recurring<T> {
    fn default() -> Self {
        Self { known: NameMap::default(), lists: Vec::new(), kept: 0 }
    }
}

impl<T> Recurring<T> {
    /// What a run comes to; `find` adds it to a list where that is not known.
    pub(super) fn of(&mut self, run: &str, find: impl FnOnce(&mut Vec<T>)) -> &[T] {
        let (from, to) = match self.known.get(run) {
            Some(&(from, to)) => (from as usize, to as usize),
            None => {
                self.lists.truncate(self.kept);
                find(&mut self.lists);
                let (from, to) = (self.kept, self.lists.len());
                if run.len() <= MAX_RUN
                    && self.known.len() < MAX_KNOWN
                    && let (Ok(start), Ok(end)) = (u32::try_from(from), u32::try_from(to))
                {
                    self.known.insert(run.into(), (start, end));
                    self.kept = to;
                }
                (from, to)
            }
        };
        self.lists.get(from..to).unwrap_or_default()
    }
}

/// Calls `visit` with each run of a text without spaces.
pub(super) fn each_run<'a>(text: &'a str, visit: &mut impl FnMut(&'a str)) {
    if !text.is_ascii() {
        return text.split_whitespace().for_each(visit);
    }
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        if matches!(byte, b'\t'..=b'\r' | b' ') {
            if start < at {
                visit(&text[start..at]);
            }
            start = at + 1;
        }
    }
    if start < text.len() {
        visit(&text[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_looked_into_once_unless_it_is_long() {
        let mut recurring = Recurring::default();
        let long = "x".repeat(MAX_RUN + 1);
        let mut looked = Vec::new();
        for run in ["ab", &long, "", "ab", "c", &long, "ab"] {
            let list = recurring.of(run, |list| {
                looked.push(run.len());
                list.extend(run.chars());
            });
            assert_eq!(list.iter().collect::<String>(), run);
        }
        assert_eq!(looked, [2, long.len(), 0, 1, long.len()]);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let mut recurring = Recurring::default();
        for number in 0..MAX_KNOWN + 10 {
            assert_eq!(recurring.of(&number.to_string(), |list| list.push(number)), [number]);
        }
        assert_eq!(recurring.known.len(), MAX_KNOWN);
        assert!(recurring.lists.len() <= MAX_KNOWN + 1);
        assert_eq!(recurring.of("7", |_| unreachable!("it is known")), [7]);
    }

    #[test]
    fn ascii_is_split_where_all_text_is() {
        for code in 0..=0x7f_u8 {
            let c = char::from(code);
            for text in [format!("{c}a{c}{c}b"), format!("a{c}"), c.to_string()] {
                let mut runs = Vec::new();
                each_run(&text, &mut |run| runs.push(run));
                assert_eq!(runs, text.split_whitespace().collect::<Vec<_>>(), "{code}");
            }
        }
        let mut runs = Vec::new();
        each_run("é\u{2003}b\u{a0}c", &mut |run| runs.push(run));
        assert_eq!(runs, ["é", "b", "c"]);
    }
}
