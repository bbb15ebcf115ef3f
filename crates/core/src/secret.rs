//! Text that may contain secrets: code that needs the value gets it, everything else sees the template.

mod in_json;
mod known;

pub use known::{KnownSecrets, MASK, MIN_SECRET_CHARS};
use std::fmt;

/// A string after `${VAR}` expansion. Printing shows the template, never the value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretText {
    template: String,
    value: String,
}

impl SecretText {
    /// Text in which nothing was expanded.
    pub fn plain(text: impl Into<String>) -> Self {
        let value = text.into();
        Self { template: value.clone(), value }
    }

    /// Text whose `template` became `value` by expansion.
    pub fn expanded(template: impl Into<String>, value: impl Into<String>) -> Self {
        Self { template: template.into(), value: value.into() }
    }

    /// The value, for a process or an upstream; never for a person or a log.
    pub fn expose(&self) -> &str {
        &self.value
    }

    /// The text as written, with `${NAME}` in place of secrets.
    pub fn shown(&self) -> &str {
        &self.template
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.template, f)
    }
}

impl fmt::Display for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_never_shows_the_value() {
        let text = SecretText::expanded("Bearer ${TOKEN}", "Bearer hunter2");
        assert_eq!(format!("{text} {text:?}"), r#"Bearer ${TOKEN} "Bearer ${TOKEN}""#);
        assert_eq!(text.expose(), "Bearer hunter2");
    }
}
