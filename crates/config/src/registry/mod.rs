//! Reads `server.json`, the description of a server in an MCP registry, and turns it into a server entry.
//!
//! The text comes from outside. Only known programs are run, package names cannot be options, and no value can refer to
//! a variable of the environment, except the variables that the description declares and the user confirms.

mod inputs;
mod package;
mod remote;

pub use inputs::NeededVariable;

use inputs::InputReader;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use toolbooth_core::fault::{Blame, Fault};

/// The maximum size of a description.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The maximum number of packages or remotes.
const MAX_CHOICES: usize = 50;
/// The maximum length of a text.
const MAX_TEXT: usize = 8192;
/// The key of the official registry's metadata.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

/// A server as a registry describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryServer {
    /// The name in the registry, such as `io.github.ann/weather`.
    pub name: String,
    /// The version of the description.
    pub version: String,
    /// What the server does.
    pub description: Option<String>,
    /// `active`, `deprecated` or `deleted`, if the registry says it.
    pub status: Option<String>,
    packages: Vec<Json>,
    remotes: Vec<Json>,
}

/// Which way to reach a server is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegistryChoice {
    /// A package whose program is installed, else a remote server.
    #[default]
    Any,
    /// A package.
    Package,
    /// A remote server.
    Remote,
}

/// What the user gave for an entry.
pub struct RegistryInputs<'a> {
    /// The name of the new server entry.
    pub server: &'a str,
    /// Values by the names of arguments, variables and headers.
    pub values: &'a BTreeMap<String, String>,
    /// Which way is used.
    pub choice: RegistryChoice,
    /// Whether a program is installed.
    pub is_installed: &'a dyn Fn(&str) -> bool,
}

/// A server entry made from a description.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryEntry {
    /// The entry.
    pub entry: Map<String, Json>,
    /// Variables that the entry refers to.
    pub variables: Vec<NeededVariable>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// An error of a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// It is not a `server.json`.
    #[error("the description of the server is not valid: {0}")]
    Invalid(String),
    /// The registry has removed the server.
    #[error("the registry has deleted `{0}`")]
    Deleted(String),
    /// No package and no remote server can be used.
    #[error("`{server}` cannot be added: {reasons}")]
    NoWay {
        /// The name in the registry.
        server: String,
        /// Why each way cannot be used.
        reasons: String,
    },
    /// Values are missing.
    #[error("`{server}` needs values: {missing}")]
    Missing {
        /// The name in the registry.
        server: String,
        /// The inputs with their descriptions.
        missing: String,
        /// The name of the first one.
        first: String,
    },
}

impl Fault for RegistryError {
    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "registry.invalid",
            Self::Deleted(_) => "registry.deleted",
            Self::NoWay { .. } => "registry.no-way",
            Self::Missing { .. } => "registry.missing-input",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Missing { .. } => Blame::Caller,
            Self::Invalid(_) | Self::Deleted(_) | Self::NoWay { .. } => Blame::Upstream,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { first, .. } => Some(format!("give each one, for example --input {first}=VALUE")),
            Self::NoWay { .. } => Some("add the server by its command or URL instead".into()),
            Self::Invalid(_) | Self::Deleted(_) => None,
        }
    }
}

impl RegistryServer {
    /// Reads a description: a `server.json`, or the answer of a registry that contains one.
    pub fn read(text: &[u8]) -> Result<Self, RegistryError> {
        if text.len() > MAX_BYTES {
            return Err(RegistryError::Invalid(format!("it has more than {MAX_BYTES} bytes")));
        }
        let whole: Json = serde_json::from_slice(text)
            .map_err(|error| RegistryError::Invalid(format!("not JSON (line {})", error.line())))?;
        let server = whole.get("server").filter(|server| server.is_object()).unwrap_or(&whole);
        let text = |key: &str| server[key].as_str().filter(|text| text.len() <= MAX_TEXT).map(str::to_owned);
        let Some(name) = text("name") else {
            return Err(RegistryError::Invalid("it has no `name`".into()));
        };
        let list = |key: &str| -> Vec<Json> {
            server[key].as_array().into_iter().flatten().take(MAX_CHOICES).cloned().collect()
        };
        let status = [&whole["_meta"][OFFICIAL]["status"], &server["status"]];
        let status = status.into_iter().find_map(|status| status.as_str().map(str::to_owned));
        Ok(Self {
            name,
            version: text("version").unwrap_or_default(),
            description: text("description"),
            status,
            packages: list("packages"),
            remotes: list("remotes"),
        })
    }

    /// The short name for a new server entry: the part after the namespace, in allowed characters.
    pub fn short_name(&self) -> String {
        let last = self.name.rsplit('/').next().unwrap_or(&self.name);
        let plain: String = last
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '-' })
            .take(64)
            .collect();
        let plain = plain.trim_matches(['-', '.']).to_owned();
        if plain.is_empty() { "server".to_owned() } else { plain }
    }

    /// Makes a server entry.
    pub fn entry(&self, inputs: &RegistryInputs<'_>) -> Result<RegistryEntry, RegistryError> {
        if self.status.as_deref() == Some("deleted") {
            return Err(RegistryError::Deleted(self.name.clone()));
        }
        let mut reasons = Vec::new();
        let mut reader = InputReader::new(inputs.server, inputs.values);
        let mut found = None;
        if inputs.choice != RegistryChoice::Remote {
            found = package::choose(&self.packages, inputs, &mut reader, &mut reasons);
        }
        if found.is_none() && inputs.choice != RegistryChoice::Package {
            found = remote::choose(&self.remotes, &mut reader, &mut reasons);
        }
        let Some(mut entry) = found else {
            if reasons.is_empty() {
                reasons.push("it lists no package or remote server of the wanted kind".into());
            }
            return Err(RegistryError::NoWay { server: self.name.clone(), reasons: reasons.join("; ") });
        };
        if let Some((first, _)) = reader.missing.first() {
            let described = |(name, about): &(String, String)| match about.as_str() {
                "" => format!("`{name}`"),
                about => format!("`{name}` ({about})"),
            };
            let missing: Vec<String> = reader.missing.iter().map(described).collect();
            let (server, first) = (self.name.clone(), first.clone());
            return Err(RegistryError::Missing { server, missing: missing.join(", "), first });
        }
        if let Some(description) = &self.description {
            entry.insert("description".into(), Json::from(inputs::literal(description)));
        }
        let mut notes = Vec::new();
        if self.status.as_deref() == Some("deprecated") {
            notes.push(format!("the registry says that `{}` is deprecated", self.name));
        }
        Ok(RegistryEntry { entry, variables: reader.variables, notes })
    }
}

#[cfg(test)]
mod tests;
