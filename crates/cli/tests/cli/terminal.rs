//! The shell on a pseudoterminal.

use crate::world::{World, mode, words};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A command on a pseudoterminal.
struct TerminalCommand {
    child: Child,
    keys: File,
    screen: Arc<Mutex<String>>,
    seen: usize,
}

impl TerminalCommand {
    fn new(world: &World) -> Self {
        Self::with(world, "")
    }

    fn with(world: &World, options: &str) -> Self {
        Self::at(world, &format!("shell {options}"))
    }

    fn at(world: &World, line: &str) -> Self {
        Self::typing_ahead(world, line, "")
    }

    /// Starts a command with keys pressed before it reads them.
    fn typing_ahead(world: &World, line: &str, keys: &str) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).unwrap();
        let (mut master, slave) = (File::from(pair.master), File::from(pair.slave));
        master.write_all(keys.as_bytes()).unwrap();
        let mut command = world.command(&words(line));
        command.env("TERM", "xterm").env("NO_COLOR", "1").env_remove("COLUMNS");
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(command);
        drop(slave);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut reader, shown) = (master.try_clone().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..read]));
            }
        });
        Self { child, keys: master, screen, seen: 0 }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for new output that contains a text.
    fn sees(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(started.elapsed() < PATIENCE, "no {text:?} in {:?}", &screen[self.seen..]);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn ends(mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < PATIENCE, "it does not end: {:?}", self.screen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for TerminalCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HASH_OF_HI: &str = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";

#[test]
fn lines_are_completed_stored_and_cancelled() {
    let world = World::new(&[]);
    let mut terminal = TerminalCommand::new(&world);
    terminal.sees("11 tools of 4 servers, for this shell only");
    terminal.sees("toolbooth> ");
    terminal.press("/cal\tdemo_h\ttex\thi\r");
    terminal.sees(HASH_OF_HI);
    terminal.sees("toolbooth> ");
    terminal.press("/mcp disco\tde\t\r");
    terminal.sees("demo: disconnected");
    terminal.sees("toolbooth> ");
    terminal.press("/call demo_echo text=secret password=hunter2\r");
    terminal.sees("takes no argument `password`");
    terminal.sees("toolbooth> ");
    // A cancelled line is not run.
    terminal.press("/quit\u{3}");
    terminal.sees("toolbooth> ");
    terminal.press("/mcp connect demo\r");
    terminal.sees("demo: ");
    terminal.sees("toolbooth> ");
    // A running call is cancelled, and the shell continues.
    terminal.press("/call demo_slow milliseconds=20000\r");
    std::thread::sleep(Duration::from_millis(700));
    let _ = std::process::Command::new("kill").args(["-INT", &terminal.child.id().to_string()]).status();
    terminal.sees("Cancelled.");
    terminal.sees("toolbooth> ");
    terminal.press("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    world.assert_nothing_runs();

    let file = ".local/share/toolbooth/shell-history";
    assert_eq!(mode(&world.path(file)), 0o600);
    assert_eq!(
        world.read(file),
        "/call demo_hash text=hi\n/mcp disconnect demo \n/mcp connect demo\n/call demo_slow milliseconds=20000\n"
    );
    let mut terminal = TerminalCommand::new(&world);
    terminal.sees("toolbooth> ");
    // The fourth last line is run again.
    terminal.press("\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A\r");
    terminal.sees(HASH_OF_HI);
    terminal.sees("toolbooth> ");
    terminal.press("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn an_approval_is_asked_for_in_the_shell() {
    let world = World::new(&[(".config/toolbooth/toolbooth.toml", "[approval]\ndefault = \"writes\"\n")]);
    let mut terminal = TerminalCommand::new(&world);
    terminal.sees("toolbooth> ");
    terminal.press("/call identity_create_record title=one\r");
    terminal.sees("Run it? [y/N/e(dit)] ");
    terminal.press("y\r");
    terminal.sees("\"owner\"");
    terminal.sees("toolbooth> ");
    terminal.press("/call identity_create_record title=two\r");
    terminal.sees("Run it? [y/N/e(dit)] ");
    terminal.press("n\r");
    terminal.sees("call.rejected");
    terminal.sees("toolbooth> ");
    terminal.press("/call identity_create_record title=three\r");
    terminal.sees("Run it? [y/N/e(dit)] ");
    // Ctrl-C rejects the call: no one waits for it any more.
    terminal.press("\u{3}");
    terminal.sees("toolbooth> ");
    terminal.press("/approvals\r");
    terminal.sees("No calls wait for approval.");
    terminal.sees("toolbooth> ");
    terminal.press("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

/// A gateway that answers requests for servers and no others.
fn gateway_without_tools() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut request = String::new();
            let _ = BufReader::new(&stream).read_line(&mut request);
            if request.contains("/servers") {
                let body = r#"{"servers":[]}"#;
                let length = body.len();
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
                let _ = write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}");
            } else {
                waiting.push(stream);
            }
        }
    });
    url
}

#[test]
fn completion_times_out_without_output() {
    let world = World::new(&[]);
    let mut terminal = TerminalCommand::with(&world, &format!("--url {}", gateway_without_tools()));
    terminal.sees("toolbooth> ");
    let started = Instant::now();
    // The first completion follows a space of two bytes; the second needs the gateway.
    terminal.press("/call\u{a0}\t\u{15}/call de\t\u{15}/explain usage.shell-text\r");
    terminal.sees("no language model is configured");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert!(!terminal.screen.lock().unwrap().contains("waiting"), "nothing is drawn over the line");
    terminal.sees("toolbooth> ");
    terminal.press("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn trust_asks_for_confirmation() {
    let project = r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["SERVER"]}}}"#;
    let world = World::new(&[("work/.mcp.json", project)]);
    for (answer, said, code) in [("\r", "Nothing was trusted.", 1), ("n\r", "Nothing was trusted.", 1)] {
        let mut terminal = TerminalCommand::at(&world, "trust");
        terminal.sees("/bin/sh");
        terminal.sees("Trust them? [y/N] ");
        assert!(!world.path(".local/share/toolbooth/trust.json").exists());
        terminal.press(answer);
        terminal.sees(said);
        assert_eq!(terminal.ends(), Some(code));
    }
    let mut terminal = TerminalCommand::at(&world, "trust");
    terminal.sees("Trust them? [y/N] ");
    terminal.press("y\r");
    terminal.sees("Trusted in the current version.");
    assert_eq!(terminal.ends(), Some(0));
    assert!(world.path(".local/share/toolbooth/trust.json").exists());
}

// audit: type-ahead approves
#[test]
fn input_typed_before_a_question_does_not_answer_it() {
    let asks = [(".config/toolbooth/toolbooth.toml", "[approval]\ndefault = \"writes\"\n")];
    let world = World::new(&asks);
    let mut terminal = TerminalCommand::typing_ahead(&world, "call identity_create_record title=x", "y\ry\r");
    terminal.sees("Run it? [y/N/e(dit)] ");
    terminal.press("n\r");
    assert_eq!(terminal.ends(), Some(3), "rejected, not run");

    let world = World::new(&[(
        "work/.mcp.json",
        r#"{"mcpServers": {"sh": {"command": "/bin/sh", "args": ["SERVER"]}}}"#,
    )]);
    let mut terminal = TerminalCommand::typing_ahead(&world, "trust", "y\r");
    terminal.sees("Trust them? [y/N] ");
    terminal.press("n\r");
    assert_eq!(terminal.ends(), Some(1), "not trusted");
}

#[test]
fn a_secret_that_a_terminal_does_not_pass_on_whole_is_refused() {
    let world = World::new(&[]);
    let stored = ".config/toolbooth/secrets.env";
    let long = format!("{}\r", "x".repeat(6_000));
    for pasted in ["-----BEGIN KEY-----\rhunter2\r-----END KEY-----\r", &long] {
        let mut terminal = TerminalCommand::at(&world, "secrets set PEM");
        terminal.sees("Value of PEM: ");
        terminal.press(pasted);
        terminal.sees("error[usage.secret-line]");
        assert!(!terminal.screen.lock().unwrap().contains("hunter2"));
        assert_eq!(terminal.ends(), Some(2));
        assert!(!world.path(stored).exists());
    }
    let mut terminal = TerminalCommand::at(&world, "secrets set PEM");
    terminal.sees("Value of PEM: ");
    terminal.press("hunter2\r");
    terminal.sees("Stored PEM");
    assert_eq!(terminal.ends(), Some(0));
    assert!(world.path(stored).exists());
}
