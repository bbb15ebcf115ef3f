//! Reads from a Linux binary which processor and which version of the C library it needs.

use anyhow::{Context, Result, bail, ensure};

/// The section type of the versions that a binary needs of its libraries.
const VERSIONS_NEEDED: u32 = 0x6fff_fffe;

/// The processor of a binary, in the words of each packager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// In the names of archives and wheels.
    pub plain: &'static str,
    /// In Debian.
    pub debian: &'static str,
    /// In npm.
    pub node: &'static str,
}

/// What a binary needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryNeeds {
    /// The processor.
    pub processor: Processor,
    /// The oldest version of glibc: major and minor.
    pub glibc: (u32, u32),
}

impl BinaryNeeds {
    /// Reads an ELF file of a 64-bit little-endian processor.
    pub fn read(binary: &[u8]) -> Result<Self> {
        ensure!(binary.starts_with(b"\x7fELF\x02\x01"), "it is not a 64-bit Linux binary");
        let processor = match u16_at(binary, 18)? {
            62 => Processor { plain: "x86_64", debian: "amd64", node: "x64" },
            183 => Processor { plain: "aarch64", debian: "arm64", node: "arm64" },
            other => bail!("processor {other} is not known"),
        };
        let versions = needed_versions(binary)?;
        let glibc = versions.iter().filter_map(|version| glibc_version(version)).max();
        Ok(Self { processor, glibc: glibc.context("it is not linked with glibc")? })
    }
}

fn glibc_version(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.').map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The names in the section of needed versions, such as `GLIBC_2.34`.
fn needed_versions(binary: &[u8]) -> Result<Vec<String>> {
    let sections = usize::try_from(u64_at(binary, 40)?)?;
    let (size, count) = (usize::from(u16_at(binary, 58)?), usize::from(u16_at(binary, 60)?));
    let section = |index: usize| sections + index * size;
    let offset_of =
        |index: usize| Ok::<usize, anyhow::Error>(usize::try_from(u64_at(binary, section(index) + 24)?)?);
    let mut found = Vec::new();
    for index in 0..count {
        if u32_at(binary, section(index) + 4)? != VERSIONS_NEEDED {
            continue;
        }
        let names = offset_of(usize::try_from(u32_at(binary, section(index) + 40)?)?)?;
        let mut library = offset_of(index)?;
        for _ in 0..u32_at(binary, section(index) + 44)? {
            let mut version = library + usize::try_from(u32_at(binary, library + 8)?)?;
            for _ in 0..u16_at(binary, library + 2)? {
                let name = names + usize::try_from(u32_at(binary, version + 8)?)?;
                let text = binary.get(name..).unwrap_or_default().split(|byte| *byte == 0).next();
                found.push(String::from_utf8_lossy(text.unwrap_or_default()).into_owned());
                version += usize::try_from(u32_at(binary, version + 12)?)?;
            }
            library += usize::try_from(u32_at(binary, library + 12)?)?;
        }
    }
    Ok(found)
}

fn bytes_at<const N: usize>(binary: &[u8], at: usize) -> Result<[u8; N]> {
    let bytes = binary.get(at..).and_then(|rest| rest.first_chunk::<N>());
    bytes.copied().with_context(|| format!("the binary ends before byte {at}"))
}

fn u16_at(binary: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(bytes_at(binary, at)?))
}

fn u32_at(binary: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(bytes_at(binary, at)?))
}

fn u64_at(binary: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes_at(binary, at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_needs_of_this_test_are_read() {
        let own = std::fs::read(std::env::current_exe().expect("a path")).expect("a file");
        let needs = BinaryNeeds::read(&own).expect("an ELF file");
        assert_eq!(needs.processor.plain, std::env::consts::ARCH);
        assert!(needs.glibc >= (2, 17) && needs.glibc < (3, 0), "{needs:?}");
    }

    #[test]
    fn other_files_are_refused() {
        assert!(BinaryNeeds::read(b"#!/bin/sh").is_err());
        assert!(BinaryNeeds::read(b"\x7fELF\x02\x01").is_err());
        assert_eq!(glibc_version("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(glibc_version("GCC_3.0"), None);
    }
}
