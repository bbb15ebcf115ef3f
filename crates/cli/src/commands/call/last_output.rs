//! Adds the last output of a failed server to the failure of a call. The gateway shows it only to those who may see it.

use crate::failure::CommandFailure;
use crate::gateway_handle::GatewayHandle;
use crate::remote_gateway::segment;

/// How the hint of a server begins that has its last output.
const OUTPUT: &str = "its last output was: ";
/// The codes of calls that failed because the process of a server has ended or does not start.
const CODES: [&str; 3] = ["server.lost", "server.not-connected", "server.start-failed"];

/// Puts the last output of the server before the hint of the failure.
pub async fn with_last_output(gateway: &GatewayHandle, failure: CommandFailure) -> CommandFailure {
    if !CODES.contains(&failure.fault.code.as_str()) {
        return failure;
    }
    let Some(name) = server_in(&failure.fault.message) else { return failure };
    let Ok(server) = gateway.get(&format!("/servers/{}", segment(name))).await else { return failure };
    let Some(output) = server["hint"].as_str().filter(|hint| hint.starts_with(OUTPUT)) else {
        return failure;
    };
    let hint = match &failure.fault.hint {
        Some(hint) => format!("{output}; {hint}"),
        None => output.to_owned(),
    };
    failure.hint(hint)
}

/// The server that a message is about.
fn server_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("server `")?;
    rest.split_once('`').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_a_message_is_found() {
        assert_eq!(server_in("server `sh` is not connected (error): server `sh` failed"), Some("sh"));
        assert_eq!(server_in("the call timed out"), None);
    }
}
