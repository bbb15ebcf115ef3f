//! `toolbooth store`: copies the store to another database, to a file and back.

use super::in_runtime;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Table};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use toolbooth_core::fault::Problem;
use toolbooth_store::{StoreUrl, TransferError, TransferReport};

/// Arguments of `toolbooth store`.
#[derive(Debug, Args)]
pub struct StoreArguments {
    #[command(subcommand)]
    action: StoreAction,
}

#[derive(Debug, Subcommand)]
enum StoreAction {
    /// Copy all records to an empty store; continues an interrupted copy. Stop the gateways first.
    Migrate {
        /// The store to copy; default: the configured one.
        #[arg(long, value_name = "URL")]
        from: Option<String>,
        /// The new store: sqlite:PATH or postgres://USER@HOST/DATABASE.
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Write all records and keys to a file, also while gateways run.
    Backup {
        /// The new file. It holds the keys: keep it secret.
        file: PathBuf,
        /// The store to copy; default: the configured one.
        #[arg(long, value_name = "URL")]
        from: Option<String>,
    },
    /// Fill an empty store from a backup.
    Restore {
        /// The backup.
        file: PathBuf,
        /// The store to fill; default: the configured one.
        #[arg(long, value_name = "URL")]
        to: Option<String>,
    },
}

/// Runs `toolbooth store`.
pub fn run(global: &GlobalOptions, arguments: StoreArguments) -> CommandResult {
    in_runtime(async {
        let done = match arguments.action {
            StoreAction::Migrate { from, to } => {
                let from = url(global, from)?;
                toolbooth_store::migrate(&from, &parse(&to)?).await
            }
            StoreAction::Backup { file, from } => toolbooth_store::back_up(&url(global, from)?, &file).await,
            StoreAction::Restore { file, to } => toolbooth_store::restore(&file, &url(global, to)?).await,
        };
        let report = done.map_err(|error: TransferError| CommandFailure::failed(Problem::of(&error)))?;
        show(global, &report);
        Ok(Exit::Ok)
    })
}

/// The named store, or the configured one.
fn url(global: &GlobalOptions, named: Option<String>) -> Result<StoreUrl, CommandFailure> {
    match named {
        Some(named) => parse(&named),
        None => {
            let (_, loaded) = gateway::load(global)?;
            gateway::store_url(&loaded.settings).map_err(CommandFailure::usage)
        }
    }
}

fn parse(text: &str) -> Result<StoreUrl, CommandFailure> {
    text.parse().map_err(|error| CommandFailure::usage(Problem::of(&error)))
}

fn show(global: &GlobalOptions, report: &TransferReport) {
    if global.json {
        let tables: Map<String, Value> =
            report.tables.iter().map(|(name, rows)| ((*name).to_owned(), json!(rows))).collect();
        let report = json!({
            "tables": tables,
            "rows": report.rows(),
            "keys": report.keys,
            "verified_audit_rows": report.audit_rows,
        });
        return render::print_json(&report);
    }
    let mut table = Table::new(&["TABLE", "ROWS"]).numbers(1);
    for (name, rows) in report.tables.iter().filter(|(_, rows)| *rows > 0) {
        table.row([(*name).into(), rows.to_string().into()]);
    }
    let verified = match report.audit_rows {
        Some(rows) => format!("; the audit of {rows} rows verifies"),
        None => String::new(),
    };
    render::print(&table.draw(Paint::stdout()));
    let rows = render::count(usize::try_from(report.rows()).unwrap_or(usize::MAX), "row");
    let keys = render::count(report.keys, "key");
    render::print(&format!("\nCopied {rows} and {keys}{verified}.\n"));
}
