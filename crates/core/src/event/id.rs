//! The id of an event: a number within one run of a gateway, and which run that was.

use std::fmt;
use std::str::FromStr;

/// Where an event stands. Whoever comes back says after which one they want to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// The run of the gateway: numbers of another run mean nothing here.
    pub run: u32,
    /// Its number in that run, counted from 1.
    pub number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.run, self.number)
    }
}

/// A text that is the id of no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event's id is such as 1f0c92ab-42")]
pub struct NoEventId;

impl FromStr for EventId {
    type Err = NoEventId;

    fn from_str(text: &str) -> Result<Self, NoEventId> {
        let (run, number) = text.split_once('-').ok_or(NoEventId)?;
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if run.len() != 8 || !plain(run) || !plain(number) {
            return Err(NoEventId);
        }
        let run = u32::from_str_radix(run, 16).map_err(|_| NoEventId)?;
        Ok(Self { run, number: number.parse().map_err(|_| NoEventId)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let id = EventId { run: 0x1f, number: 42 };
        assert_eq!(id.to_string(), "0000001f-42");
        assert_eq!("0000001f-42".parse(), Ok(id));
        let wrong =
            ["", "42", "-42", "1f-42", "0000001f-", "0000001g-4", "+000001f-1", "0000001f-+1", "0000001f--1"];
        for text in wrong {
            assert_eq!(text.parse::<EventId>(), Err(NoEventId), "{text}");
        }
    }
}
