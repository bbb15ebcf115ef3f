//! The URL of the blob storage: `file:PATH`, `s3://BUCKET/PREFIX` or `memory:`.

use super::BlobError;
use std::path::PathBuf;
use std::str::FromStr;

/// The URL of a blob storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobUrl {
    /// In memory: no blob survives the process. For tests and trials.
    Memory,
    /// A folder.
    Disk(PathBuf),
    /// A bucket of S3 or of an S3-compatible service.
    Bucket {
        /// Its name.
        name: String,
        /// The prefix of every object key.
        prefix: String,
    },
}

impl FromStr for BlobUrl {
    type Err = BlobError;

    fn from_str(text: &str) -> Result<Self, BlobError> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        if let Some(rest) = text.strip_prefix("s3://") {
            let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            if name.is_empty() || !name.chars().all(plain) || prefix.contains(['?', '#', '\0']) {
                return Err(BlobError::BadUrl);
            }
            return Ok(Self::Bucket { name: name.to_owned(), prefix: prefix.trim_matches('/').to_owned() });
        }
        let path = text.strip_prefix("file:").ok_or(BlobError::BadUrl)?;
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.contains(['\0', '?']) {
            return Err(BlobError::BadUrl);
        }
        Ok(Self::Disk(path.into()))
    }
}
