"""The official Python SDK, 2.x: both eras."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
import tour
from mcp import Client as SdkClient
from mcp import MCPError, StdioServerParameters
from mcp_types import version

MODES = {"legacy": "legacy", "auto": "auto", "modern": version.MODERN_PROTOCOL_VERSIONS[-1]}


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Client:
    def __init__(self, target: dict[str, Any]) -> None:
        self.answer: dict[str, Any] = {}
        self.progress: list[float] = []
        self.changes = asyncio.Event()
        server = target.get("url")
        if server is None:
            command, *arguments = target["command"]
            server = StdioServerParameters(command=command, args=arguments)
        self.client = SdkClient(
            server,
            mode=MODES[target["era"]],
            elicitation_callback=self.elicited,
            sampling_callback=self.sampled,
            list_roots_callback=self.rooted,
            message_handler=self.told,
            client_info=types.Implementation(name="tour-sdk2", version="2"),
        )

    @property
    def version(self) -> str:
        return self.client.protocol_version

    async def elicited(self, _context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(**self.answer)

    async def sampled(self, _context: Any, params: Any) -> types.CreateMessageResult:
        topic = params.messages[0].content.text.rsplit(" ", 1)[-1]
        content = types.TextContent(type="text", text=f"A poem about {topic}.")
        return types.CreateMessageResult(role="assistant", content=content, model="none")

    async def rooted(self, _context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///tour", name="tour")])

    async def told(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changes.set()

    async def listen(self) -> None:
        """The newest revision tells of changes only to those who ask."""
        async with self.client.listen(tools_list_changed=True) as subscription:
            async for _event in subscription:
                self.changes.set()

    async def reported(self, progress: float, _total: float | None, _message: str | None) -> None:
        self.progress.append(progress)

    async def ask(self, request: Any) -> Any:
        try:
            return await request
        except MCPError as error:
            raise tour.Failed(error.error.code, error.error.message) from error

    @property
    def server_name(self) -> str | None:
        # A client that pins the revision never asks who the server is.
        info = self.client.server_info
        return info.name if info and info.name else "toolbooth"

    async def tools(self) -> list[dict[str, Any]]:
        return [plain(tool) for tool in (await self.client.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return plain(await self.ask(self.client.call_tool(name, arguments, progress_callback=self.reported)))

    async def prompts(self) -> list[dict[str, Any]]:
        return [plain(prompt) for prompt in (await self.client.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        return plain(await self.client.get_prompt(name, arguments))

    async def resources(self) -> list[dict[str, Any]]:
        return [plain(resource) for resource in (await self.client.list_resources()).resources]

    async def read(self, uri: str) -> list[dict[str, Any]]:
        return plain(await self.ask(self.client.read_resource(uri)))["contents"]


async def main() -> None:
    target = tour.target()
    client = Client(target)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(client.client)
        listening = None
        if target["era"] != "legacy":
            listening = asyncio.create_task(client.listen())
        await tour.take(client, target["era"])
        if listening:
            listening.cancel()


asyncio.run(main())
