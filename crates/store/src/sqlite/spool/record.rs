//! The format of spool records: length, checksum, number and body.

use crate::records::Intent;
use std::sync::Arc;
use toolbooth_core::audit::{AuditEntry, FieldValue};
use toolbooth_core::json::RawJson;
use uuid::Uuid;

/// The longest body. Every entry that fits the audit is shorter.
const MAX_BODY: usize = 64 << 10;
/// Length and checksum.
const HEADER: usize = 4 + 8;

/// A record of the spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum SpoolRecord {
    /// An audit entry. The entry of a call also marks the end of the call.
    Note(Box<AuditEntry>),
    /// A call is about to be sent.
    Begun(Box<Intent>),
    /// A call has ended.
    Ended(Uuid),
}

/// Appends a record to `out`.
pub(super) fn encode(number: u64, record: &SpoolRecord, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    out.extend_from_slice(&number.to_le_bytes());
    match record {
        SpoolRecord::Note(entry) => {
            out.push(1);
            encode_entry(entry, out);
        }
        SpoolRecord::Begun(intent) => {
            out.push(2);
            let Intent { call_id, at_ms, user, server, tool, arguments_sha256, side_effect } = &**intent;
            out.extend_from_slice(call_id.as_bytes());
            out.extend_from_slice(&at_ms.to_le_bytes());
            out.extend_from_slice(arguments_sha256);
            for text in [user, server.as_str(), tool, side_effect] {
                put(out, Some(text.as_bytes()));
            }
        }
        SpoolRecord::Ended(id) => {
            out.push(3);
            out.extend_from_slice(id.as_bytes());
        }
    }
    let length = (out.len() - start - HEADER) as u32;
    let sum = checksum(&out[start + HEADER..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + HEADER].copy_from_slice(&sum.to_le_bytes());
}

fn encode_entry(entry: &AuditEntry, out: &mut Vec<u8>) {
    entry.fields(|_, value| match value {
        FieldValue::Time(at_ms) => out.extend_from_slice(&at_ms.to_le_bytes()),
        FieldValue::Number(number) => {
            put(out, number.map(u64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice));
        }
        FieldValue::Bytes(bytes) => put(out, bytes),
    });
}

fn put(out: &mut Vec<u8>, part: Option<&[u8]>) {
    let Some(part) = part else { return out.extend_from_slice(&u32::MAX.to_le_bytes()) };
    out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    out.extend_from_slice(part);
}

/// Detects a torn record; it does not protect against forgery.
fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = 0x9e37_79b9_7f4a_7c15_u64 ^ bytes.len() as u64;
    let mut mix = |word: u64| sum = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    rest.iter().for_each(|byte| mix(u64::from(*byte) + 1));
    sum ^ (sum >> 32)
}

/// The records of one spool file.
#[derive(Debug, Default)]
pub(super) struct DecodedRecords {
    pub(super) records: Vec<(u64, SpoolRecord)>,
    /// The number of bytes that are neither a record nor the torn record at the end of the file.
    pub(super) damaged_bytes: usize,
    /// The number of bytes of a torn record at the end of the file, which a kill or a power cut leaves.
    pub(super) torn_bytes: usize,
}

/// Decodes the records in `bytes`. After a damaged record, decoding continues at the next valid one.
pub(super) fn decode_all(bytes: &[u8]) -> DecodedRecords {
    let (mut decoded, mut rest) = (DecodedRecords::default(), bytes);
    while !rest.is_empty() {
        if let Some((record, after)) = decode(rest) {
            decoded.records.push(record);
            rest = after;
            continue;
        }
        let last = decoded.records.last().map_or(0, |(number, _)| *number);
        match next_record(rest, last) {
            Some(skipped) => {
                decoded.damaged_bytes += skipped;
                rest = &rest[skipped..];
            }
            None if is_torn(rest) => {
                decoded.torn_bytes = rest.len();
                break;
            }
            None => {
                decoded.damaged_bytes += rest.len();
                break;
            }
        }
    }
    decoded
}

/// Finds the next record. Numbers grow within a file, so a lower number is not a record of this file.
fn next_record(bytes: &[u8], last: u64) -> Option<usize> {
    (1..bytes.len()).find(|start| decode(&bytes[*start..]).is_some_and(|((number, _), _)| number > last))
}

/// Whether these last bytes of a file are the start of a record, or zeros, which a power cut may leave.
fn is_torn(bytes: &[u8]) -> bool {
    let mut head = RecordReader(bytes);
    let (Some(length), Some(_)) = (head.array::<4>(), head.array::<8>()) else { return true };
    let length = u32::from_le_bytes(length) as usize;
    (length <= MAX_BODY && head.0.len() < length) || bytes.iter().all(|byte| *byte == 0)
}

fn decode(bytes: &[u8]) -> Option<((u64, SpoolRecord), &[u8])> {
    let mut head = RecordReader(bytes);
    let length = u32::from_le_bytes(head.array()?) as usize;
    let sum = u64::from_le_bytes(head.array()?);
    if length > MAX_BODY {
        return None;
    }
    let body = head.take(length)?;
    // A cheap test before the checksum, because the search for the next record decodes at every byte.
    if !matches!(body.get(8), Some(1..=3)) {
        return None;
    }
    if checksum(body) != sum {
        return None;
    }
    let mut parts = RecordReader(body);
    let number = u64::from_le_bytes(parts.array()?);
    let record = match parts.array::<1>()? {
        [1] => SpoolRecord::Note(Box::new(parts.entry()?)),
        [2] => SpoolRecord::Begun(Box::new(parts.intent()?)),
        [3] => SpoolRecord::Ended(Uuid::from_bytes(parts.array()?)),
        _ => return None,
    };
    Some(((number, record), head.0))
}

/// Reads fields from the rest of a record.
struct RecordReader<'a>(&'a [u8]);

impl<'a> RecordReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn part(&mut self) -> Option<Option<&'a [u8]>> {
        match u32::from_le_bytes(self.array()?) {
            u32::MAX => Some(None),
            length => self.take(length as usize).map(Some),
        }
    }

    fn optional_text(&mut self) -> Option<Option<Arc<str>>> {
        match self.part()? {
            None => Some(None),
            Some(bytes) => std::str::from_utf8(bytes).ok().map(|text| Some(text.into())),
        }
    }

    fn text(&mut self) -> Option<Arc<str>> {
        self.optional_text()?
    }

    fn fixed<const N: usize>(&mut self) -> Option<Option<[u8; N]>> {
        match self.part()? {
            None => Some(None),
            Some(bytes) => bytes.try_into().ok().map(Some),
        }
    }

    /// Reads the fields in the order of [`AuditEntry::fields`].
    fn entry(&mut self) -> Option<AuditEntry> {
        let at_ms = i64::from_le_bytes(self.array()?);
        let [kind, user, outcome] = [self.text()?, self.text()?, self.text()?];
        let by = self.optional_text()?;
        let persona = self.optional_text()?;
        let client = self.optional_text()?;
        let server = self.optional_text()?;
        let tool = self.optional_text()?;
        let code = self.optional_text()?;
        let arguments_preview = self.optional_text()?;
        let call_id = self.fixed()?.map(Uuid::from_bytes);
        let duration_ms = self.fixed()?.map(u64::from_le_bytes);
        let arguments_sha256 = self.fixed()?;
        let detail = match self.part()? {
            None => None,
            Some(bytes) => Some(RawJson::parse(bytes.to_vec()).ok()?),
        };
        Some(AuditEntry {
            at_ms,
            kind,
            call_id,
            user,
            by,
            persona,
            client,
            server,
            tool,
            outcome,
            code,
            duration_ms,
            arguments_preview,
            arguments_sha256,
            detail,
        })
    }

    fn intent(&mut self) -> Option<Intent> {
        let call_id = Uuid::from_bytes(self.array()?);
        let at_ms = i64::from_le_bytes(self.array()?);
        let arguments_sha256 = self.array()?;
        let user = self.text()?.to_string();
        let server = self.text()?.parse().ok()?;
        let tool = self.text()?.to_string();
        let side_effect = self.text()?.to_string();
        Some(Intent { call_id, at_ms, user, server, tool, arguments_sha256, side_effect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn records() -> Vec<SpoolRecord> {
        let full = AuditEntry {
            call_id: Some(Uuid::from_u128(7)),
            by: Some("cy".into()),
            client: Some("".into()),
            tool: Some("send".into()),
            duration_ms: Some(5),
            arguments_preview: Some("{\"ä\":1}".into()),
            arguments_sha256: Some([3; 32]),
            detail: Some(RawJson::empty_object()),
            ..AuditEntry::new(-9, "call", "ann", "done")
        };
        let intent = Intent {
            call_id: Uuid::from_u128(8),
            at_ms: 77,
            user: "ann".into(),
            server: "mail".parse().expect("a name"),
            tool: "send".into(),
            arguments_sha256: [9; 32],
            side_effect: "write".into(),
        };
        vec![
            SpoolRecord::Note(Box::new(full)),
            SpoolRecord::Begun(Box::new(intent)),
            SpoolRecord::Ended(Uuid::from_u128(8)),
            SpoolRecord::Note(Box::new(AuditEntry::new(1, "", "", ""))),
        ]
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, record) in (5..).zip(records()) {
            encode(number, &record, &mut bytes);
        }
        bytes
    }

    #[test]
    fn decoding_returns_the_encoded_records() {
        let bytes = written();
        let read = decode_all(&bytes);
        assert_eq!((read.damaged_bytes, read.torn_bytes), (0, 0));
        assert_eq!(read.records, (5..).zip(records()).collect::<Vec<_>>());
    }

    /// A new version must read the spool of an earlier one.
    #[test]
    fn the_record_format_does_not_change() {
        let bytes = written();
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "58ec13bf1a6bce2678571a4cb7394fdac942ac3422b0c3d61b9d31c15718738b";
        assert_eq!((bytes.len(), digest.as_str()), (399, expected));
    }

    #[test]
    fn a_torn_record_at_the_end_does_not_count_as_damage() {
        let bytes = written();
        for end in 0..bytes.len() {
            let read = decode_all(&bytes[..end]);
            assert!(read.records.len() < 4 && read.damaged_bytes == 0, "{end}");
            let whole = (5..).zip(records()).take(read.records.len()).collect::<Vec<_>>();
            assert_eq!(read.records, whole, "{end}");
        }
        let zeros = [bytes.as_slice(), &[0; 100]].concat();
        let read = decode_all(&zeros);
        assert_eq!((read.records.len(), read.damaged_bytes, read.torn_bytes), (4, 0, 100));
    }

    // audit: one damaged record of the spool discards everything behind it.
    #[test]
    fn records_after_a_damaged_one_are_decoded() {
        let bytes = written();
        let all = (5..).zip(records()).collect::<Vec<_>>();
        let mut ends = Vec::new();
        let mut prefix = Vec::new();
        for (number, record) in &all {
            encode(*number, record, &mut prefix);
            ends.push(prefix.len());
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            let hit = ends.iter().filter(|end| **end <= place).count();
            let mut others = all.clone();
            others.remove(hit);
            let read = decode_all(&damaged);
            assert_eq!(read.records, others, "byte {place}");
            assert!(read.damaged_bytes + read.torn_bytes > 0, "byte {place}");
            assert!(hit == 3 || read.damaged_bytes > 0, "byte {place} is not reported");
        }
    }
}
