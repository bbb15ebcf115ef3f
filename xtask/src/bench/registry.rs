//! What a question to the registry costs: the first page of 10,000 tools as five personas see them, and a whole refresh.

use super::cells::{Samples, Via};
use super::stage::{Running, Stage, free_address};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TOOLS: usize = 10_000;
const PERSONAS: usize = 5;
/// Questions in one round, each of the personas in turn.
const QUESTIONS: usize = 500;
/// The longest that a gateway may take to learn all tools.
const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway with many tools and some personas.
pub struct Registry {
    _server: Running,
    _gateway: Running,
    address: SocketAddr,
}

impl Registry {
    /// Starts it, and waits until it knows all tools.
    pub fn start(stage: &Stage<'_>) -> Result<Self> {
        let (server, upstream) = stage.start_server(TOOLS)?;
        let (folder, address) = (stage.new_folder()?, free_address()?);
        let servers = json!({ "bench": { "url": format!("http://{upstream}/mcp") } });
        let words = stage.gateway_command(&folder, address, &servers)?;
        // Every persona sees a fifth of the tools by a pattern, so that each view is another one.
        let view = |number: usize| json!({ "allowed_tools": [format!("bench_*[{}{}]", number * 2, number * 2 + 1)] });
        let personas: serde_json::Map<String, Value> =
            (0..PERSONAS).map(|number| (format!("p{number}"), view(number))).collect();
        let config = folder.join("toolbooth.json");
        let mut settings: Value = serde_json::from_slice(&std::fs::read(&config)?)?;
        settings["personas"] = Value::Object(personas);
        std::fs::write(&config, settings.to_string())?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        stage.isolate(&mut command)?;
        let gateway = Running::of(command.spawn().context("the gateway did not start")?);
        let registry = Self { _server: server, _gateway: gateway, address };
        let began = Instant::now();
        let knows_all = |server: Value| server["tools"].as_u64().is_some_and(|tools| tools >= TOOLS as u64);
        while !registry.ask("GET", "/servers/bench").is_ok_and(knows_all) {
            ensure!(began.elapsed() < PATIENCE, "the gateway did not learn {TOOLS} tools");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(registry)
    }

    /// Asks for first pages, then has everything read anew.
    pub fn measure(&self, round: usize, samples: &mut Samples) {
        samples.add(round, "registry-page", Via::Toolbooth, self.pages());
        samples.add(round, "registry-refresh", Via::Toolbooth, self.refresh());
    }

    /// Looks for tools by these requests.
    pub fn search(&self, requests: &[&str]) -> Result<()> {
        let mut line = Line::open(self.address)?;
        for request in requests {
            let found = line.ask("GET", &format!("/tools/search?q={}", request.replace(' ', "+")))?;
            ensure!(found.windows(7).any(|text| text == b"\"hits\":"), "no hits came for `{request}`");
        }
        Ok(())
    }

    fn pages(&self) -> Result<Value> {
        let mut line = Line::open(self.address)?;
        let mut times = Vec::with_capacity(QUESTIONS);
        for question in 0..QUESTIONS {
            let began = Instant::now();
            let page = line.ask("GET", &format!("/tools?persona=p{}", question % PERSONAS))?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            ensure!(page.windows(8).any(|text| text == b"\"tools\":"), "no page came");
        }
        times.sort_by(f64::total_cmp);
        Ok(json!({ "p50_ms": times[QUESTIONS / 2], "p99_ms": times[QUESTIONS * 99 / 100] }))
    }

    fn refresh(&self) -> Result<Value> {
        let began = Instant::now();
        self.ask("POST", "/registry/refresh?force=true")?;
        Ok(json!({ "refresh_ms": began.elapsed().as_secs_f64() * 1e3 }))
    }

    fn ask(&self, method: &str, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&Line::open(self.address)?.ask(method, path)?)?)
    }
}

/// A connection that is kept.
struct Line(BufReader<TcpStream>, SocketAddr);

impl Line {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream), address))
    }

    fn ask(&mut self, method: &str, path: &str) -> Result<Vec<u8>> {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n", self.1);
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut length = None;
        let mut line = String::new();
        loop {
            line.clear();
            self.0.read_line(&mut line)?;
            let header = line.trim_end().to_ascii_lowercase();
            ensure!(!line.is_empty(), "the gateway hung up");
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().ok();
            }
            if header.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length.context("an answer without a length")?];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }
}
