//! The backup file: one JSON document per line, and a last line with the numbers of rows and a digest of the others.

use super::{StoreTable, TABLES, TablePage, TransferError, TransferRow, TransferSource, line_of};
use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toolbooth_core::hex::{decode as unhex, encode as hex};

/// The version of the format.
const FORMAT: u64 = 1;
/// The longest line: one page of rows.
const MAX_LINE: u64 = 512 << 20;

/// Writes a backup under a temporary name, and renames it when it is complete.
pub(super) struct BackupWriter {
    path: PathBuf,
    draft: PathBuf,
    file: BufWriter<File>,
    digest: Sha256,
}

impl BackupWriter {
    /// Creates the file, readable by its owner only: it has the keys.
    pub(super) fn create(path: &Path) -> Result<Self, TransferError> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".part");
        let draft = PathBuf::from(draft);
        let mut options = OpenOptions::new();
        // A file that an interrupted backup left or that another user made is not written to.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&draft, &error)),
            _ => {}
        }
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(&draft).map_err(|error| failed(&draft, &error))?;
        let mut writer =
            Self { path: path.to_owned(), draft, file: BufWriter::new(file), digest: Sha256::new() };
        writer.line(&json!({ "toolbooth": "store", "format": FORMAT }))?;
        Ok(writer)
    }

    /// Adds a key.
    pub(super) fn key(&mut self, name: &str, value: &[u8]) -> Result<(), TransferError> {
        self.line(&json!({ "key": name, "value": hex(value) }))
    }

    /// Adds a page of rows.
    pub(super) fn page(&mut self, table: &StoreTable, page: &TablePage) -> Result<(), TransferError> {
        self.line(&json!({ "table": table.name, "place": page.place, "rows": page.rows }))
    }

    /// Adds the last line, and gives the file its name.
    pub(super) fn finish(mut self, tables: &[(&'static str, u64)]) -> Result<(), TransferError> {
        let digest = hex(&self.digest.clone().finalize());
        let counts: BTreeMap<&str, u64> = tables.iter().copied().collect();
        self.line(&json!({ "counts": counts, "sha256": digest }))?;
        let written = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        let written = written.and_then(|()| fs::rename(&self.draft, &self.path));
        written.map_err(|error| failed(&self.path, &error))
    }

    fn line(&mut self, value: &Value) -> Result<(), TransferError> {
        let mut line = line_of(value);
        line.push('\n');
        self.digest.update(line.as_bytes());
        self.file.write_all(line.as_bytes()).map_err(|error| failed(&self.draft, &error))
    }
}

/// Reads a backup.
pub(super) struct BackupReader {
    path: PathBuf,
    file: BufReader<File>,
    keys: Vec<(String, Vec<u8>)>,
    counts: BTreeMap<String, u64>,
    digest: [u8; 32],
    /// A page of a table that was not asked for yet.
    pending: Option<(String, TablePage)>,
}

impl BackupReader {
    /// Opens a backup, and checks that it is complete.
    pub(super) fn open(path: &Path) -> Result<Self, TransferError> {
        let file = File::open(path).map_err(|error| failed(path, &error))?;
        let mut reader = Self {
            path: path.to_owned(),
            file: BufReader::new(file),
            keys: Vec::new(),
            counts: BTreeMap::new(),
            digest: [0; 32],
            pending: None,
        };
        let first = reader.next()?.ok_or_else(|| reader.damaged("it is empty"))?;
        if first.0["toolbooth"] != "store" || first.0["format"] != FORMAT {
            return Err(reader.damaged("it has another format"));
        }
        let mut digest = Sha256::new_with_prefix(&first.1);
        loop {
            let before: [u8; 32] = digest.clone().finalize().into();
            let Some((value, line)) = reader.next()? else {
                return Err(reader.damaged("its end is missing"));
            };
            digest.update(&line);
            if let (Some(name), Some(key)) = (value["key"].as_str(), value["value"].as_str().and_then(unhex))
            {
                reader.keys.push((name.to_owned(), key));
            }
            if let Some(counts) = value["counts"].as_object() {
                if value["sha256"].as_str() != Some(hex(&before).as_str()) {
                    return Err(reader.damaged("its content was changed"));
                }
                let count = |(name, count): (&String, &Value)| Some((name.clone(), count.as_u64()?));
                reader.counts = counts.iter().filter_map(count).collect();
                reader.digest = before;
                break;
            }
        }
        if reader.counts.keys().any(|name| TABLES.iter().all(|table| table.name != name)) {
            return Err(reader.damaged("it was written by a newer version"));
        }
        reader.file.rewind().map_err(|error| failed(path, &error))?;
        Ok(reader)
    }

    /// The digest of the content.
    pub(super) fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The next line as a value and as bytes; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<(Value, Vec<u8>)>, TransferError> {
        let mut line = Vec::new();
        let read = (&mut self.file).take(MAX_LINE).read_until(b'\n', &mut line);
        match read.map_err(|error| failed(&self.path, &error))? {
            0 => Ok(None),
            _ if !line.ends_with(b"\n") => Err(self.damaged("its end is missing")),
            _ => match serde_json::from_slice(&line) {
                Ok(value) => Ok(Some((value, line))),
                Err(_) => Err(self.damaged("a line is not valid JSON")),
            },
        }
    }

    fn next_page(&mut self) -> Result<Option<(String, TablePage)>, TransferError> {
        if let Some(pending) = self.pending.take() {
            return Ok(Some(pending));
        }
        while let Some((mut value, _)) = self.next()? {
            let Some(table) = value["table"].as_str().map(str::to_owned) else { continue };
            let rows = match value["rows"].take() {
                Value::Array(rows) => rows.into_iter().map(row).collect::<Option<Vec<_>>>(),
                _ => None,
            };
            let (Some(place), Some(rows)) = (value["place"].as_i64(), rows) else {
                return Err(self.damaged("a page has no rows"));
            };
            return Ok(Some((table, TablePage { place, rows })));
        }
        Ok(None)
    }

    fn damaged(&self, problem: &'static str) -> TransferError {
        TransferError::Damaged { path: self.path.clone(), problem }
    }
}

#[async_trait]
impl TransferSource for BackupReader {
    fn keys(&self) -> Vec<(String, Vec<u8>)> {
        self.keys.clone()
    }

    async fn page(&mut self, table: &'static StoreTable, after: i64) -> Result<TablePage, TransferError> {
        while let Some((name, page)) = self.next_page()? {
            if name != table.name {
                self.pending = Some((name, page));
                break;
            }
            if page.place > after {
                return Ok(page);
            }
        }
        Ok(TablePage::default())
    }

    async fn count(&mut self, table: &'static StoreTable) -> Result<u64, TransferError> {
        Ok(self.counts.get(table.name).copied().unwrap_or(0))
    }
}

fn row(value: Value) -> Option<TransferRow> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

fn failed(path: &Path, error: &io::Error) -> TransferError {
    TransferError::File { path: path.to_owned(), reason: error.kind() }
}
