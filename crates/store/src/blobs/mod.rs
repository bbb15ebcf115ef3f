//! Blobs: the content of files, each under an id, written and read piece by piece.
//!
//! A blob is there whole or not at all: it is written aside and put in its place when it is finished. Nothing
//! is opened before something is written or read.

#[cfg(feature = "s3")]
pub mod bucket;
mod disk;
mod error;
mod place;
mod read;
mod writer;

#[cfg(feature = "s3")]
pub use bucket::Bucket;
pub use error::BlobError;
pub use place::BlobPlace;
pub use read::BlobStream;
pub use writer::{BlobWriter, Written};

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

/// Pieces in which a disk is written to.
const DISK_PIECE: usize = 256 * 1024;
/// The most leftovers that one sweep takes away.
const MAX_LEFTOVERS: usize = 100_000;

/// Where the content of files is kept.
#[derive(Clone)]
pub struct Blobs {
    place: Arc<Place>,
}

struct Place {
    kind: Kind,
    opened: OnceLock<Arc<dyn ObjectStore>>,
}

enum Kind {
    Memory,
    Disk(PathBuf),
    #[cfg(feature = "s3")]
    Bucket,
}

/// A blob that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its id.
    pub id: Uuid,
    /// When it was written, in milliseconds since 1970.
    pub written_ms: i64,
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.place.kind {
            Kind::Memory => "Blobs(memory)",
            Kind::Disk(_) => "Blobs(disk)",
            #[cfg(feature = "s3")]
            Kind::Bucket => "Blobs(bucket)",
        })
    }
}

impl Blobs {
    /// Blobs in memory.
    pub fn in_memory() -> Self {
        Self::of(Kind::Memory)
    }

    /// Blobs in a folder, which is made when something is written.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::of(Kind::Disk(folder.into()))
    }

    /// Blobs in a bucket that is reached by this service.
    #[cfg(feature = "s3")]
    pub fn in_bucket(bucket: &Bucket, service: impl bucket::HttpService) -> Result<Self, BlobError> {
        let store = bucket.open(service)?;
        let place = Place { kind: Kind::Bucket, opened: OnceLock::from(store) };
        Ok(Self { place: Arc::new(place) })
    }

    fn of(kind: Kind) -> Self {
        Self { place: Arc::new(Place { kind, opened: OnceLock::new() }) }
    }

    fn store(&self) -> Result<&Arc<dyn ObjectStore>, BlobError> {
        if let Some(opened) = self.place.opened.get() {
            return Ok(opened);
        }
        let opened: Arc<dyn ObjectStore> = match &self.place.kind {
            Kind::Memory => Arc::new(InMemory::new()),
            Kind::Disk(folder) => Arc::new(on_disk(folder)?),
            #[cfg(feature = "s3")]
            Kind::Bucket => return Err(BlobError::Failed),
        };
        Ok(self.place.opened.get_or_init(|| opened))
    }

    fn piece_bytes(&self) -> usize {
        match self.place.kind {
            Kind::Memory | Kind::Disk(_) => DISK_PIECE,
            #[cfg(feature = "s3")]
            Kind::Bucket => bucket::PIECE,
        }
    }

    /// Whether others write there too.
    pub fn is_shared(&self) -> bool {
        match self.place.kind {
            Kind::Memory | Kind::Disk(_) => false,
            #[cfg(feature = "s3")]
            Kind::Bucket => true,
        }
    }

    /// Begins to write a blob. What is not finished is as if it had never been.
    pub async fn writer(&self, id: Uuid) -> Result<BlobWriter, BlobError> {
        let mut spot = None;
        if let Kind::Disk(folder) = &self.place.kind {
            let found = Spot { folder: folder.clone(), id };
            let prepared = found.clone();
            on_disk_thread(move || disk::prepare(&prepared.folder, &prepared.inner())).await?;
            spot = Some(found);
        }
        Ok(BlobWriter::new(self.store()?.clone(), path_of(id), self.piece_bytes(), spot))
    }

    /// Reads some of a blob, piece by piece.
    pub async fn read(&self, id: Uuid, bytes: Range<u64>) -> Result<BlobStream, BlobError> {
        if bytes.is_empty() {
            return Ok(BlobStream::empty());
        }
        if let Kind::Disk(folder) = &self.place.kind {
            let spot = Spot { folder: folder.clone(), id };
            let file = on_disk_thread(move || spot.open()).await?;
            return Ok(BlobStream::of_file(file, bytes));
        }
        let options = GetOptions { range: Some(bytes.into()), ..GetOptions::default() };
        let found = self.store()?.get_opts(&path_of(id), options).await?;
        BlobStream::of(found)
    }

    /// Removes a blob; fine if there is none.
    pub async fn remove(&self, id: Uuid) -> Result<(), BlobError> {
        match self.store()?.delete(&path_of(id)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Every blob that is there, in portions.
    pub fn stored(
        &self,
        portion: usize,
    ) -> Result<BoxStream<'static, Result<Vec<Stored>, BlobError>>, BlobError> {
        if let Kind::Disk(folder) = &self.place.kind
            && !folder.exists()
        {
            return Ok(stream::empty().boxed());
        }
        let found = self.store()?.list(None).try_chunks(portion.max(1));
        let read = |portion: Vec<ObjectMeta>| {
            let stored = portion.into_iter().filter_map(|meta| {
                let id = meta.location.filename()?.parse().ok()?;
                Some(Stored { id, written_ms: meta.last_modified.timestamp_millis() })
            });
            stored.collect()
        };
        Ok(found.map(move |portion| portion.map(read).map_err(|cut_short| cut_short.1.into())).boxed())
    }

    /// Takes away what was begun and never finished, before the process that began it was killed. Only for
    /// the start of a gateway that has its disk to itself; elsewhere nothing is done. How much there was.
    pub async fn sweep_unfinished(&self) -> Result<usize, BlobError> {
        let Kind::Disk(folder) = &self.place.kind else { return Ok(0) };
        let folder = folder.clone();
        let swept = tokio::task::spawn_blocking(move || sweep(&folder)).await;
        swept.unwrap_or(Ok(0)).map_err(|error| BlobError::of_disk(&error))
    }
}

/// Where a blob lies on a disk.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    folder: PathBuf,
    id: Uuid,
}

impl Spot {
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

/// Where a blob lies: spread over folders by the random end of its id.
fn path_of(id: Uuid) -> BlobPath {
    let name = id.simple().to_string();
    BlobPath::from_iter([&name[30..], &id.to_string()])
}

fn on_disk(folder: &Path) -> Result<LocalFileSystem, BlobError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| BlobError::of_disk(&error))?;
    Ok(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true))
}

/// Removes files whose name says that they were being written: `ID#NUMBER`.
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
