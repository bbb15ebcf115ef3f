"""Files in and out: file names become URLs, results become files with a viewer."""

import base64
import json
import urllib.request
from typing import Any, Dict, List, Optional

from fastmcp import Context, FastMCP
from mcp.types import ImageContent

mcp = FastMCP(name="canvas_demo")

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SAMPLES = {
    "page.html": ("text/html", "<p>page</p>"),
    "dot.svg": ("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
    "paper.pdf": ("application/pdf", "%PDF-1.4\n%%EOF\n"),
    "table.csv": ("text/csv", "a,b\n1,2\n"),
    "script.sh": ("application/x-sh", "echo hello\n"),
    "notes.md": ("text/markdown", "# Notes\n"),
    "data.json": ("application/json", "{\"a\": 1}"),
}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@mcp.tool
def read_file(
    filename: str, original_filename: Optional[str] = None, file_url: Optional[str] = None
) -> Dict[str, Any]:
    """Reads a file of the session and tells its size; other values are reported as they came."""
    path = filename.split("?")[0]
    results: Dict[str, Any] = {"original": original_filename, "path": path, "same": filename == file_url}
    if "/files/download/" in filename:
        with urllib.request.urlopen(filename, timeout=20) as response:
            results["bytes"] = len(response.read())
            results["type"] = response.headers["Content-Type"]
    return {"results": results}


@mcp.tool
def read_files(file_names: List[str], original_file_names: Optional[List[str]] = None) -> Dict[str, Any]:
    """Tells which of the names became URLs."""
    are_urls = ["/files/download/" in name for name in file_names]
    return {"results": {"are_urls": are_urls, "original": original_file_names}}


@mcp.tool
def save_as(filename: str, content: str) -> Dict[str, Any]:
    """Writes a new file; its name is an output name, not a file of the session."""
    return {"results": {"saved": filename}, "artifacts": [{"name": filename or "unnamed.txt", "b64": encoded(content)}]}


@mcp.tool
def image_name(image_filename: str) -> Dict[str, Any]:
    """Returns its argument; the name is not one that becomes a URL."""
    return {"results": {"image_filename": image_filename}}


@mcp.tool
def every_viewer() -> Dict[str, Any]:
    """Returns one file for each viewer."""
    files = [{"name": name, "mime": mime, "b64": encoded(text)} for name, (mime, text) in SAMPLES.items()]
    files.append({"name": "dot.png", "mime": "image/png", "b64": DOT})
    return {
        "results": {"count": len(files)},
        "artifacts": files,
        "display": {"open_canvas": True, "primary_file": "table.csv", "mode": "replace", "title": "Everything"},
        "meta_data": {"made_by": "canvas_demo"},
    }


@mcp.tool
def picture() -> ImageContent:
    """Returns an image block."""
    return ImageContent(type="image", data=DOT, mimeType="image/png")


@mcp.tool
def frame(url: str) -> Dict[str, Any]:
    """Asks for a frame with this address."""
    display = {"open_canvas": True, "type": "iframe", "url": url, "title": "Frame", "sandbox": "allow-scripts allow-same-origin"}
    return {"results": {"shown": url}, "display": display}


@mcp.tool
async def updates(ctx: Context) -> Dict[str, Any]:
    """Shows a page, a message and a file while it runs."""
    page = {"type": "canvas_update", "content": "<p>half</p>", "progress_message": "half"}
    note = {"type": "system_message", "message": "a note", "subtype": "info"}
    file = {"name": "part.txt", "mime": "text/plain", "b64": encoded("part"), "viewer": "code"}
    part = {"type": "artifacts", "artifacts": [file], "display": {"open_canvas": True, "primary_file": "part.txt"}}
    for step, update in enumerate((page, note, part), 1):
        await ctx.report_progress(step, 4, f"MCP_UPDATE:{json.dumps(update)}")
    await ctx.report_progress(4, 4, "done")
    return {"results": {"steps": 4}}


if __name__ == "__main__":
    mcp.run(show_banner=False)
