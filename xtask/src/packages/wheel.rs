//! The Python wheel: `pip install toolbooth` and `uvx toolbooth`. It has no Python code, only the program.

use super::archive::PackedFile;
use super::contents::{LICENSE, PackageContents, SUMMARY};
use super::zip::zip;
use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// The file name and the content of the wheel.
pub fn build(contents: &PackageContents) -> Result<(String, Vec<u8>)> {
    let version = &contents.version;
    let tag = tag(contents);
    let folder = format!("toolbooth-{version}.dist-info");
    let mut files = vec![
        // pip and uv put the files of this folder on the PATH, and make them executable.
        PackedFile::program(format!("toolbooth-{version}.data/scripts/toolbooth"), contents.binary.clone()),
        PackedFile::plain(format!("{folder}/METADATA"), metadata(contents)),
        PackedFile::plain(
            format!("{folder}/WHEEL"),
            format!("Wheel-Version: 1.0\nGenerator: toolbooth xtask\nRoot-Is-Purelib: false\nTag: {tag}\n"),
        ),
        PackedFile::plain(format!("{folder}/licenses/LICENSE"), contents.text("LICENSE")),
    ];
    let record = record(&files, &format!("{folder}/RECORD"));
    files.push(record);
    Ok((format!("toolbooth-{version}-{tag}.whl"), zip(&files)?))
}

/// The compatibility tag: the glibc that the binary needs decides which systems accept the wheel.
fn tag(contents: &PackageContents) -> String {
    let ((major, minor), processor) = (contents.needs.glibc, contents.needs.processor.plain);
    format!("py3-none-manylinux_{major}_{minor}_{processor}")
}

fn metadata(contents: &PackageContents) -> String {
    format!(
        "Metadata-Version: 2.4\n\
         Name: toolbooth\n\
         Version: {}\n\
         Summary: {SUMMARY}\n\
         License-Expression: {LICENSE}\n\
         License-File: LICENSE\n\
         Requires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n{}",
        contents.version,
        contents.text("README.md"),
    )
}

/// The list of all files with their hashes; the list itself has none.
fn record(files: &[PackedFile], path: &str) -> PackedFile {
    let line = |file: &PackedFile| {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&file.content));
        format!("{},sha256={hash},{}\n", file.path, file.content.len())
    };
    let mut text: String = files.iter().map(line).collect();
    text.push_str(&format!("{path},,\n"));
    PackedFile::plain(path, text)
}
