//! Ends of calls and audit entries that could not be committed, for example because the database was down. Their callers
//! were told so. The writer commits them when the database answers again, each of them once.

use super::rows::change::StoreChange;

/// The most records that wait. Calls that may change something are refused while their start cannot be recorded.
const MAX_WAITING: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct LateRecords {
    waiting: Vec<StoreChange>,
    in_doubt: Option<GroupInDoubt>,
    has_overflowed: bool,
}

/// A group whose commit was not answered.
#[derive(Debug)]
struct GroupInDoubt {
    commit: i64,
    records: Vec<StoreChange>,
}

impl LateRecords {
    /// Keeps the records in a group that was not committed.
    pub(super) fn keep(&mut self, group: &[StoreChange]) {
        self.add(records_of(group));
    }

    /// Keeps the records in a group whose commit was not answered, with the number of the commit.
    pub(super) fn keep_in_doubt(&mut self, group: &[StoreChange], commit: i64) {
        let records = records_of(group);
        if !records.is_empty() {
            self.in_doubt = Some(GroupInDoubt { commit, records });
        }
    }

    /// Whether it must be found out which commit was the last one, before there is another one.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt.is_some()
    }

    /// Whether no record waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_doubt.is_none()
    }

    /// Ends the doubt with the number of the last commit.
    pub(super) fn decide(&mut self, last_commit: Option<i64>) {
        if let Some(GroupInDoubt { commit, records }) = self.in_doubt.take()
            && last_commit != Some(commit)
        {
            self.add(records);
        }
    }

    /// Takes some of the records that wait.
    pub(super) fn take(&mut self, most: usize) -> Vec<StoreChange> {
        let most = most.min(self.waiting.len());
        self.waiting.drain(..most).collect()
    }

    fn add(&mut self, records: Vec<StoreChange>) {
        let room = MAX_WAITING - self.waiting.len();
        if records.len() > room && !self.has_overflowed {
            self.has_overflowed = true;
            tracing::error!(
                waiting = MAX_WAITING,
                "too many ends of calls wait for the database; further ones will not be in the audit log until it answers again"
            );
        } else if records.len() <= room {
            self.has_overflowed = false;
        }
        self.waiting.extend(records.into_iter().take(room));
    }
}

fn records_of(group: &[StoreChange]) -> Vec<StoreChange> {
    group.iter().filter(|change| change.is_of_past_event()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::audit::AuditEntry;

    fn record(number: usize) -> StoreChange {
        StoreChange::Note(Box::new(AuditEntry::new(number as i64, "call", "ann", "done")))
    }

    #[test]
    fn a_group_in_doubt_waits_only_if_its_commit_did_not_happen() {
        for (last_commit, waiting) in [(Some(7), 0), (Some(6), 1), (None, 1)] {
            let mut late = LateRecords::default();
            late.keep_in_doubt(&[record(1), StoreChange::RaiseClock(3)], 7);
            assert!(late.is_in_doubt() && late.take(9).is_empty());
            late.decide(last_commit);
            assert!(!late.is_in_doubt());
            assert_eq!(late.take(9).len(), waiting, "{last_commit:?}");
        }
        let mut late = LateRecords::default();
        late.keep_in_doubt(&[StoreChange::RaiseClock(3)], 7);
        assert!(!late.is_in_doubt());
    }

    #[test]
    fn the_records_that_wait_are_limited() {
        let mut late = LateRecords::default();
        let group: Vec<StoreChange> = (0..MAX_WAITING + 5).map(record).collect();
        late.keep(&group);
        assert_eq!(late.waiting.len(), MAX_WAITING);
        assert_eq!(late.take(500).len(), 500);
        late.keep(&group[..2]);
        assert_eq!(late.waiting.len(), MAX_WAITING - 498);
    }
}
