//! Files of callers: storing, finding and delivering them.
//!
//! Only its owner can open a file; for others it does not exist. The content is written before the row and removed
//! after it, so every row has content.

mod artifacts;
#[cfg(feature = "s3")]
mod bucket;
mod cleanup;
mod file_url;
mod grant;
mod problem;
#[cfg(test)]
mod tests;

#[cfg(feature = "s3")]
pub use bucket::open_bucket;

use file_url::UseCount;
pub use file_url::{OpenedFile, TokenRefusal, TokenUse};
pub use problem::FileProblem;

pub(crate) use artifacts::ArtifactOrigin;
pub(crate) use file_url::is_admitted;
pub(crate) use grant::FileGrant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::inject::{TokenKeys, UnknownName, Uses};
use toolbooth_core::caller::Caller;
use toolbooth_core::clock::{Clock, milliseconds};
use toolbooth_core::fault::Problem;
use toolbooth_core::file::{DEFAULT_MIME, FileName, FileOrigin, FileRow, clean_mime, guess_mime};
use toolbooth_store::{BlobStream, BlobWriter, Blobs, FileFilter, FileQuota, Store, StoreError};
use uuid::Uuid;

/// The longest description that is stored, in characters.
const MAX_DESCRIPTION: usize = 4_000;
/// The longest name of a viewer, in characters.
const MAX_VIEWER: usize = 64;

/// Settings of files.
#[derive(Debug, Clone)]
pub struct FileTerms {
    /// The URL by which servers reach the gateway. Without it, files cannot be passed to tools.
    pub public_url: Option<String>,
    /// How long a file URL is valid at most.
    pub url_lives: Duration,
    /// How long it stays valid after its call has ended.
    pub grace: Duration,
    /// The largest file that is accepted.
    pub max_bytes: u64,
    /// The limits of one user.
    pub quota: FileQuota,
    /// How long files are kept; `None` for ever.
    pub keep: Option<Duration>,
    /// The maximum number of uses of a file URL for several uses.
    pub max_uses: u32,
    /// Whether a file URL may be used once or several times.
    pub uses: Uses,
    /// How to treat the value of a file argument that does not name a file.
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
            unknown: UnknownName::PassThrough,
        }
    }
}

/// Where files are stored and with which settings, for the start of an engine.
pub struct FileStorage {
    /// The storage of their content.
    pub blobs: Blobs,
    /// The settings.
    pub terms: FileTerms,
    /// The key that signs file URLs; `None` for one that is generated and kept in the store.
    pub key: Option<Vec<u8>>,
}

impl FileStorage {
    /// Files in memory, with default settings; for tests.
    pub fn in_memory() -> Self {
        Self { blobs: Blobs::in_memory(), terms: FileTerms::default(), key: None }
    }
}

/// The files of callers.
pub struct CallerFiles {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    blobs: Blobs,
    keys: TokenKeys,
    /// A reload replaces them.
    terms: ArcSwap<FileTerms>,
    uses: UseCount,
}

impl fmt::Debug for CallerFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerFiles").field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

/// The description of a file that is about to be stored.
#[derive(Debug, Clone)]
pub struct NewFile {
    /// Its name, as the sender wrote it; it is sanitized.
    pub name: String,
    /// Its media type; `None` to derive it from the name.
    pub mime: Option<String>,
    /// Where it comes from.
    pub origin: FileOrigin,
    /// A description, by its producer.
    pub description: Option<String>,
    /// The viewer that should display it.
    pub viewer: Option<String>,
}

impl NewFile {
    /// An upload with this name.
    pub fn upload(name: impl Into<String>) -> Self {
        let origin = FileOrigin::Upload;
        Self { name: name.into(), mime: None, origin, description: None, viewer: None }
    }
}

/// A filter for a caller's files.
#[derive(Debug, Clone, Default)]
pub struct FileQuery {
    /// Only files that a call in this session can name.
    pub session: Option<String>,
    /// Only versions of this name.
    pub name: Option<String>,
    /// Only files older than this one.
    pub before: Option<Uuid>,
    /// The maximum number of results.
    pub limit: Option<u32>,
}

impl CallerFiles {
    pub(crate) async fn open(
        storage: FileStorage,
        store: Arc<dyn Store>,
        clock: Arc<Clock>,
    ) -> Result<Arc<Self>, Problem> {
        let FileStorage { blobs, terms, key } = storage;
        let keys = file_url::keys(key, &*store).await?;
        let terms = ArcSwap::from_pointee(terms);
        Ok(Arc::new(Self { clock, store, blobs, keys, terms, uses: UseCount::default() }))
    }

    /// The settings in force.
    pub fn terms(&self) -> Arc<FileTerms> {
        self.terms.load_full()
    }

    /// Replaces the settings. The URL by which servers reach the gateway is fixed at startup.
    pub fn set_terms(&self, terms: FileTerms) {
        let public_url = self.terms.load().public_url.clone();
        self.terms.store(Arc::new(FileTerms { public_url, ..terms }));
    }

    /// Stores a file in the caller's session, from a stream. An existing name gets a new version. A file that is too
    /// large or incomplete leaves nothing behind.
    pub async fn put<S, E>(&self, caller: &Caller, new: NewFile, content: S) -> Result<FileRow, FileProblem>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: fmt::Display,
    {
        let name = FileName::made_safe(&new.name).ok_or(FileProblem::BadName)?;
        let declared = new.mime.as_deref().and_then(clean_mime).filter(|mime| mime != DEFAULT_MIME);
        let mime = declared.unwrap_or_else(|| guess_mime(&name).to_owned());
        let id = Uuid::now_v7();
        let (limit, quota) = {
            let terms = self.terms.load();
            (terms.max_bytes, terms.quota)
        };
        let (files, bytes) = self.store.file_usage(&caller.user).await?;
        let free_bytes = quota.bytes.saturating_sub(bytes);
        if files >= quota.files || free_bytes == 0 {
            return Err(FileProblem::Quota);
        }
        let mut writer = self.blobs.writer(id).await?;
        write_all(&mut writer, content, limit, free_bytes).await?;
        let (store, blobs, clock) = (self.store.clone(), self.blobs.clone(), self.clock.clone());
        let (user, session) = (caller.user.to_string(), caller.session.as_deref().map(str::to_owned));
        let description = new.description.map(|text| text.chars().take(MAX_DESCRIPTION).collect());
        let viewer = new.viewer.map(|text| text.chars().take(MAX_VIEWER).collect());
        let origin = new.origin;
        // The content is complete. In its own task, so that a client that disconnects cannot leave content without a
        // row.
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
                created_ms: clock.now_ms(),
            };
            // Concurrent uploads may have used up the quota.
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

    /// The newest version of a name in the caller's session.
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

    /// One of the caller's files.
    pub async fn get(&self, caller: &Caller, id: Uuid) -> Result<FileRow, FileProblem> {
        let found = self.store.file(id).await?.filter(|file| file.is_open_to(caller));
        found.ok_or(FileProblem::Unknown)
    }

    /// The content of a file, or a range of it. The caller has the row, so access was checked.
    pub async fn content(&self, file: &FileRow, bytes: Range<u64>) -> Result<BlobStream, FileProblem> {
        Ok(self.blobs.read(file.id, bytes).await?)
    }

    /// Removes one of the caller's files. An older version of its name becomes the newest.
    pub async fn remove(&self, caller: &Caller, id: Uuid) -> Result<FileRow, FileProblem> {
        self.get(caller, id).await?;
        let removed = self.store.remove_file(id).await?.ok_or(FileProblem::Unknown)?;
        self.remove_content(id).await;
        Ok(removed)
    }

    /// Removes files that are older than the configured age, and returns their number.
    pub(crate) async fn purge(&self, wall_ms: i64) -> Result<usize, StoreError> {
        let Some(keep) = self.terms.load().keep else { return Ok(0) };
        let horizon_ms = wall_ms.saturating_sub(milliseconds(keep));
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

    /// Removes the content of a file whose row is gone. If that fails, the next start removes it.
    async fn remove_content(&self, id: Uuid) {
        if let Err(error) = self.blobs.remove(id).await {
            tracing::warn!(file = %id, "the content of a removed file could not be deleted: {error}");
        }
    }
}

/// Writes the content of a new file. Stops if it gets larger than one file may be, or than the free part of the quota.
async fn write_all<S, E>(
    writer: &mut BlobWriter,
    content: S,
    limit_bytes: u64,
    free_bytes: u64,
) -> Result<(), FileProblem>
where
    S: Stream<Item = Result<Bytes, E>> + Send,
    E: fmt::Display,
{
    let mut content = pin!(content);
    while let Some(piece) = content.next().await {
        let piece = piece.map_err(|error| {
            tracing::debug!("an upload was interrupted: {error}");
            FileProblem::CutShort
        })?;
        let size_bytes = writer.size_bytes().saturating_add(piece.len() as u64);
        if size_bytes > limit_bytes {
            return Err(FileProblem::TooLarge { limit_bytes });
        }
        if size_bytes > free_bytes {
            return Err(FileProblem::Quota);
        }
        writer.write(piece).await?;
    }
    Ok(())
}

impl From<StoreError> for FileProblem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full { .. } => Self::Quota,
            error => Self::Store(error),
        }
    }
}
