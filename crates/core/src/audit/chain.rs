//! The hash chain: each row's hash covers the row and the previous hash.

use super::{AuditEntry, AuditRow, FieldValue};
use sha2::{Digest, Sha256};

/// The head of a chain: everything needed to append to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainHead {
    /// The number of the last row.
    pub seq: u64,
    /// The total size of all rows up to it.
    pub position: u64,
    /// Its hash.
    pub hash: [u8; 32],
}

impl ChainHead {
    /// The head of an empty chain.
    pub const START: Self = Self { seq: 0, position: 0, hash: [0; 32] };

    /// The head after `entry` is appended. `scratch` is a reusable buffer.
    #[must_use]
    pub fn add(&self, entry: &AuditEntry, scratch: &mut Vec<u8>) -> Self {
        let seq = self.seq + 1;
        scratch.clear();
        scratch.extend_from_slice(&self.hash);
        encode(seq, entry, scratch);
        let length = (scratch.len() - self.hash.len()) as u64;
        Self { seq, position: self.position + length, hash: Sha256::digest(&scratch[..]).into() }
    }
}

/// The canonical encoding of a row: every part has a length prefix, so that no two rows have the same encoding.
fn encode(seq: u64, entry: &AuditEntry, out: &mut Vec<u8>) {
    out.push(1); // the version of this encoding
    out.extend_from_slice(&seq.to_be_bytes());
    entry.fields(|_, value| match value {
        FieldValue::Time(at_ms) => out.extend_from_slice(&at_ms.to_be_bytes()),
        FieldValue::Number(number) => {
            part(out, number.map(u64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        }
        FieldValue::Bytes(bytes) => part(out, bytes),
    });
}

fn part(out: &mut Vec<u8>, part: Option<&[u8]>) {
    let Some(part) = part else { return out.push(0) };
    out.push(1);
    // No part is longer than `MAX_DETAIL_BYTES`.
    out.extend_from_slice(&(part.len() as u32).to_be_bytes());
    out.extend_from_slice(part);
}

/// A defect of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Flaw {
    /// The row is missing, but a later one exists.
    #[error("the row is missing")]
    Missing,
    /// The row is not what was written, or not where it was written.
    #[error("the row or its position was changed after it was written")]
    Altered,
    /// The row cannot be parsed.
    #[error("the row cannot be read")]
    Unreadable,
    /// The recorded head includes this row, but the audit log ends before it.
    #[error("the row was removed from the end")]
    CutOff,
    /// The recorded head does not include this row.
    #[error("the row was not written by the gateway")]
    Added,
    /// The last row is valid, but the recorded head names another one.
    #[error("the recorded last row is a different one")]
    OtherHead,
    /// The record of the head or of the last purged row is missing.
    #[error("the record of the first and last row is missing")]
    NoEnds,
}

/// A row that is not as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlawedRow {
    /// Its number.
    pub seq: u64,
    /// Its defect.
    pub why: Flaw,
}

/// The result of verifying the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditReport {
    /// How many rows were checked and are valid.
    pub rows: u64,
    /// The last purged row, which cannot be checked; 0 if no row was purged.
    pub purged_to: u64,
    /// The first bad row. Rows after it are not checked.
    pub first_bad: Option<FlawedRow>,
    /// The last valid row. If its hash is stored elsewhere, later changes to any row before it can be detected.
    pub head: ChainHead,
}

/// Verifies rows one after another, with constant memory.
#[derive(Debug)]
pub struct Verifier {
    base: ChainHead,
    head: ChainHead,
    bad: Option<FlawedRow>,
    scratch: Vec<u8>,
}

impl Verifier {
    /// Starts after the last purged row.
    pub fn new(base: ChainHead) -> Self {
        Self { base, head: base, bad: None, scratch: Vec::new() }
    }

    /// The number of the last valid row.
    pub fn seq(&self) -> u64 {
        self.head.seq
    }

    /// Checks the next row. Returns `false` once a bad row was found.
    pub fn check(&mut self, row: &AuditRow) -> bool {
        if self.bad.is_some() || row.seq != self.head.seq + 1 {
            return self.miss(row.seq);
        }
        let next = self.head.add(&row.entry, &mut self.scratch);
        if (next.hash, next.position) != (row.hash, row.position) {
            return self.fail(row.seq, Flaw::Altered);
        }
        self.head = next;
        true
    }

    /// Reports that the next row could not be parsed. Returns `false`.
    pub fn unreadable(&mut self, seq: u64) -> bool {
        if seq == self.head.seq + 1 { self.fail(seq, Flaw::Unreadable) } else { self.miss(seq) }
    }

    /// Compares the last row with the head that is recorded separately.
    pub fn finish(mut self, recorded: ChainHead) -> AuditReport {
        if recorded.seq > self.head.seq {
            self.fail(self.head.seq + 1, Flaw::CutOff);
        } else if recorded.seq < self.head.seq {
            self.fail(recorded.seq + 1, Flaw::Added);
        } else if recorded != self.head {
            self.fail(recorded.seq, Flaw::OtherHead);
        }
        self.report()
    }

    /// Stops because the recorded head is missing.
    pub fn without_ends(mut self) -> AuditReport {
        self.fail(self.head.seq, Flaw::NoEnds);
        self.report()
    }

    fn report(self) -> AuditReport {
        let Self { base, head, bad, .. } = self;
        AuditReport { rows: head.seq - base.seq, purged_to: base.seq, first_bad: bad, head }
    }

    fn miss(&mut self, seq: u64) -> bool {
        let expected = self.head.seq + 1;
        // A row whose number was already used is an additional one.
        if seq < expected { self.fail(seq, Flaw::Added) } else { self.fail(expected, Flaw::Missing) }
    }

    fn fail(&mut self, seq: u64, why: Flaw) -> bool {
        self.bad = self.bad.or(Some(FlawedRow { seq, why }));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::RawJson;
    use uuid::Uuid;

    fn full(at_ms: i64) -> AuditEntry {
        AuditEntry {
            call_id: Some(Uuid::from_u128(7)),
            by: Some("cy".into()),
            persona: Some("dev".into()),
            client: Some("client".into()),
            server: Some("mail".into()),
            tool: Some("send".into()),
            code: Some("call.timeout".into()),
            duration_ms: Some(5),
            arguments_preview: Some("{}".into()),
            arguments_sha256: Some([3; 32]),
            detail: Some(RawJson::empty_object()),
            ..AuditEntry::new(at_ms, "call", "ann", "done")
        }
    }

    fn rows() -> Vec<AuditRow> {
        let (mut head, mut scratch) = (ChainHead::START, Vec::new());
        let mut rows = Vec::new();
        for at_ms in 0..10 {
            let entry =
                if at_ms % 2 == 0 { full(at_ms) } else { AuditEntry::new(at_ms, "call", "bo", "done") };
            head = head.add(&entry, &mut scratch);
            rows.push(AuditRow { seq: head.seq, position: head.position, hash: head.hash, entry });
        }
        rows
    }

    fn end(rows: &[AuditRow]) -> ChainHead {
        rows.last().map_or(ChainHead::START, |row| ChainHead {
            seq: row.seq,
            position: row.position,
            hash: row.hash,
        })
    }

    fn verify(rows: &[AuditRow], base: ChainHead, head: ChainHead) -> AuditReport {
        let mut verifier = Verifier::new(base);
        let _ = rows.iter().all(|row| verifier.check(row));
        verifier.finish(head)
    }

    /// Databases of earlier versions are verified with this encoding.
    #[test]
    fn the_encoding_of_a_row_does_not_change() {
        let rows = rows();
        let hex = |hash: &[u8]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let full = "3c7f74ec9bc1cf04b0421591ae4886a28fc039e01be3f6bbda3495d767b1ee5b";
        let short = "4825151c0a6ec5f7273870e365f3a4d60baa00dd5fbab425ef39a1d7c05dbab0";
        assert_eq!((rows[0].position, hex(&rows[0].hash).as_str()), (189, full));
        assert_eq!((rows[1].position, hex(&rows[1].hash).as_str()), (242, short));
    }

    #[test]
    fn an_untouched_chain_is_valid_from_any_row_on() {
        let rows = rows();
        for start in 0..=10 {
            let report = verify(&rows[start..], end(&rows[..start]), end(&rows));
            let good = AuditReport {
                rows: 10 - start as u64,
                purged_to: start as u64,
                first_bad: None,
                head: end(&rows),
            };
            assert_eq!(report, good);
        }
    }

    #[test]
    fn every_change_is_found_and_its_row_named() {
        type Tampering = fn(&mut Vec<AuditRow>);
        let cases: [(&str, Tampering, u64, Flaw); 25] = [
            ("time", |rows| rows[4].entry.at_ms ^= 1, 5, Flaw::Altered),
            ("kind", |rows| rows[4].entry.kind = "cal".into(), 5, Flaw::Altered),
            ("call", |rows| rows[4].entry.call_id = Some(Uuid::nil()), 5, Flaw::Altered),
            ("user", |rows| rows[4].entry.user = "bo".into(), 5, Flaw::Altered),
            ("by", |rows| rows[4].entry.by = None, 5, Flaw::Altered),
            ("persona", |rows| rows[4].entry.persona = None, 5, Flaw::Altered),
            ("client", |rows| rows[4].entry.client = Some("".into()), 5, Flaw::Altered),
            ("server", |rows| rows[4].entry.server = None, 5, Flaw::Altered),
            ("tool", |rows| rows[4].entry.tool = Some("read".into()), 5, Flaw::Altered),
            ("outcome", |rows| rows[4].entry.outcome = "failed".into(), 5, Flaw::Altered),
            ("code", |rows| rows[4].entry.code = None, 5, Flaw::Altered),
            ("duration", |rows| rows[4].entry.duration_ms = Some(4), 5, Flaw::Altered),
            ("preview", |rows| rows[4].entry.arguments_preview = None, 5, Flaw::Altered),
            ("arguments", |rows| rows[4].entry.arguments_sha256 = None, 5, Flaw::Altered),
            ("detail", |rows| rows[4].entry.detail = Some(RawJson::null()), 5, Flaw::Altered),
            ("hash", |rows| rows[4].hash[31] ^= 1, 5, Flaw::Altered),
            ("position", |rows| rows[4].position ^= 1, 5, Flaw::Altered),
            // Moved from one field to the next: the length prefixes reveal it.
            (
                "shift",
                |rows| (rows[4].entry.server, rows[4].entry.tool) = (None, Some("mail".into())),
                5,
                Flaw::Altered,
            ),
            ("removed", |rows| drop(rows.remove(4)), 5, Flaw::Missing),
            ("removed at the start", |rows| drop(rows.remove(0)), 1, Flaw::Missing),
            ("swapped", |rows| rows.swap(4, 5), 5, Flaw::Missing),
            (
                "contents swapped",
                |rows| {
                    rows.swap(4, 5);
                    (rows[4].seq, rows[5].seq) = (5, 6);
                },
                5,
                Flaw::Altered,
            ),
            ("doubled", |rows| rows.insert(5, rows[4].clone()), 5, Flaw::Added),
            ("cut off", |rows| rows.truncate(7), 8, Flaw::CutOff),
            ("emptied", |rows| rows.clear(), 1, Flaw::CutOff),
        ];
        for (name, tamper, seq, why) in cases {
            let mut rows = rows();
            let head = end(&rows);
            tamper(&mut rows);
            let report = verify(&rows, ChainHead::START, head);
            assert_eq!(report.first_bad, Some(FlawedRow { seq, why }), "{name}");
        }
    }

    #[test]
    fn a_differing_recorded_head_is_reported() {
        let rows = rows();
        let other = ChainHead { hash: [9; 32], ..end(&rows) };
        let report = verify(&rows, ChainHead::START, other);
        assert_eq!(report.first_bad, Some(FlawedRow { seq: 10, why: Flaw::OtherHead }));
        let report = verify(&rows, ChainHead::START, end(&rows[..8]));
        assert_eq!(report.first_bad, Some(FlawedRow { seq: 9, why: Flaw::Added }));
        let report = verify(&rows[2..], ChainHead { hash: [9; 32], ..end(&rows[..2]) }, end(&rows));
        assert_eq!(report.first_bad, Some(FlawedRow { seq: 3, why: Flaw::Altered }));
    }
}
