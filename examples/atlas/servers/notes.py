"""Notes of one persona."""

from fastmcp import FastMCP

mcp = FastMCP(name="notes")


@mcp.tool
def note_write(text: str) -> str:
    """Write down a note."""
    return f"noted: {text}"


@mcp.tool
def note_secret() -> str:
    """Never offered: the global list denies it."""
    return "this must not run"


if __name__ == "__main__":
    mcp.run(show_banner=False)
