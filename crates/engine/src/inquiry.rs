//! Requests other than tool calls: prompts, resources, completions. The same permissions apply.

use crate::answer::{Answer, ResultFacts};
use crate::call::{Deadline, QuestionHandling, ask_to_open_urls, only_declared, put_questions, read_answer};
use crate::catalog::LiveCatalog;
use crate::server_table::ServerTable;
use crate::shared_state::SharedState;
use crate::terms::{AuditScope, SharedTerms};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::CallFault;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::{Catalog, CatalogItem};
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{Member, RawJson, with_members};
use toolbooth_core::names::ServerName;
use toolbooth_core::own_names::OWN_SERVER;
use toolbooth_core::own_prompt::OwnPrompt;
use toolbooth_core::permission::{Compatibility, compatibility};
use toolbooth_core::redact;
use toolbooth_store::Store;
use toolbooth_upstream::connection::{ProgressMode, Round, UpstreamRequest};
use toolbooth_upstream::peer::ResultReading;
use toolbooth_upstream::{CallLink, UpstreamError};
use toolbooth_wire::codes::{INVALID_PARAMS, RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED};
use toolbooth_wire::{Era, RpcError};

/// A request for a prompt, a resource or a completion.
#[derive(Debug, Clone)]
pub struct Inquiry {
    /// The caller.
    pub caller: Arc<Caller>,
    /// What the client declared about itself.
    pub client: Arc<ClientFacts>,
    /// The parameters, without the members that belong to the protocol.
    pub params: RawJson,
    /// The client's `_meta`, without the members that belong to the protocol.
    pub meta: Vec<Member>,
    /// The client's answers and the request state, if this request continues an earlier one.
    pub round: Round,
    /// Whether the client wants progress notifications.
    pub progress: ProgressMode,
    /// How the client answers a server's questions.
    pub questions: QuestionHandling,
    /// The only server to read a resource from; absent means all that the caller may use.
    pub only: Option<ServerName>,
}

impl Inquiry {
    fn text(&self, key: &str) -> Result<String, Problem> {
        let value = self.params.member(key);
        let text = value.as_ref().and_then(RawJson::string).map(|text| text.into_owned());
        text.ok_or_else(|| bad_params(format!("`{key}` must be a string")))
    }
}

fn bad_params(message: String) -> Problem {
    Problem { code: "request.bad-params", blame: Blame::Caller, message, hint: None }
}

fn unknown(what: &str, name: &str) -> Problem {
    let code = if what == "resource" { "resource.unknown" } else { "prompt.unknown" };
    Problem { code, blame: Blame::Caller, message: format!("Unknown {what}: {name}"), hint: None }
}

/// Handles requests other than tool calls.
pub struct Inquiries {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    terms: SharedTerms,
    catalog: Arc<LiveCatalog>,
    servers: Arc<ServerTable>,
    /// The hard limit on the duration of a request.
    max_call: Duration,
}

impl std::fmt::Debug for Inquiries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inquiries").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Inquiries {
    pub(crate) fn new(shared: &SharedState, catalog: Arc<LiveCatalog>, max_call: Duration) -> Self {
        Self {
            clock: shared.clock.clone(),
            store: shared.store.clone(),
            terms: shared.terms.clone(),
            catalog,
            servers: shared.servers.clone(),
            max_call,
        }
    }

    /// Handles `prompts/get`.
    pub async fn get_prompt(&self, inquiry: Inquiry, link: &CallLink) -> Result<Answer, Problem> {
        let name = inquiry.text("name")?;
        let own = own_prompt_result(&self.catalog.load(), &name, &inquiry.caller);
        if let Some(result) = own {
            return Ok(self.answer_own("prompts/get", result, &inquiry).await);
        }
        let readiness = self.catalog.wait_for_prompt(&name, &inquiry.caller).await;
        let catalog = self.catalog.load();
        let Some(prompt) = catalog.prompt(&name, &inquiry.caller) else {
            return Err(readiness.mention_starting_servers(unknown("prompt", &name)));
        };
        let CatalogItem { server, key, .. } = prompt.clone();
        let params = with_members(&inquiry.params, &[("name", RawJson::from_value(&*key))]);
        let params = params.map_err(|error| bad_params(error.to_string()))?;
        self.forward(&server.name, "prompts/get", &params, &inquiry, link).await
    }

    /// Handles `resources/read`. Several servers may claim a URI; the first one that has it answers, unless the request
    /// names one.
    pub async fn read_resource(&self, inquiry: Inquiry, link: &CallLink) -> Result<Answer, Problem> {
        let uri = inquiry.text("uri")?;
        let own = match &inquiry.only {
            Some(_) => None,
            None => {
                let catalog = self.catalog.load();
                let file = catalog.skill_file(&uri, &inquiry.caller);
                file.map(|(skill, file)| file.read_result(&skill.name))
            }
        };
        if let Some(result) = own {
            return Ok(self.answer_own("resources/read", result, &inquiry).await);
        }
        let only = inquiry.only.as_ref();
        let readiness = self.catalog.wait_for_resource(&uri, only, &inquiry.caller).await;
        let mut missing = None;
        for server in self.catalog.servers_of_resource(&uri, only, &inquiry.caller) {
            let answer = self.forward(&server, "resources/read", &inquiry.params, &inquiry, link).await?;
            match answer {
                Answer::Error(error) if matches!(error.code, INVALID_PARAMS | RESOURCE_NOT_FOUND) => {
                    missing = Some(Answer::Error(error));
                }
                answer => return Ok(answer),
            }
        }
        missing.ok_or_else(|| readiness.mention_starting_servers(unknown("resource", &uri)))
    }

    /// Handles `completion/complete`. The reference determines the server.
    pub async fn complete(&self, inquiry: Inquiry, link: &CallLink) -> Result<Answer, Problem> {
        let reference = inquiry.params.member("ref").ok_or_else(|| bad_params("`ref` is missing".into()))?;
        let member = |key: &str| {
            reference.member(key).as_ref().and_then(RawJson::string).map(|text| text.into_owned())
        };
        match (member("type").as_deref(), member("name"), member("uri")) {
            // The gateway's own prompts have no arguments to complete.
            (Some("ref/prompt"), Some(name), _)
                if own_prompt_result(&self.catalog.load(), &name, &inquiry.caller).is_some() =>
            {
                let nothing =
                    serde_json::json!({ "completion": { "values": [], "total": 0, "hasMore": false } });
                Ok(self.answer_own("completion/complete", RawJson::from_value(&nothing), &inquiry).await)
            }
            (Some("ref/prompt"), Some(name), _) => {
                let readiness = self.catalog.wait_for_prompt(&name, &inquiry.caller).await;
                let catalog = self.catalog.load();
                let Some(prompt) = catalog.prompt(&name, &inquiry.caller) else {
                    return Err(readiness.mention_starting_servers(unknown("prompt", &name)));
                };
                let CatalogItem { server, key, .. } = prompt.clone();
                let renamed = with_members(&reference, &[("name", RawJson::from_value(&*key))]);
                let params =
                    renamed.and_then(|reference| with_members(&inquiry.params, &[("ref", reference)]));
                let params = params.map_err(|error| bad_params(error.to_string()))?;
                self.forward(&server.name, "completion/complete", &params, &inquiry, link).await
            }
            (Some("ref/resource"), _, Some(uri)) => {
                let readiness = self.catalog.wait_for_resource(&uri, None, &inquiry.caller).await;
                let server = self
                    .template_server(&uri, &inquiry.caller)
                    .ok_or_else(|| readiness.mention_starting_servers(unknown("resource", &uri)))?;
                self.forward(&server, "completion/complete", &inquiry.params, &inquiry, link).await
            }
            _ => {
                Err(bad_params("`ref` must be a ref/prompt with a name or a ref/resource with a uri".into()))
            }
        }
    }

    fn template_server(&self, uri: &str, caller: &Caller) -> Option<ServerName> {
        let catalog = self.catalog.load();
        let exact = catalog.listed_resource(uri, caller).map(|server| server.entry.name.clone());
        exact.or_else(|| self.catalog.servers_of_resource(uri, None, caller).into_iter().next())
    }

    async fn forward(
        &self,
        server: &ServerName,
        method: &'static str,
        params: &RawJson,
        inquiry: &Inquiry,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        let supervised = self.servers.running(server).map_err(|error| Problem::of(&error))?;
        if compatibility(&inquiry.caller, &supervised.entry) == Compatibility::Forbidden {
            return Err(Problem::of(&CallFault::Compliance {
                name: server.to_string(),
                level: inquiry
                    .caller
                    .compliance_level
                    .as_ref()
                    .map(|level| level.name.to_string())
                    .unwrap_or_default(),
            }));
        }
        let entry = &supervised.entry;
        let mut deadline = Deadline::on_server(entry.name.as_str(), entry.timeout, self.max_call, link);
        let began = Instant::now();
        let answer = deadline.hold(pin!(self.forward_rounds(server, method, params, inquiry, link))).await;
        let answer = answer.map_err(|error| Problem::of(&error));
        // Determined before the row is written, so that the answer is not borrowed across the `await`.
        let ending = match &answer {
            Ok(Answer::Error(_)) => ("tool_error", None),
            Ok(_) => ("done", None),
            Err(problem) => ("failed", Some(problem.code)),
        };
        self.audit_inquiry(server, method, params, inquiry, ending, began.elapsed()).await;
        answer
    }

    /// Answers a request about a prompt of the gateway's own or a skill, which no server is asked for.
    async fn answer_own(&self, method: &'static str, result: RawJson, inquiry: &Inquiry) -> Answer {
        if let Ok(server) = OWN_SERVER.parse::<ServerName>() {
            self.audit_inquiry(&server, method, &inquiry.params, inquiry, ("done", None), Duration::ZERO)
                .await;
        }
        let facts = ResultFacts::default();
        Answer::Result { result, era: Era::Legacy, facts, warnings: Vec::new() }
    }

    /// Writes a request to the audit. Such requests only read.
    async fn audit_inquiry(
        &self,
        server: &ServerName,
        method: &'static str,
        params: &RawJson,
        inquiry: &Inquiry,
        (outcome, code): (&'static str, Option<&'static str>),
        took: Duration,
    ) {
        if self.terms.load().audit_scope != AuditScope::All {
            return;
        }
        let caller = &inquiry.caller;
        let entry = AuditEntry {
            persona: caller.persona_name().map(Into::into),
            server: Some(server.as_str().into()),
            tool: subject(params).map(Into::into),
            code: code.map(Into::into),
            duration_ms: u64::try_from(took.as_millis()).ok(),
            arguments_preview: Some(redact::preview_without(params, &self.terms.load().secrets).into()),
            ..AuditEntry::new(self.clock.now_ms(), method, &caller.user, outcome)
        };
        if let Err(error) = self.store.audit(entry).await {
            tracing::error!("a request could not be written to the audit: {error}");
        }
    }

    async fn forward_rounds(
        &self,
        server: &ServerName,
        method: &'static str,
        params: &RawJson,
        inquiry: &Inquiry,
        link: &CallLink,
    ) -> Result<Answer, UpstreamError> {
        let supervised = self.servers.running(server)?;
        let mut round = inquiry.round.clone();
        for _ in 0..10 {
            let connection = supervised.connection(&inquiry.caller, &inquiry.client).await?;
            let ask = UpstreamRequest {
                tool: None,
                method,
                params: match connection.era {
                    Era::Modern => spread(params, &round),
                    Era::Legacy => spread(params, &Round::default()),
                },
                client: &inquiry.client,
                meta: &inquiry.meta,
                progress: inquiry.progress,
                reading: ResultReading::Whole,
                headers: Vec::new(),
            };
            let answer = connection.send(ask, link).await?;
            match read_answer(answer, &connection)? {
                Answer::InputRequired { requests: Some(requests), state, .. }
                    if inquiry.questions == QuestionHandling::DuringCall =>
                {
                    match put_questions(&requests, server.as_str(), link).await {
                        Ok(responses) => {
                            round = Round { input_responses: Some(responses), request_state: state }
                        }
                        Err(_) if link.has_asked_too_much() => {
                            return Err(UpstreamError::AskedTooMuch { server: server.to_string() });
                        }
                        Err(error) => return Ok(Answer::Error(error)),
                    }
                }
                Answer::Error(error)
                    if inquiry.questions == QuestionHandling::Returned
                        && error.code == URL_ELICITATION_REQUIRED =>
                {
                    return Ok(ask_to_open_urls(error, &inquiry.client, server));
                }
                // One code for an unknown resource; the front end converts it to its client's era.
                Answer::Error(error)
                    if (connection.era, method, error.code)
                        == (Era::Modern, "resources/read", INVALID_PARAMS) =>
                {
                    return Ok(Answer::Error(RpcError { code: RESOURCE_NOT_FOUND, ..error }));
                }
                Answer::Result { facts, .. } if facts.is_task && connection.era == Era::Modern => {
                    let what = format!("a task as the answer to `{method}`");
                    return Err(UpstreamError::BadAnswer { server: server.to_string(), what });
                }
                answer => return only_declared(answer, &inquiry.client),
            }
        }
        Ok(Answer::Error(RpcError::new(INVALID_PARAMS, "the server asked for input too often")))
    }
}

/// The result of `prompts/get` for a prompt of the gateway's own or for a skill.
fn own_prompt_result(catalog: &Catalog, name: &str, caller: &Caller) -> Option<RawJson> {
    let own = catalog.own_prompt(name, caller).map(OwnPrompt::result);
    own.or_else(|| catalog.skill(name, caller).map(|skill| skill.prompt_result()))
}

/// The subject of a request: a prompt's name, a resource's URI, or the reference of a completion.
fn subject(params: &RawJson) -> Option<String> {
    let paths: [&[&str]; 4] = [&["name"], &["uri"], &["ref", "name"], &["ref", "uri"]];
    paths.iter().find_map(|path| params.at(path)?.string().map(|text| text.into_owned()))
}

/// The members that a request may have. Others are not sent to the server.
fn spread(params: &RawJson, round: &Round) -> Vec<(&'static str, RawJson)> {
    const KNOWN: [&str; 6] = ["name", "arguments", "uri", "ref", "argument", "context"];
    let mut spread: Vec<(&'static str, RawJson)> = Vec::new();
    for Member { key, value } in params.members().unwrap_or_default() {
        if let Some(known) = KNOWN.iter().find(|known| **known == key) {
            spread.push((known, value));
        }
    }
    if let Some(responses) = &round.input_responses {
        spread.push(("inputResponses", responses.clone()));
    }
    if let Some(state) = &round.request_state {
        spread.push(("requestState", state.clone()));
    }
    spread
}

/// Whether the client wants progress notifications: it does if its request has a progress token.
pub fn progress_wanted(token: Option<&RawJson>) -> ProgressMode {
    if token.is_some() { ProgressMode::Wanted } else { ProgressMode::Unwanted }
}
