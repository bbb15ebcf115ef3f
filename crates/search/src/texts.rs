//! Compact lists of many short strings.

/// A list of short strings, stored in one buffer.
#[derive(Debug, Default)]
pub(crate) struct TextList {
    text: String,
    ends: Vec<u32>,
}

impl TextList {
    /// Appends a string.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// The string at a position; empty if out of range.
    pub(crate) fn get(&self, place: usize) -> &str {
        let start =
            place.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        let end = self.ends.get(place).map_or(start, |end| *end as usize);
        self.text.get(start..end).unwrap_or_default()
    }

    /// The number of strings.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The strings that begin with `start`. The list must be sorted.
    pub(crate) fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.get(middle) < start {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        (from..self.len()).map(|place| self.get(place)).take_while(move |text| text.starts_with(start))
    }

    /// Calls `visit` with the position of each string that begins with `beginning`, and whether it equals `beginning`.
    pub(crate) fn each_beginning_with(&self, beginning: &str, visit: &mut impl FnMut(usize, bool)) {
        let (bytes, prefix) = (self.text.as_bytes(), beginning.as_bytes());
        let mut start = 0;
        for (place, end) in self.ends.iter().enumerate() {
            let end = *end as usize;
            let is_long_enough = end - start >= prefix.len();
            if is_long_enough && bytes.get(start..).is_some_and(|rest| rest.starts_with(prefix)) {
                visit(place, end - start == prefix.len());
            }
            start = end;
        }
    }
}
