"""Asks the caller while it runs, and reports progress."""

from dataclasses import dataclass

from fastmcp import Context, FastMCP

mcp = FastMCP(name="questions_demo")


@dataclass
class Guest:
    name: str
    age: int


@mcp.tool
async def pick_a_number(ctx: Context) -> str:
    """Asks for a number."""
    answer = await ctx.elicit("Pick a number", response_type=int)
    return f"You picked {answer.data}" if answer.action == "accept" else f"No number: {answer.action}"


@mcp.tool
async def register_guest(ctx: Context) -> str:
    """Asks for a name and an age."""
    answer = await ctx.elicit("Who comes?", response_type=Guest)
    return f"{answer.data.name} is {answer.data.age}" if answer.action == "accept" else f"No guest: {answer.action}"


@mcp.tool
async def confirm(ctx: Context) -> str:
    """Asks for a yes."""
    answer = await ctx.elicit("Go on?", response_type=None)
    return f"Answer: {answer.action}"


@mcp.tool
async def count(steps: int, ctx: Context) -> str:
    """Counts, and reports every step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


if __name__ == "__main__":
    mcp.run(show_banner=False)
