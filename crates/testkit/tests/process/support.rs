//! Shared parts of the process tests: launches of `toolbooth-hostile`, a minimal client, and `/proc` queries.

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{sleep, timeout};
use toolbooth_core::secret::SecretText;
use toolbooth_testkit::world::binaries;
use toolbooth_upstream::process::{Launch, LineFrame, LineReader, Reaper, ServerProcess, StderrTail};

/// The path of the hostile executable.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| binaries::hostile().to_str().expect("the path is UTF-8").to_owned())
}

pub const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A launch of any program under the hostile executable's reaper.
pub fn launch(command: &str, args: &[&str]) -> Launch {
    Launch {
        command: SecretText::plain(command),
        args: args.iter().map(|arg| SecretText::plain(*arg)).collect(),
        cwd: None,
        env: vec![("PATH".into(), SecretText::plain("/usr/local/bin:/usr/bin:/bin"))],
        reaper: Reaper { program: PathBuf::from(program()), args: vec!["reaper".into()] },
    }
}

/// Starts the hostile executable in a mode.
pub fn hostile(args: &[&str]) -> ServerProcess {
    launch(program(), args).spawn().unwrap()
}

/// Starts a shell script as a server.
pub fn shell(script: &str) -> ServerProcess {
    launch("sh", &["-c", script]).spawn().unwrap()
}

/// A text that is unique on this machine.
pub fn token() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("marked-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The running processes whose command line contains the token.
pub fn marked(token: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter(|(_, path)| {
            fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(token))
        })
        .map(|(pid, _)| pid)
        .collect()
}

/// Waits until `count` processes have the token in their command line.
pub async fn wait_for_marked(token: &str, count: usize) {
    let start = Instant::now();
    while marked(token).len() < count {
        assert!(start.elapsed() < TEST_TIMEOUT, "only {:?} of {count} processes started", marked(token));
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until no process has the token in its command line; returns the time that took.
pub async fn wait_until_gone(token: &str) -> Duration {
    let start = Instant::now();
    while !marked(token).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(5), "still running after 5 s: {:?}", marked(token));
        sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

/// One field of `/proc/PID/stat`; the state is field 0.
pub fn stat(pid: u32, field: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(field).unwrap().to_owned()
}

/// Waits for the process id of a server that is starting.
pub async fn server_pid(process: &ServerProcess) -> u32 {
    timeout(TEST_TIMEOUT, async {
        loop {
            if let Some(pid) = process.server_pid() {
                return pid;
            }
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap()
}

/// A minimal client of one server.
pub struct LineProtocolClient {
    pub process: ServerProcess,
    pub stdin: ChildStdin,
    pub lines: LineReader<ChildStdout>,
    pub stderr: StderrTail,
    next_id: u64,
}

impl LineProtocolClient {
    pub fn new(mut process: ServerProcess) -> Self {
        let stderr = StderrTail::new();
        stderr.follow("hostile", process.stderr.take().unwrap());
        let stdin = process.stdin.take().unwrap();
        let lines = LineReader::new(process.stdout.take().unwrap(), 16 << 20);
        Self { process, stdin, lines, stderr, next_id: 0 }
    }

    /// Starts a mode and does the handshake.
    pub async fn connect(args: &[&str]) -> Self {
        let mut client = Self::new(hostile(args));
        let asked = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = client.request("initialize", asked).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    pub async fn send(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a request without waiting; returns its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    /// The text of a tool's answer.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The names of all valid tools.
    pub async fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
    }

    /// The next message that is JSON and an object.
    pub async fn message(&mut self) -> Value {
        loop {
            if let LineFrame::Line(line) = self.frame().await
                && let Ok(message @ Value::Object(_)) = serde_json::from_slice(&line)
            {
                return message;
            }
        }
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.message().await;
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
        }
    }

    pub async fn frame(&mut self) -> LineFrame {
        let frame = timeout(TEST_TIMEOUT, self.lines.next()).await;
        frame.expect("an answer in time").unwrap().expect("the server has not closed its output")
    }
}
