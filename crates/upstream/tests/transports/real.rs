//! Servers nobody here wrote, where Python and FastMCP are at hand. `TOOLBOOTH_TEST_PYTHON` names another Python.

use crate::{Dial, Over, World, text_of};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use toolbooth_upstream::{CallLink, LinkEvent, UpstreamError};

const SSE_SERVER: &str = r#"
import socket, sys
from fastmcp import FastMCP, Context
mcp = FastMCP("real")

@mcp.tool
async def echo(text: str, ctx: Context) -> str:
    await ctx.report_progress(1, 2)
    return text

@mcp.tool
async def ask(text: str, ctx: Context) -> str:
    answer = await ctx.elicit("Who?", response_type=str)
    return f"{text} {answer.data}"
"#;
