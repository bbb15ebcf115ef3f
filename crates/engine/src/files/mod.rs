//! Files of callers: taking them in, finding them, handing them out.
//!
//! A file is open to its owner and to nobody else; what is not open looks as if it did not exist. Its
//! content is in its place before its row is written, and goes after the row: no row is ever without content.

mod address;
#[cfg(feature = "s3")]
mod bucket;
mod grant;
mod problem;
#[cfg(test)]
mod tests;
mod tidy;

#[cfg(feature = "s3")]
pub use bucket::open_bucket;

use address::UseCount;
pub use address::{Granted, Look, TokenRefusal};
pub use problem::FileProblem;

pub(crate) use grant::Grant;

use crate::clock::now_ms;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::inject::{TokenKeys, UnknownName, Uses};
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::file::{DEFAULT_MIME, FileName, FileOrigin, FileRow, clean_mime, guess_mime};
use toolbooth_store::{BlobStream, Blobs, FileFilter, FileQuota, Store, StoreError};
use uuid::Uuid;

/// The longest description that is kept.
const MAX_DESCRIPTION: usize = 4_000;
/// The longest name of a viewer.
const MAX_VIEWER: usize = 64;

/// What the configuration says about files.
#[derive(Debug, Clone)]
pub struct FileTerms {
    /// The address that servers reach the gateway by; without one no file can be handed to a tool.
    pub public_url: Option<String>,
    /// How long a temporary address lives.
    pub url_lives: Duration,
    /// How long it outlives its call.
    pub grace: Duration,
    /// The largest file that is taken.
    pub max_bytes: u64,
    /// How much one user may keep.
    pub quota: FileQuota,
    /// How long files are kept; for good, where absent.
    pub keep: Option<Duration>,
    /// How often an address that may be used more than once is honoured.
    pub max_uses: u32,
    /// How often an address may be used.
    pub uses: Uses,
    /// What becomes of a name that names no file.
    pub unknown: UnknownName,
}

impl Default for FileTerms {
    fn default() -> Self {
        Self {
            public_url: None,
            url_lives: Duration::from_secs(3600),
            grace: Duration::from_secs(60),
            max_bytes: 250 << 20,
            quota: FileQuota { bytes: 10 << 30, ..FileQuota::default() },
            keep: None,
            max_uses: 100,
            uses: Uses::Many,
            unknown: UnknownName::Refused,
        }
    }
}

/// Where files are kept and on what terms, for the start of an engine.
pub struct FileRoom {
    /// Where their content is.
    pub blobs: Blobs,
    /// The terms.
    pub terms: FileTerms,
    /// The key that signs addresses; made and kept in the store when absent.
    pub key: Option<Vec<u8>>,
}

impl FileRoom {
    /// Files that are forgotten with the process, on the usual terms; for tests and trials.
    pub fn in_memory() -> Self {
        Self { blobs: Blobs::in_memory(), terms: FileTerms::default(), key: None }
    }
}

/// The files of a gateway.
pub struct Files {
    store: Arc<dyn Store>,
    blobs: Blobs,
    keys: TokenKeys,
    terms: FileTerms,
    uses: UseCount,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

/// A file that is about to come.
#[derive(Debug, Clone)]
pub struct NewFile {
    /// Its name, as whoever brings it wrote it; it is made safe.
    pub name: String,
    /// What it holds, if that was said; else its name tells.
    pub mime: Option<String>,
    /// Where it comes from.
    pub origin: FileOrigin,
    /// What whoever made it wrote about it.
    pub description: Option<String>,
    /// How it wants to be shown.
    pub viewer: Option<String>,
}

impl NewFile {
    /// An upload of this name.
    pub fn upload(name: impl Into<String>) -> Self {
        let origin = FileOrigin::Upload;
        Self { name: name.into(), mime: None, origin, description: None, viewer: None }
    }
}

/// Which of a caller's files are asked for.
#[derive(Debug, Clone, Default)]
pub struct FileQuery {
    /// Those that a call in this session can name; absent means all.
    pub session: Option<String>,
    /// Of this name, all versions.
    pub name: Option<String>,
    /// That came before this one.
    pub before: Option<Uuid>,
    /// At most so many.
    pub limit: Option<u32>,
}

impl Files {
    pub(crate) async fn open(room: FileRoom, store: Arc<dyn Store>) -> Result<Arc<Self>, Problem> {
        let FileRoom { blobs, terms, key } = room;
        let keys = address::keys(key, &*store).await?;
        Ok(Arc::new(Self { store, blobs, keys, terms, uses: UseCount::default() }))
    }

    /// The terms.
    pub fn terms(&self) -> &FileTerms {
        &self.terms
    }

    /// Takes a file in, piece by piece, into the caller's session. A name that is there already gets a new
    /// version. What is too large or breaks off leaves nothing.
    pub async fn put<S, E>(&self, caller: &Caller, new: NewFile, content: S) -> Result<FileRow, FileProblem>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: fmt::Display,
    {
        let name = FileName::made_safe(&new.name).ok_or(FileProblem::BadName)?;
        let said = new.mime.as_deref().and_then(clean_mime).filter(|mime| mime != DEFAULT_MIME);
        let mime = said.unwrap_or_else(|| guess_mime(&name).to_owned());
        let id = Uuid::now_v7();
        let (limit, quota) = (self.terms.max_bytes, self.terms.quota);
        let (files, bytes) = self.store.file_usage(&caller.user).await?;
        let room = quota.bytes.saturating_sub(bytes);
        if files >= quota.files || room == 0 {
            return Err(FileProblem::Quota);
        }
        let mut writer = self.blobs.writer(id).await?;
        let mut content = pin!(content);
        while let Some(piece) = content.next().await {
            let piece = piece.map_err(|error| {
                tracing::debug!("an upload broke off: {error}");
                FileProblem::CutShort
            })?;
            if writer.size_bytes().saturating_add(piece.len() as u64) > limit {
                return Err(FileProblem::TooLarge { limit_bytes: limit });
            }
            if writer.size_bytes().saturating_add(piece.len() as u64) > room {
                return Err(FileProblem::Quota);
            }
            writer.write(piece).await?;
        }
        let (store, blobs) = (self.store.clone(), self.blobs.clone());
        let (user, session) = (caller.user.to_string(), caller.session.as_deref().map(str::to_owned));
        let description = new.description.map(|text| text.chars().take(MAX_DESCRIPTION).collect());
        let viewer = new.viewer.map(|text| text.chars().take(MAX_VIEWER).collect());
        let origin = new.origin;
        // All of it is here: from now on nobody who hangs up can leave content without a row.
        let kept = tokio::spawn(async move {
            let written = writer.finish().await?;
            let row = FileRow {
                id,
                user,
                session,
                name,
                version: 0,
                mime,
                size_bytes: written.size_bytes,
                sha256: written.sha256,
                origin,
                description,
                viewer,
                created_ms: now_ms(),
            };
            // Uploads that came at the same time may have filled the rest.
            match store.add_file_within(row, quota).await {
                Ok(row) => Ok(row),
                Err(error) => {
                    let _ = blobs.remove(id).await;
                    Err(FileProblem::from(error))
                }
            }
        });
        kept.await.unwrap_or(Err(FileProblem::CutShort))
    }

    /// The newest file that a name means to a caller in the caller's session.
    pub async fn named(&self, caller: &Caller, name: &str) -> Result<Option<FileRow>, FileProblem> {
        let Some(name) = FileName::made_safe(name) else { return Ok(None) };
        let found = self.store.file_named(&caller.user, caller.session.as_deref(), name.as_str()).await?;
        Ok(found.filter(|file| file.is_open_to(caller)))
    }

    /// The caller's files, newest first.
    pub async fn list(&self, caller: &Caller, query: FileQuery) -> Result<Vec<FileRow>, FileProblem> {
        let FileQuery { session, name, before, limit } = query;
        let name = match name.as_deref().map(FileName::made_safe) {
            Some(None) => return Ok(Vec::new()),
            Some(Some(name)) => Some(name.into()),
            None => None,
        };
        let filter = FileFilter { user: caller.user.to_string(), session, name, before, limit };
        Ok(self.store.files(filter).await?)
    }

    /// A file of the caller's.
    pub async fn get(&self, caller: &Caller, id: Uuid) -> Result<FileRow, FileProblem> {
        let found = self.store.file(id).await?.filter(|file| file.is_open_to(caller));
        found.ok_or(FileProblem::Unknown)
    }

    /// The content of a file, or some of it. Whoever asks has the row, and so the right to it.
    pub async fn content(&self, file: &FileRow, bytes: Range<u64>) -> Result<BlobStream, FileProblem> {
        Ok(self.blobs.read(file.id, bytes).await?)
    }

    /// Removes a file of the caller's; an older version of its name is the newest then.
    pub async fn remove(&self, caller: &Caller, id: Uuid) -> Result<FileRow, FileProblem> {
        self.get(caller, id).await?;
        let removed = self.store.remove_file(id).await?.ok_or(FileProblem::Unknown)?;
        self.remove_content(id).await;
        Ok(removed)
    }

    /// Removes files that are older than files are kept; how many there were.
    pub(crate) async fn purge(&self, wall_ms: i64) -> Result<usize, StoreError> {
        let Some(keep) = self.terms.keep else { return Ok(0) };
        let horizon_ms = wall_ms.saturating_sub(grant::milliseconds(keep));
        let mut removed = 0;
        loop {
            let old = self.store.files_before(horizon_ms).await?;
            if old.is_empty() {
                return Ok(removed);
            }
            for id in old {
                if self.store.remove_file(id).await?.is_some() {
                    self.remove_content(id).await;
                    removed += 1;
                }
            }
        }
    }

    /// The row is gone, and with it the file; content that stays behind is swept at the next start.
    async fn remove_content(&self, id: Uuid) {
        if let Err(error) = self.blobs.remove(id).await {
            tracing::warn!(file = %id, "the content of a removed file is left: {error}");
        }
    }
}

impl From<StoreError> for FileProblem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full { .. } => Self::Quota,
            error => Self::Store(error),
        }
    }
}
