//! The cells of the benchmark, and their samples.

use super::route::BenchRoute;
use super::stage::Stack;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The request of a cell.
#[derive(Debug, Clone, Copy)]
pub enum BenchRequest {
    /// A call that returns its text of 100 bytes.
    Echo,
    /// A call with a result of this many bytes.
    Blob(usize),
    /// A list of all tools.
    List,
}

/// One measurement, on each route for which it is useful.
#[derive(Debug)]
pub struct BenchCell {
    /// Its name in the samples.
    pub name: &'static str,
    /// The rows of the goals that need it.
    pub rows: &'static [u8],
    /// The number of tools of the server.
    pub tools: usize,
    connections: usize,
    era: &'static str,
    ask: BenchRequest,
    ways: &'static [BenchRoute],
}

const ALL_WAYS: &[BenchRoute] = &[BenchRoute::Direct, BenchRoute::Nginx, BenchRoute::Toolbooth];

const fn cell(
    name: &'static str,
    rows: &'static [u8],
    tools: usize,
    connections: usize,
    ask: BenchRequest,
) -> BenchCell {
    BenchCell { name, rows, tools, connections, era: "legacy", ask, ways: ALL_WAYS }
}

/// All measurements with requests. Cells that are compared are next to each other.
pub const CELLS: &[BenchCell] = &[
    cell("echo-1", &[2], 50, 1, BenchRequest::Echo),
    cell("echo-16", &[1, 7, 8, 9], 50, 16, BenchRequest::Echo),
    BenchCell {
        ways: &[BenchRoute::Toolbooth],
        ..cell("echo-16-of-10000", &[7], 10_000, 16, BenchRequest::Echo)
    },
    BenchCell {
        era: "modern",
        ways: &[BenchRoute::Nginx, BenchRoute::Toolbooth],
        ..cell("echo-16-modern", &[8, 9], 50, 16, BenchRequest::Echo)
    },
    cell("echo-64", &[1, 3, 13], 50, 64, BenchRequest::Echo),
    cell("blob-64k", &[4], 50, 4, BenchRequest::Blob(65_536)),
    cell("blob-1m", &[5], 50, 2, BenchRequest::Blob(1_048_576)),
    cell("list-50", &[6, 8], 50, 1, BenchRequest::List),
    cell("list-1000", &[6], 1_000, 1, BenchRequest::List),
    cell("list-10000", &[6, 14], 10_000, 1, BenchRequest::List),
];

impl BenchCell {
    /// Whether it is measured on this route.
    pub fn is_measured(&self, via: BenchRoute) -> bool {
        self.ways.contains(&via)
    }

    /// Measures it once.
    pub fn measure(&self, stack: &Stack<'_>, via: BenchRoute, length: Duration) -> Result<Value> {
        let mut load = stack.load(via)?;
        let text = "x".repeat(100);
        let (tool, arguments, min_bytes) = match self.ask {
            BenchRequest::Echo => ("echo", json!({ "text": text }), text.len()),
            BenchRequest::Blob(size) => ("blob", json!({ "size": size }), size),
            BenchRequest::List => ("", Value::Null, self.tools * 500),
        };
        match self.ask {
            BenchRequest::List => load.args(["--operation", "list"]),
            _ => load.args(["--tool", &stack.tool_name(via, tool), "--arguments", &arguments.to_string()]),
        };
        load.args(["--era", self.era, "--min-bytes", &min_bytes.to_string()]);
        load.args(["--connections", &self.connections.to_string()]);
        // Long answers need more time for the same number of requests.
        let length =
            if self.tools > 1_000 && matches!(self.ask, BenchRequest::List) { length * 2 } else { length };
        load.args(["--duration-ms", &length.as_millis().to_string()]);
        stack.answer(load)
    }
}

/// One measured value with its round, cell and route.
#[derive(Debug)]
struct BenchSample {
    round: usize,
    cell: String,
    via: BenchRoute,
    value: Value,
}

/// All samples of a run; each is also written to a file at once.
#[derive(Debug, Default)]
pub struct Samples {
    samples: Vec<BenchSample>,
    file: Option<(PathBuf, File)>,
}

impl Samples {
    /// Creates a new file for the samples in this folder.
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

    /// Adds one sample. A cell that failed is reported and omitted, so its row misses its goal.
    pub fn add(&mut self, round: usize, cell: &str, via: BenchRoute, outcome: Result<Value>) {
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
            eprintln!("note: {} cannot be written: {error}", path.display());
        }
        if value.get("error").is_none() {
            self.samples.push(BenchSample { round, cell: cell.to_owned(), via, value });
        }
    }

    /// The values of a field of a cell, with their rounds.
    pub fn values(&self, cell: &str, via: BenchRoute, field: &str) -> Vec<(usize, f64)> {
        let here = self.samples.iter().filter(|sample| sample.cell == cell && sample.via == via);
        here.filter_map(|sample| Some((sample.round, sample.value[field].as_f64()?))).collect()
    }
}

#[cfg(test)]
impl Samples {
    /// Samples in memory only.
    pub fn from_values(values: &[(usize, &str, BenchRoute, Value)]) -> Self {
        let mut samples = Self { samples: Vec::new(), file: None };
        for (round, cell, via, value) in values {
            samples.add(*round, cell, *via, Ok(value.clone()));
        }
        samples
    }
}
