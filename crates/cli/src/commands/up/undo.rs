//! `toolbooth up --undo`: restores every file that `up` changed, and stops the gateway that it started.

use super::journal::{SavedFile, UpJournal, digest_of};
use crate::background::{self, GatewayStop};
use crate::commands::{in_runtime, reload};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::render::{self, line};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolbooth_config::clients::{ClientId, put_back};

/// How long the gateway may take to finish its calls.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// What to undo.
pub struct UndoOptions<'a> {
    /// Only the files of these clients; everything if it is empty.
    pub clients: &'a [ClientId],
    /// How to treat files that were changed since.
    pub changed: ChangedFiles,
    /// Whether to change nothing.
    pub dry_run: bool,
}

/// How to treat files that were changed after `up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedFiles {
    /// They are left alone.
    Leave,
    /// The old entries are put back, and the changes stay.
    Merge,
    /// The old content is restored, and the changes are lost.
    Overwrite,
}

/// The outcome for one file.
enum FileUndo {
    Restored,
    /// The old entries were put back, and later changes stay.
    Merged,
    Removed,
    /// It was changed after `up`, and is left alone.
    Changed {
        can_merge: bool,
    },
    Failed(String),
}

/// Undoes all runs, latest first.
pub fn run(global: &GlobalOptions, options: &UndoOptions<'_>, data_dir: &Path) -> CommandResult {
    let mut journals = UpJournal::all(data_dir);
    let is_wanted = |file: &SavedFile| match options.clients.is_empty() {
        true => true,
        false => options.clients.iter().any(|client| file.client.as_deref() == Some(client.as_str())),
    };
    let paths: BTreeSet<PathBuf> = journals
        .iter()
        .flat_map(UpJournal::files)
        .filter(|file| is_wanted(file))
        .map(|file| file.path.clone())
        .collect();
    let has_gateway =
        options.clients.is_empty() && journals.iter().any(|journal| journal.gateway().is_some());
    if paths.is_empty() && !has_gateway {
        return Err(CommandFailure::misuse("up.nothing-to-undo", "there is nothing to undo", None));
    }
    if options.dry_run {
        return preview(global, &journals, &paths, options.changed);
    }
    in_runtime(async {
        let stopped = match has_gateway {
            true => stop_gateway(data_dir, &mut journals).await?,
            false => false,
        };
        let mut outcomes = Vec::new();
        for path in paths {
            let outcome = restore(&mut journals, &path, options.changed);
            outcomes.push((path, outcome));
        }
        for journal in &mut journals {
            // Deletes the journals that have become empty.
            let _ = journal.forget(|_| false);
        }
        let gateway = GatewayHandle::running(global).await.ok().flatten();
        if let Some(gateway) = gateway {
            // The imported servers are gone; a failure shows at the next start.
            let _ = reload::ask(&gateway).await;
        }
        report(global, &outcomes, stopped, options.changed)
    })
}

/// Stops the gateway that `up` started, unless another one runs by now.
async fn stop_gateway(data_dir: &Path, journals: &mut [UpJournal]) -> Result<bool, CommandFailure> {
    let running = GatewayRecord::find(data_dir);
    let is_ours = running.is_some_and(|record| {
        let mut started = journals.iter().filter_map(UpJournal::gateway);
        started.any(|gateway| gateway.pid == record.pid && gateway.started == record.started)
    });
    let stopped = match is_ours {
        true => matches!(background::stop(data_dir, STOP_PATIENCE).await?, GatewayStop::Stopped { .. }),
        false => false,
    };
    journals.iter_mut().for_each(UpJournal::forget_gateway);
    Ok(stopped)
}

/// Whether a file was changed after `up` by other programs.
fn was_changed(journals: &[UpJournal], path: &Path) -> std::io::Result<bool> {
    let found = digest_of(path)?;
    let mut content = found.clone();
    // From the latest run back, each run must have written what the next one found.
    let mut is_changed = false;
    for file in journals.iter().flat_map(UpJournal::files).filter(|file| file.path == path) {
        is_changed |= file.after != content;
        content = file.before.as_ref().map(|before| before.digest.clone());
    }
    // Another command, such as `config import --undo`, may have restored the content already.
    Ok(is_changed && content != found)
}

/// Restores a file to its content before the first run.
fn restore(journals: &mut [UpJournal], path: &Path, changed: ChangedFiles) -> FileUndo {
    let Ok(is_changed) = was_changed(journals, path) else {
        return FileUndo::Failed("it cannot be read".to_owned());
    };
    let oldest = journals.iter().rev().find_map(|journal| {
        let file = journal.files().iter().find(|file| file.path == path)?;
        Some((journal, file))
    });
    let Some((journal, file)) = oldest else {
        return FileUndo::Failed("its saved copy is missing".to_owned());
    };
    let outcome = match (is_changed, changed, &file.client) {
        (true, ChangedFiles::Leave, _) | (true, ChangedFiles::Merge, None) => {
            return FileUndo::Changed { can_merge: file.client.is_some() };
        }
        (true, ChangedFiles::Merge, Some(client)) => merge(journal, file, client),
        _ if file.before.is_some() => {
            journal.restore(file).map(|()| FileUndo::Restored).map_err(|error| error.to_string())
        }
        _ => journal.restore(file).map(|()| FileUndo::Removed).map_err(|error| error.to_string()),
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(why) => return FileUndo::Failed(why),
    };
    for journal in journals {
        if journal.files().iter().any(|file| file.path == path)
            && let Err(error) = journal.forget(|file| file.path == path)
        {
            return FileUndo::Failed(format!("the journal cannot be written: {error}"));
        }
    }
    outcome
}

/// Puts the old entries of a client back into its file as it is now.
fn merge(journal: &UpJournal, file: &SavedFile, client: &str) -> Result<FileUndo, String> {
    let client = ClientId::named(client).ok_or("its client is unknown")?;
    let said = |error: std::io::Error| error.to_string();
    let earlier = journal.earlier(file).map_err(said)?.unwrap_or_default();
    let earlier = String::from_utf8(earlier).map_err(|_| "it is not UTF-8 text")?;
    let text = std::fs::read_to_string(&file.path).map_err(said)?;
    let merged = put_back(client, &file.path, &text, &earlier)?;
    journal.write_merged(&file.path, merged.as_bytes()).map_err(said)?;
    Ok(FileUndo::Merged)
}

fn preview(
    global: &GlobalOptions,
    journals: &[UpJournal],
    paths: &BTreeSet<PathBuf>,
    changed: ChangedFiles,
) -> CommandResult {
    let existed = |path: &PathBuf| {
        let oldest = journals.iter().rev().flat_map(UpJournal::files).find(|file| file.path == *path);
        oldest.is_some_and(|file| file.before.is_some())
    };
    let is_left =
        |path: &PathBuf| changed == ChangedFiles::Leave && was_changed(journals, path).unwrap_or(true);
    let verb = |path: &PathBuf| match (is_left(path), existed(path)) {
        (true, _) => "leave",
        (false, true) => "restore",
        (false, false) => "remove",
    };
    if global.json {
        let files = paths.iter().map(|path| json!({ "file": path, "change": verb(path) }));
        render::print_json(&json!({ "files": files.collect::<Vec<_>>(), "undone": false }));
        return Ok(Exit::Ok);
    }
    let mut text = "This would be undone:\n".to_owned();
    for path in paths {
        let why = if is_left(path) { ": it was changed after `toolbooth up`" } else { "" };
        text.push_str(&format!("  {:<7}  {}{why}\n", verb(path), render::path(path)));
    }
    render::print(&text);
    Ok(Exit::Ok)
}

fn report(
    global: &GlobalOptions,
    outcomes: &[(PathBuf, FileUndo)],
    stopped: bool,
    changed: ChangedFiles,
) -> CommandResult {
    let is_bad = |outcome: &FileUndo| matches!(outcome, FileUndo::Changed { .. } | FileUndo::Failed(_));
    let failed = outcomes.iter().filter(|(_, outcome)| is_bad(outcome)).count();
    let word = |outcome: &FileUndo| match outcome {
        FileUndo::Restored => "restored",
        FileUndo::Merged => "merged",
        FileUndo::Removed => "removed",
        FileUndo::Changed { .. } => "changed",
        FileUndo::Failed(_) => "failed",
    };
    if global.json {
        let files = outcomes.iter().map(|(path, outcome)| json!({ "file": path, "outcome": word(outcome) }));
        render::print_json(&json!({
            "files": files.collect::<Vec<_>>(), "gateway_stopped": stopped, "undone": failed == 0,
        }));
        return Ok(if failed == 0 { Exit::Ok } else { Exit::Failed });
    }
    let mut text = String::new();
    if stopped {
        text.push_str("The gateway was stopped.\n");
    }
    for (path, outcome) in outcomes {
        let path = render::path(path);
        text.push_str(&match outcome {
            FileUndo::Restored => format!("  restored  {path}\n"),
            FileUndo::Merged => format!("  merged    {path}: the old entries are back, later changes stay\n"),
            FileUndo::Removed => format!("  removed   {path}\n"),
            FileUndo::Changed { .. } => format!("  left      {path}: it was changed after `toolbooth up`\n"),
            FileUndo::Failed(why) => format!("  failed    {path}: {}\n", line(why)),
        });
    }
    render::print(&text);
    if failed == 0 {
        render::print("The changes of `toolbooth up` are undone. Restart your clients.\n");
        return Ok(Exit::Ok);
    }
    let message = format!(
        "{} not restored",
        if failed == 1 { "1 file was".into() } else { format!("{failed} files were") }
    );
    let failure = CommandFailure::misuse("up.changed-since", message, None);
    let can_merge =
        outcomes.iter().any(|(_, outcome)| matches!(outcome, FileUndo::Changed { can_merge: true }));
    let hint = match can_merge && changed != ChangedFiles::Merge {
        true => {
            "`--undo --merge` puts the old entries back and keeps the later changes; `--undo --force` restores the old content"
        }
        false => "`--undo --force` restores the state before `toolbooth up`; the later changes are lost",
    };
    Err(CommandFailure { exit: Exit::Failed, ..failure }.hint(hint))
}
