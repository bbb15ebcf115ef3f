//! What the client does once it is connected: uses everything the server offers.
//!
//! Every scenario watches how ordinary requests are made, so one script serves them all.

use super::{Scene, person};
use serde_json::{Value, json};
use std::sync::Arc;
use toolbooth_core::call::Incoming;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_engine::{Answer, CallRequest, Engine, Inquiry, Rounds};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{Progress, Round};
use toolbooth_upstream::peer::Reading;

/// A client of the engine.
struct Client<'a> {
    engine: &'a Arc<Engine>,
    caller: Arc<Caller>,
    facts: Arc<ClientFacts>,
}

/// Something to ask for: a name or an address, and the arguments.
type Wish = (String, Value);

/// Plays a scenario with a connected engine.
pub(super) async fn play(engine: &Arc<Engine>, scene: &Scene) -> Result<(), Problem> {
    let facts = ClientFacts { capabilities: person::capabilities(), ..ClientFacts::default() };
    let client = Client { engine, caller: Arc::new(Caller::owner("conformance")), facts: Arc::new(facts) };
    for (name, arguments) in client.calls(scene) {
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

impl Client<'_> {
    /// The calls that the context names, or one of every tool.
    fn calls(&self, scene: &Scene) -> Vec<Wish> {
        if let Some(calls) = scene.context["toolCalls"].as_array() {
            let wish = |call: &Value| Some((person::text_of(call, "name")?, call["arguments"].clone()));
            return calls.iter().filter_map(wish).collect();
        }
        let catalog = self.engine.catalog();
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

    /// All resources, and all prompts with something for each of their arguments.
    fn offers(&self) -> (Vec<String>, Vec<Wish>) {
        let catalog = self.engine.catalog();
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
            incoming: Incoming {
                caller: self.caller.clone(),
                client: self.facts.clone(),
                name: name.clone(),
                arguments: Some(RawJson::from_value(arguments)),
                meta: Vec::new(),
            },
            round: Round::default(),
            progress: Progress::Unwanted,
            rounds: Rounds::Driven,
            reading: Reading::Whole,
            patience: None,
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
        let answer = self.engine.read_resource(inquiry, &CallLink::silent()).await?;
        report("resources/read", uri, &answer);
        Ok(())
    }

    async fn prompt(&self, name: &str, arguments: &Value) -> Result<(), Problem> {
        let inquiry = self.inquiry(json!({ "name": name, "arguments": arguments }));
        let answer = self.engine.get_prompt(inquiry, &CallLink::silent()).await?;
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
            progress: Progress::Unwanted,
            rounds: Rounds::Driven,
        }
    }
}

/// The tool that sends back the schema it is given.
const ECHO: &str = "json_schema_echo";

/// A server's own error is an answer too: the scenario judges what was asked.
fn report(method: &str, name: &str, answer: &Answer) {
    match answer {
        Answer::Error(error) => tracing::info!("{method} `{name}`: error {}: {}", error.code, error.message),
        Answer::Result { result, .. } => tracing::info!("{method} `{name}`: {result}"),
        Answer::Long { .. } | Answer::InputRequired { .. } | Answer::Held { .. } => {
            tracing::info!("{method} `{name}`: unfinished")
        }
    }
}
