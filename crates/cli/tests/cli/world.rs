//! A home folder for a test, and commands that run in it.

use expect_test::Expect;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A server with three tools, written for `/bin/sh`: `probe` returns its arguments, `fail` fails, and `paint` has control
/// characters in its description.
const SERVER: &str = r#"#!/bin/sh
printf 'up and \033[31mrunning\n' >&2
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(printf '%s' "$1" | tr -d '\n')"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[
      {"name":"probe","description":"Returns what it was given.","inputSchema":{"type":"object","required":["n"],"properties":{
        "n":{"type":"integer","description":"A whole number that is explained at such length that it cannot fit on one line."},
        "flag":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}},"size":{"enum":["small","large"]},
        "more":{"type":"object"},"ratio":{"type":"number"},"note":{"type":["string","null"]}}}},
      {"name":"fail","description":"Fails.","inputSchema":{"type":"object"}},
      {"name":"paint","description":"\u001b[2J\u001b[31mred\u202e","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"probe"'*) arguments=$(printf '%s' "$line" | sed 's/,"_meta":{[^{}]*}}}$/}}/;s/.*"arguments":\({.*}\)}}$/\1/;s/"/\\"/g')
      answer "{\"content\":[{\"type\":\"text\",\"text\":\"$arguments\"}]}" ;;
    *'"name":"fail"'*) answer '{"content":[{"type":"text","text":"the disk is on fire"}],"isError":true}' ;;
    *'"name":"paint"'*) answer '{"content":[{"type":"text","text":"red"},{"type":"image","mimeType":"image/png","data":"AAAAAAAA"},{"type":"resource_link","name":"log","uri":"file:///log"},{"type":"hologram"}]}' ;;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}\n' "$id" ;;
  esac
done
"#;

/// A home folder, and commands run in its `work` folder.
pub struct World {
    folder: tempfile::TempDir,
}

impl World {
    /// A home with these files; `SERVER` in their text is replaced by the path of a server's program.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(world.path("work")).unwrap();
        world.write("server.sh", SERVER);
        for (path, text) in files {
            world.write(path, text);
        }
        world
    }

    /// A home whose user has configured the server `sh`.
    pub fn with_server() -> Self {
        Self::new(&[(
            ".config/toolbooth/mcp.json",
            r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["SERVER"]}}}"#,
        )])
    }

    pub fn path(&self, path: &str) -> PathBuf {
        // Canonical, because commands print canonical paths.
        self.folder.path().canonicalize().unwrap().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace("SERVER", self.path("server.sh").to_str().unwrap())).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    pub fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolbooth"));
        command.args(arguments).current_dir(self.path("work")).env_clear();
        command.env("HOME", self.path("")).env("USER", "ann").env("COLUMNS", "80");
        command.env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8").env("TOOLBOOTH_LISTEN", "127.0.0.1:0");
        command
    }

    /// Runs a command line.
    pub fn run(&self, line: &str) -> Output {
        self.run_with(line, "")
    }

    /// Runs a command line with text on standard input.
    pub fn run_with(&self, line: &str, input: &str) -> Output {
        let mut command = self.command(&words(line));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// The output of a command line: standard output, standard error and the exit code.
    pub fn screen(&self, line: &str) -> String {
        self.shown(&self.run(line))
    }

    /// Formats an output, with paths and numbers replaced by names.
    pub fn shown(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        for text in [&out, &err] {
            assert!(!text.contains('\u{1b}'), "no colour without a terminal: {text}");
        }
        let mut all = self.short(&out);
        if !err.is_empty() {
            all.push_str(&format!("--- on standard error\n{}", self.short(&err)));
        }
        match output.status.code() {
            Some(0) => all,
            code => format!("{all}--- exit {}\n", code.map_or("by a signal".into(), |code| code.to_string())),
        }
    }

    pub fn short(&self, text: &str) -> String {
        let home = self.path("");
        let home = home.to_str().unwrap().trim_end_matches('/');
        let text = text.replace(env!("CARGO_BIN_EXE_toolbooth"), "/bin/toolbooth").replace(home, "~");
        let text = without_numbers(&text, "127.0.0.1:", "PORT");
        without_numbers(&text, "process ", "PID")
    }

    /// Compares the output of a command line.
    pub fn check(&self, line: &str, expected: Expect) {
        expected.assert_eq(&self.screen(line));
    }

    /// The command lines of processes that contain the path of this home.
    pub fn processes(&self) -> Vec<String> {
        let home = self.path("");
        let home = home.to_str().unwrap().trim_end_matches('/').to_owned();
        let commands = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let commands = commands.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        commands
            .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
            .filter(|line| line.contains(&home))
            .collect()
    }

    /// Waits until all processes of this home have ended.
    pub fn assert_nothing_runs(&self) {
        let started = Instant::now();
        while !self.processes().is_empty() {
            assert!(started.elapsed() < Duration::from_secs(5), "left behind: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts `toolbooth serve` and waits for its greeting.
    pub fn serve(&self) -> Gateway {
        self.serve_with("")
    }

    /// The same with these options.
    pub fn serve_with(&self, options: &str) -> Gateway {
        let mut command = self.command(&words(&format!("serve {options}")));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut greeting = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        while !greeting.contains("lists their tools") {
            if out.read_line(&mut greeting).unwrap() == 0 {
                let mut err = String::new();
                child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
                panic!("the gateway did not start: {greeting}{err}");
            }
        }
        Gateway { child, greeting: self.short(&greeting), url: url_in(&greeting) }
    }
}

/// A running gateway, which is killed when dropped.
pub struct Gateway {
    child: Child,
    pub greeting: String,
    pub url: String,
}

impl Gateway {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the gateway with SIGTERM. Returns whether it exited successfully.
    pub fn stop(mut self) -> bool {
        let _ = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn url_in(greeting: &str) -> String {
    let start = greeting.find("http://").unwrap();
    greeting[start..].split_whitespace().next().unwrap().to_owned()
}

/// Splits a command line into words; '…' keeps spaces.
pub fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn without_numbers(text: &str, before: &str, name: &str) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        out.push_str(before);
        out.push_str(if rest.len() < part.len() { name } else { "" });
        out.push_str(rest);
    }
    out
}

/// Parses the output of a command as JSON.
pub fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The permission bits of a path.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
