//! How a server is reached: explicit word, then command, then the address.

use super::file::TransportWord;
use super::normalise::Desk;
use crate::fields::{OneOrMany, ScalarField, SecretField};
use crate::finding::Severity;
use crate::secrets::{hide_in_address, hide_in_args, hide_literal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{Remote, Transport};

/// The fields that say where a server is.
pub(super) struct Reach {
    pub command: Option<OneOrMany<SecretField>>,
    pub args: Option<OneOrMany<SecretField>>,
    pub cwd: Option<SecretField>,
    pub env: Option<BTreeMap<String, ScalarField>>,
    pub url: Option<SecretField>,
    pub headers: Option<BTreeMap<String, ScalarField>>,
    pub transport: Option<TransportWord>,
    pub kind: Option<TransportWord>,
    pub bundled: Option<String>,
}

/// The transport that these fields mean.
pub(super) fn choose(desk: &mut Desk<'_>, reach: Reach, disabled: bool) -> Option<Transport> {
    let Reach { command, args, cwd, env, url, headers, transport, kind, bundled } = reach;
    if let Some(name) = bundled {
        return Some(Transport::Bundled(name));
    }
    let explicit = transport.or(kind);
    match (explicit, command, url) {
        (Some(TransportWord::Stdio) | None, Some(command), url) => {
            if url.is_some() {
                desk.warn(
                    "config.two-transports",
                    &["url"],
                    "`command` and `url` are both given; `command` is used",
                );
            }
            stdio(desk, Process { command, args, cwd, env }, disabled)
        }
        (Some(TransportWord::Stdio), None, _) => {
            desk.error("config.no-transport", &[], "a `stdio` server needs `command`");
            None
        }
        (Some(word), command, Some(url)) => {
            if command.is_some() {
                let sentence = "`command` and `url` are both given; `transport` says that `url` is used";
                desk.warn("config.two-transports", &["command"], sentence);
            }
            remote(desk, url, headers, Some(word))
        }
        (None, None, Some(url)) => remote(desk, url, headers, None),
        (Some(_), _, None) => {
            desk.error("config.no-transport", &[], "a remote server needs `url`");
            None
        }
        (None, None, None) => {
            let sentence = "nothing says how to reach it";
            let hint = "give `command` (a local process) or `url` (a remote server)";
            desk.note_with(Severity::Error, "config.no-transport", &[], sentence, Some(hint));
            None
        }
    }
}

/// The fields of a local process.
struct Process {
    command: OneOrMany<SecretField>,
    args: Option<OneOrMany<SecretField>>,
    cwd: Option<SecretField>,
    env: Option<BTreeMap<String, ScalarField>>,
}

fn stdio(desk: &mut Desk<'_>, process: Process, disabled: bool) -> Option<Transport> {
    let Process { command, args, cwd, env } = process;
    let mut words = command.0.into_iter().map(|field| field.0);
    let program = words.next().filter(|word| !word.expose().trim().is_empty());
    let Some(program) = program else {
        desk.error("config.no-transport", &["command"], "`command` is empty");
        return None;
    };
    let mut all: Vec<SecretText> = words.collect();
    let bare = args.is_none() && all.is_empty();
    if bare && program.shown().contains(' ') && !Path::new(program.expose()).exists() {
        let hint = "write the program alone, and its arguments as a list in `args`";
        let sentence = "`command` holds spaces, but is taken as the name of one program";
        desk.note_with(Severity::Warning, "config.command-with-spaces", &["command"], sentence, Some(hint));
    }
    all.extend(args.into_iter().flat_map(|field| field.0).map(|field| field.0));
    one_text_args(desk);
    let cwd = folder(desk, cwd, disabled);
    let env = env.unwrap_or_default();
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        desk.error("config.wrong-value", &["env", name], "a variable's name may not be empty or hold `=`");
    }
    let env = env.into_iter().map(|(name, field)| (name.clone(), hide_literal(&name, field.0))).collect();
    Some(Transport::Stdio { command: program, args: hide_in_args(all), cwd, env })
}

/// `"args": "-y server"` is almost surely meant as two arguments.
fn one_text_args(desk: &mut Desk<'_>) {
    let text = desk.node.get("args").and_then(|node| node.text());
    if text.is_some_and(|text| text.contains(' ')) {
        let hint = r#"write a list: ["-y", "server"]"#;
        desk.note_with(Severity::Error, "config.wrong-type", &["args"], "`args` is a list", Some(hint));
    }
}

fn folder(desk: &mut Desk<'_>, cwd: Option<SecretField>, disabled: bool) -> Option<PathBuf> {
    let written = cwd?.0;
    let sources = desk.context.sources;
    let mark = desk.mark(&["cwd"]);
    let beside = desk.context.texts.folder(mark).unwrap_or(&sources.cwd);
    let path = sources.resolve(Path::new(written.expose()), beside);
    if !disabled && !path.is_dir() && !written.expose().contains("${") {
        let sentence = format!("the folder `{}` of `cwd` does not exist", written.shown());
        let hint = "a relative `cwd` starts at the folder of the file it is written in";
        desk.note_with(Severity::Error, "config.no-folder", &["cwd"], &sentence, Some(hint));
    }
    Some(path)
}

fn remote(
    desk: &mut Desk<'_>,
    url: SecretField,
    headers: Option<BTreeMap<String, ScalarField>>,
    word: Option<TransportWord>,
) -> Option<Transport> {
    let url = with_scheme(desk, url.0);
    let headers = headers.unwrap_or_default();
    for (name, value) in &headers {
        check_header(desk, name, &value.0);
    }
    let headers =
        headers.into_iter().map(|(name, field)| (name.clone(), hide_literal(&name, field.0))).collect();
    // An address with an unexpanded variable cannot be judged yet.
    let withheld = url.expose().contains("${");
    let (scheme, path) = match url::Url::parse(url.expose()) {
        Ok(parsed) => (parsed.scheme().to_owned(), parsed.path().to_owned()),
        Err(_) if withheld => ("http".to_owned(), url.shown().to_owned()),
        Err(_) => {
            desk.error("config.bad-url", &["url"], "`url` is not an address");
            return None;
        }
    };
    let word = word.unwrap_or(match scheme.as_str() {
        "ws" | "wss" => TransportWord::WebSocket,
        _ if path.ends_with("/sse") => TransportWord::Sse,
        _ => TransportWord::Http,
    });
    let fits = match scheme.as_str() {
        "http" | "https" => true,
        "ws" | "wss" => word == TransportWord::WebSocket,
        _ => false,
    };
    if !fits {
        let sentence = format!("`{scheme}:` is not an address that this transport can use");
        let hint = "use http://, https://, ws:// or wss://";
        desk.note_with(Severity::Error, "config.bad-url", &["url"], &sentence, Some(hint));
        return None;
    }
    let remote = Remote { url: hide_in_address(url), headers };
    Some(match word {
        TransportWord::Http | TransportWord::Stdio => Transport::Http(remote),
        TransportWord::Sse => Transport::Sse(remote),
        TransportWord::WebSocket => Transport::WebSocket(remote),
    })
}

/// `localhost:9000/mcp` is meant as `http://localhost:9000/mcp`.
fn with_scheme(desk: &mut Desk<'_>, url: SecretText) -> SecretText {
    if url.expose().contains("://") || url.expose().contains("${") {
        return url;
    }
    desk.warn("config.no-scheme", &["url"], "`url` has no scheme; `http://` is taken");
    SecretText::expanded(format!("http://{}", url.shown()), format!("http://{}", url.expose()))
}

fn check_header(desk: &mut Desk<'_>, name: &str, value: &SecretText) {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        let key = desk.node.get("headers").and_then(|headers| headers.entry(name)).map(|(key, _)| key.mark);
        let hint = Some("a header's name is of letters, digits and dashes, such as `X-Api-Key`");
        let sentence = format!("`{name}` is not the name of a header");
        desk.note_with(Severity::Error, "config.bad-header", &["headers", name], &sentence, hint);
        // The name is wrong, not what it holds.
        if let (Some(mark), Some(finding)) = (key, desk.findings.pop()) {
            desk.findings.push(finding.at(desk.context.texts, mark));
        }
    }
    if value.expose().chars().any(|c| c.is_control() && c != '\t') {
        let sentence = "the value of a header may not hold line breaks or control characters";
        let hint = Some("look for line ends in the variable it comes from");
        desk.note_with(Severity::Error, "config.bad-header", &["headers", name], sentence, hint);
    }
}
