//! The test matrix: every feature, for every pair of eras, over both transports. A cell is one feature of one pair.

use crate::features;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{FixtureServer, Gateway, Home, TestClient, home};

/// A cell of the matrix: a gateway with one server, `srv`, and a client.
#[derive(Clone)]
pub struct Cell {
    pub client: TestClient,
    pub client_era: TestEra,
    pub server_era: TestEra,
    pub transport: CellTransport,
    pub address: std::net::SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellTransport {
    Http,
    Stdio,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
type Feature = (&'static str, fn(Cell) -> Running);

macro_rules! features {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), |cell| Box::pin(features::$name(cell)))),*]
    };
}

/// The features of every pair; `features` has their checks.
const FEATURES: &[Feature] = features![
    tools_are_listed,
    tool_is_called,
    tool_error_is_returned,
    unknown_tool_is_refused,
    user_is_asked,
    user_declines,
    model_is_sampled,
    roots_are_listed,
    several_questions_are_asked_at_once,
    questions_are_asked_in_rounds,
    prompt_asks_a_question,
    clients_without_capabilities_are_not_asked,
    user_is_sent_to_a_url,
    url_elicitation_error_is_handled,
    progress_is_reported,
    progress_needs_a_token,
    call_is_cancelled,
    log_lines_are_delivered,
    tool_list_changes,
    prompt_list_changes,
    resources_are_listed_and_read,
    templates_are_listed_and_read,
    missing_resource_is_not_found,
    resource_updates_are_delivered,
    prompts_are_listed_and_read,
    arguments_are_completed,
    server_receives_client_info_and_no_secret,
    unknown_meta_is_passed_on,
];

/// Cells that are known to fail, each with its reason; a cell that passes must be removed.
const KNOWN: &[(&str, TestEra, TestEra, CellTransport, &str)] = &[];

async fn server(era: TestEra, transport: CellTransport) -> (Value, Option<FixtureServer>) {
    let word = word(era);
    match transport {
        CellTransport::Stdio => (home::fixture_on_stdio(word), None),
        CellTransport::Http => {
            let server = FixtureServer::start(word).await;
            (server.entry(), Some(server))
        }
    }
}

pub fn word(era: TestEra) -> &'static str {
    match era {
        TestEra::Modern => "modern",
        TestEra::Legacy => "legacy",
    }
}

async fn run(server_era: TestEra, transport: CellTransport) {
    let (entry, _server) = server(server_era, transport).await;
    let home = Home::new(&[("srv", entry)]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    assert_eq!(gateway.server("srv").await["era"], word(server_era));
    let mut failed = Vec::new();
    for client_era in [TestEra::Legacy, TestEra::Modern] {
        for (name, feature) in FEATURES {
            let outcome = cell(&gateway, *feature, client_era, server_era, transport).await;
            let is_known = |known: &&(&str, TestEra, TestEra, CellTransport, &str)| {
                known.0 == *name && (known.1, known.2, known.3) == (client_era, server_era, transport)
            };
            let known = KNOWN.iter().find(is_known).map(|known| known.4);
            match (outcome, known) {
                (Ok(()), None) | (Err(_), Some(_)) => {}
                (Ok(()), Some(reason)) => {
                    failed
                        .push(format!("{name}, {client_era:?} client: passes now, so `{reason}` is history"));
                }
                (Err(why), None) => failed.push(format!("{name}, {client_era:?} client: {why}")),
            }
        }
    }
    let shown = failed.join("\n");
    assert!(failed.is_empty(), "{server_era:?} server over {transport:?}:\n{shown}\n{}", gateway.log());
}

/// Runs one cell in its own task, so that a panic fails only this cell.
async fn cell(
    gateway: &Gateway,
    feature: fn(Cell) -> Running,
    client_era: TestEra,
    server_era: TestEra,
    transport: CellTransport,
) -> Result<(), String> {
    let address = gateway.address;
    let task = tokio::spawn(async move {
        let client = TestClient::of(client_era, address).await;
        feature(Cell { client, client_era, server_era, transport, address }).await;
    });
    task.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => {
                panic.downcast::<&str>().map_or_else(|_| "a panic".into(), |text| (*text).to_owned())
            }
        },
        Err(error) => error.to_string(),
    })
}

#[tokio::test]
async fn both_eras_reach_a_legacy_server_over_http() {
    run(TestEra::Legacy, CellTransport::Http).await;
}

#[tokio::test]
async fn both_eras_reach_a_modern_server_over_http() {
    run(TestEra::Modern, CellTransport::Http).await;
}

#[tokio::test]
async fn both_eras_reach_a_legacy_server_over_stdio() {
    run(TestEra::Legacy, CellTransport::Stdio).await;
}

#[tokio::test]
async fn both_eras_reach_a_modern_server_over_stdio() {
    run(TestEra::Modern, CellTransport::Stdio).await;
}
