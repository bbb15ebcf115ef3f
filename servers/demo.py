# /// script
# dependencies = ["fastmcp"]
# ///
"""Plain tools: the docstring is what a model reads, the type hints are the schema."""

import asyncio
import hashlib
import time as clock
from typing import Annotated

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from pydantic import Field

mcp = FastMCP("demo")
flaky_calls = 0


@mcp.tool
def echo(text: Annotated[str, Field(description="What to return.")]) -> str:
    """Returns the text it was given, unchanged."""
    return text


@mcp.tool
def time() -> str:
    """Tells the current time in UTC, as seconds since 1970."""
    return str(int(clock.time()))


@mcp.tool
def hash(text: Annotated[str, Field(description="What to hash.")]) -> str:
    """Computes the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


@mcp.tool
async def slow(milliseconds: Annotated[int, Field(description="How long to wait.", ge=0, le=60_000)]) -> str:
    """Waits for some milliseconds before it answers; shows deadlines at work."""
    await asyncio.sleep(milliseconds / 1000)
    return f"waited {milliseconds} ms"


@mcp.tool
def flaky() -> str:
    """Fails on every other call; shows how errors look."""
    global flaky_calls
    flaky_calls += 1
    if flaky_calls % 2 == 0:
        # The message reaches the model, which may try again or give up.
        raise ToolError("it failed this time")
    return "it worked this time"


if __name__ == "__main__":
    mcp.run()
