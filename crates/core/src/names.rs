//! Names that came from outside, as types.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The group every authenticated caller is in.
pub const EVERYONE: &str = "users";

/// The error for an invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty, or longer than 64 characters.
    #[error("a server name must have 1 to 64 characters, this one has {0}")]
    Length(usize),
    /// A character that names may not contain.
    #[error("a server name may contain A-Z a-z 0-9 _ - . but not {0:?}")]
    Character(char),
}

/// The configured name of a server: 1 to 64 of `A-Z a-z 0-9 _ - .`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// The name as shared text.
    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let length = text.chars().count();
        if !(1..=64).contains(&length) {
            return Err(NameError::Length(length));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || "_-.".contains(*c))) {
            Some(character) => Err(NameError::Character(character)),
            None => Ok(Self(text.into())),
        }
    }
}

impl TryFrom<String> for ServerName {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<ServerName> for String {
    fn from(name: ServerName) -> Self {
        name.0.to_string()
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names_are_short_and_plain() {
        let cases = [
            ("fs", true),
            ("my.server-2_x", true),
            ("", false),
            ("a b", false),
            ("grüße", false),
            (&"x".repeat(64), true),
            (&"x".repeat(65), false),
        ];
        for (text, accepted) in cases {
            assert_eq!(text.parse::<ServerName>().is_ok(), accepted, "{text}");
        }
    }
}
