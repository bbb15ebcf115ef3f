//! Blobs: the content of files, each with an id, written and read as streams.
//!
//! Writes are atomic: a blob is written to a temporary name and moved into place when it is finished. The backend is
//! opened on first use.

#[cfg(feature = "s3")]
pub mod bucket;
mod disk;
mod error;
mod read;
mod url;
mod writer;

#[cfg(feature = "s3")]
pub use bucket::Bucket;
pub use error::BlobError;
pub use read::BlobStream;
pub use url::BlobUrl;
pub use writer::{BlobWriter, WrittenBlob};

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as BlobPath;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::fmt;
use std::fs::DirBuilder;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// The chunk size of writes to disk.
const DISK_PIECE: usize = 256 * 1024;
/// The most unfinished files that one sweep deletes.
const MAX_LEFTOVERS: usize = 100_000;

/// The storage for the content of files.
#[derive(Clone)]
pub struct Blobs {
    backend: Arc<BlobBackend>,
}

struct BlobBackend {
    kind: BackendKind,
    opened: OnceLock<Arc<dyn ObjectStore>>,
}

enum BackendKind {
    Memory,
    Disk(PathBuf),
    #[cfg(feature = "s3")]
    Bucket,
}

/// An existing blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its id.
    pub id: Uuid,
    /// When it was written, in milliseconds since 1970.
    pub written_ms: i64,
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.backend.kind {
            BackendKind::Memory => "Blobs(memory)",
            BackendKind::Disk(_) => "Blobs(disk)",
            #[cfg(feature = "s3")]
            BackendKind::Bucket => "Blobs(bucket)",
        })
    }
}

impl Blobs {
    /// Stores blobs in memory.
    pub fn in_memory() -> Self {
        Self::of(BackendKind::Memory)
    }

    /// Stores blobs in a folder, which is created on the first write.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::of(BackendKind::Disk(folder.into()))
    }

    /// Stores blobs in a bucket, and sends its requests through this HTTP service.
    #[cfg(feature = "s3")]
    pub fn in_bucket(bucket: &Bucket, service: impl bucket::HttpService) -> Result<Self, BlobError> {
        let store = bucket.open(service)?;
        let backend = BlobBackend { kind: BackendKind::Bucket, opened: OnceLock::from(store) };
        Ok(Self { backend: Arc::new(backend) })
    }

    fn of(kind: BackendKind) -> Self {
        Self { backend: Arc::new(BlobBackend { kind, opened: OnceLock::new() }) }
    }

    fn store(&self) -> Result<&Arc<dyn ObjectStore>, BlobError> {
        if let Some(opened) = self.backend.opened.get() {
            return Ok(opened);
        }
        let opened: Arc<dyn ObjectStore> = match &self.backend.kind {
            BackendKind::Memory => Arc::new(InMemory::new()),
            BackendKind::Disk(folder) => Arc::new(on_disk(folder)?),
            #[cfg(feature = "s3")]
            BackendKind::Bucket => return Err(BlobError::Failed),
        };
        Ok(self.backend.opened.get_or_init(|| opened))
    }

    fn piece_bytes(&self) -> usize {
        match self.backend.kind {
            BackendKind::Memory | BackendKind::Disk(_) => DISK_PIECE,
            #[cfg(feature = "s3")]
            BackendKind::Bucket => bucket::PIECE,
        }
    }

    /// Whether other gateways may write to the same storage.
    pub fn is_shared(&self) -> bool {
        match self.backend.kind {
            BackendKind::Memory | BackendKind::Disk(_) => false,
            #[cfg(feature = "s3")]
            BackendKind::Bucket => true,
        }
    }

    /// Starts writing a blob. A blob that is not finished does not exist.
    pub async fn writer(&self, id: Uuid) -> Result<BlobWriter, BlobError> {
        let mut disk_blob = None;
        if let BackendKind::Disk(folder) = &self.backend.kind {
            let found = DiskBlob { folder: folder.clone(), id };
            let prepared = found.clone();
            on_disk_thread(move || disk::prepare(&prepared.folder, &prepared.inner())).await?;
            disk_blob = Some(found);
        }
        Ok(BlobWriter::new(self.store()?.clone(), path_of(id), self.piece_bytes(), disk_blob))
    }

    /// Reads a range of a blob as a stream.
    pub async fn read(&self, id: Uuid, bytes: Range<u64>) -> Result<BlobStream, BlobError> {
        if bytes.is_empty() {
            return Ok(BlobStream::empty());
        }
        if let BackendKind::Disk(folder) = &self.backend.kind {
            let disk_blob = DiskBlob { folder: folder.clone(), id };
            let file = on_disk_thread(move || disk_blob.open()).await?;
            return Ok(BlobStream::of_file(file, bytes));
        }
        let options = GetOptions { range: Some(bytes.into()), ..GetOptions::default() };
        let found = self.store()?.get_opts(&path_of(id), options).await?;
        BlobStream::of(found)
    }

    /// Deletes a blob, if it exists.
    pub async fn remove(&self, id: Uuid) -> Result<(), BlobError> {
        match self.store()?.delete(&path_of(id)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists all blobs, in batches of `portion`.
    pub fn stored(
        &self,
        portion: usize,
    ) -> Result<BoxStream<'static, Result<Vec<StoredBlob>, BlobError>>, BlobError> {
        if let BackendKind::Disk(folder) = &self.backend.kind
            && !folder.exists()
        {
            return Ok(stream::empty().boxed());
        }
        let found = self.store()?.list(None).try_chunks(portion.max(1));
        let read = |portion: Vec<ObjectMeta>| {
            let stored = portion.into_iter().filter_map(|meta| {
                let id = meta.location.filename()?.parse().ok()?;
                Some(StoredBlob { id, written_ms: meta.last_modified.timestamp_millis() })
            });
            stored.collect()
        };
        Ok(found.map(move |portion| portion.map(read).map_err(|cut_short| cut_short.1.into())).boxed())
    }

    /// Deletes unfinished files that a killed process left on disk, and returns their number. Called when a gateway
    /// starts; does nothing for other backends, which may be shared.
    pub async fn sweep_unfinished(&self) -> Result<usize, BlobError> {
        let BackendKind::Disk(folder) = &self.backend.kind else { return Ok(0) };
        let folder = folder.clone();
        let swept = tokio::task::spawn_blocking(move || sweep(&folder)).await;
        swept.unwrap_or(Ok(0)).map_err(|error| BlobError::of_disk(&error))
    }
}

/// The location of a blob on disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskBlob {
    folder: PathBuf,
    id: Uuid,
}

impl DiskBlob {
    fn inner(&self) -> String {
        self.id.simple().to_string()[30..].to_owned()
    }

    fn open(&self) -> Result<std::fs::File, BlobError> {
        disk::open(&self.folder, &self.inner(), &self.id.to_string())
    }

    fn seal(&self) -> Result<(), BlobError> {
        disk::seal(&self.folder, &self.inner(), &self.id.to_string())
    }
}

async fn on_disk_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(BlobError::Failed))
}

/// The path of a blob: blobs are spread over folders by the random end of their id.
fn path_of(id: Uuid) -> BlobPath {
    let name = id.simple().to_string();
    BlobPath::from_iter([&name[30..], &id.to_string()])
}

fn on_disk(folder: &Path) -> Result<LocalFileSystem, BlobError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| BlobError::of_disk(&error))?;
    Ok(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true))
}

/// Deletes files with the name of an unfinished blob: `ID#NUMBER`.
fn sweep(folder: &Path) -> std::io::Result<usize> {
    let mut swept = 0;
    let Ok(folders) = std::fs::read_dir(folder) else { return Ok(0) };
    for inner in folders.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        for entry in std::fs::read_dir(inner.path())?.flatten() {
            let name = entry.file_name();
            let unfinished = name.to_str().and_then(|name| name.split_once('#'));
            if unfinished.is_some_and(|(id, _)| id.parse::<Uuid>().is_ok()) && swept < MAX_LEFTOVERS {
                std::fs::remove_file(entry.path())?;
                swept += 1;
            }
        }
    }
    Ok(swept)
}
