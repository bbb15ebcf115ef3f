//! The bundled servers, which are available before anything is configured.
//!
//! A gateway runs them as tasks of its own process; `toolbooth demo-server NAME` runs one on standard
//! input and output, for other programs.

mod basics;
mod conversation;
mod fetch;
mod files;
mod identity;
mod planner;
mod stdio;

use conversation::BundledServer;
use futures_util::future::BoxFuture;
use std::process::ExitCode;
use std::sync::Arc;
use toolbooth_upstream::bundled::Queues;

/// The names of the bundled servers.
pub const NAMES: [&str; 4] = ["demo", "files", "identity", "planner"];

/// The description of a server.
pub fn about(name: &str) -> Option<&'static str> {
    Some(match name {
        "demo" => "Small tools to try the gateway with.",
        "files" => "Reads a file that was uploaded, and makes a report with files.",
        "identity" => "Shows which arguments the gateway supplies.",
        "planner" => "Plans a task with the tools that the caller may use.",
        _ => return None,
    })
}

fn find(name: &str) -> Option<Arc<dyn BundledServer>> {
    Some(match name {
        "demo" => Arc::new(basics::BasicsServer::default()),
        "files" => Arc::new(files::FilesServer),
        "identity" => Arc::new(identity::IdentityServer::default()),
        "planner" => Arc::new(planner::PlannerServer),
        _ => return None,
    })
}

/// Runs a server on two queues, for a gateway.
pub fn open(name: &str, queues: Queues) -> Option<BoxFuture<'static, ()>> {
    let server = find(name)?;
    Some(Box::pin(conversation::serve_queues(server, queues)))
}

/// Runs a server on standard input and output.
pub fn run(name: &str) -> ExitCode {
    let Some(server) = find(name) else {
        eprintln!("there is no bundled server `{name}`; known: {}", NAMES.join(", "));
        return ExitCode::from(2);
    };
    stdio::serve(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_server_and_a_description() {
        for name in NAMES {
            let server = find(name).expect("a server");
            assert_eq!(server.name(), name);
            assert!(about(name).is_some(), "{name}");
        }
        assert!(find("toaster").is_none() && about("toaster").is_none());
    }

    #[test]
    fn every_tool_and_argument_has_a_description() {
        for name in NAMES {
            let tools = find(name).expect("a server").tools();
            for tool in tools.as_array().expect("a list") {
                assert!(tool["description"].as_str().is_some_and(|text| text.len() > 20), "{tool}");
                let properties = tool["inputSchema"]["properties"].as_object().expect("properties");
                for (argument, schema) in properties {
                    assert!(schema["description"].is_string(), "{name} {} {argument}", tool["name"]);
                }
            }
        }
    }
}
