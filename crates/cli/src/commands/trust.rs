//! `toolbooth trust`: lets the user trust the servers and settings of a project folder.

use super::{in_runtime, reload};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone, line};
use crate::{callers, gateway, project_notice};
use clap::Args;
use serde_json::{Value, json};
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use toolbooth_config::{LoadedConfig, Preview, ServerConfigState, Sources, TrustBook, TrustChange};
use toolbooth_core::fault::Problem;
use toolbooth_engine::audit_trust;
use toolbooth_engine::clock::system_clock;

/// Arguments of `toolbooth trust`.
#[derive(Debug, Args)]
#[command(
    after_help = "Trust covers the current content of an entry: if its command, URL, variables or headers change, it needs trust again."
)]
pub struct TrustArguments {
    /// Project folder, or one of its files; the current folder by default.
    path: Option<PathBuf>,
    /// Trust without a prompt.
    #[arg(long, conflicts_with = "forget")]
    yes: bool,
    /// Remove the trust in these files.
    #[arg(long)]
    forget: bool,
}

/// A server or the settings of a file that are not trusted yet.
pub struct PendingTrust<'a> {
    /// Name of the server; `None` for settings.
    pub name: Option<&'a str>,
    /// The file that defines it.
    pub file: &'a Path,
    /// What would run or apply.
    pub preview: &'a Preview,
    /// The differences from the trusted version, if a version was trusted.
    pub changed: Option<&'a [TrustChange]>,
}

/// Everything that is not trusted yet.
pub fn pending(loaded: &LoadedConfig) -> Vec<PendingTrust<'_>> {
    let servers = loaded.servers.iter().filter_map(|server| match (&server.state, &server.trust_file) {
        (ServerConfigState::NeedsTrust { entry_preview, changed_from, .. }, Some(file)) => {
            Some(PendingTrust {
                name: Some(server.name.as_str()),
                file,
                preview: entry_preview,
                changed: changed_from.as_deref(),
            })
        }
        _ => None,
    });
    let settings = loaded.untrusted.iter().map(|settings| PendingTrust {
        name: None,
        file: &settings.file,
        preview: &settings.preview,
        changed: None,
    });
    servers.chain(settings).collect()
}

/// Describes untrusted entries, file by file.
pub fn describe(pending: &[PendingTrust<'_>], paint: Paint) -> String {
    let mut text = String::new();
    let mut file = None;
    for one in pending {
        if file != Some(one.file) {
            file = Some(one.file);
            text.push_str(&format!("{}\n", render::path(one.file)));
        }
        let what = one.name.map_or_else(|| "settings".to_owned(), |name| format!("server {}", line(name)));
        text.push_str(&format!("  {}\n", paint.tone(Tone::Strong, &what)));
        text.push_str(&one.drawn(paint));
    }
    text
}

impl PendingTrust<'_> {
    /// Trusts this version of the entry.
    pub fn trust_into(&self, book: &mut TrustBook) {
        match self.name {
            Some(name) => book.trust(self.file, name, self.preview),
            None => book.trust_settings(self.file, self.preview),
        }
    }

    /// Draws what would run, or how it differs from the trusted version.
    pub fn drawn(&self, paint: Paint) -> String {
        match self.changed {
            Some(changes) => changes.iter().map(|change| difference(change, paint)).collect(),
            None => fields(self.preview),
        }
    }

    /// The same on one line.
    pub fn sentence(&self) -> String {
        let parts: Vec<String> = match self.changed {
            Some(changes) => changes
                .iter()
                .map(|TrustChange { field, before, after }| {
                    let side =
                        |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".into(), line);
                    format!("{} {} instead of {}", line(field), side(after), side(before))
                })
                .collect(),
            None => ordered(self.preview)
                .iter()
                .map(|(field, value)| format!("{} {}", line(field), line(value)))
                .collect(),
        };
        let sentence = parts.join(", ");
        match sentence.char_indices().nth(MAX_SENTENCE) {
            Some((end, _)) => format!("{}…", &sentence[..end]),
            None => sentence,
        }
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        json!({ "server": self.name, "file": self.file, "fields": self.preview.fields, "changes": self.changed })
    }
}

/// The maximum number of characters of a one-line description.
const MAX_SENTENCE: usize = 400;

/// The fields of a preview, the most important first.
fn ordered(preview: &Preview) -> Vec<(&String, &String)> {
    const ORDER: [&str; 5] = ["command", "args", "cwd", "url", "env"];
    let rank = |field: &str| {
        let first = field.split('.').next().unwrap_or(field);
        ORDER.iter().position(|known| *known == first).unwrap_or(ORDER.len())
    };
    let mut fields: Vec<(&String, &String)> = preview.fields.iter().collect();
    fields.sort_by_key(|(field, _)| rank(field));
    fields
}

/// Draws the fields of a preview.
fn fields(preview: &Preview) -> String {
    let fields = ordered(preview);
    let width = fields.iter().map(|(field, _)| field.chars().count()).max().unwrap_or(0).min(40);
    fields.iter().map(|(field, value)| format!("    {:<width$}  {}\n", line(field), line(value))).collect()
}

fn difference(change: &TrustChange, paint: Paint) -> String {
    let part = |sign: &str, tone: Tone, value: &Option<String>| match value {
        Some(value) => paint.tone(tone, &format!("  {sign} {}  {}", line(&change.field), line(value))) + "\n",
        None => String::new(),
    };
    part("-", Tone::Bad, &change.before) + &part("+", Tone::Good, &change.after)
}

/// Stores the trust in everything below a path, and returns the number of entries.
pub fn agree(
    sources: &mut Sources,
    loaded: &LoadedConfig,
    under: Option<&Path>,
) -> Result<usize, CommandFailure> {
    let mut book = sources.trust.clone();
    let count = loaded.trust_into(&mut book, under);
    if count > 0 {
        save(&book, loaded)?;
        sources.trust = book;
    }
    Ok(count)
}

fn save(book: &TrustBook, loaded: &LoadedConfig) -> Result<(), CommandFailure> {
    // Not the data directory in force: an untrusted project file could set that.
    book.save(&loaded.trust_dir).map_err(|error| CommandFailure::failed(Problem::of(&error)))
}

/// Asks the user at the terminal about all untrusted entries. Without a terminal nothing is trusted.
pub fn ask(sources: &mut Sources, loaded: &LoadedConfig) -> Result<usize, CommandFailure> {
    let waiting = pending(loaded);
    if waiting.is_empty() || !is_attended() {
        return Ok(0);
    }
    if says_yes(&waiting) {
        return agree(sources, loaded, None);
    }
    render::print("They do not run until you trust them with `toolbooth trust`.\n\n");
    Ok(0)
}

fn is_attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Shows the untrusted entries and asks for confirmation. Anything but `y` or `yes` means no.
fn says_yes(waiting: &[PendingTrust<'_>]) -> bool {
    render::print(
        "This folder defines servers that you have not trusted yet. They would run with your permissions.\n\n",
    );
    render::print(&describe(waiting, Paint::stdout()));
    crate::prompter::discard_type_ahead();
    render::print("\nTrust them? [y/N] ");
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Shows the untrusted entries and returns a failure, because there is no terminal to confirm on.
fn unattended(global: &GlobalOptions, waiting: &[PendingTrust<'_>]) -> CommandFailure {
    if !global.json {
        let shown = describe(waiting, Paint::stdout());
        render::print(&format!("Not trusted yet:\n\n{shown}"));
    }
    let names: Vec<String> = waiting.iter().map(|one| line(one.name.unwrap_or("settings"))).collect();
    let message = format!("cannot ask for confirmation without a terminal: {}", names.join(", "));
    CommandFailure::misuse(
        "trust.unattended",
        message,
        Some("check the entries, then run `toolbooth trust --yes`"),
    )
}

/// Runs `toolbooth trust`.
pub fn run(global: &GlobalOptions, arguments: &TrustArguments) -> CommandResult {
    let mut sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let under = arguments.path.as_deref().map(|path| sources.absolute(path));
    if let Some(path) = &under {
        let folder =
            if path.is_dir() { Some(path.as_path()) } else { path.parent().filter(|_| path.is_file()) };
        let Some(folder) = folder else {
            let message = format!("`{}` does not exist", render::path(path));
            return Err(CommandFailure::misuse(
                "trust.no-path",
                message,
                Some("name a project folder or one of its files"),
            ));
        };
        sources.cwd = folder.to_owned();
    }
    let loaded = toolbooth_config::load_with_trust(&mut sources)
        .map_err(|failure| CommandFailure::config(&failure))?;
    if arguments.forget {
        return forget(global, &sources, &loaded, under.as_deref());
    }
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let below = under.as_deref().map(whole);
    let waiting: Vec<PendingTrust<'_>> = pending(&loaded)
        .into_iter()
        .filter(|one| below.as_ref().is_none_or(|below| whole(one.file).starts_with(below)))
        .collect();
    let asks = !waiting.is_empty() && !arguments.yes;
    if asks && (global.json || !is_attended()) {
        return Err(unattended(global, &waiting));
    }
    if asks && !says_yes(&waiting) {
        render::print("Nothing was trusted.\n");
        return Ok(Exit::Failed);
    }
    let reloaded = match waiting.is_empty() {
        true => None,
        false => tell_gateway(global, || agree(&mut sources, &loaded, under.as_deref()))?,
    };
    if global.json {
        let trusted: Vec<Value> = waiting.iter().map(PendingTrust::json).collect();
        render::print_json(&json!({ "trusted": trusted, "reloaded": reloaded }));
        return Ok(Exit::Ok);
    }
    if waiting.is_empty() {
        render::print(&format!(
            "There is nothing to trust in {}.\n",
            render::path(under.as_ref().unwrap_or(&sources.cwd))
        ));
        return Ok(Exit::Ok);
    }
    render::print(&match asks {
        true => "Trusted in the current version.\n".to_owned(),
        false => format!("Trusted in the current version:\n\n{}", describe(&waiting, Paint::stdout())),
    });
    if let Some(report) = &reloaded {
        render::print(&format!(
            "\nThe running gateway has reloaded its configuration.\n{}",
            reload::describe(report)
        ));
        if let Some(notice) = project_notice::of_this_folder(global) {
            render::print(&format!("\n{}\n", render::wrap(&notice, 0)));
        }
    }
    Ok(Exit::Ok)
}

fn forget(
    global: &GlobalOptions,
    sources: &Sources,
    loaded: &LoadedConfig,
    under: Option<&Path>,
) -> CommandResult {
    let mut book = sources.trust.clone();
    let here = under.unwrap_or(&sources.cwd);
    let files: Vec<&PathBuf> =
        loaded.files.iter().filter(|file| file.starts_with(here)).filter(|file| book.forget(file)).collect();
    if !files.is_empty() {
        tell_gateway(global, || save(&book, loaded))?;
    }
    if global.json {
        render::print_json(&json!({ "forgotten": files }));
        return Ok(Exit::Ok);
    }
    let mut text = if files.is_empty() {
        format!("Nothing is trusted in {}.\n", render::path(here))
    } else {
        String::new()
    };
    for file in files {
        text.push_str(&format!("No longer trusted: {}\n", render::path(file)));
    }
    render::print(&text);
    Ok(Exit::Ok)
}

/// Applies a change of trust and reloads the running gateway, if there is one; returns its report. The gateway is
/// looked up first, because the change may select another data directory.
fn tell_gateway<T>(
    global: &GlobalOptions,
    change: impl FnOnce() -> Result<T, CommandFailure>,
) -> Result<Option<Value>, CommandFailure> {
    let mut report = None;
    in_runtime(async {
        let running = GatewayHandle::running(global).await?;
        change()?;
        match running {
            Some(gateway) => report = Some(reload::ask(&gateway).await?),
            None => audit(global).await,
        }
        Ok(Exit::Ok)
    })?;
    Ok(report)
}

/// Records the change in the audit if no gateway is running. If the store cannot be opened now, the next gateway
/// records it at startup, when it compares the trusted entries with the last record.
async fn audit(global: &GlobalOptions) {
    let noted = async {
        let (sources, loaded) = gateway::load(global)?;
        let store = gateway::claim_store(&loaded.settings).await.map_err(CommandFailure::failed)?;
        let (clock, trusted) = (system_clock(), sources.trust.entries());
        let noted = audit_trust(&clock, &*store, &callers::operator(), &trusted).await;
        store.close().await;
        noted.map_err(CommandFailure::failed)
    };
    if noted.await.is_err() {
        render::complain(
            "warning: the change could not be recorded in the audit; the next gateway records it at startup\n",
        );
    }
}
