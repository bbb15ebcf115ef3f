//! The npm package: `npx toolbooth`. It has no JavaScript, only the program.

use super::archive::{PackedFile, gzip, tar};
use super::contents::{LICENSE, PackageContents, SUMMARY};
use anyhow::Result;
use serde_json::json;

/// The file name and the content of the package.
pub fn build(contents: &PackageContents) -> Result<(String, Vec<u8>)> {
    let version = &contents.version;
    let about = json!({
        "name": "toolbooth",
        "version": version,
        "description": SUMMARY,
        "license": LICENSE,
        "keywords": ["mcp", "model-context-protocol", "gateway", "agents"],
        "bin": { "toolbooth": "bin/toolbooth" },
        // npm refuses to install it elsewhere.
        "os": ["linux"],
        "cpu": [contents.needs.processor.node],
        "libc": ["glibc"],
    });
    let files = [
        PackedFile::program("bin/toolbooth", contents.binary.clone()),
        PackedFile::plain("LICENSE", contents.text("LICENSE")),
        PackedFile::plain("README.md", contents.text("README.md")),
        PackedFile::plain("package.json", format!("{about:#}\n")),
    ];
    Ok((format!("toolbooth-{version}.tgz"), gzip(&tar(&files, "package/", contents.epoch)?)?))
}
