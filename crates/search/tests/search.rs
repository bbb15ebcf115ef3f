//! Search over the tools of real servers: a tool's name in any spelling finds that tool first.
//!
//! The catalogues are not part of this repository. If they are absent, the test prints a note and uses a few tools of
//! its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Catalog, Discovery, Naming, ServerCatalog, Tool, admit};
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{ServerEntry, Transport};
use toolbooth_search::{Index, Query, search};

type Parts = BTreeMap<ServerName, Arc<ServerCatalog>>;

fn part(name: &str, tools: Vec<RawJson>) -> (ServerName, Arc<ServerCatalog>) {
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "_-.".contains(*c)).take(60).collect();
    let name: ServerName = name.parse().expect("a name");
    let command = SecretText::plain("true");
    let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: BTreeMap::new() };
    let entry = Arc::new(ServerEntry::with_defaults(name.clone(), transport));
    let discovery = Discovery { tools, ..Discovery::default() };
    (name, Arc::new(admit(&entry, &discovery, &Naming::default(), &|_| false)))
}

fn own(name: &str, tools: &[(&str, &str)]) -> (ServerName, Arc<ServerCatalog>) {
    let tool = |(name, about): &(&str, &str)| {
        let text =
            format!(r#"{{"name":"{name}","description":"{about}","inputSchema":{{"type":"object"}}}}"#);
        RawJson::parse(text).expect("JSON")
    };
    part(name, tools.iter().map(tool).collect())
}

fn few() -> Parts {
    let git = [
        ("create_issue", "Opens an issue."),
        ("Create_Issue", "The same, louder."),
        ("search", "Searches code."),
    ];
    let web = [
        ("search", "Searches the web."),
        ("git_search", "Searches for git."),
        ("_hidden", "A name with a dash."),
    ];
    [own("git", &git), own("web", &web), own("git_web", &[("search", "Both.")])].into()
}

fn real() -> Option<Parts> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/catalogues/real");
    let mut parts = Parts::new();
    for file in std::fs::read_dir(folder).ok()? {
        let Ok(text) = std::fs::read(file.ok()?.path()) else { continue };
        let Ok(catalogue) = RawJson::parse(text) else { continue };
        let server = catalogue.member("server")?.string()?.into_owned();
        parts.extend([part(&server, catalogue.member("tools")?.elements().ok()?)]);
    }
    Some(parts)
}

fn forms(tool: &Tool) -> Vec<String> {
    let mut forms = Naming::forms(tool.server.name.as_str(), &tool.name).to_vec();
    forms.extend([tool.exposed.to_string(), tool.canonical()]);
    forms
}

#[test]
fn a_name_in_any_spelling_is_found_first() {
    let owner = Caller::owner("ann");
    let real = real();
    if real.is_none() {
        println!("skipped: the catalogues of real servers are not available");
    }
    // All of our tools; of the real ones, enough for an unoptimized build.
    for (parts, step) in [(few(), 1), (real.unwrap_or_default(), 499)] {
        let catalog = Catalog::new(1, parts);
        for tool in catalog.tools(&owner).step_by(step) {
            for form in forms(tool) {
                let query = Query::new(vec![form.clone()], 1).expect("a query");
                let hits = search(&catalog, &owner, &query);
                let first = hits.first().expect("a hit");
                assert!(forms(&first.tool).contains(&form), "{form} found {}", first.tool.canonical());
                let exposed = *tool.exposed == *form;
                assert!(
                    !exposed || first.tool.exposed == tool.exposed,
                    "{form} found {}",
                    first.tool.exposed
                );
            }
        }
    }
}

#[test]
fn the_same_search_gives_the_same_answer_and_servers_are_indexed_once() {
    let owner = Caller::owner("ann");
    let query = Query::new(vec!["search the web for issues".into()], 50).expect("a query");
    let answer = |catalog: &Catalog| -> Vec<(String, u32)> {
        let hits = search(catalog, &owner, &query);
        hits.iter().map(|hit| (hit.tool.exposed.to_string(), hit.score.to_bits())).collect()
    };
    let parts = few();
    let indexed = |part: &Arc<ServerCatalog>| part.derived.is_computed();
    let first = answer(&Catalog::new(1, parts.clone()));
    assert!(parts.values().all(indexed), "the index of a server stays with its part");
    let mut changed = parts.clone();
    changed.extend([own("web", &[("search", "Searches everything.")])]);
    assert_eq!(changed.values().filter(|part| indexed(part)).count(), parts.len() - 1);
    assert_ne!(answer(&Catalog::new(2, changed)), first);
    assert_eq!(answer(&Catalog::new(3, parts)), first);
    assert_eq!(answer(&Catalog::new(1, few())), first);
    assert!(Index::of(std::iter::empty()).is_empty());
    assert!(search(&Catalog::default(), &owner, &query).is_empty());
}

#[test]
fn a_request_of_twelve_clauses_finds_a_tool_for_each() {
    let things = [
        ("send_mail", "Sends a mail to a person.", "send a mail to Ann"),
        ("book_flight", "Books a flight between cities.", "book a flight to Rome"),
        ("draw_chart", "Draws a chart of numbers.", "draw a chart of sales"),
        ("translate_text", "Translates a text to another language.", "translate the text to French"),
        ("play_music", "Plays music.", "play some music"),
        ("order_pizza", "Orders a pizza.", "order a pizza"),
        ("create_issue", "Creates an issue in a repository.", "create an issue"),
        ("resize_image", "Resizes an image.", "resize the image"),
        ("convert_currency", "Converts an amount to another currency.", "convert the currency"),
        ("query_database", "Queries a database.", "query the database"),
        ("schedule_meeting", "Schedules a meeting.", "schedule a meeting"),
        ("print_invoice", "Prints an invoice.", "print the invoice"),
        ("water_plants", "Waters the plants.", "water the plants"),
    ];
    let other = [("send_letter", "Sends a letter to a person."), ("read_mail", "Reads a mail of a person.")];
    let tools: Vec<(&str, &str)> =
        things.iter().map(|(name, about, _)| (*name, *about)).chain(other).collect();
    let catalog = Catalog::new(1, [own("home", &tools)].into());
    for count in [12, 13] {
        let text: Vec<&str> = things.iter().take(count).map(|(_, _, clause)| *clause).collect();
        let query = Query::new(vec![text.join(", ")], count).expect("a query");
        let hits = search(&catalog, &Caller::owner("ann"), &query);
        let missed = |name: &&str| !hits.iter().any(|hit| *hit.tool.name == **name);
        let missed: Vec<&str> = things.iter().take(12).map(|(name, ..)| *name).filter(missed).collect();
        assert!(missed.is_empty(), "{count} clauses: {missed:?}");
    }
}

#[test]
fn a_request_of_several_clauses_finds_a_tool_for_each() {
    let sky = [
        ("forecast", "Weather forecast of a city for tomorrow."),
        ("current_weather", "Weather of a city now."),
        ("weather_history", "Weather of a city on past days."),
        ("weather_alerts", "Weather warnings for a city."),
    ];
    let parts = [own("sky", &sky), own("post", &[("send_mail", "Sends a mail to a person.")])];
    let catalog = Catalog::new(1, parts.into());
    let text = "look up the weather forecast for the city of Rome tomorrow, and then mail it to Ann";
    let found = |count: usize| -> Vec<(String, f32)> {
        let query = Query::new(vec![text.into()], count).expect("a query");
        let hits = search(&catalog, &Caller::owner("ann"), &query);
        hits.iter().map(|hit| (hit.tool.name.to_string(), hit.score)).collect()
    };
    let names: Vec<String> = found(4).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[0], "forecast");
    assert!(
        names.iter().any(|name| name == "send_mail"),
        "one more about the weather would cover less: {names:?}"
    );
    assert!(found(5).is_sorted_by(|a, b| a.1 >= b.1), "{:?}", found(5));
}
