//! Runs of text without spaces: the same few thousand make up nearly all texts of a catalog, so what one comes to is
//! found out once.

use crate::name_map::NameMap;

/// Longer runs are hardly met twice.
const MAX_RUN: usize = 32;
/// How many are remembered.
const MAX_KNOWN: usize = 1 << 16;

/// The runs that were met before, each with a number.
#[derive(Default)]
pub(super) struct Runs {
    /// Nearly all are short: they stand in the map itself, and nothing has to be fetched to compare them.
    short: NameMap<Short, u32>,
    long: NameMap<Box<str>, u32>,
}

/// A run that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run(u32);

/// The bytes of a short run, and at last how many they are.
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

impl Runs {
    /// The run, if it is one that is remembered.
    pub(super) fn get(&mut self, run: &str) -> Option<Run> {
        let short = Short::of(run);
        let known = match &short {
            Some(short) => self.short.get(short),
            None => self.long.get(run),
        };
        if let Some(number) = known {
            return Some(Run(*number));
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
        Some(Run(number))
    }
}

/// What runs come to: each to a list.
pub(super) struct Lists<T> {
    /// By run, where its list is; nothing where that was not asked yet.
    places: Vec<Option<(u32, u32)>>,
    /// The lists, one after the other; at last that of a run that is not remembered.
    items: Vec<T>,
    /// How far the lists of those that are remembered go.
    kept: usize,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { places: Vec::new(), items: Vec::new(), kept: 0 }
    }
}

impl<T> Lists<T> {
    /// What a run comes to; `find` adds it to a list where that is not known.
    pub(super) fn of(&mut self, run: Option<Run>, find: impl FnOnce(&mut Vec<T>)) -> &[T] {
        let number = run.map(|Run(number)| number as usize);
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

/// Calls `visit` with each run of a text without spaces, and where it begins.
pub(super) fn each_run<'a>(text: &'a str, visit: &mut impl FnMut(usize, &'a str)) {
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
    fn a_run_is_looked_into_once_unless_it_is_long() {
        let (mut runs, mut lists) = (Runs::default(), Lists::default());
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
    fn runs_that_look_alike_are_told_apart() {
        let mut runs = Runs::default();
        let alike = ["a", "a\0", "a\0\0", "\0a", "", "\0", "\u{1}"];
        let numbers: Vec<_> = alike.iter().map(|run| runs.get(run)).collect();
        for (at, run) in alike.iter().enumerate() {
            assert_eq!(runs.get(run), numbers[at]);
            assert!(!numbers[..at].contains(&numbers[at]), "{run:?}");
        }
    }

    #[test]
    fn lists_of_several_kinds_go_by_the_same_runs() {
        let (mut runs, mut lengths, mut letters) = (Runs::default(), Lists::default(), Lists::default());
        for run in ["b", "ab", "b"] {
            runs.get(run);
        }
        assert_eq!(letters.of(runs.get("ab"), |list| list.extend("ab".chars())), ['a', 'b']);
        assert_eq!(lengths.of(runs.get("b"), |list| list.push(1)), [1]);
        assert_eq!(letters.of(runs.get("b"), |list| list.push('b')), ['b']);
        assert_eq!(letters.of(runs.get("ab"), |_| unreachable!("it is known")), ['a', 'b']);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let (mut runs, mut lists) = (Runs::default(), Lists::default());
        for number in 0..MAX_KNOWN + 10 {
            assert_eq!(lists.of(runs.get(&number.to_string()), |list| list.push(number)), [number]);
        }
        assert_eq!(runs.short.len() + runs.long.len(), MAX_KNOWN);
        assert!(lists.items.len() <= MAX_KNOWN + 1 && lists.places.len() <= MAX_KNOWN);
        assert_eq!(lists.of(runs.get("7"), |_| unreachable!("it is known")), [7]);
    }

    #[test]
    fn ascii_is_split_where_all_text_is() {
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
