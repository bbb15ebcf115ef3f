"""The official Python SDK, 1.x, asked for approval: sessions only."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import asked
import tour
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client


class Client:
    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}
        self.questions: list[str] = []

    async def connect(self, stack: AsyncExitStack, target: dict[str, Any]) -> None:
        read, write, *_ = await stack.enter_async_context(streamable_http_client(target["url"]))
        callback = self.elicited if target["asked"] else None
        self.session = await stack.enter_async_context(ClientSession(read, write, elicitation_callback=callback))
        await self.session.initialize()

    async def elicited(self, _context: Any, params: Any) -> types.ElicitResult:
        self.questions.append(params.message)
        return types.ElicitResult(**self.answer)

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self.session.call_tool(name, arguments)
        return result.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def main() -> None:
    target = tour.target()
    async with AsyncExitStack() as stack:
        client = Client()
        await client.connect(stack, target)
        await asked.take(client, target)


asyncio.run(main())
