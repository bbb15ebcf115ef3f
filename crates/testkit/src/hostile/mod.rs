//! Misbehaving servers in one executable: each mode is a server (MCP 2025-11-25 over stdio) with one fault.
//!
//! They use blocking IO without a runtime, so that each misbehaves exactly as written.

mod asking;
mod catalogue;
mod descendants;
mod gateway;
mod leaking;
mod ledger;
mod moody;
mod plain;
mod refusing;
mod wire;
mod writing;

use std::env;
use std::process::ExitCode;
use std::time::Duration;
use wire::{HostileServer, LineStyle, StdioWire, serve};

/// The longest lifetime of a process that a test leaves behind.
pub const LIFETIME: Duration = Duration::from_secs(300);

const MODES: &str = "\
servers: asks [roots] | asks-endlessly | catalogue FILE RECORD | dies | echo | env | garbage |
         grandchildren TOKEN [COUNT] | huge-line | id-confusion | ignores-term | leaks | pages-endlessly | ledger FILE | many-tools [COUNT] | moody NAME MOOD LEDGER | never-answers | silent | slow-start [MS] | stderr-flood [MIB] |
         stops-reading | storm | unreadable
others:  reaper … | gateway TOKEN COUNT | lives COUNT | sleeper TOKEN | session-sleeper TOKEN | daemon TOKEN |
         rabbit TOKEN COUNT";

/// Runs the mode that the first argument names.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mode = arguments.first().map_or("", String::as_str);
    let number = |position: usize, default: u64| {
        arguments.get(position).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let text = |position: usize| arguments.get(position).map_or("", String::as_str);
    match mode {
        "reaper" => return toolbooth_upstream::process::reaper_main(),
        "gateway" => return gateway::run(text(1), number(2, 1)),
        "lives" => return gateway::live(number(1, 200)),
        "sleeper" => descendants::sleep_ignoring_signals(),
        "session-sleeper" => descendants::sleep_in_own_session(),
        "daemon" => descendants::daemonise(text(1)),
        "rabbit" => descendants::respawn(text(1), number(2, 1000)),
        "asks" => run(asking::Asks::new(text(1)), LineStyle::Plain),
        "asks-endlessly" => run(asking::AsksEndlessly, LineStyle::Plain),
        "catalogue" => {
            run(catalogue::FileTools::new(text(1).as_ref(), text(2).as_ref()), LineStyle::Plain);
        }
        "dies" => run(writing::Dies, LineStyle::Plain),
        "echo" => run(plain::Echo, LineStyle::Plain),
        "env" => run(plain::Environment, LineStyle::Plain),
        "garbage" => run(plain::Echo, LineStyle::Noisy),
        "grandchildren" => run(descendants::Grandchildren::new(text(1), number(2, 2)), LineStyle::Plain),
        "huge-line" => run(writing::HugeLine, LineStyle::Plain),
        "id-confusion" => run(writing::IdConfusion::default(), LineStyle::Plain),
        "ignores-term" => descendants::serve_ignoring_signals(),
        "leaks" => run(leaking::Leaks, LineStyle::Plain),
        "ledger" => run(ledger::LedgerServer { file: text(1).into() }, LineStyle::Plain),
        "moody" => {
            let moody = moody::Moody { name: text(1).into(), mood: text(2).into(), ledger: text(3).into() };
            run(moody, LineStyle::Plain);
        }
        "many-tools" => run(plain::ManyTools { count: number(1, 10_000) }, LineStyle::Plain),
        "never-answers" => run(refusing::NeverAnswers, LineStyle::Plain),
        "pages-endlessly" => run(plain::PagesEndlessly, LineStyle::Plain),
        "silent" => refusing::stay_silent(),
        "slow-start" => {
            std::thread::sleep(Duration::from_millis(number(1, 2000)));
            run(plain::Echo, LineStyle::Plain);
        }
        "stderr-flood" => {
            writing::flood(number(1, 8));
            run(writing::StderrFlood, LineStyle::Plain);
        }
        "stops-reading" => run(refusing::StopsReading, LineStyle::Plain),
        "storm" => run(writing::Storm, LineStyle::Plain),
        "unreadable" => run(writing::Unreadable, LineStyle::Plain),
        _ => {
            eprintln!("usage: toolbooth-hostile MODE\n{MODES}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(server: impl HostileServer, style: LineStyle) {
    serve(&mut StdioWire::new(style), server);
}
