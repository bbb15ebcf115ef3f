//! The id of an event: its number within one run of the gateway, and the run.

use std::fmt;
use std::str::FromStr;

/// The id of an event. A client that reconnects sends the last one it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// The run of the gateway. Numbers of different runs are unrelated.
    pub run: u32,
    /// Its number in that run, counted from 1.
    pub number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.run, self.number)
    }
}

/// The error for a text that is not an event id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an event id; one looks like 1f0c92ab-42")]
pub struct InvalidEventId;

impl FromStr for EventId {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        let (run, number) = text.split_once('-').ok_or(InvalidEventId)?;
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if run.len() != 8 || !plain(run) || !plain(number) {
            return Err(InvalidEventId);
        }
        let run = u32::from_str_radix(run, 16).map_err(|_| InvalidEventId)?;
        Ok(Self { run, number: number.parse().map_err(|_| InvalidEventId)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_as_they_are_displayed() {
        let id = EventId { run: 0x1f, number: 42 };
        assert_eq!(id.to_string(), "0000001f-42");
        assert_eq!("0000001f-42".parse(), Ok(id));
        let wrong =
            ["", "42", "-42", "1f-42", "0000001f-", "0000001g-4", "+000001f-1", "0000001f-+1", "0000001f--1"];
        for text in wrong {
            assert_eq!(text.parse::<EventId>(), Err(InvalidEventId), "{text}");
        }
    }
}
