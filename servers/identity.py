# /// script
# dependencies = ["fastmcp"]
# ///
"""Arguments that the gateway supplies. No model sees them, and whatever a caller sends under their names is overwritten."""

from typing import Annotated, Any

from fastmcp import FastMCP
from pydantic import Field

mcp = FastMCP("identity")
records = 0

User = Annotated[str, Field(description="Who calls; supplied by the gateway.")]


@mcp.tool
def whoami(username: User, _mcp_data: dict[str, Any] | None = None) -> dict[str, Any]:
    """Tells who the gateway says you are, and which tools it says you may use."""
    servers = (_mcp_data or {}).get("available_servers", [])
    usable = {server["server_name"]: [tool["name"] for tool in server["tools"]] for server in servers}
    return {"results": {"user": username, "usable": usable}}


@mcp.tool
def create_record(title: Annotated[str, Field(description="What the record is called.")], username: User) -> dict[str, Any]:
    """Makes a record that belongs to you, regardless of the claimed name. It is not kept."""
    global records
    records += 1
    return {"results": {"record": {"number": records, "title": title, "owner": username}}}


@mcp.tool
def override_attempt(claimed_user: Annotated[str, Field(description="Whom to act as.")], username: User) -> dict[str, Any]:
    """Tries to act as another user, and tells whether that worked. It does not."""
    occurred = claimed_user == username
    return {"results": {"claimed": claimed_user, "acting_as": username, "override_occurred": occurred}}


if __name__ == "__main__":
    mcp.run()
