"""The tour that every Python client takes through the gateway.

Behind the gateway stand two fixtures: `old` speaks the older revisions over stdio, `new` the newest one over HTTP.
A client script offers the functions of `Client` below; the tour prints one JSON line for each check, and a last one
when it is through.
"""

import asyncio
import json
import sys
import time
from typing import Any, Awaitable, Callable, Protocol

PATIENCE = 20.0
SERVERS = ("old", "new")


class Failed(Exception):
    """The server refused: a JSON-RPC error, with its code."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client(Protocol):
    """What a tour needs of a client. Everything is plain JSON, as on the wire."""

    version: str | None
    server_name: str | None
    answer: dict[str, Any]
    progress: list[float]
    changes: asyncio.Event | None  # None for a client that does not listen

    async def tools(self) -> list[dict[str, Any]]: ...
    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]: ...
    async def prompts(self) -> list[dict[str, Any]]: ...
    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]: ...
    async def resources(self) -> list[dict[str, Any]]: ...
    async def read(self, uri: str) -> list[dict[str, Any]]: ...


def target() -> dict[str, Any]:
    """What to connect to: {"url"} or {"command"}, and how: {"era": "legacy" | "modern" | "auto"}."""
    return json.loads(sys.argv[1])


def expect(actual: Any, expected: Any, what: str = "got") -> None:
    if actual != expected:
        raise AssertionError(f"{what} {actual!r} instead of {expected!r}")


async def check(name: str, body: Callable[[], Awaitable[None]]) -> None:
    begun = time.monotonic()
    try:
        await asyncio.wait_for(body(), PATIENCE)
        line: dict[str, Any] = {"check": name}
    except TimeoutError:
        line = {"check": name, "failed": f"no answer within {PATIENCE:.0f} s"}
    except Exception as error:  # Whatever a library raises is the finding.
        line = {"check": name, "failed": f"{type(error).__name__}: {error}"}
    line["ms"] = round((time.monotonic() - begun) * 1000)
    print(json.dumps(line), flush=True)


def through() -> None:
    print(json.dumps({"through": True}), flush=True)


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


async def take(client: Client, era: str) -> None:
    """The whole tour, for a client that has connected."""
    await check("handshake", lambda: handshake(client, era))
    await check("list", lambda: listing(client))
    for server in SERVERS:
        await check(f"call {server}", lambda: calling(client, server))
        await check(f"call {server} losslessly", lambda: lossless(client, server))
        await check(f"failing tool {server}", lambda: failing(client, server))
        await check(f"progress {server}", lambda: progress(client, server))
        await check(f"question {server}", lambda: question(client, server))
        await check(f"sampling {server}", lambda: sampling(client, server))
        await check(f"roots {server}", lambda: roots(client, server))
        await check(f"prompt {server}", lambda: prompt(client, server))
        if client.changes is not None:
            await check(f"change {server}", lambda: change(client, client.changes, server))
        if hasattr(client, "task"):
            await check(f"task {server}", lambda: task(client, server))
    await check("unknown tool", lambda: unknown(client))
    await check("resources", lambda: resources(client))
    through()


async def handshake(client: Client, era: str) -> None:
    expect(client.version, "2025-11-25" if era == "legacy" else "2026-07-28", "the version is")
    expect(client.server_name, "toolbooth", "the server is")


async def listing(client: Client) -> None:
    tools = {tool["name"]: tool for tool in await client.tools()}
    for server in SERVERS:
        add = tools[f"{server}_add"]
        expect(add["inputSchema"]["required"], ["a", "b"])
        expect(add["outputSchema"]["properties"], {"sum": {"type": "number"}})
        expect(add["annotations"]["readOnlyHint"], True)
        rich = tools[f"{server}_json_schema_2020_12_tool"]["inputSchema"]
        expect(rich["$defs"]["address"]["$anchor"], "addressDef")
    expect([tool["name"] for tool in await client.tools()], list(tools), "a second list is")


async def calling(client: Client, server: str) -> None:
    result = await client.call(f"{server}_add", {"a": 2, "b": 40})
    expect(text_of(result), "42")
    expect(result["structuredContent"], {"sum": 42})
    picture = await client.call(f"{server}_test_image_content", {})
    expect(picture["content"][0]["mimeType"], "image/png")


async def task(client: Any, server: str) -> None:
    """A call that runs as a task, for clients that have a function `task`."""
    result = await client.task(f"{server}_slow_compute", {"seconds": 0.2, "label": "x"})
    expect(text_of(result), 'Computed "x" for 0.2 s.')
    client.answer = {"action": "accept", "content": {"confirm": True}}
    result = await client.task(f"{server}_confirm_delete", {"filename": "a"})
    expect(text_of(result), '"a" was deleted.')


async def lossless(client: Client, server: str) -> None:
    message = {"z": "Grüße, 𝄞 \u2028 \u0000", "a": 9007199254740993, "n": None, "f": 1.5, "deep": [[[{}]]]}
    result = await client.call(f"{server}_echo", {"message": message})
    expect(result["structuredContent"], {"message": message})


async def failing(client: Client, server: str) -> None:
    result = await client.call(f"{server}_fail", {"message": "as asked"})
    expect(result.get("isError"), True)
    expect(text_of(result), "as asked")


async def unknown(client: Client) -> None:
    try:
        result = await client.call("old_no_such_tool", {})
    except Failed as error:
        expect(error.code, -32602, "the code is")
    else:
        raise AssertionError(f"it was answered: {result}")


async def progress(client: Client, server: str) -> None:
    client.progress.clear()
    await client.call(f"{server}_test_tool_with_progress", {})
    expect(client.progress, [0.0, 50.0, 100.0], "progress was")


async def question(client: Client, server: str) -> None:
    client.answer = {"action": "accept", "content": {"name": "Ada"}}
    expect(text_of(await client.call(f"{server}_ask_name", {})), "Hello, Ada!")
    client.answer = {"action": "decline"}
    expect(text_of(await client.call(f"{server}_ask_name", {})), "No name was given: decline.")


async def sampling(client: Client, server: str) -> None:
    expect(text_of(await client.call(f"{server}_sample_poem", {"topic": "tolls"})), "A poem about tolls.")


async def roots(client: Client, server: str) -> None:
    answer = text_of(await client.call(f"{server}_list_my_roots", {}))
    if "file:///tour" not in answer:
        raise AssertionError(f"no root of ours in {answer}")


async def prompt(client: Client, server: str) -> None:
    names = [prompt["name"] for prompt in await client.prompts()]
    wanted = f"{server}_test_prompt_with_arguments"
    if wanted not in names:
        raise AssertionError(f"{wanted} is not among {names}")
    result = await client.prompt(wanted, {"arg1": "one", "arg2": "two"})
    expect(result["messages"][0]["content"]["text"], "Prompt with arguments: arg1='one', arg2='two'")


async def change(client: Client, changes: asyncio.Event, server: str) -> None:
    """A tool appears, the client is told, and the new list has it; then it goes again."""
    for presence in (True, False):
        changes.clear()
        await client.call(f"{server}_change_tools", {"tool": "fleeting"})
        await asyncio.wait_for(changes.wait(), 10)
        names = [tool["name"] for tool in await client.tools()]
        expect(f"{server}_fleeting" in names, presence, "its presence is")


async def resources(client: Client) -> None:
    uris = [resource["uri"] for resource in await client.resources()]
    if "test://static-text" not in uris:
        raise AssertionError(f"test://static-text is not among {uris}")
    contents = await client.read("test://static-text")
    expect(contents[0]["text"], "This is the content of the static text resource.")
    try:
        await client.read("test://nowhere")
    except Failed as error:
        if error.code not in (-32602, -32002):
            raise AssertionError(f"the code of a missing resource is {error.code}") from error
    else:
        raise AssertionError("a missing resource was read")
