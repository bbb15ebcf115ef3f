//! The file that stores the tokens of gateways, readable only by its user.

use crate::failure::CommandFailure;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use toolbooth_config::Sources;
use toolbooth_core::fault::{Blame, Problem};

/// The stored tokens, by the URL of their gateway.
pub struct StoredTokens {
    path: Option<PathBuf>,
}

impl StoredTokens {
    /// The stored tokens of this user.
    pub fn of(sources: &Sources) -> Self {
        Self { path: sources.user_dir().map(|folder| folder.join("credentials.json")) }
    }

    /// All tokens; none if there is no file. A file that cannot be read is an error: writing it would lose its tokens.
    fn all(&self) -> Result<BTreeMap<String, String>, String> {
        let Some(path) = &self.path else { return Ok(BTreeMap::new()) };
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|_| format!("{} is damaged; repair or remove it", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        }
    }

    /// The token for a gateway. It is sent to that URL only.
    pub fn find(&self, url: &str) -> Option<String> {
        self.all().ok()?.remove(url)
    }

    /// Stores a token, or deletes it.
    pub fn set(&self, url: &str, token: Option<&str>) -> Result<(), CommandFailure> {
        let changed = self.all().and_then(|mut all| {
            match token {
                Some(token) => drop(all.insert(url.to_owned(), token.to_owned())),
                None => drop(all.remove(url)),
            }
            self.write(&all)
        });
        changed.map_err(|why| {
            CommandFailure::failed(Problem {
                code: "gateway.login-not-kept",
                blame: Blame::Gateway,
                message: format!("the token could not be stored: {why}"),
                hint: Some("TOOLBOOTH_TOKEN works without a file".into()),
            })
        })
    }

    fn write(&self, all: &BTreeMap<String, String>) -> Result<(), String> {
        let path = self.path.as_ref().ok_or("there is no home folder")?;
        let folder = path.parent().ok_or("there is no home folder")?;
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        // Written to a temporary file with mode 600, then renamed.
        let mut draft = tempfile::Builder::new()
            .prefix(".credentials")
            .make_in(folder, |path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path))
            .map_err(|error| error.to_string())?;
        let text = serde_json::to_vec_pretty(all).map_err(|error| error.to_string())?;
        draft.write_all(&text).map_err(|error| error.to_string())?;
        draft.persist(path).map_err(|error| error.to_string()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("credentials.json");
        let tokens = StoredTokens { path: Some(path.clone()) };
        tokens.set("http://a", Some("one")).expect("stored");
        tokens.set("http://b", Some("two")).expect("stored");
        assert_eq!(tokens.find("http://a").as_deref(), Some("one"));
        fs::write(&path, "{").expect("written");
        assert_eq!(tokens.find("http://a"), None);
        assert!(tokens.set("http://c", Some("three")).is_err());
        assert_eq!(fs::read_to_string(&path).expect("readable"), "{");
    }
}
