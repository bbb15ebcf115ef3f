"""A browser without a network: finds, opens and erases made-up pages."""

import sys
import time
from typing import Any, Dict

from fastmcp import FastMCP

mcp = FastMCP(name="browser")
running = 0


@mcp.tool(name="browser.find")
def find(text: str) -> Dict[str, Any]:
    """Find a text on the current page."""
    global running
    running += 1
    together = running
    time.sleep(0.2)
    running -= 1
    return {"found": text, "together": together, "arguments": sys.argv[1:]}


@mcp.tool(name="browser.open")
def open_page(address: str) -> str:
    """Open a page."""
    return f"opened {address}"


@mcp.tool(name="browser.close")
def close_page() -> str:
    """Close the page; denied by the server's own list."""
    return "closed"


@mcp.tool(name="browser.forbidden")
def forbidden() -> str:
    """Never offered: the global list denies it."""
    return "this must not run"


@mcp.tool
def unlisted() -> str:
    """Never offered: the global list does not allow it."""
    return "this must not run"


@mcp.tool
def google_search(query: str) -> Dict[str, Any]:
    """Search the web."""
    return {"results": {"first": f"a page about {query}", "by": "browser-server"}}


@mcp.tool
def erase_page(page: str) -> str:
    """Erase a page."""
    return f"erased {page}"


@mcp.tool
def erase_everything() -> str:
    """Erase all pages."""
    return "erased everything"


@mcp.tool
def write_page(text: str, operation: str = "write") -> str:
    """Write a page."""
    return f"{operation}: {text}"


if __name__ == "__main__":
    mcp.run(show_banner=False)
