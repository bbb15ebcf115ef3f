//! The matrix: every feature, for every pair of eras, over both transports. A cell is one feature of one pair.

use crate::features;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::{Client, FixtureServer, Gateway, Home, home};

/// One cell's surroundings: a gateway with one server, `srv`, and a client of some era.
#[derive(Clone)]
pub struct Cell {
    pub client: Client,
    pub client_era: Era,
    pub server_era: Era,
    pub transport: Transport,
    pub address: std::net::SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
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

/// What is expected of every pair; how it looks in each is written in `features`.
const FEATURES: &[Feature] = features![
    tools_are_listed,
    a_tool_is_called,
    a_tool_says_that_it_failed,
    an_unknown_tool_is_refused,
    a_person_is_asked,
    a_person_declines,
    a_model_is_sampled,
    roots_are_listed,
    several_things_are_asked_at_once,
    questions_follow_each_other,
    a_prompt_asks_back,
    nobody_is_asked_who_cannot_answer,
    a_person_is_sent_to_a_page,
    an_account_is_linked_first,
    progress_is_reported,
    progress_is_reported_only_on_demand,
    a_call_is_cancelled,
    log_lines_are_heard,
    the_tool_list_changes,
    the_prompt_list_changes,
    resources_are_listed_and_read,
    templates_are_listed_and_read,
    a_missing_resource_is_not_found,
    a_resource_is_followed,
    prompts_are_listed_and_got,
    arguments_are_completed,
    the_server_learns_who_asks_and_no_secret,
    unknown_meta_travels,
];

/// Cells that are known to fail, each with its reason; one that passes must leave the list.
const KNOWN: &[(&str, Era, Era, Transport, &str)] = &[];

async fn server(era: Era, transport: Transport) -> (Value, Option<FixtureServer>) {
    let word = word(era);
    match transport {
        Transport::Stdio => (home::fixture_on_stdio(word), None),
        Transport::Http => {
            let server = FixtureServer::start(word).await;
            (server.entry(), Some(server))
        }
    }
}

pub fn word(era: Era) -> &'static str {
    match era {
        Era::Modern => "modern",
        Era::Legacy => "legacy",
    }
}

async fn run(server_era: Era, transport: Transport) {
    let (entry, _server) = server(server_era, transport).await;
    let home = Home::new(&[("srv", entry)]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    assert_eq!(gateway.server("srv").await["era"], word(server_era));
    let mut failed = Vec::new();
    for client_era in [Era::Legacy, Era::Modern] {
        for (name, feature) in FEATURES {
            let outcome = cell(&gateway, *feature, client_era, server_era, transport).await;
            let is_known = |known: &&(&str, Era, Era, Transport, &str)| {
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

/// Runs one cell in a task of its own, so that one that fails harms only itself.
async fn cell(
    gateway: &Gateway,
    feature: fn(Cell) -> Running,
    client_era: Era,
    server_era: Era,
    transport: Transport,
) -> Result<(), String> {
    let address = gateway.address;
    let task = tokio::spawn(async move {
        let client = Client::of(client_era, address).await;
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
    run(Era::Legacy, Transport::Http).await;
}

#[tokio::test]
async fn both_eras_reach_a_modern_server_over_http() {
    run(Era::Modern, Transport::Http).await;
}

#[tokio::test]
async fn both_eras_reach_a_legacy_server_over_stdio() {
    run(Era::Legacy, Transport::Stdio).await;
}

#[tokio::test]
async fn both_eras_reach_a_modern_server_over_stdio() {
    run(Era::Modern, Transport::Stdio).await;
}
