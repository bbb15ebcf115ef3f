//! Variables that a server lacks and that are set in this shell: a gateway and its servers have environments of their own.

use super::service;
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use serde_json::{Value, json};

/// The maximum number of variables that a sentence names.
const MAX_NAMES: usize = 8;
/// The variables by which programs find a proxy and the certificates of a company's network.
const NETWORK_VARIABLES: [&str; 12] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
];
/// Parts of the messages of programs that cannot reach the network, in lower case.
const NETWORK_FAILURES: [&str; 13] = [
    "certificate",
    "failed to fetch",
    "fetch failed",
    "proxy",
    "ssl",
    "tls",
    "enotfound",
    "econnrefused",
    "econnreset",
    "etimedout",
    "eai_again",
    "getaddrinfo",
    "name resolution",
];
/// How the gateway reports a variable that an entry refers to.
const UNSET: &str = "the variable `";

/// Where a gateway has its variables from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayEnvironment {
    /// From this command.
    ThisCommand,
    /// From the shell or client that started it.
    Background,
    /// From the service manager.
    Service,
    /// From another machine, about which this shell says nothing.
    OtherMachine,
}

impl GatewayEnvironment {
    /// The environment of the gateway that answers this command.
    pub fn of(gateway: &GatewayHandle, global: &GlobalOptions) -> Self {
        match gateway {
            GatewayHandle::Embedded(_) => Self::ThisCommand,
            GatewayHandle::Running(_) if global.url.is_some() => Self::OtherMachine,
            GatewayHandle::Running(_) => {
                let sources = gateway::sources(global).ok();
                match sources.and_then(|sources| service::installed_file(&sources)) {
                    Some(_) => Self::Service,
                    None => Self::Background,
                }
            }
        }
    }

    /// How to give the gateway a variable of this shell.
    fn way(self) -> &'static str {
        match self {
            Self::Service => "store it with `toolbooth secrets set`",
            _ => "run `toolbooth stop` and `toolbooth start` here, or store it with `toolbooth secrets set`",
        }
    }
}

/// Completes the hint of a server that lacks variables which are set here.
pub fn add_hint(server: &mut Value, environment: GatewayEnvironment) {
    if server["state"] == "connected" {
        return;
    }
    if let Some(hint) = hint_of(server, environment) {
        server["hint"] = json!(hint);
    }
}

/// The hint of a server, with the fix for variables that it lacks and that are set here.
pub fn hint_of(server: &Value, environment: GatewayEnvironment) -> Option<String> {
    let text = |key: &str| server[key].as_str();
    let said = format!("{} {}", text("reason").unwrap_or_default(), text("hint").unwrap_or_default());
    let fix = fix(text("name").unwrap_or_default(), &said, environment);
    match (fix, text("hint")) {
        // The hint has the last output, which names the variable.
        (Some(fix), Some(hint)) if unset_variable(&said).is_none() => Some(format!("{hint}; {fix}")),
        (Some(fix), _) => Some(fix),
        (None, hint) => hint.map(str::to_owned),
    }
}

/// How to give a server the variables that it lacks and that are set here. `said` is the reason for its failure.
pub fn fix(server: &str, said: &str, environment: GatewayEnvironment) -> Option<String> {
    fix_with(server, said, environment, |name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn fix_with(
    server: &str,
    said: &str,
    environment: GatewayEnvironment,
    is_set: impl Fn(&str) -> bool,
) -> Option<String> {
    if environment == GatewayEnvironment::OtherMachine {
        return None;
    }
    let way = environment.way();
    if let Some(name) = unset_variable(said) {
        let is_elsewhere = environment != GatewayEnvironment::ThisCommand && is_set(name);
        return is_elsewhere
            .then(|| format!("`{name}` is set in this shell, but not for the running gateway: {way}"));
    }
    let own = missing_for_server(server, said, is_set)?;
    Some(match environment {
        GatewayEnvironment::ThisCommand => own,
        _ => format!("{own}; the running gateway needs the variable as well: {way}"),
    })
}

/// How to pass variables on to a server whose last output names them, or says that it cannot reach the network.
fn missing_for_server(server: &str, said: &str, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let named = named_variables(said, &is_set);
    if let Some(first) = named.first() {
        let names = named.join("`, `");
        return Some(format!(
            "its output names `{names}`, set here but not for the server: add `{first} = \"${{{first}}}\"` to `env` of \
             `{server}` (`servers add --env {first}` does), or the name to the setting `environment`"
        ));
    }
    let said = said.to_lowercase();
    if !said.contains("its last output was") || !NETWORK_FAILURES.iter().any(|part| said.contains(part)) {
        return None;
    }
    let network: Vec<&str> = NETWORK_VARIABLES.into_iter().filter(|name| is_set(name)).collect();
    (!network.is_empty()).then(|| {
        format!(
            "it may need `{}` of this shell to reach the network, and gets only variables that its `env` or the \
             setting `environment` names (`toolbooth config explain environment` shows it)",
            network.join("`, `")
        )
    })
}

/// The variable that an entry refers to and that is not set for the gateway.
pub fn unset_variable(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once(UNSET)?;
    let (name, rest) = rest.split_once('`')?;
    rest.trim_start().starts_with("is not set").then_some(name)
}

/// The variables of this shell that a failed server's last output names.
fn named_variables(output: &str, is_set: &impl Fn(&str) -> bool) -> Vec<String> {
    let is_variable = |word: &&str| {
        word.len() >= 3
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && word.contains('_')
    };
    let words = output.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut found: Vec<String> =
        words.filter(is_variable).filter(|word| is_set(word)).map(str::to_owned).collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(MAX_NAMES);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_are_set_here_are_suggested() {
        let set = |name: &str| ["NEEDED_TOKEN", "HOME", "API_KEY"].contains(&name);
        let cases: [(&str, &[&str]); 4] = [
            ("NEEDED_TOKEN is not set", &["NEEDED_TOKEN"]),
            ("KeyError: 'API_KEY' (and NEEDED_TOKEN, API_KEY)", &["API_KEY", "NEEDED_TOKEN"]),
            ("OTHER_TOKEN is not set", &[]),
            ("HOME, sweet home", &[]),
        ];
        for (output, expected) in cases {
            assert_eq!(named_variables(output, &set), expected, "{output}");
        }
    }

    #[test]
    fn the_fix_depends_on_where_the_gateway_has_its_variables_from() {
        use GatewayEnvironment::{Background, OtherMachine, Service, ThisCommand};
        let entry = "server `x`: the variable `TOKEN` is not set";
        let output = "its last output was: API_KEY is required";
        let cases: [(&str, GatewayEnvironment, &[&str]); 6] = [
            (
                entry,
                Background,
                &["`TOKEN` is set in this shell", "`toolbooth start` here", "`toolbooth secrets set`"],
            ),
            (entry, Service, &["`TOKEN` is set in this shell", "`toolbooth secrets set`"]),
            (output, ThisCommand, &["`API_KEY`, set here but not for the server", "`env` of `x`"]),
            (output, Background, &["`env` of `x`", "`toolbooth start` here"]),
            ("server `x`: the variable `OTHER` is not set", Background, &[]),
            (entry, OtherMachine, &[]),
        ];
        for (said, environment, parts) in cases {
            let fix = fix_with("x", said, environment, |name| ["TOKEN", "API_KEY"].contains(&name));
            assert_eq!(fix.is_some(), !parts.is_empty(), "{said} {environment:?}: {fix:?}");
            for part in parts {
                assert!(fix.as_deref().unwrap_or_default().contains(part), "{part} is missing in {fix:?}");
            }
        }
        let of_service = fix_with("x", entry, Service, |_| true).unwrap_or_default();
        assert!(!of_service.contains("toolbooth start"), "a service has other variables than the shell");
    }

    #[test]
    fn the_hint_of_a_server_without_a_network_names_the_variables_of_this_shell() {
        use GatewayEnvironment::Background;
        let output =
            "failed during start-up its last output was: error: Failed to fetch: https://packages.example/x";
        let fix =
            |said: &str, set: &str| fix_with("x", said, Background, |name| name == set).unwrap_or_default();
        let parts =
            ["`SSL_CERT_FILE` of this shell", "`environment`", "the running gateway needs the variable"];
        for part in parts {
            let said = fix(output, "SSL_CERT_FILE");
            assert!(said.contains(part), "{part} is missing in {said:?}");
        }
        for (said, set) in [
            (output, "EDITOR"),
            ("its last output was: No module named mcp", "SSL_CERT_FILE"),
            ("cannot be reached: certificate", "SSL_CERT_FILE"),
        ] {
            assert_eq!(fix(said, set), "", "{said} {set}");
        }
    }
}
