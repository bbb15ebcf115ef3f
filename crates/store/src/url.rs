//! The URL of the store: `memory:`, `sqlite:PATH` or `postgres://…`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::secret::SecretText;

/// The URL of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// In memory: no data survives the process. For tests and trials.
    Memory,
    /// One file, for one gateway.
    Sqlite(PathBuf),
    /// A database shared by several gateways.
    Postgres(SecretText),
}

/// Errors of a store's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// The scheme is not known.
    #[error("the store's URL must begin with `memory:`, `sqlite:` or `postgres://`")]
    Scheme,
    /// The path is missing, or SQLite would not treat it as a file.
    #[error("the store's URL has no file after `sqlite:`")]
    Path,
    /// The URL has parameters, which are not supported.
    #[error("the store's URL has parameters after `?`, but `sqlite:` does not accept any")]
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
            Self::Scheme => {
                "use `sqlite:PATH` for a file, `postgres://USER@HOST/DATABASE` for several gateways, or `memory:` for a store that is not persistent".into()
            }
            Self::Path => "use `sqlite:PATH`, or `memory:` for a store that is not persistent".into(),
            Self::Parameters => "remove `?` and everything after it".into(),
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
            // Any part of the URL may hold a password, so it is never shown.
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
    fn the_url_selects_the_backend() {
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
        let url: StoreUrl = "postgres://ann:hunter2@db/x?password=hunter2".parse().expect("a postgres URL");
        assert!(!format!("{url} {url:?}").contains("hunter2"));
        assert_eq!(url.to_string(), "postgres://…");
    }
}
