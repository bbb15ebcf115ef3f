//! One executable, many tempers: each mode is a server (MCP 2025-11-25 on standard input and output) with one fault.
//!
//! Plain blocking input and output, no runtime: what misbehaves here does so exactly as written.

mod asking;
mod catalogue;
mod family;
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
use wire::{Manner, Temper, Wire, serve};

/// Nothing that a test leaves behind lives longer than this.
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
        "sleeper" => family::sleep_deaf(),
        "session-sleeper" => family::sleep_in_own_session(),
        "daemon" => family::daemonise(text(1)),
        "rabbit" => family::run_away(text(1), number(2, 1000)),
        "asks" => run(asking::Asks::new(text(1)), Manner::Plain),
        "asks-endlessly" => run(asking::AsksEndlessly, Manner::Plain),
        "catalogue" => {
            run(catalogue::Catalogue::new(text(1).as_ref(), text(2).as_ref()), Manner::Plain);
        }
        "dies" => run(writing::Dies, Manner::Plain),
        "echo" => run(plain::Echo, Manner::Plain),
        "env" => run(plain::Environment, Manner::Plain),
        "garbage" => run(plain::Echo, Manner::Noisy),
        "grandchildren" => run(family::Grandchildren::new(text(1), number(2, 2)), Manner::Plain),
        "huge-line" => run(writing::HugeLine, Manner::Plain),
        "id-confusion" => run(writing::IdConfusion::default(), Manner::Plain),
        "ignores-term" => family::serve_deaf(),
        "leaks" => run(leaking::Leaks, Manner::Plain),
        "ledger" => run(ledger::Ledger { file: text(1).into() }, Manner::Plain),
        "moody" => {
            let moody = moody::Moody { name: text(1).into(), mood: text(2).into(), ledger: text(3).into() };
            run(moody, Manner::Plain);
        }
        "many-tools" => run(plain::ManyTools { count: number(1, 10_000) }, Manner::Plain),
        "never-answers" => run(refusing::NeverAnswers, Manner::Plain),
        "pages-endlessly" => run(plain::PagesEndlessly, Manner::Plain),
        "silent" => refusing::stay_silent(),
        "slow-start" => {
            std::thread::sleep(Duration::from_millis(number(1, 2000)));
            run(plain::Echo, Manner::Plain);
        }
        "stderr-flood" => {
            writing::flood(number(1, 8));
            run(writing::StderrFlood, Manner::Plain);
        }
        "stops-reading" => run(refusing::StopsReading, Manner::Plain),
        "storm" => run(writing::Storm, Manner::Plain),
        "unreadable" => run(writing::Unreadable, Manner::Plain),
        _ => {
            eprintln!("usage: toolbooth-hostile MODE\n{MODES}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(temper: impl Temper, manner: Manner) {
    serve(&mut Wire::new(manner), temper);
}
