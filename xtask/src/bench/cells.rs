//! The cells of the measurement, and the samples they give.

use super::stage::Stack;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Straight to the server.
    Direct,
    /// Through nginx.
    Nginx,
    /// Through the gateway.
    Toolbooth,
}

impl Via {
    /// Its name in samples and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Toolbooth => "toolbooth",
        }
    }
}

/// What is asked in a cell.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    /// A text of 100 bytes, there and back.
    Echo,
    /// A result of this many bytes.
    Blob(usize),
    /// All tools.
    List,
}

/// One thing that is measured, on every way it makes sense for.
#[derive(Debug)]
pub struct Cell {
    /// Its name in the samples.
    pub name: &'static str,
    /// The rows of the goals that need it.
    pub rows: &'static [u8],
    /// How many tools the server has.
    pub tools: usize,
    connections: usize,
    era: &'static str,
    ask: Ask,
    ways: &'static [Via],
}

const ALL_WAYS: &[Via] = &[Via::Direct, Via::Nginx, Via::Toolbooth];

const fn cell(name: &'static str, rows: &'static [u8], tools: usize, connections: usize, ask: Ask) -> Cell {
    Cell { name, rows, tools, connections, era: "legacy", ask, ways: ALL_WAYS }
}

/// Everything that is measured with requests. Those that are compared stand side by side.
pub const CELLS: &[Cell] = &[
    cell("echo-1", &[2], 50, 1, Ask::Echo),
    cell("echo-16", &[1, 7, 8, 9], 50, 16, Ask::Echo),
    Cell { ways: &[Via::Toolbooth], ..cell("echo-16-of-10000", &[7], 10_000, 16, Ask::Echo) },
    Cell {
        era: "modern",
        ways: &[Via::Nginx, Via::Toolbooth],
        ..cell("echo-16-modern", &[8, 9], 50, 16, Ask::Echo)
    },
    cell("echo-64", &[1, 3, 13], 50, 64, Ask::Echo),
    cell("blob-64k", &[4], 50, 4, Ask::Blob(65_536)),
    cell("blob-1m", &[5], 50, 2, Ask::Blob(1_048_576)),
    cell("list-50", &[6, 8], 50, 1, Ask::List),
    cell("list-1000", &[6], 1_000, 1, Ask::List),
    cell("list-10000", &[6, 14], 10_000, 1, Ask::List),
];

impl Cell {
    /// Whether it is measured on this way.
    pub fn is_measured(&self, via: Via) -> bool {
        self.ways.contains(&via)
    }

    /// Measures it once.
    pub fn measure(&self, stack: &Stack<'_>, via: Via, length: Duration) -> Result<Value> {
        let mut load = stack.load(via)?;
        let text = "x".repeat(100);
        let (tool, arguments, min_bytes) = match self.ask {
            Ask::Echo => ("echo", json!({ "text": text }), text.len()),
            Ask::Blob(size) => ("blob", json!({ "size": size }), size),
            Ask::List => ("", Value::Null, self.tools * 500),
        };
        match self.ask {
            Ask::List => load.args(["--operation", "list"]),
            _ => load.args(["--tool", &stack.tool_name(via, tool), "--arguments", &arguments.to_string()]),
        };
        load.args(["--era", self.era, "--min-bytes", &min_bytes.to_string()]);
        load.args(["--connections", &self.connections.to_string()]);
        // Long answers need a longer look for as many of them.
        let length = if self.tools > 1_000 && matches!(self.ask, Ask::List) { length * 2 } else { length };
        load.args(["--duration-ms", &length.as_millis().to_string()]);
        stack.answer(load)
    }
}

/// One measured value with where it came from.
#[derive(Debug)]
struct Sample {
    round: usize,
    cell: String,
    via: Via,
    value: Value,
}

/// All samples of a run, also written to a file as they come.
#[derive(Debug, Default)]
pub struct Samples {
    samples: Vec<Sample>,
    file: Option<(PathBuf, File)>,
}

impl Samples {
    /// Samples that are kept in a new file of this folder.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let path = folder.join(format!("{now}.jsonl"));
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(Self { samples: Vec::new(), file: Some((path, file)) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.as_ref().map_or(Path::new(""), |(path, _)| path)
    }

    /// Takes one sample in. A cell that failed is told and left out: its row then misses.
    pub fn add(&mut self, round: usize, cell: &str, via: Via, outcome: Result<Value>) {
        let value = match outcome {
            Ok(value) => value,
            Err(error) => {
                eprintln!("note: {cell} via {} failed: {error:#}", via.name());
                json!({ "error": format!("{error:#}") })
            }
        };
        let load = fs::read_to_string("/proc/loadavg").ok();
        let load: Option<f64> = load.and_then(|text| text.split(' ').next()?.parse().ok());
        let line = json!({
            "round": round, "cell": cell, "via": via.name(), "load_average": load, "sample": value
        });
        if let Some((path, file)) = &mut self.file
            && let Err(error) = writeln!(file, "{line}")
        {
            eprintln!("note: {} takes no more: {error}", path.display());
        }
        if value.get("error").is_none() {
            self.samples.push(Sample { round, cell: cell.to_owned(), via, value });
        }
    }

    /// This field of a cell, with its round.
    pub fn values(&self, cell: &str, via: Via, field: &str) -> Vec<(usize, f64)> {
        let here = self.samples.iter().filter(|sample| sample.cell == cell && sample.via == via);
        here.filter_map(|sample| Some((sample.round, sample.value[field].as_f64()?))).collect()
    }
}

#[cfg(test)]
impl Samples {
    /// Samples in memory alone.
    pub fn from_values(values: &[(usize, &str, Via, Value)]) -> Self {
        let mut samples = Self { samples: Vec::new(), file: None };
        for (round, cell, via, value) in values {
            samples.add(*round, cell, *via, Ok(value.clone()));
        }
        samples
    }
}
