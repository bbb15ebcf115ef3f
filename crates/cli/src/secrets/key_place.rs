//! The places where the key can be.

use serde::{Deserialize, Serialize};

/// Where the key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum KeyPlace {
    /// In the keyring of the operating system.
    Keyring,
    /// In a file that only its owner can read.
    File,
}
