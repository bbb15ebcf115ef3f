//! Where blobs are: `file:PATH`, `s3://BUCKET/PREFIX` or `memory:`.

use super::BlobError;
use std::path::PathBuf;
use std::str::FromStr;

/// A place for blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobPlace {
    /// Nothing survives the process; for tests and trials.
    Memory,
    /// A folder.
    Disk(PathBuf),
}

impl FromStr for BlobPlace {
    type Err = BlobError;

    fn from_str(text: &str) -> Result<Self, BlobError> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        if text.starts_with("s3://") {
            return Err(BlobError::NotBuilt);
        }
        let path = text.strip_prefix("file:").ok_or(BlobError::BadUrl)?;
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.contains(['\0', '?']) {
            return Err(BlobError::BadUrl);
        }
        Ok(Self::Disk(path.into()))
    }
}
