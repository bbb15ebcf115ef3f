//! Caches results per run of text (text without spaces): the same few thousand runs make up nearly all texts of a
//! catalog.

use toolbooth_core::name_map::NameMap;

/// Longer runs are not cached: they seldom occur twice.
const MAX_RUN: usize = 32;
/// Maximum number of cached runs.
const MAX_KNOWN: usize = 1 << 16;

/// The runs seen so far, each with a number.
#[derive(Default)]
pub(crate) struct RunTable {
    /// Nearly all runs are short. They are stored in the map itself, so a comparison needs no pointer lookup.
    short: NameMap<Short, u32>,
    long: NameMap<Box<str>, u32>,
}

/// The number of a cached run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunId(u32);

/// The bytes of a short run, followed by their number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Short(u128);

impl Short {
    fn of(run: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        bytes[15] = u8::try_from(run.len()).ok()?;
        bytes[..15].get_mut(..run.len())?.copy_from_slice(run.as_bytes());
        Some(Self(u128::from_le_bytes(bytes)))
    }
}

impl RunTable {
    /// The id of a run; `None` if the run is too long or the table is full.
    pub(crate) fn get(&mut self, run: &str) -> Option<RunId> {
        let short = Short::of(run);
        let known = match &short {
            Some(short) => self.short.get(short),
            None => self.long.get(run),
        };
        if let Some(number) = known {
            return Some(RunId(*number));
        }
        let count = self.short.len() + self.long.len();
        if run.len() > MAX_RUN || count >= MAX_KNOWN {
            return None;
        }
        let number = u32::try_from(count).ok()?;
        match short {
            Some(short) => self.short.insert(short, number),
            None => self.long.insert(run.into(), number),
        };
        Some(RunId(number))
    }
}

/// A cached list of items for each run.
pub(crate) struct RunLists<T> {
    /// By run: the range of its list in `items`; `None` if it was not computed yet.
    places: Vec<Option<(u32, u32)>>,
    /// All lists, one after the other; the last may belong to a run that is not cached.
    items: Vec<T>,
    /// The end of the cached lists.
    kept: usize,
}

impl<T> Default for RunLists<T> {
    fn default() -> Self {
        Self { places: Vec::new(), items: Vec::new(), kept: 0 }
    }
}

impl<T> RunLists<T> {
    /// The list of a run; `find` computes it if it is not cached.
    pub(crate) fn of(&mut self, run: Option<RunId>, find: impl FnOnce(&mut Vec<T>)) -> &[T] {
        let number = run.map(|RunId(number)| number as usize);
        if let Some(Some((from, to))) = number.and_then(|number| self.places.get(number)) {
            return self.items.get(*from as usize..*to as usize).unwrap_or_default();
        }
        self.items.truncate(self.kept);
        find(&mut self.items);
        let (from, to) = (self.kept, self.items.len());
        if let (Some(number), Ok(start), Ok(end)) = (number, u32::try_from(from), u32::try_from(to)) {
            if self.places.len() <= number {
                self.places.resize(number + 1, None);
            }
            self.places[number] = Some((start, end));
            self.kept = to;
        }
        self.items.get(from..to).unwrap_or_default()
    }
}

/// Calls `visit` with the start and the text of each run of a text.
pub(crate) fn each_run<'a>(text: &'a str, visit: &mut impl FnMut(usize, &'a str)) {
    if !text.is_ascii() {
        let start = |run: &str| run.as_ptr().addr() - text.as_ptr().addr();
        return text.split_whitespace().for_each(|run| visit(start(run), run));
    }
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        if matches!(byte, b'\t'..=b'\r' | b' ') {
            if start < at {
                visit(start, &text[start..at]);
            }
            start = at + 1;
        }
    }
    if start < text.len() {
        visit(start, &text[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_computed_once_unless_it_is_long() {
        let (mut runs, mut lists) = (RunTable::default(), RunLists::default());
        let [short, middling, longest, long] =
            [15, 16, MAX_RUN, MAX_RUN + 1].map(|length| "x".repeat(length));
        let mut looked = Vec::new();
        for run in [
            "ab", &long, "", "ab", "c", &short, &middling, &longest, &long, &short, &middling, &longest, "ab",
        ] {
            let list = lists.of(runs.get(run), |list| {
                looked.push(run.len());
                list.extend(run.chars());
            });
            assert_eq!(list.iter().collect::<String>(), run);
        }
        assert_eq!(looked, [2, MAX_RUN + 1, 0, 1, 15, 16, MAX_RUN, MAX_RUN + 1]);
    }

    #[test]
    fn similar_runs_have_different_ids() {
        let mut runs = RunTable::default();
        let alike = ["a", "a\0", "a\0\0", "\0a", "", "\0", "\u{1}"];
        let numbers: Vec<_> = alike.iter().map(|run| runs.get(run)).collect();
        for (at, run) in alike.iter().enumerate() {
            assert_eq!(runs.get(run), numbers[at]);
            assert!(!numbers[..at].contains(&numbers[at]), "{run:?}");
        }
    }

    #[test]
    fn several_lists_share_the_same_run_ids() {
        let (mut runs, mut lengths, mut letters) =
            (RunTable::default(), RunLists::default(), RunLists::default());
        for run in ["b", "ab", "b"] {
            runs.get(run);
        }
        assert_eq!(letters.of(runs.get("ab"), |list| list.extend("ab".chars())), ['a', 'b']);
        assert_eq!(lengths.of(runs.get("b"), |list| list.push(1)), [1]);
        assert_eq!(letters.of(runs.get("b"), |list| list.push('b')), ['b']);
        assert_eq!(letters.of(runs.get("ab"), |_| unreachable!("it is known")), ['a', 'b']);
    }

    #[test]
    fn the_number_of_cached_runs_is_limited() {
        let (mut runs, mut lists) = (RunTable::default(), RunLists::default());
        for number in 0..MAX_KNOWN + 10 {
            assert_eq!(lists.of(runs.get(&number.to_string()), |list| list.push(number)), [number]);
        }
        assert_eq!(runs.short.len() + runs.long.len(), MAX_KNOWN);
        assert!(lists.items.len() <= MAX_KNOWN + 1 && lists.places.len() <= MAX_KNOWN);
        assert_eq!(lists.of(runs.get("7"), |_| unreachable!("it is known")), [7]);
    }

    #[test]
    fn ascii_is_split_like_any_other_text() {
        for code in 0..=0x7f_u8 {
            let c = char::from(code);
            for text in [format!("{c}a{c}{c}b"), format!("a{c}"), c.to_string()] {
                let mut runs = Vec::new();
                each_run(&text, &mut |start, run| {
                    assert!(text[start..].starts_with(run));
                    runs.push(run);
                });
                assert_eq!(runs, text.split_whitespace().collect::<Vec<_>>(), "{code}");
            }
        }
        let mut runs = Vec::new();
        each_run("é\u{2003}b\u{a0}c", &mut |start, run| runs.push((start, run)));
        assert_eq!(runs, [(0, "é"), (5, "b"), (8, "c")]);
    }
}
