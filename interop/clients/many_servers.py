"""More than thirty servers through one gateway: lists their tools, finds them by words, and calls one tool of each at once.

`calls` gives the tools with their arguments and a text that the answer must contain.
"""

import asyncio
import json
import logging
import urllib.parse
import urllib.request
from typing import Any

import tour
from fastmcp import Client
from tour import check, text_of

# Words, and a server whose tool must be among the best hits.
SEARCHES = {
    "commit history of a repository": "git",
    "convert a time between time zones": "time",
    "read a text file": "filesystem",
    "knowledge graph": "memory",
}


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def found(base: str, words: str) -> list[str]:
    query = urllib.parse.urlencode({"q": words, "limit": 10})
    with urllib.request.urlopen(f"{base}/tools/search?{query}", timeout=20) as answer:
        return [tool["name"] for tool in json.load(answer)["hits"]]


async def main() -> None:
    logging.disable(logging.WARNING)
    target = tour.target()
    calls: dict[str, Any] = target["calls"]
    base = target["url"].removesuffix("/mcp")

    async with Client(target["url"]) as client:

        async def lists() -> None:
            names = {tool.name for tool in await client.list_tools()}
            if missing := set(calls) - names:
                raise AssertionError(f"not listed: {sorted(missing)}")

        async def searches() -> None:
            for words, server in SEARCHES.items():
                names = await asyncio.to_thread(found, base, words)
                if not any(name.startswith(server) for name in names):
                    raise AssertionError(f"{words!r} finds {names}")

        async def call(name: str, wanted: dict[str, Any]) -> str | None:
            result = plain(await client.call_tool_mcp(name, wanted["arguments"]))
            text = text_of(result) if result.get("content") else ""
            if result.get("isError"):
                return f"{name} failed: {text}"
            # Some answers have no text of their own.
            whole = text + json.dumps(result.get("structuredContent"))
            return None if wanted["expected"] in whole else f"{name} answered {whole!r}"

        async def calls_each() -> None:
            ended = await asyncio.gather(*(call(name, wanted) for name, wanted in calls.items()))
            if wrong := [reason for reason in ended if reason]:
                raise AssertionError("; ".join(wrong))

        await check("lists all tools", lists)
        await check("finds tools by words", searches)
        await check("calls a tool of each server at once", calls_each)
        tour.through()


asyncio.run(main())
