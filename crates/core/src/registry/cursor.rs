//! Page cursors: mark where a page of tools ended, even if tools are added or removed in between.

use super::{Direction, ToolOrder};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// The maximum length of a cursor.
const MAX_BYTES: usize = 4096;

/// The last tool of a page. Clients return it unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCursor {
    /// The order it belongs to.
    pub order: (ToolOrder, Direction),
    /// The tool's sort key.
    pub key: String,
    /// Its exposed name.
    pub name: String,
}

impl PageCursor {
    /// Serializes it.
    pub fn write(&self) -> String {
        let (order, direction) = self.order;
        let sign = if direction == Direction::Up { "" } else { "-" };
        let text = format!("{sign}{}\n{}\n{}", order.as_str(), self.key, self.name);
        BASE64_URL_SAFE_NO_PAD.encode(text)
    }

    /// Parses a cursor for this order.
    pub fn read(text: &str, order: (ToolOrder, Direction)) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.get(..text.len().min(MAX_BYTES))?).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let mut parts = text.splitn(3, '\n');
        let (written, key, name) = (parts.next()?, parts.next()?, parts.next()?);
        let cursor = Self { order, key: key.to_owned(), name: name.to_owned() };
        let sign = if order.1 == Direction::Up { "" } else { "-" };
        (written == format!("{sign}{}", order.0.as_str())).then_some(cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_parsed_as_it_was_serialized() {
        let order = (ToolOrder::Calls, Direction::Down);
        let cursor = PageCursor { order, key: "007".into(), name: "a\nb".into() };
        assert_eq!(PageCursor::read(&cursor.write(), order), Some(cursor.clone()));
        assert_eq!(
            PageCursor::read(&cursor.write(), (ToolOrder::Calls, Direction::Up)),
            None,
            "another order"
        );
        for bad in ["", "?", "bmFtZQ", "é"] {
            assert_eq!(PageCursor::read(bad, order), None, "{bad}");
        }
    }
}
