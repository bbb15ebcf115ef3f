//! Calls whose server asks a question, during a load: one replica asks, and the client answers at another one.

use super::caller::{CallReply, OTHER_ANSWER, ReplicaCaller, ended, greeted};
use super::http::ReplicaUser;
use super::report::ReplicaReport;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// One of this many calls is one whose server asks.
const EVERY: usize = 100;
/// How long a replica may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The eras of the client and of the server of a call, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuestionCase {
    ModernToModern,
    ModernToLegacy,
    LegacyToModern,
    LegacyToLegacy,
}

impl QuestionCase {
    const ALL: [Self; 4] =
        [Self::ModernToModern, Self::ModernToLegacy, Self::LegacyToModern, Self::LegacyToLegacy];

    /// The case of the call with this number; `None` if its server does not ask.
    pub fn of(number: usize) -> Option<Self> {
        (number % EVERY == 17).then(|| Self::ALL[number / EVERY % Self::ALL.len()])
    }

    /// A tool that asks for a name. A legacy server keeps the call open meanwhile.
    fn tool(self) -> &'static str {
        match self {
            Self::ModernToModern | Self::LegacyToModern => "fix_ask_name",
            Self::ModernToLegacy | Self::LegacyToLegacy => "old_ask_name",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::ModernToModern => "modern client, modern server",
            Self::ModernToLegacy => "modern client, legacy server",
            Self::LegacyToModern => "legacy client, modern server",
            Self::LegacyToLegacy => "legacy client, legacy server",
        }
    }
}

/// A call whose server asked, and its end.
#[derive(Debug)]
pub struct QuestionNote {
    pub case: QuestionCase,
    /// The name that the client answered.
    pub text: String,
    pub end: CallReply,
}

/// A user who chooses the replicas, so that the answer goes to another one than the call.
#[derive(Debug)]
pub struct QuestionClient {
    pub replicas: Vec<SocketAddr>,
    pub token: String,
}

impl QuestionClient {
    /// Makes a call at one replica, and answers its question at another one.
    pub fn call(&self, case: QuestionCase, number: usize, text: String) -> QuestionNote {
        let end = self.ask(case, number, &text).unwrap_or(CallReply::Unanswered);
        QuestionNote { case, text, end }
    }

    fn ask(&self, case: QuestionCase, number: usize, text: &str) -> Result<CallReply> {
        let asking = self.accepting(number, None).context("no replica accepts connections")?;
        let content = json!({ "name": text });
        match case {
            QuestionCase::ModernToModern | QuestionCase::ModernToLegacy => {
                self.modern(case.tool(), asking, &content)
            }
            QuestionCase::LegacyToModern | QuestionCase::LegacyToLegacy => {
                let other = self.accepting(asking + 1, Some(asking)).context("no other replica")?;
                ReplicaCaller::asked(self.user(asking)).legacy_asked(case.tool(), &content, &self.user(other))
            }
        }
    }

    fn modern(&self, tool: &str, asking: usize, content: &Value) -> Result<CallReply> {
        let send = |replica: usize, params: &Value| {
            let caller = ReplicaCaller::asked(self.user(replica));
            caller.modern("tools/call", params.clone(), Some(tool), json!({ "elicitation": {} }))
        };
        let mut params = json!({ "name": tool, "arguments": {} });
        let asked = send(asking, &params)?;
        let result = asked.json().map(|body| body["result"].clone()).unwrap_or_default();
        let Some(key) = result["inputRequests"].as_object().and_then(|requests| requests.keys().next())
        else {
            return Ok(match ended(&asked) {
                CallReply::Done => CallReply::Explained("no question was asked".into()),
                end => end,
            });
        };
        params["requestState"] = result["requestState"].clone();
        params["inputResponses"] = json!({ key: { "action": "accept", "content": content } });
        let other = self.accepting(asking + 1, Some(asking)).context("no other replica")?;
        Ok(greeted(&send(other, &params)?, content))
    }

    fn user(&self, replica: usize) -> ReplicaUser {
        ReplicaUser::new(self.replicas[replica], &self.token)
    }

    /// The first replica from this one on that accepts connections, except one.
    fn accepting(&self, first: usize, except: Option<usize>) -> Option<usize> {
        (0..self.replicas.len())
            .map(|step| (first + step) % self.replicas.len())
            .filter(|replica| Some(*replica) != except)
            .find(|replica| TcpStream::connect_timeout(&self.replicas[*replica], CONNECT_TIMEOUT).is_ok())
    }
}

/// Adds the ends of the calls to the report. Kills and starts end many of them, so only a part must have a result; each
/// result must be that of its own answer.
pub fn describe(notes: &[QuestionNote], report: &mut ReplicaReport) {
    let mut cases: BTreeMap<QuestionCase, (usize, usize)> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for note in notes {
        let (done, all) = cases.entry(note.case).or_default();
        *all += 1;
        match &note.end {
            CallReply::Done => *done += 1,
            CallReply::Explained(reason) if reason == OTHER_ANSWER => wrong.push(note.text.clone()),
            CallReply::Explained(reason) => *reasons.entry(reason).or_default() += 1,
            CallReply::Unanswered => *reasons.entry("cut off").or_default() += 1,
        }
    }
    let (done, all) = cases.values().fold((0, 0), |sum, case| (sum.0 + case.0, sum.1 + case.1));
    let seen = format!("{done} of {all} with a result");
    report.check("asked by A, answered at B during the kills", seen, done * 4 > all);
    for (case, (done, all)) in &cases {
        report.measure(&format!("  {}", case.as_str()), format!("{done} of {all}"));
    }
    for (reason, count) in reasons {
        report.measure("  question not answered", format!("{count}: {reason}"));
    }
    report.none_of("results of another answer", &wrong);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cases_occur_equally_often() {
        for case in QuestionCase::ALL {
            let count = (0..4000).filter(|number| QuestionCase::of(*number) == Some(case)).count();
            assert_eq!(count, 10, "{case:?}");
        }
    }

    #[test]
    fn results_of_other_answers_are_found() {
        let note =
            |text: &str, end| QuestionNote { case: QuestionCase::LegacyToLegacy, text: text.into(), end };
        let notes = [
            note("a", CallReply::Done),
            note("b", CallReply::Done),
            note("c", CallReply::Explained(OTHER_ANSWER.into())),
        ];
        let mut report = ReplicaReport::default();
        describe(&notes[..2], &mut report);
        assert_eq!(report.count(), (2, 0));
        describe(&notes, &mut report);
        assert_eq!(report.count(), (3, 1));
    }
}
