//! Describes the gateway to its clients: the results to `initialize` and `server/discover`.

use crate::mcp::FrontEndState;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::exposure::{Mode, meta};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::permission::{ServerVisibility, extent};
use toolbooth_upstream::connection::{our_info, our_instance};
use toolbooth_wire::Revision;
use toolbooth_wire::meta::{INSTANCE, SERVER_INFO};

/// Maximum length of the servers' instructions that are passed on.
const MAX_INSTRUCTIONS: usize = 4096;

/// The capabilities that the gateway declares to its clients. Tasks are an extension for modern clients, and a
/// capability in the newest legacy revision.
fn capabilities(revision: Revision) -> RawJson {
    RawJson::trusted(match revision {
        Revision::V2026_07_28 => {
            &br#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#[..]
        }
        Revision::V2025_11_25 => {
            &br#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#[..]
        }
        Revision::V2025_06_18 | Revision::V2025_03_26 | Revision::V2024_11_05 => {
            &br#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}"#[..]
        }
    })
}

/// The result to `server/discover`.
pub(super) fn discovered(front_end: &FrontEndState, caller: &Caller, client: &ClientFacts) -> RawJson {
    let versions: Vec<&str> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
    let mut meta = ObjectWriter::default();
    meta.raw(SERVER_INFO, &our_info());
    meta.text(INSTANCE, our_instance());
    let mut writer = ObjectWriter::with_capacity(512);
    writer.text("resultType", "complete");
    writer.raw("supportedVersions", &RawJson::from_value(&versions));
    writer.raw("capabilities", &capabilities(Revision::V2026_07_28));
    if let Some(instructions) = instructions(front_end, caller, client) {
        writer.text("instructions", &instructions);
    }
    writer.raw("ttlMs", &RawJson::trusted(&b"3600000"[..]));
    writer.text("cacheScope", "private");
    writer.raw("_meta", &meta.finish());
    writer.finish()
}

/// The result to `initialize`.
pub fn initialized(
    front_end: &FrontEndState,
    caller: &Caller,
    client: &ClientFacts,
    revision: Revision,
) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(512);
    writer.text("protocolVersion", revision.as_str());
    writer.raw("capabilities", &capabilities(revision));
    writer.raw("serverInfo", &our_info());
    if let Some(instructions) = instructions(front_end, caller, client) {
        writer.text("instructions", &instructions);
    }
    let mut meta = ObjectWriter::default();
    meta.text(INSTANCE, our_instance());
    writer.raw("_meta", &meta.finish());
    writer.finish()
}

fn instructions(front_end: &FrontEndState, caller: &Caller, client: &ClientFacts) -> Option<String> {
    let catalog = front_end.engine.catalog().load();
    let mut text = match front_end.engine.exposure().mode(caller, &client.name()).mode {
        Mode::Full => String::new(),
        Mode::Summary => {
            format!("Tools are listed in short form; `{}` shows the arguments of a tool.", meta::DESCRIBE)
        }
        Mode::Search => format!("Most tools are not listed; `{}` finds them.", meta::SEARCH),
    };
    let all =
        catalog.visible(caller).filter(|server| extent(caller, &server.entry) == ServerVisibility::Whole);
    for server in all {
        let Some(own) = server.instructions.as_deref().map(str::trim).filter(|own| !own.is_empty()) else {
            continue;
        };
        if text.len() + own.len() > MAX_INSTRUCTIONS {
            break;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&format!("{}: {own}", server.entry.name));
    }
    (!text.is_empty()).then_some(text)
}
