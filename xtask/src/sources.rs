//! Finds the files that the checks of the source read.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Returns the files below a folder with this extension, sorted by path.
pub fn files_below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
