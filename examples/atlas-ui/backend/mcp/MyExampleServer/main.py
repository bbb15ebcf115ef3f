"""Simple tools, and one that returns a file."""

import base64
import os
from typing import Any, Dict, Optional

from fastmcp import FastMCP

mcp = FastMCP(name="MyExampleServer")


@mcp.tool
def my_tool(parameter: str, username: Optional[str] = None) -> Dict[str, Any]:
    """Returns the text that it received, and who sent it."""
    return {"results": {"input_received": parameter, "by": username, "status": "success", "pid": os.getpid()}}


@mcp.tool
def create_html_report(title: str) -> Dict[str, Any]:
    """Writes a report and returns it as a file to look at."""
    page = f"<html><body><h1>{title}</h1></body></html>"
    return {
        "results": {"summary": f"Report written: {title}"},
        "artifacts": [{"name": "report.html", "b64": base64.b64encode(page.encode()).decode(), "mime": "text/html"}],
        "display": {"open_canvas": True, "primary_file": "report.html"},
    }


if __name__ == "__main__":
    mcp.run(show_banner=False)
