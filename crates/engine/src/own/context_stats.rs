//! `mcp_context_stats`: how many tokens the caller's tools use in the context of the calling client. The fields are
//! those of `GET /stats`.

use super::{OwnToolResult, OwnTools, text_block};
use crate::exposure::ClientExposure;
use serde_json::{Value, json};
use toolbooth_core::call::Sealed;
use toolbooth_core::exposure::{Statistics, Weight};
use toolbooth_core::json::RawJson;

/// The maximum number of servers in an answer.
const MAX_SERVERS: usize = 100;

impl OwnTools {
    /// Counts the tokens of the caller's tools, and of the list that the calling client was sent.
    pub(super) async fn context_stats(&self, call: &Sealed) -> OwnToolResult {
        let caller = call.caller().clone();
        let client = call.client().name();
        let shown = self.exposure.stats().of_client(&caller.user, &client);
        let catalog = self.catalog.snapshot();
        let cut_at = self.terms.load().exposure.description_limit;
        // On a blocking thread: a caller may have ten thousand tools.
        let counted = tokio::task::spawn_blocking(move || {
            let list = shown.as_ref().and_then(|shown| shown.list.as_deref());
            let statistics = Statistics::of(&catalog, &caller, list, cut_at);
            view(catalog.revision, &client, &statistics, shown.as_ref())
        });
        let view = counted.await.map_err(|_| "the statistics could not be computed; try again".to_owned())?;
        Ok((vec![text_block(&view.to_string())], RawJson::empty_object()))
    }
}

fn view(revision: u64, client: &str, statistics: &Statistics, shown: Option<&ClientExposure>) -> Value {
    let total = statistics.total;
    let is_known = shown.is_some_and(|shown| shown.list.is_some());
    let sent = |weight: &Weight| is_known.then_some(weight.sent);
    let less =
        |what: u64| i64::try_from(total.full).unwrap_or(i64::MAX) - i64::try_from(what).unwrap_or(i64::MAX);
    let loaded = shown.map(|shown| shown.loaded.clone()).unwrap_or_default();
    let server = |(name, weight): (&toolbooth_core::names::ServerName, &Weight)| {
        json!({ "name": name.as_str(), "tools": weight.tools, "full": weight.full,
            "summary": weight.summary, "sent": sent(weight) })
    };
    json!({
        "tokenizer": "o200k_base",
        "revision": revision,
        "client": client,
        "listed_at_ms": shown.and_then(|shown| shown.listed_at_ms),
        "tools": total.tools,
        "full": total.full,
        "summary": total.summary,
        "sent": sent(&total),
        "saved": is_known.then(|| less(total.sent)),
        "saved_net": is_known.then(|| less(total.sent.saturating_add(loaded.tokens))),
        "loaded": { "answers": loaded.answers, "tokens": loaded.tokens, "tools": loaded.tools.len() },
        "servers": statistics.servers.iter().take(MAX_SERVERS).map(server).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_unknown_until_a_list_was_sent() {
        let total = Weight { tools: 2, full: 100, summary: 40, sent: 0 };
        let statistics = Statistics { total, ..Statistics::default() };
        let view = view(7, "cli", &statistics, None);
        assert_eq!(
            (&view["full"], &view["summary"], &view["client"]),
            (&json!(100), &json!(40), &json!("cli"))
        );
        assert_eq!((&view["sent"], &view["saved"]), (&Value::Null, &Value::Null));
    }
}
