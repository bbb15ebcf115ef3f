//! Where a page of tools ended, so that the next one goes on there whatever came or went in between.

use super::{Direction, Order};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// The longest cursor that is read.
const MAX_BYTES: usize = 4096;

/// The last tool of a page. Clients hand it back as they got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The order that it belongs to.
    pub order: (Order, Direction),
    /// What the tool was ordered by.
    pub key: String,
    /// Its exposed name.
    pub name: String,
}

impl Cursor {
    /// Writes it.
    pub fn write(&self) -> String {
        let (order, direction) = self.order;
        let sign = if direction == Direction::Up { "" } else { "-" };
        let text = format!("{sign}{}\n{}\n{}", order.as_str(), self.key, self.name);
        BASE64_URL_SAFE_NO_PAD.encode(text)
    }

    /// Reads one that was written for this order.
    pub fn read(text: &str, order: (Order, Direction)) -> Option<Self> {
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
    fn a_cursor_is_read_as_it_was_written() {
        let order = (Order::Calls, Direction::Down);
        let cursor = Cursor { order, key: "007".into(), name: "a\nb".into() };
        assert_eq!(Cursor::read(&cursor.write(), order), Some(cursor.clone()));
        assert_eq!(Cursor::read(&cursor.write(), (Order::Calls, Direction::Up)), None, "another order");
        for bad in ["", "?", "bmFtZQ", "é"] {
            assert_eq!(Cursor::read(bad, order), None, "{bad}");
        }
    }
}
