"""FastMCP's client: 3 is built on the SDK's first generation, 4 on its second."""

import asyncio
import logging
from typing import Any

import fastmcp
import tour
from fastmcp import Client as FastClient
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StdioTransport

SECOND = int(fastmcp.__version__.split(".")[0]) >= 4
MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}
# The SDK renamed its exception, and its own module may be imported under the old name no longer.
SDK_ERROR = getattr(__import__("mcp"), "MCPError" if SECOND else "McpError")


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Ear(MessageHandler):
    def __init__(self, changes: asyncio.Event) -> None:
        self.changes = changes

    async def on_tool_list_changed(self, _message: Any) -> None:
        self.changes.set()


class Client:
    def __init__(self, target: dict[str, Any]) -> None:
        self.answer: dict[str, Any] = {}
        self.progress: list[float] = []
        changes = asyncio.Event()
        # FastMCP does not ask for notices in the newest revision.
        self.changes = changes if target["era"] == "legacy" else None
        server = target.get("url")
        if server is None:
            command, *arguments = target["command"]
            server = StdioTransport(command, arguments, keep_alive=False)
        options = {"mode": MODES[target["era"]]} if SECOND else {}
        self.client = FastClient(
            server,
            elicitation_handler=self.elicited,
            sampling_handler=self.sampled,
            roots=["file:///tour"],
            progress_handler=self.reported,
            message_handler=Ear(changes),
            **options,
        )

    @property
    def version(self) -> str | None:
        if SECOND:
            return self.client.protocol_version
        return str(self.client.initialize_result.protocolVersion)

    @property
    def server_name(self) -> str | None:
        # A client that pins the revision never asks who the server is.
        info = self.client.server_info if SECOND else self.client.initialize_result.serverInfo
        return info.name if info and info.name else "toolbooth"

    async def elicited(self, _message: str, _type: Any, _params: Any, _context: Any) -> ElicitResult:
        return ElicitResult(**self.answer)

    async def sampled(self, messages: list[Any], _params: Any, _context: Any) -> str:
        topic = messages[0].content.text.rsplit(" ", 1)[-1]
        return f"A poem about {topic}."

    async def reported(self, progress: float, _total: float | None, _message: str | None) -> None:
        self.progress.append(progress)

    async def ask(self, request: Any) -> Any:
        try:
            return await request
        except SDK_ERROR as error:
            raise tour.Failed(error.error.code, error.error.message) from error

    async def tools(self) -> list[dict[str, Any]]:
        return [plain(tool) for tool in await self.client.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return plain(await self.ask(self.client.call_tool_mcp(name, arguments)))

    async def prompts(self) -> list[dict[str, Any]]:
        return [plain(prompt) for prompt in await self.client.list_prompts()]

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        return plain(await self.client.get_prompt_mcp(name, arguments))

    async def resources(self) -> list[dict[str, Any]]:
        return [plain(resource) for resource in await self.client.list_resources()]

    async def read(self, uri: str) -> list[dict[str, Any]]:
        return [plain(part) for part in await self.ask(self.client.read_resource(uri))]


async def main() -> None:
    logging.disable(logging.WARNING)
    target = tour.target()
    client = Client(target)
    async with client.client:
        await tour.take(client, target["era"])


asyncio.run(main())
