"""The official Python SDK, 1.x: sessions only."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import tour
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Client:
    def __init__(self) -> None:
        self.version: str | None = None
        self.server_name: str | None = None
        self.answer: dict[str, Any] = {}
        self.progress: list[float] = []
        self.changes = asyncio.Event()

    async def connect(self, stack: AsyncExitStack, target: dict[str, Any]) -> None:
        if "url" in target:
            transport = streamable_http_client(target["url"])
        else:
            command, *arguments = target["command"]
            transport = stdio_client(StdioServerParameters(command=command, args=arguments))
        read, write, *_ = await stack.enter_async_context(transport)
        self.session = await stack.enter_async_context(
            ClientSession(
                read,
                write,
                elicitation_callback=self.elicited,
                sampling_callback=self.sampled,
                list_roots_callback=self.rooted,
                message_handler=self.told,
                client_info=types.Implementation(name="tour-sdk1", version="1"),
            )
        )
        started = await self.session.initialize()
        self.version = str(started.protocolVersion)
        self.server_name = started.serverInfo.name

    async def elicited(self, _context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(**self.answer)

    async def sampled(self, _context: Any, params: Any) -> types.CreateMessageResult:
        topic = params.messages[0].content.text.rsplit(" ", 1)[-1]
        content = types.TextContent(type="text", text=f"A poem about {topic}.")
        return types.CreateMessageResult(role="assistant", content=content, model="none")

    async def rooted(self, _context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///tour", name="tour")])

    async def told(self, message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            if isinstance(message.root, types.ToolListChangedNotification):
                self.changes.set()

    async def reported(self, progress: float, _total: float | None, _message: str | None) -> None:
        self.progress.append(progress)

    async def ask(self, request: Any) -> Any:
        try:
            return await request
        except McpError as error:
            raise tour.Failed(error.error.code, error.error.message) from error

    async def tools(self) -> list[dict[str, Any]]:
        return [plain(tool) for tool in (await self.session.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return plain(await self.ask(self.session.call_tool(name, arguments, progress_callback=self.reported)))

    async def task(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        tasks = self.session.experimental
        created = await self.ask(tasks.call_tool_as_task(name, arguments))
        listed = await tasks.list_tasks()
        tour.expect(created.task.taskId in [task.taskId for task in listed.tasks], True, "the task is listed:")
        result = await self.ask(tasks.get_task_result(created.task.taskId, types.CallToolResult))
        tour.expect((await tasks.get_task(created.task.taskId)).status, "completed", "the task is")
        return plain(result)

    async def prompts(self) -> list[dict[str, Any]]:
        return [plain(prompt) for prompt in (await self.session.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        return plain(await self.session.get_prompt(name, arguments))

    async def resources(self) -> list[dict[str, Any]]:
        return [plain(resource) for resource in (await self.session.list_resources()).resources]

    async def read(self, uri: str) -> list[dict[str, Any]]:
        return plain(await self.ask(self.session.read_resource(AnyUrl(uri))))["contents"]


async def main() -> None:
    target = tour.target()
    async with AsyncExitStack() as stack:
        client = Client()
        await client.connect(stack, target)
        await tour.take(client, "legacy")


asyncio.run(main())
