//! The cost of registry requests: the first page of 10,000 tools for five personas, and a complete refresh.

use super::cells::Samples;
use super::route::BenchRoute;
use super::stage::{BenchProcess, BenchStage, free_address};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TOOLS: usize = 10_000;
const PERSONAS: usize = 5;
/// Requests in one round, with the personas in turn.
const REQUESTS: usize = 500;
/// The timeout until the gateway knows all tools.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A gateway with many tools and some personas.
pub struct Registry {
    _server: BenchProcess,
    _gateway: BenchProcess,
    address: SocketAddr,
}

impl Registry {
    /// Starts the gateway, and waits until it knows all tools.
    pub fn start(stage: &BenchStage<'_>) -> Result<Self> {
        let (server, upstream) = stage.start_server(TOOLS)?;
        let (folder, address) = (stage.new_folder()?, free_address()?);
        let servers = json!({ "bench": { "url": format!("http://{upstream}/mcp") } });
        let words = stage.gateway_command(&folder, address, &servers)?;
        // Every persona sees a different fifth of the tools.
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
        let gateway = BenchProcess::of(command.spawn().context("the gateway did not start")?);
        let registry = Self { _server: server, _gateway: gateway, address };
        let began = Instant::now();
        let knows_all = |server: Value| server["tools"].as_u64().is_some_and(|tools| tools >= TOOLS as u64);
        while !registry.ask("GET", "/servers/bench").is_ok_and(knows_all) {
            ensure!(began.elapsed() < START_TIMEOUT, "the gateway did not discover {TOOLS} tools");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(registry)
    }

    /// Requests first pages, then a complete refresh.
    pub fn measure(&self, round: usize, samples: &mut Samples) {
        samples.add(round, "registry-page", BenchRoute::Toolbooth, self.pages());
        samples.add(round, "registry-refresh", BenchRoute::Toolbooth, self.refresh());
    }

    /// Searches for tools with these requests.
    pub fn search(&self, requests: &[&str]) -> Result<()> {
        let mut connection = RegistryConnection::open(self.address)?;
        for request in requests {
            let found = connection.ask("GET", &format!("/tools/search?q={}", request.replace(' ', "+")))?;
            ensure!(found.windows(7).any(|text| text == b"\"hits\":"), "no hits for `{request}`");
        }
        Ok(())
    }

    fn pages(&self) -> Result<Value> {
        let mut connection = RegistryConnection::open(self.address)?;
        let mut times = Vec::with_capacity(REQUESTS);
        for number in 0..REQUESTS {
            let began = Instant::now();
            let page = connection.ask("GET", &format!("/tools?persona=p{}", number % PERSONAS))?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            ensure!(page.windows(8).any(|text| text == b"\"tools\":"), "the answer is not a page of tools");
        }
        times.sort_by(f64::total_cmp);
        Ok(json!({ "p50_ms": times[REQUESTS / 2], "p99_ms": times[REQUESTS * 99 / 100] }))
    }

    fn refresh(&self) -> Result<Value> {
        let began = Instant::now();
        self.ask("POST", "/registry/refresh?force=true")?;
        Ok(json!({ "refresh_ms": began.elapsed().as_secs_f64() * 1e3 }))
    }

    fn ask(&self, method: &str, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&RegistryConnection::open(self.address)?.ask(method, path)?)?)
    }
}

/// A keep-alive connection to the gateway.
struct RegistryConnection(BufReader<TcpStream>, SocketAddr);

impl RegistryConnection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(START_TIMEOUT))?;
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
            ensure!(!line.is_empty(), "the gateway closed the connection");
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().ok();
            }
            if header.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length.context("the answer has no content length")?];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }
}
