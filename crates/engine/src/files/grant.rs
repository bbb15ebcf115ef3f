//! Files for one call: the names in its arguments are looked up, and it is granted their addresses until it ends.

use super::Files;
use crate::answer::Answer;
use crate::clock::now_ms;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::Draft;
use toolbooth_core::call::inject::{FileBook, FileFault, SignedUrl, file_names};
use toolbooth_core::caller::Caller;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_wire::RpcError;
use uuid::Uuid;

/// What stands in an answer in place of a token.
const REDACTED: &str = "redacted";

/// What the names in a call's arguments mean. Its addresses count while it lives, and a little longer.
pub(crate) struct Grant {
    files: Arc<Files>,
    call: Uuid,
    found: Vec<(String, Result<SignedUrl, FileFault>)>,
    /// Whether the store was told of the call.
    told: bool,
}

impl Files {
    /// Looks up the files that a call names; nothing, where it names none.
    pub(crate) async fn grant(self: &Arc<Self>, draft: &Draft, call: Uuid) -> Option<Grant> {
        let names = file_names(&draft.tool, &draft.arguments);
        if names.is_empty() {
            return None;
        }
        let mut grant =
            Grant { files: self.clone(), call, found: Vec::with_capacity(names.len()), told: false };
        let until_ms = now_ms().saturating_add(milliseconds(self.terms.url_lives));
        for name in names {
            let address = match self.named(&draft.caller, &name).await {
                Ok(None) => Err(FileFault::Unknown),
                Ok(Some(file)) => {
                    let address = self.terms.public_url.as_deref().and_then(|base| {
                        self.address(base, &file, &draft.tool.server.name, call, until_ms / 1000)
                    });
                    address.ok_or(FileFault::Unavailable)
                }
                Err(problem) => {
                    tracing::warn!("a file could not be looked up: {problem}");
                    Err(FileFault::Unavailable)
                }
            };
            grant.found.push((name, address));
        }
        if grant.found.iter().any(|(_, address)| address.is_ok()) {
            if let Err(error) = self.store.open_grant(call, until_ms).await {
                tracing::warn!("addresses of files could not be granted: {error}");
                grant.found.iter_mut().for_each(|(_, address)| *address = Err(FileFault::Unavailable));
            } else {
                grant.told = true;
            }
        }
        Some(grant)
    }
}

impl Grant {
    /// The answer without the tokens that the call was given: a server that echoes its arguments must not
    /// hand a live address to the model. A token has no character that JSON writes in another way.
    pub(crate) fn redact(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Result { result, era, facts, warnings } => {
                Answer::Result { result: self.redacted(result), era, facts, warnings }
            }
            Answer::Error(error) => {
                let message = self.cleaned(&error.message).unwrap_or(error.message);
                let data = error.data.map(|data| self.redacted(data));
                Answer::Error(RpcError { code: error.code, message, data })
            }
            Answer::InputRequired { requests, state, server } => {
                let requests = requests.map(|requests| self.redacted(requests));
                Answer::InputRequired { requests, state, server }
            }
            other => other,
        }
    }

    fn redacted(&self, json: RawJson) -> RawJson {
        match self.cleaned(json.as_str()) {
            Some(text) => RawJson::trusted(text),
            None => json,
        }
    }

    /// The text without tokens, if it has any.
    fn cleaned(&self, text: &str) -> Option<String> {
        let mut cleaned: Option<String> = None;
        for (_, address) in &self.found {
            let Some((_, token)) = address.as_ref().ok().and_then(|url| url.expose().split_once("?token="))
            else {
                continue;
            };
            if cleaned.as_deref().unwrap_or(text).contains(token) {
                cleaned = Some(cleaned.as_deref().unwrap_or(text).replace(token, REDACTED));
            }
        }
        cleaned
    }
}

impl FileBook for Grant {
    fn url_for(&self, _: &Caller, name: &str, _: &ServerName, _: &str) -> Result<SignedUrl, FileFault> {
        let found = self.found.iter().find(|(known, _)| known == name);
        found.map_or(Err(FileFault::Unknown), |(_, address)| address.clone())
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // However the call ended. A gateway that is killed ends all grants at its next start.
        if let (true, Ok(runtime)) = (self.told, tokio::runtime::Handle::try_current()) {
            let (files, call) = (self.files.clone(), self.call);
            runtime.spawn(async move {
                let until_ms = now_ms().saturating_add(milliseconds(files.terms.grace));
                if let Err(error) = files.store.end_grant(call, until_ms).await {
                    tracing::warn!("addresses of files outlive their call: {error}");
                }
            });
        }
    }
}

pub(super) fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
