//! The requests of a connected client: it uses every tool, resource and prompt of the server.
//!
//! Every scenario checks ordinary requests, so one script serves them all.

use super::{SuiteScenario, person};
use serde_json::{Value, json};
use std::sync::Arc;
use toolbooth_core::call::IncomingCall;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_engine::{Answer, CallRequest, Engine, Inquiry, QuestionHandling};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;

/// A client of the engine.
struct ScriptClient<'a> {
    engine: &'a Arc<Engine>,
    caller: Arc<Caller>,
    facts: Arc<ClientFacts>,
}

/// A name and the arguments of a request.
type RequestParts = (String, Value);

/// Runs a scenario with a connected engine.
pub(super) async fn run_scenario(engine: &Arc<Engine>, scenario: &SuiteScenario) -> Result<(), Problem> {
    let facts = ClientFacts { capabilities: person::capabilities(), ..ClientFacts::default() };
    let client =
        ScriptClient { engine, caller: Arc::new(Caller::owner("conformance")), facts: Arc::new(facts) };
    for (name, arguments) in client.calls(scenario) {
        client.call(name, &arguments).await?;
    }
    let (resources, prompts) = client.offers();
    for uri in resources {
        client.read(&uri).await?;
    }
    for (name, arguments) in prompts {
        client.prompt(&name, &arguments).await?;
    }
    Ok(())
}

impl ScriptClient<'_> {
    /// The calls that the context names, or one of every tool.
    fn calls(&self, scenario: &SuiteScenario) -> Vec<RequestParts> {
        if let Some(calls) = scenario.context["toolCalls"].as_array() {
            let request = |call: &Value| Some((person::text_of(call, "name")?, call["arguments"].clone()));
            return calls.iter().filter_map(request).collect();
        }
        let catalog = self.engine.catalog().load();
        let tools: Vec<(String, Value)> = catalog
            .tools(&self.caller)
            .map(|tool| (tool.name.to_string(), tool.input_schema().read().unwrap_or(Value::Null)))
            .collect();
        if tools.iter().any(|(name, _)| name == ECHO) {
            let schema = tools.iter().find(|(name, _)| name != ECHO).map(|(_, schema)| schema.clone());
            return vec![(ECHO.to_owned(), json!({ "schema": schema }))];
        }
        tools.into_iter().map(|(name, schema)| (name, person::filled(&schema))).collect()
    }

    /// All resources, and all prompts with a value for each argument.
    fn offers(&self) -> (Vec<String>, Vec<RequestParts>) {
        let catalog = self.engine.catalog().load();
        let (mut resources, mut prompts) = (Vec::new(), Vec::new());
        for server in catalog.visible(&self.caller) {
            resources.extend(server.resources.iter().map(|offer| offer.exposed.to_string()));
            for prompt in &server.prompts {
                let definition: Value = prompt.definition.read().unwrap_or(Value::Null);
                let names = definition["arguments"].as_array().into_iter().flatten();
                let names = names.filter_map(|argument| person::text_of(argument, "name"));
                let arguments = names.map(|name| (name, json!("text"))).collect();
                prompts.push((prompt.exposed.to_string(), Value::Object(arguments)));
            }
        }
        (resources, prompts)
    }

    async fn call(&self, name: String, arguments: &Value) -> Result<(), Problem> {
        let request = CallRequest {
            incoming: IncomingCall {
                caller: self.caller.clone(),
                client: self.facts.clone(),
                name: name.clone(),
                arguments: Some(RawJson::from_value(arguments)),
                meta: Vec::new(),
            },
            readiness: None,
            round: Round::default(),
            progress: ProgressMode::Unwanted,
            questions: QuestionHandling::DuringCall,
            reading: ResultReading::Whole,
            approval_wait: None,
            timeout: None,
            id: None,
        };
        let (link, events) = CallLink::new();
        let answer = tokio::select! {
            answer = self.engine.call(request, &link) => answer?,
            () = person::answer(events) => return Ok(()),
        };
        report("tools/call", &name, &answer);
        Ok(())
    }

    async fn read(&self, uri: &str) -> Result<(), Problem> {
        let inquiry = self.inquiry(json!({ "uri": uri }));
        let answer = self.engine.inquiries().read_resource(inquiry, &CallLink::silent()).await?;
        report("resources/read", uri, &answer);
        Ok(())
    }

    async fn prompt(&self, name: &str, arguments: &Value) -> Result<(), Problem> {
        let inquiry = self.inquiry(json!({ "name": name, "arguments": arguments }));
        let answer = self.engine.inquiries().get_prompt(inquiry, &CallLink::silent()).await?;
        report("prompts/get", name, &answer);
        Ok(())
    }

    fn inquiry(&self, params: Value) -> Inquiry {
        Inquiry {
            caller: self.caller.clone(),
            client: self.facts.clone(),
            params: RawJson::from_value(&params),
            meta: Vec::new(),
            round: Round::default(),
            progress: ProgressMode::Unwanted,
            questions: QuestionHandling::DuringCall,
            only: None,
        }
    }
}

/// The tool that returns its schema argument.
const ECHO: &str = "json_schema_echo";

/// Logs an answer. A server's error is also an answer: the scenario judges the request.
fn report(method: &str, name: &str, answer: &Answer) {
    match answer {
        Answer::Error(error) => tracing::info!("{method} `{name}`: error {}: {}", error.code, error.message),
        Answer::Result { result, .. } => tracing::info!("{method} `{name}`: {result}"),
        Answer::Long { .. } | Answer::InputRequired { .. } | Answer::Held { .. } => {
            tracing::info!("{method} `{name}`: unfinished")
        }
    }
}
