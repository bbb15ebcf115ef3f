//! Third-party servers: FastMCP over HTTP+SSE and the Python SDK on a WebSocket, if they are installed.
//! `TOOLBOOTH_TEST_PYTHON` selects another Python than `python3`.

use crate::test_server::Journal;
use crate::{Over, SOON, World, reached, text_of};
use std::process::Stdio;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolbooth_core::json::RawJson;
use toolbooth_upstream::{CallLink, LinkEvent};

const IMPORTS: &str = "
import sys, typing
from fastmcp import FastMCP, Context
";

const TOOLS: &str = r#"
mcp = FastMCP("real")

@mcp.tool
async def echo(text: str, ctx: Context) -> str:
    await ctx.report_progress(1, 2)
    return text

@mcp.tool
async def ask(text: str, ctx: Context) -> str:
    answer = await ctx.elicit("Who?", str)
    return f"{text} {answer.data}"
"#;

const SSE: &str = "
mcp.run(transport='sse', host='127.0.0.1', port=int(sys.argv[1]), show_banner=False)
";

const SOCKET_IMPORTS: &str = "
import uvicorn, websockets
from mcp.server.websocket import websocket_server
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
";

const SOCKET: &str = "
async def talk(socket):
    async with websocket_server(socket.scope, socket.receive, socket.send) as (reader, writer):
        server = mcp._mcp_server
        await server.run(reader, writer, server.create_initialization_options())

app = Starlette(routes=[WebSocketRoute('/mcp', talk)])
uvicorn.run(app, host='127.0.0.1', port=int(sys.argv[1]), log_level='warning')
";

fn python() -> Command {
    let mut python =
        Command::new(std::env::var("TOOLBOOTH_TEST_PYTHON").unwrap_or_else(|_| "python3".into()));
    python.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    python
}

/// Starts a server and waits until it listens; `None` if its libraries are missing.
async fn start(imports: &str, program: &str) -> Option<(Child, u16)> {
    let found = python().arg("-c").arg(imports).status().await;
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("skipped: the server's libraries are not installed");
        return None;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = format!("{imports}{TOOLS}{program}");
    let child = python().arg("-c").arg(script).arg(port.to_string()).spawn().unwrap();
    let listening = async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(60), listening).await.expect("the server listens");
    Some((child, port))
}

async fn check(over: Over, url: &str) {
    let journal = || Journal(mpsc::unbounded_channel().1);
    let world: World = reached(over, url, journal(), "{}").await;
    assert_eq!(world.connection.discover().await.unwrap().tools.len(), 2);
    let (link, mut events) = CallLink::new();
    let result = world.call("echo", link).await.unwrap().unwrap();
    assert_eq!(text_of(&result), "héllo");
    assert!(matches!(events.recv().await, Some(LinkEvent::Progress(_))));

    let asked = reached(over, url, journal(), r#"{"elicitation":{}}"#).await;
    let (link, mut events) = CallLink::new();
    let call = asked.call("ask", link);
    let Some(LinkEvent::Question(question)) = events.recv().await else { panic!("no question") };
    question.reply.send(Ok(RawJson::trusted(r#"{"action":"accept","content":{"value":"bo"}}"#))).unwrap();
    let result = timeout(SOON, call).await.unwrap().unwrap().unwrap();
    assert_eq!(text_of(&result), "héllo bo");
    timeout(SOON, asked.connection.close()).await.unwrap();
    timeout(SOON, world.connection.close()).await.unwrap();
}

#[tokio::test]
async fn fastmcp_is_reached_over_http_and_sse() {
    let Some((mut server, port)) = start(IMPORTS, SSE).await else { return };
    let url = format!("http://127.0.0.1:{port}/sse");
    check(Over::Sse, &url).await;
    check(Over::Http, &url).await; // Its stream does not accept POST, so the older transport is used.
    let mut world = reached(Over::Sse, &url, Journal(mpsc::unbounded_channel().1), "{}").await;
    server.kill().await.unwrap();
    world.closed().await;
}

#[tokio::test]
async fn the_python_sdk_is_reached_on_a_websocket() {
    let imports = format!("{IMPORTS}{SOCKET_IMPORTS}");
    let Some((mut server, port)) = start(&imports, SOCKET).await else { return };
    let url = format!("ws://127.0.0.1:{port}/mcp");
    check(Over::WebSocket, &url).await;
    let mut world = reached(Over::WebSocket, &url, Journal(mpsc::unbounded_channel().1), "{}").await;
    server.kill().await.unwrap();
    world.closed().await;
}
