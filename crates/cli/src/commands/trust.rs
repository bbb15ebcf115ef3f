//! `toolbooth trust`: servers and settings of a project folder, agreed to by a person.

use super::{in_runtime, reload};
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::reach::Reach;
use crate::render::{self, Paint, Tone, line};
use crate::{callers, gateway};
use clap::Args;
use serde_json::{Value, json};
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use toolbooth_config::{Change, Loaded, Preview, ServerConfigState, Sources, TrustBook};
use toolbooth_core::fault::Problem;
use toolbooth_engine::audit_trust;

/// What is trusted.
#[derive(Debug, Args)]
#[command(
    after_help = "Trust holds for what an entry says now: if its command, address, variables or headers change, you are asked again."
)]
pub struct TrustArguments {
    /// A project folder, or one file of it; without it, this folder.
    path: Option<PathBuf>,
    /// Trust without being asked.
    #[arg(long, conflicts_with = "forget")]
    yes: bool,
    /// Take trust back from these files instead.
    #[arg(long)]
    forget: bool,
}

/// Something that waits for trust.
pub struct Pending<'a> {
    /// The server; settings have none.
    pub name: Option<&'a str>,
    /// The file it stands in.
    pub file: &'a Path,
    preview: &'a Preview,
    changed: Option<&'a [Change]>,
}

/// Everything that waits for trust.
pub fn pending(loaded: &Loaded) -> Vec<Pending<'_>> {
    let servers = loaded.servers.iter().filter_map(|server| match (&server.state, &server.trust_file) {
        (ServerConfigState::NeedsTrust { entry_preview, changed_from, .. }, Some(file)) => Some(Pending {
            name: Some(server.name.as_str()),
            file,
            preview: entry_preview,
            changed: changed_from.as_deref(),
        }),
        _ => None,
    });
    let settings = loaded.untrusted.iter().map(|settings| Pending {
        name: None,
        file: &settings.file,
        preview: &settings.preview,
        changed: None,
    });
    servers.chain(settings).collect()
}

/// What a person is asked to agree to, file by file.
pub fn describe(pending: &[Pending<'_>], paint: Paint) -> String {
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

impl Pending<'_> {
    /// What would run, or how that differs from what was agreed to.
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
                .map(|Change { field, before, after }| {
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
        let said = parts.join(", ");
        match said.char_indices().nth(MAX_SENTENCE) {
            Some((end, _)) => format!("{}…", &said[..end]),
            None => said,
        }
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        json!({ "server": self.name, "file": self.file, "fields": self.preview.fields, "changes": self.changed })
    }
}

/// The most characters that one line says of one thing.
const MAX_SENTENCE: usize = 400;

/// The fields of a preview, the most telling first.
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

/// What would run or be called.
fn fields(preview: &Preview) -> String {
    let fields = ordered(preview);
    let width = fields.iter().map(|(field, _)| field.chars().count()).max().unwrap_or(0).min(40);
    fields.iter().map(|(field, value)| format!("    {:<width$}  {}\n", line(field), line(value))).collect()
}

fn difference(change: &Change, paint: Paint) -> String {
    let part = |sign: &str, tone: Tone, value: &Option<String>| match value {
        Some(value) => paint.tone(tone, &format!("  {sign} {}  {}", line(&change.field), line(value))) + "\n",
        None => String::new(),
    };
    part("-", Tone::Bad, &change.before) + &part("+", Tone::Good, &change.after)
}

/// Writes down that everything below a path is trusted.
pub fn agree(sources: &mut Sources, loaded: &Loaded, under: Option<&Path>) -> Result<usize, Failure> {
    let mut book = sources.trust.clone();
    let count = loaded.trust_into(&mut book, under);
    if count > 0 {
        save(&book, loaded)?;
        sources.trust = book;
    }
    Ok(count)
}

fn save(book: &TrustBook, loaded: &Loaded) -> Result<(), Failure> {
    // Not the data directory in force: a project file may have a say in that, and is only read with the book.
    book.save(&loaded.trust_dir).map_err(|error| Failure::failed(Problem::of(&error)))
}

/// Asks a person at the terminal about everything that waits; no terminal, no question, no trust.
pub fn ask(sources: &mut Sources, loaded: &Loaded) -> Result<usize, Failure> {
    let waiting = pending(loaded);
    if waiting.is_empty() || !is_attended() {
        return Ok(0);
    }
    if says_yes(&waiting) {
        return agree(sources, loaded, None);
    }
    render::print("They stay listed and do not run. `toolbooth trust` changes that.\n\n");
    Ok(0)
}

fn is_attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Shows a person what would be trusted, and asks; anything but a yes is a no.
fn says_yes(waiting: &[Pending<'_>]) -> bool {
    render::print(
        "This folder brings servers that you have not agreed to yet. They would run with your rights.\n\n",
    );
    render::print(&describe(waiting, Paint::stdout()));
    crate::desk::discard_type_ahead();
    render::print("\nTrust them? [y/N] ");
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Nobody sits there to agree: what would be trusted is shown all the same.
fn unattended(global: &Global, waiting: &[Pending<'_>]) -> Failure {
    if !global.json {
        let shown = describe(waiting, Paint::stdout());
        render::print(&format!("Not trusted yet:\n\n{shown}"));
    }
    let names: Vec<String> = waiting.iter().map(|one| line(one.name.unwrap_or("settings"))).collect();
    let message = format!("nobody is at a terminal to agree to {}", names.join(", "));
    Failure::misuse("trust.unattended", message, Some("look at it, then run `toolbooth trust --yes`"))
}

/// Runs `toolbooth trust`.
pub fn run(global: &Global, what: &TrustArguments) -> Outcome {
    let mut sources = gateway::sources(global).map_err(Failure::usage)?;
    let under = what.path.as_deref().map(|path| sources.absolute(path));
    if let Some(path) = &under {
        let folder =
            if path.is_dir() { Some(path.as_path()) } else { path.parent().filter(|_| path.is_file()) };
        let Some(folder) = folder else {
            let message = format!("`{}` does not exist", render::path(path));
            return Err(Failure::misuse(
                "trust.no-path",
                message,
                Some("name a project folder or one of its files"),
            ));
        };
        sources.cwd = folder.to_owned();
    }
    let loaded =
        toolbooth_config::load_with_trust(&mut sources).map_err(|failure| Failure::config(&failure))?;
    if what.forget {
        return forget(global, &sources, &loaded, under.as_deref());
    }
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let below = under.as_deref().map(whole);
    let wanted: Vec<Pending<'_>> = pending(&loaded)
        .into_iter()
        .filter(|one| below.as_ref().is_none_or(|below| whole(one.file).starts_with(below)))
        .collect();
    let asked = !wanted.is_empty() && !what.yes;
    if asked && (global.json || !is_attended()) {
        return Err(unattended(global, &wanted));
    }
    if asked && !says_yes(&wanted) {
        render::print("Nothing was trusted.\n");
        return Ok(Exit::Failed);
    }
    let reloaded = match wanted.is_empty() {
        true => None,
        false => tell_gateway(global, || agree(&mut sources, &loaded, under.as_deref()))?,
    };
    if global.json {
        let trusted: Vec<Value> = wanted.iter().map(Pending::json).collect();
        render::print_json(&json!({ "trusted": trusted, "reloaded": reloaded }));
        return Ok(Exit::Ok);
    }
    if wanted.is_empty() {
        render::print(&format!(
            "Nothing waits for trust in {}.\n",
            render::path(under.as_ref().unwrap_or(&sources.cwd))
        ));
        return Ok(Exit::Ok);
    }
    render::print(&match asked {
        true => "Trusted from now on, as it stands.\n".to_owned(),
        false => format!("Trusted from now on, as it stands:\n\n{}", describe(&wanted, Paint::stdout())),
    });
    if let Some(report) = &reloaded {
        render::print(&format!(
            "\nThe running gateway has read its configuration again.\n{}",
            reload::describe(report)
        ));
    }
    Ok(Exit::Ok)
}

fn forget(global: &Global, sources: &Sources, loaded: &Loaded, under: Option<&Path>) -> Outcome {
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

/// A gateway that runs here learns of it at once; what it did. It is looked for first: a folder that becomes
/// trusted, or no longer is, may name another place for state.
fn tell_gateway<T>(
    global: &Global,
    change: impl FnOnce() -> Result<T, Failure>,
) -> Result<Option<Value>, Failure> {
    let mut report = None;
    in_runtime(async {
        let running = Reach::running(global).await?;
        change()?;
        match running {
            Some(reach) => report = Some(reload::ask(&reach).await?),
            None => audit(global).await,
        }
        Ok(Exit::Ok)
    })?;
    Ok(report)
}

/// No gateway runs here: the row is written by this command. If the store cannot be opened now, the next gateway
/// writes it when it starts, since it compares the book of trusted entries with the last row.
async fn audit(global: &Global) {
    let noted = async {
        let (sources, loaded) = gateway::load(global)?;
        let store = gateway::claim_store(&loaded.settings).await.map_err(Failure::failed)?;
        let noted = audit_trust(&*store, &callers::operator(), &sources.trust.entries()).await;
        store.close().await;
        noted.map_err(Failure::failed)
    };
    if noted.await.is_err() {
        render::complain(
            "warning: the audit could not be written now; the next gateway that starts here does it\n",
        );
    }
}
