//! Selects the transport of a server: by `transport`, then by `command`, then by `url`.

use super::context::EntryContext;
use super::file::TransportWord;
use crate::fields::{OneOrMany, ScalarField, SecretField};
use crate::finding::Severity;
use crate::secrets::{hide_in_address, hide_in_args, hide_literal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{RemoteEndpoint, Transport};

/// The fields of an entry that configure the transport.
pub(super) struct TransportFields {
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

/// Combines the fields into a transport.
pub(super) fn choose(
    context: &mut EntryContext<'_>,
    fields: TransportFields,
    disabled: bool,
) -> Option<Transport> {
    let TransportFields { command, args, cwd, env, url, headers, transport, kind, bundled } = fields;
    if let Some(name) = bundled {
        return Some(Transport::Bundled(name));
    }
    let kind = kind.filter(|word| {
        // Some programs ignore `type` if there is a URL, so their files keep it by mistake. `transport` is explicit.
        let is_wrong =
            *word == TransportWord::Stdio && command.is_none() && url.is_some() && transport.is_none();
        if is_wrong {
            let hint = "remove `type`, or write the transport of the URL";
            let sentence = "`type` is `stdio`, but only `url` is given; `url` is used";
            context.note_with(Severity::Warning, "config.two-transports", &["type"], sentence, Some(hint));
        }
        !is_wrong
    });
    let explicit = transport.or(kind);
    match (explicit, command, url) {
        (Some(TransportWord::Stdio) | None, Some(command), url) => {
            if url.is_some() {
                context.warn(
                    "config.two-transports",
                    &["url"],
                    "`command` and `url` are both given; `command` is used",
                );
            }
            stdio(context, StdioFields { command, args, cwd, env }, disabled)
        }
        (Some(TransportWord::Stdio), None, _) => {
            context.error("config.no-transport", &[], "a `stdio` server needs `command`");
            None
        }
        (Some(word), command, Some(url)) => {
            if command.is_some() {
                let sentence = "`command` and `url` are both given; `url` is used because of `transport`";
                context.warn("config.two-transports", &["command"], sentence);
            }
            remote(context, url, headers, Some(word))
        }
        (None, None, Some(url)) => remote(context, url, headers, None),
        (Some(_), _, None) => {
            context.error("config.no-transport", &[], "a remote server needs `url`");
            None
        }
        (None, None, None) => {
            let sentence = "neither `command` nor `url` is given";
            let hint = "give `command` (a local process) or `url` (a remote server)";
            context.note_with(Severity::Error, "config.no-transport", &[], sentence, Some(hint));
            None
        }
    }
}

/// The fields of a local process.
struct StdioFields {
    command: OneOrMany<SecretField>,
    args: Option<OneOrMany<SecretField>>,
    cwd: Option<SecretField>,
    env: Option<BTreeMap<String, ScalarField>>,
}

fn stdio(context: &mut EntryContext<'_>, fields: StdioFields, disabled: bool) -> Option<Transport> {
    let StdioFields { command, args, cwd, env } = fields;
    let mut words = command.0.into_iter().map(|field| field.0);
    let program = words.next().filter(|word| !word.expose().trim().is_empty());
    let Some(program) = program else {
        context.error("config.no-transport", &["command"], "`command` is empty");
        return None;
    };
    let mut all: Vec<SecretText> = words.collect();
    let bare = args.is_none() && all.is_empty();
    if bare && program.shown().contains(' ') && !Path::new(program.expose()).exists() {
        let hint = "write only the program here, and its arguments as a list in `args`";
        let sentence = "`command` contains spaces, but is used as the name of one program";
        context.note_with(
            Severity::Warning,
            "config.command-with-spaces",
            &["command"],
            sentence,
            Some(hint),
        );
    }
    all.extend(args.into_iter().flat_map(|field| field.0).map(|field| field.0));
    let cwd = folder(context, cwd, disabled);
    let env = env.unwrap_or_default();
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        context.error(
            "config.wrong-value",
            &["env", name],
            "a variable name may not be empty or contain `=`",
        );
    }
    let env = env.into_iter().map(|(name, field)| (name.clone(), hide_literal(&name, field.0))).collect();
    Some(Transport::Stdio { command: program, args: hide_in_args(all), cwd, env })
}

/// The folder of `cwd`: beside the file, or below the folder that the gateway was started in.
fn folder(context: &mut EntryContext<'_>, cwd: Option<SecretField>, disabled: bool) -> Option<PathBuf> {
    let written = cwd?.0;
    let sources = context.inputs.sources;
    let mark = context.mark(&["cwd"]);
    let beside = context.inputs.texts.folder(mark).unwrap_or(&sources.cwd);
    let [first, second] = sources.cwd_candidates(Path::new(written.expose()), beside);
    let is_withheld = written.expose().contains("${");
    if disabled || is_withheld || first.is_dir() {
        return Some(first);
    }
    if second.is_dir() {
        return Some(second);
    }
    // The value of a variable is secret, so the folders are shown with its name.
    let [first_shown, second_shown] = sources.cwd_candidates(Path::new(written.shown()), beside);
    let sentence = format!("the folder `{}` of `cwd` does not exist", written.shown());
    let hint = match first == second {
        true => format!("looked for `{}`", first_shown.display()),
        false => format!(
            "looked for `{}` (beside the file), then `{}` (from the folder that the gateway was started in)",
            first_shown.display(),
            second_shown.display()
        ),
    };
    context.note_with(Severity::Error, "config.no-folder", &["cwd"], &sentence, Some(&hint));
    Some(first)
}

fn remote(
    context: &mut EntryContext<'_>,
    url: SecretField,
    headers: Option<BTreeMap<String, ScalarField>>,
    word: Option<TransportWord>,
) -> Option<Transport> {
    let url = with_scheme(context, url.0);
    let headers = headers.unwrap_or_default();
    for (name, value) in &headers {
        check_header(context, name, &value.0);
    }
    let headers =
        headers.into_iter().map(|(name, field)| (name.clone(), hide_literal(&name, field.0))).collect();
    // A URL with an unexpanded variable cannot be checked yet.
    let withheld = url.expose().contains("${");
    let (scheme, path) = match url::Url::parse(url.expose()) {
        Ok(parsed) => (parsed.scheme().to_owned(), parsed.path().to_owned()),
        Err(_) if withheld => ("http".to_owned(), url.shown().to_owned()),
        Err(_) => {
            context.error("config.bad-url", &["url"], "`url` is not a valid URL");
            return None;
        }
    };
    if has_user_info(url.expose()) {
        let hint = "put the credential into `headers`, such as `Authorization`, with its value in a variable";
        let sentence = "`url` contains a user name or a password, which is not allowed";
        context.note_with(Severity::Error, "config.user-info", &["url"], sentence, Some(hint));
        // The line has the password.
        if let Some(finding) = context.findings.last_mut() {
            finding.snippet = None;
        }
        return None;
    }
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
        let sentence = format!("this transport does not support `{scheme}:` URLs");
        let hint = "use http://, https://, ws:// or wss://";
        context.note_with(Severity::Error, "config.bad-url", &["url"], &sentence, Some(hint));
        return None;
    }
    let remote = RemoteEndpoint { url: hide_in_address(url), headers };
    Some(match word {
        TransportWord::Http | TransportWord::Stdio => Transport::Http(remote),
        TransportWord::Sse => Transport::Sse(remote),
        TransportWord::WebSocket => Transport::WebSocket(remote),
    })
}

/// Whether a URL has a user name or a password. They would end up in logs and lists, and no transport sends them.
fn has_user_info(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

/// Adds a missing scheme: `localhost:9000/mcp` becomes `http://localhost:9000/mcp`.
fn with_scheme(context: &mut EntryContext<'_>, url: SecretText) -> SecretText {
    if url.expose().contains("://") || url.expose().contains("${") {
        return url;
    }
    context.warn("config.no-scheme", &["url"], "`url` has no scheme; `http://` is assumed");
    SecretText::expanded(format!("http://{}", url.shown()), format!("http://{}", url.expose()))
}

fn check_header(context: &mut EntryContext<'_>, name: &str, value: &SecretText) {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        let key =
            context.node.get("headers").and_then(|headers| headers.entry(name)).map(|(key, _)| key.mark);
        let hint = Some("a header name consists of letters, digits and dashes, such as `X-Api-Key`");
        let sentence = format!("`{name}` is not a valid header name");
        context.note_with(Severity::Error, "config.bad-header", &["headers", name], &sentence, hint);
        // Point at the name, not at the value.
        if let (Some(mark), Some(finding)) = (key, context.findings.pop()) {
            context.findings.push(finding.at(context.inputs.texts, mark));
        }
    }
    if value.expose().chars().any(|c| c.is_control() && c != '\t') {
        let sentence = "a header value may not contain line breaks or control characters";
        let hint = Some("look for line breaks in the variable that it comes from");
        context.note_with(Severity::Error, "config.bad-header", &["headers", name], sentence, hint);
    }
}
