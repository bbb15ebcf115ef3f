//! The topics of changes, and their publication to the other gateways in the transaction of the changes.

use super::rows::change::{ChangeEffect, StoreChange};
use crate::held::HeldUpdate;
use crate::letters::LetterUpdate;
use crate::notices::{StoreNotice, StoreTopic};
use crate::shared_records::SharedKind;
use sqlx::PgConnection;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The most ids of one topic in a notice; PostgreSQL's limit is 8,000 bytes in all.
const MAX_IDS: usize = 50;

// The counters are for gateways that poll.
const PUBLISH: &str = "\
    WITH counted AS (INSERT INTO changes (topic, number) SELECT unnest($1::text[]), 1 \
    ON CONFLICT (topic) DO UPDATE SET number = changes.number + 1 RETURNING 1) \
    SELECT pg_notify('toolbooth', $2)";

/// The topic of a change that had an effect. A call or an audit row has none: a notice makes all commits of the
/// database wait for each other.
pub(super) fn topic_of(change: &StoreChange, effect: &ChangeEffect) -> Option<StoreTopic> {
    match change {
        StoreChange::SaveDiscovery(_) | StoreChange::ForgetDiscovery(_) => Some(StoreTopic::Catalog),
        StoreChange::OpenPlan(_)
        | StoreChange::ClosePlan { .. }
        | StoreChange::GrantConsent(_)
        | StoreChange::RevokeConsent(_)
        | StoreChange::SavePins(_)
        | StoreChange::SaveRelease(_)
        | StoreChange::ForgetPins(_) => Some(StoreTopic::Decisions),
        StoreChange::Hold(_) | StoreChange::QueueStep { .. } => Some(StoreTopic::Held),
        StoreChange::Step { .. } => {
            matches!(effect.held_update, HeldUpdate::Won(_)).then_some(StoreTopic::Held)
        }
        StoreChange::Sweep { .. } => (!effect.held.is_empty()).then_some(StoreTopic::Held),
        StoreChange::AddLetter(_) => Some(StoreTopic::Letters),
        StoreChange::MoveLetter { .. } => {
            matches!(effect.letter, LetterUpdate::Won(_)).then_some(StoreTopic::Letters)
        }
        StoreChange::InterruptLetters { .. } => (!effect.letters.is_empty()).then_some(StoreTopic::Letters),
        StoreChange::Work { .. } => Some(StoreTopic::Jobs),
        StoreChange::SaveShared(record) => match record.kind {
            // No other gateway has a copy of a new session.
            SharedKind::Session => (record.changed_ms > 0).then_some(StoreTopic::Sessions),
            SharedKind::Vault => Some(StoreTopic::Vaults),
        },
        StoreChange::SendMail { .. } => (effect.rows > 0).then_some(StoreTopic::Mail),
        StoreChange::AddToken(_) | StoreChange::RevokeToken { .. } => Some(StoreTopic::Tokens),
        _ => None,
    }
}

/// Whether a change must wait for its turn: it reads rows that changes of other gateways write. The others only write
/// rows of this gateway's own calls, audit rows, and new messages.
pub(super) fn needs_turn(change: &StoreChange) -> bool {
    !matches!(
        change,
        StoreChange::Nothing
            | StoreChange::Intent(_)
            | StoreChange::Outcome { .. }
            | StoreChange::ForgetIntent { .. }
            | StoreChange::Audit(_)
            | StoreChange::Note(_)
            | StoreChange::SendMail { .. }
    )
}

/// The topics of one commit, each with the changed records; `None` if one of them has no id.
#[derive(Debug, Default)]
pub(super) struct ChangedTopics(BTreeMap<StoreTopic, Option<Vec<Uuid>>>);

impl ChangedTopics {
    /// Adds a change that was made, with its effect.
    pub(super) fn add(&mut self, topic: StoreTopic, change: &StoreChange, effect: &ChangeEffect) {
        let mut ids: Vec<Uuid> = effect.held.iter().map(|call| call.id).collect();
        match change {
            StoreChange::Hold(call) => ids.push(call.id),
            StoreChange::SaveShared(record) => ids.extend(record.name.parse::<Uuid>()),
            StoreChange::SendMail { to, .. } => ids.extend(to.parse::<Uuid>()),
            _ => {}
        }
        if let HeldUpdate::Won(call) = &effect.held_update {
            ids.push(call.id);
        }
        let all = self.0.entry(topic).or_insert_with(|| Some(Vec::new()));
        match all {
            Some(all) if !ids.is_empty() => all.extend(ids),
            _ => *all = None,
        }
    }

    /// Publishes the topics: the notice is sent when the transaction is committed.
    pub(super) async fn publish(
        self,
        connection: &mut PgConnection,
        replica: &str,
    ) -> Result<(), sqlx::Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        let topics: Vec<String> = self.0.keys().map(|topic| topic.as_str().to_owned()).collect();
        let query = sqlx::query(PUBLISH).bind(topics).bind(self.text(replica));
        query.execute(connection).await?;
        Ok(())
    }

    fn text(&self, replica: &str) -> String {
        let mut text = replica.to_owned();
        for (topic, ids) in &self.0 {
            let topic = topic.as_str();
            match ids {
                Some(ids) if ids.len() <= MAX_IDS => {
                    ids.iter().for_each(|id| text.push_str(&format!(" {topic}:{id}")));
                }
                _ => text.push_str(&format!(" {topic}")),
            }
        }
        text
    }
}

/// The notices in a text, unless this gateway wrote it.
pub(super) fn notices_in(text: &str, replica: &str) -> Vec<StoreNotice> {
    let mut words = text.split(' ');
    if words.next() == Some(replica) {
        return Vec::new();
    }
    let notice = |word: &str| {
        let (topic, id) = word.split_once(':').map_or((word, None), |(topic, id)| (topic, Some(id)));
        // A newer gateway may have other topics.
        Some(StoreNotice { topic: Some(StoreTopic::named(topic)?), id: id.and_then(|id| id.parse().ok()) })
    };
    words.filter_map(notice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_by_other_gateways_only() {
        let mut topics = ChangedTopics::default();
        topics.add(StoreTopic::Tokens, &StoreChange::Nothing, &ChangeEffect::default());
        topics.0.insert(StoreTopic::Held, Some(vec![Uuid::nil()]));
        let text = topics.text("a");
        assert_eq!(notices_in(&text, "a"), []);
        let expected = [
            StoreNotice { topic: Some(StoreTopic::Held), id: Some(Uuid::nil()) },
            StoreNotice { topic: Some(StoreTopic::Tokens), id: None },
        ];
        assert_eq!(notices_in(&text, "b"), expected);
        assert_eq!(
            notices_in("a later held:1", "b"),
            [StoreNotice { topic: Some(StoreTopic::Held), id: None }]
        );
    }

    #[test]
    fn many_ids_are_one_notice() {
        let topics =
            ChangedTopics(BTreeMap::from([(StoreTopic::Held, Some(vec![Uuid::nil(); MAX_IDS + 1]))]));
        assert_eq!(topics.text("a"), "a held");
    }
}
