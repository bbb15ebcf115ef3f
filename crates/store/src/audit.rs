//! The filter for audit rows, and counts of the calls in them.

use toolbooth_core::audit::AuditRow;
use toolbooth_core::json::ObjectWriter;
use uuid::Uuid;

/// The maximum number of rows that one count of calls reads.
pub const MAX_COUNTED_ROWS: u32 = 500_000;
/// The maximum number of rows whose results one query adds up. Fewer than for a count, because the sizes are not in an
/// index: the rows themselves are read.
pub const MAX_MEASURED_ROWS: u32 = 50_000;
/// The member of the detail of a call's row that has the size of its result.
pub const RESULT_BYTES: &str = "result_bytes";
/// Rows are numbered in the order in which they are written, and their times follow the system clock, which can be set
/// back. A filter by time assumes that two rows whose times differ by more than this are in the order of their times.
pub(crate) const CLOCK_DISORDER_MS: i64 = 3_600_000;

/// Selects rows of the audit; all given fields must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Rows of this user.
    pub user: Option<String>,
    /// Rows of this server.
    pub server: Option<String>,
    /// Rows of this tool, by the server's own name.
    pub tool: Option<String>,
    /// Rows of this kind.
    pub kind: Option<String>,
    /// Rows with this outcome.
    pub outcome: Option<String>,
    /// Rows of this client, by the name that it gave itself.
    pub client: Option<String>,
    /// Rows of calls in this session.
    pub session: Option<String>,
    /// Rows whose server and tool, joined by `_`, contain this text. Upper and lower case of ASCII letters are the same.
    pub text: Option<String>,
    /// Rows at this time or later.
    pub since_ms: Option<i64>,
    /// Rows before this time.
    pub until_ms: Option<i64>,
    /// Rows of this call.
    pub call_id: Option<Uuid>,
    /// Rows with a higher number.
    pub after_seq: Option<u64>,
    /// Rows with a lower number.
    pub before_seq: Option<u64>,
    /// The page size; at most `MAX_AUDIT_PAGE`.
    pub limit: Option<u32>,
}

impl AuditFilter {
    /// Whether the filter matches a row.
    pub(crate) fn matches(&self, row: &AuditRow) -> bool {
        let entry = &row.entry;
        let given =
            |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        given(&self.user, Some(&entry.user))
            && given(&self.server, entry.server.as_deref())
            && given(&self.tool, entry.tool.as_deref())
            && given(&self.kind, Some(&entry.kind))
            && given(&self.outcome, Some(&entry.outcome))
            && given(&self.client, entry.client.as_deref())
            && self.session_prefix().is_none_or(|prefix| {
                entry.detail.as_ref().is_some_and(|detail| detail.as_str().starts_with(&prefix))
            })
            && self.lower_text().is_none_or(|text| {
                let server = entry.server.as_deref().unwrap_or_default();
                let name = format!("{server}_{}", entry.tool.as_deref().unwrap_or_default());
                name.to_ascii_lowercase().contains(&text)
            })
            && self.since_ms.is_none_or(|since| entry.at_ms >= since)
            && self.until_ms.is_none_or(|until| entry.at_ms < until)
            && self.call_id.is_none_or(|id| entry.call_id == Some(id))
            && self.after_seq.is_none_or(|after| row.seq > after)
            && self.before_seq.is_none_or(|before| row.seq < before)
    }

    /// Whether it asks for a text with NUL. No row has one, and PostgreSQL does not accept one.
    pub(crate) fn has_nul(&self) -> bool {
        let texts =
            [&self.user, &self.server, &self.tool, &self.kind, &self.outcome, &self.client, &self.text];
        texts.into_iter().flatten().any(|text| text.contains('\0'))
    }

    /// The beginning of the detail of a call in the session: the session is always its first member.
    pub(crate) fn session_prefix(&self) -> Option<String> {
        let mut detail = ObjectWriter::default();
        detail.text("session", self.session.as_deref()?);
        let detail = detail.finish();
        detail.as_str().strip_suffix('}').map(str::to_owned)
    }

    /// The text in lower case.
    pub(crate) fn lower_text(&self) -> Option<String> {
        self.text.as_deref().map(str::to_ascii_lowercase)
    }
}

/// The calls to count: those in consecutive steps of equal length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCountQuery {
    /// Calls of this user; of all users if absent.
    pub user: Option<String>,
    /// The beginning of the first step.
    pub from_ms: i64,
    /// The length of a step; at least 1.
    pub step_ms: i64,
    /// The number of steps.
    pub steps: u32,
}

impl CallCountQuery {
    /// The end of the last step.
    pub fn until_ms(&self) -> i64 {
        self.from_ms.saturating_add(self.step_ms.max(1).saturating_mul(i64::from(self.steps)))
    }

    /// The step of a time, if it is in one.
    pub(crate) fn step_of(&self, at_ms: i64) -> Option<u32> {
        if !(self.from_ms..self.until_ms()).contains(&at_ms) {
            return None;
        }
        u32::try_from(at_ms.saturating_sub(self.from_ms) / self.step_ms.max(1)).ok()
    }
}

/// The number of calls with one outcome that ended in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCount {
    /// The step, from 0.
    pub step: u32,
    /// The outcome, as in audit rows.
    pub outcome: String,
    /// The number of calls; never 0.
    pub calls: u64,
}

/// Calls by step and outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCounts {
    /// Sorted by step and outcome. Steps without calls are absent.
    pub counts: Vec<CallCount>,
    /// Calls before this time may be missing. It is the beginning of the first step, unless there were more than
    /// [`MAX_COUNTED_ROWS`] rows.
    pub complete_from_ms: i64,
}

/// The calls whose results are added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultSizeQuery {
    /// Calls of this user; of all users if absent.
    pub user: Option<String>,
    /// Calls that ended at this time or later.
    pub from_ms: i64,
    /// Calls that ended before this time.
    pub until_ms: i64,
}

/// The sizes of the results that callers received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResultSizes {
    /// The number of results.
    pub results: u64,
    /// Their size, as JSON text.
    pub bytes: u64,
    /// Results before this time may be missing. It is the beginning of the range, unless there were more than
    /// [`MAX_MEASURED_ROWS`] rows.
    pub complete_from_ms: i64,
}

impl ResultSizes {
    /// The sum over `read` rows, newest first, the oldest of which is from `oldest_ms`.
    pub(crate) fn of(
        query: &ResultSizeQuery,
        (results, bytes): (u64, u64),
        read: u64,
        oldest_ms: i64,
    ) -> Self {
        // Rows with the time of the oldest one may be missing, too.
        let is_cut = read >= u64::from(MAX_MEASURED_ROWS);
        let complete_from_ms = if is_cut { oldest_ms.saturating_add(1) } else { query.from_ms };
        Self { results, bytes, complete_from_ms }
    }
}

/// A group of rows that was counted.
#[derive(Debug)]
pub(crate) struct CountedRows {
    pub(crate) count: CallCount,
    /// The number of rows that were read, of all users.
    pub(crate) read: u64,
    /// The time of the oldest of them.
    pub(crate) oldest_ms: i64,
}

impl CallCounts {
    /// The result of a query that read at most [`MAX_COUNTED_ROWS`] rows, newest first.
    pub(crate) fn of(query: &CallCountQuery, groups: Vec<CountedRows>) -> Self {
        let read: u64 = groups.iter().map(|group| group.read).sum();
        let oldest_ms = groups.iter().map(|group| group.oldest_ms).min();
        let complete_from_ms = match oldest_ms {
            // Rows with the time of the oldest one may be missing, too.
            Some(oldest_ms) if read >= u64::from(MAX_COUNTED_ROWS) => oldest_ms.saturating_add(1),
            _ => query.from_ms,
        };
        let counts = groups.into_iter().map(|group| group.count).filter(|count| count.calls > 0);
        let mut counts: Vec<CallCount> = counts.collect();
        counts.sort_by(|one, other| (one.step, &one.outcome).cmp(&(other.step, &other.outcome)));
        Self { counts, complete_from_ms }
    }
}
