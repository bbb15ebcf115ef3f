# /// script
# dependencies = ["fastmcp"]
# ///
"""Files in and out: a name becomes an address to fetch from, and files go back as base64 beside the result."""

import base64
import hashlib
import html
import urllib.request
from typing import Annotated, Any

from fastmcp import FastMCP
from pydantic import Field

mcp = FastMCP("files")


@mcp.tool
def size(
    filename: Annotated[str, Field(description="The name of an uploaded file.")],
    original_filename: Annotated[str | None, Field(description="That name; supplied by the gateway.")] = None,
) -> dict[str, Any]:
    """Reads a file of your session and tells its size and SHA-256."""
    # The caller said `report.pdf`; what arrives is an address that is good for this call.
    with urllib.request.urlopen(filename, timeout=20) as response:
        content = response.read()
    sha256 = hashlib.sha256(content).hexdigest()
    return {"results": {"filename": original_filename, "bytes": len(content), "sha256": sha256}}


@mcp.tool
def make_report(
    title: Annotated[str, Field(description="What the report is called.", max_length=200)],
    rows: Annotated[int, Field(description="How many rows of numbers.", ge=1, le=1000)] = 5,
) -> dict[str, Any]:
    """Makes a small report: a page to look at and its numbers as a table."""
    squares = [(number, number * number) for number in range(1, rows + 1)]
    cells = "".join(f"<tr><td>{number}</td><td>{square}</td></tr>\n" for number, square in squares)
    page = f"<!doctype html>\n<h1>{html.escape(title)}</h1>\n<table>\n{cells}</table>\n"
    table = "n,square\n" + "".join(f"{number},{square}\n" for number, square in squares)
    return {
        "results": {"title": title, "rows": rows, "sum_of_squares": sum(square for _, square in squares)},
        "artifacts": [
            {"name": "report.html", "mime": "text/html", "b64": encoded(page)},
            {"name": "numbers.csv", "mime": "text/csv", "b64": encoded(table)},
        ],
        "display": {"open_canvas": True, "primary_file": "report.html", "title": title},
    }


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


if __name__ == "__main__":
    mcp.run()
