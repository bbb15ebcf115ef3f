"""A small server written with FastMCP 4, over HTTP: tools, a resource, a prompt, and a question."""

import sys

from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

server = FastMCP("notes")
notes: dict[str, str] = {}


class Note(BaseModel):
    title: str
    text: str


@server.tool
def write(title: str, text: str) -> Note:
    """Keeps a note."""
    notes[title] = text
    return Note(title=title, text=text)


@server.tool
def count(words: list[str]) -> dict[str, int]:
    """Counts how often each word occurs."""
    return {word: words.count(word) for word in words}


@server.tool
def title(context: Context) -> str | InputRequiredResult:
    """Asks what a note should be called."""
    # `context.elicit` works on connections of the older revisions alone; this works on those of the newest alone.
    answer = (context.input_responses or {}).get("title")
    if answer is None:
        schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
        params = ElicitRequestFormParams(message="What is it called?", requested_schema=schema)
        return InputRequiredResult(input_requests={"title": ElicitRequest(params=params)})
    return f"It is called {answer.content['value']}." if answer.action == "accept" else "It has no name."


@server.tool
async def work(steps: int, context: Context) -> str:
    """Reports progress."""
    for step in range(1, steps + 1):
        await context.report_progress(step, steps)
    return f"{steps} steps"


@server.tool
def stumble() -> str:
    """Always fails."""
    raise ValueError("stumbled, as always")


@server.resource("notes://{title}")
def read(title: str) -> str:
    """A note."""
    return notes[title]


@server.prompt
def summarise(title: str) -> str:
    """Asks for a summary."""
    return f"Summarise the note {title}."


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
