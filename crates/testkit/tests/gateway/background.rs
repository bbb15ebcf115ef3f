//! `toolbooth start`, `stop` and `status`: the gateway in the background.

use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::{Command, Output};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Home, TestClient, processes, token};

/// A home whose gateway is stopped at the end of the test.
struct BackgroundHome(Home);

impl BackgroundHome {
    fn new(servers: &[(&str, Value)]) -> Self {
        Self(Home::with_settings(json!({ "listen": "127.0.0.1:0" }), servers))
    }

    fn command(&self, word: &str, arguments: &[&str]) -> Command {
        let mut command = self.0.command(word);
        command.args(arguments);
        command
    }

    async fn run(&self, word: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(word, arguments);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Runs a command with `--json`; returns its exit code and its answer.
    async fn json(&self, word: &str, arguments: &[&str]) -> (Option<i32>, Value) {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let output = self.run(word, &arguments).await;
        let answer = serde_json::from_slice(&output.stdout);
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), answer.unwrap_or_else(|_| panic!("no JSON: {shown}")))
    }
}

impl Drop for BackgroundHome {
    fn drop(&mut self) {
        let _ = self.command("stop", &["--force"]).output();
    }
}

fn is_running(pid: &Value) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !matches!(stat.rsplit_once(')').map(|(_, rest)| rest.trim_start()), None | Some(""))
        && !stat.contains(") Z ")
}

#[tokio::test]
async fn start_waits_until_the_gateway_answers_and_stop_until_it_ended() {
    let token = token("home");
    let home = BackgroundHome::new(&[("echo", hostile(&["echo", &token]))]);
    let (code, started) = home.json("start", &[]).await;
    assert_eq!((code, &started["started"]), (Some(0), &json!(true)), "{started}");
    let url = started["url"].as_str().unwrap().to_owned();
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let client = TestClient::of(TestEra::Modern, address).await;
    assert_eq!(client.call("echo_ok", json!({})).await.text(), "ok");
    let clients = started["clients"].as_array().unwrap();
    assert!(clients.iter().any(|view| view["tools"] == 2 && view["mode"] == "full"), "{started}");

    let (code, again) = home.json("start", &[]).await;
    assert_eq!((code, &again["started"], &again["pid"]), (Some(0), &json!(false), &started["pid"]));
    let (code, status) = home.json("status", &[]).await;
    assert_eq!(
        (code, &status["running"], &status["pid"]),
        (Some(0), &json!(true), &started["pid"]),
        "{status}"
    );
    assert_eq!(status["servers"]["connected"], 1, "{status}");
    let log = home.0.data().join("gateway.log");
    assert!(std::fs::read_to_string(&log).unwrap().contains("is listening on"), "the greeting is in the log");

    let (code, stopped) = home.json("stop", &[]).await;
    assert_eq!((code, &stopped["stopped"], &stopped["pid"]), (Some(0), &json!(true), &started["pid"]));
    assert!(!is_running(&started["pid"]), "the process has ended when `stop` returns");
    assert_eq!(processes::marked(&token), Vec::<u32>::new(), "its servers have ended as well");
    let (code, stopped) = home.json("stop", &[]).await;
    assert_eq!((code, &stopped["stopped"]), (Some(0), &json!(false)), "a second stop is harmless");
    let (code, status) = home.json("status", &[]).await;
    assert_eq!((code, &status["running"]), (Some(5), &json!(false)));
}

#[tokio::test]
async fn simultaneous_starts_make_one_gateway() {
    let home = BackgroundHome::new(&[("echo", hostile(&["echo"]))]);
    let starts = [(), (), ()].map(|()| home.json("start", &[]));
    let [one, two, three] = starts;
    let (one, two, three) = tokio::join!(one, two, three);
    let all = [one, two, three];
    assert!(all.iter().all(|(code, _)| *code == Some(0)), "{all:?}");
    assert!(all.iter().all(|(_, answer)| answer["pid"] == all[0].1["pid"]), "{all:?}");
    assert_eq!(all.iter().filter(|(_, answer)| answer["started"] == true).count(), 1, "{all:?}");
}

#[tokio::test]
async fn stop_waits_for_running_calls() {
    let home = BackgroundHome::new(&[("srv", fixture_on_stdio("modern"))]);
    let (_, started) = home.json("start", &[]).await;
    let url = started["url"].as_str().unwrap().to_owned();
    let client = TestClient::of(TestEra::Modern, url.strip_prefix("http://").unwrap().parse().unwrap()).await;
    let params = json!({ "name": "srv_slow", "arguments": { "ms": 800, "steps": 40 }, "_meta": { "progressToken": 1 } });
    let call = client.start("tools/call", params).await;
    let (reply, (code, stopped)) = tokio::join!(call.finish(), home.json("stop", &[]));
    assert_eq!(reply.text(), "Done in 40 steps.");
    assert_eq!((code, &stopped["stopped"]), (Some(0), &json!(true)), "{stopped}");
}

#[tokio::test]
async fn a_failed_start_shows_the_last_lines_of_the_log() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = BackgroundHome::new(&[]);
    let output = home.run("start", &["--listen", &address]).await;
    let reply = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{reply}");
    assert!(reply.starts_with("error[start.failed]: the gateway ended at startup"), "{reply}");
    assert!(reply.contains(&address) && reply.contains("error[listen."), "{reply}");
    assert!(reply.contains("gateway.log"), "{reply}");
    let (_, status) = home.json("status", &[]).await;
    assert_eq!(status["running"], false, "nothing was left running");
}

#[tokio::test]
async fn a_configuration_error_is_reported_before_anything_starts() {
    let home = BackgroundHome::new(&[]);
    home.0.write_config("{ \"listen\": true }");
    let output = home.run("start", &[]).await;
    let reply = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{reply}");
    assert!(reply.contains("listen"), "{reply}");
    assert!(!home.0.data().join("gateway.log").exists());
}
