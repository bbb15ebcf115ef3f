//! Where the store is: `memory:`, `sqlite:PATH` or `postgres://…`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::secret::SecretText;

/// The address of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// Nothing survives the process; for tests and trials.
    Memory,
    /// One file, for one gateway.
    Sqlite(PathBuf),
    /// A database that replicas share.
    Postgres(SecretText),
}

/// The address of a store could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// The scheme is none of ours.
    #[error("the store's address begins with none of `memory:`, `sqlite:` and `postgres://`")]
    Scheme,
    /// No file, or something that SQLite would not take for a file.
    #[error("the store's address names no file after `sqlite:`")]
    Path,
    /// Parameters, which have no meaning here.
    #[error("the store's address has parameters after `?`, and `sqlite:` takes none")]
    Parameters,
}

impl Fault for StoreUrlError {
    fn code(&self) -> &'static str {
        "store.bad-url"
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Scheme => "write `sqlite:PATH` for a file, or `memory:` to keep nothing".into(),
            Self::Path => "write `sqlite:PATH`, or `memory:` to keep nothing".into(),
            Self::Parameters => "leave out `?` and what follows it".into(),
        })
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            // The address may hold a password anywhere, so none of it is ever shown.
            return Ok(Self::Postgres(SecretText::expanded("postgres://…", text)));
        }
        let path = text.strip_prefix("sqlite:").ok_or(StoreUrlError::Scheme)?;
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.contains('?') {
            return Err(StoreUrlError::Parameters);
        }
        if path.is_empty() || path.ends_with('/') || path.starts_with(':') || path.contains('\0') {
            return Err(StoreUrlError::Path);
        }
        Ok(Self::Sqlite(path.into()))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_backend() {
        let sqlite = |path: &str| Ok(StoreUrl::Sqlite(path.into()));
        let cases = [
            ("memory:", Ok(StoreUrl::Memory)),
            ("sqlite:data/toolbooth.db", sqlite("data/toolbooth.db")),
            ("sqlite:/var/lib/a b.db", sqlite("/var/lib/a b.db")),
            ("sqlite:///var/lib/x.db", sqlite("/var/lib/x.db")),
            ("sqlite://x.db", sqlite("x.db")),
            ("sqlite:", Err(StoreUrlError::Path)),
            ("sqlite:data/", Err(StoreUrlError::Path)),
            ("sqlite::memory:", Err(StoreUrlError::Path)),
            ("sqlite:x.db?mode=ro", Err(StoreUrlError::Parameters)),
            ("mysql://x", Err(StoreUrlError::Scheme)),
            ("", Err(StoreUrlError::Scheme)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<StoreUrl>(), expected, "{text}");
        }
    }

    #[test]
    fn a_database_password_is_never_shown() {
        let url: StoreUrl = "postgres://ann:hunter2@db/x?password=hunter2".parse().expect("postgres address");
        assert!(!format!("{url} {url:?}").contains("hunter2"));
        assert_eq!(url.to_string(), "postgres://…");
    }
}
