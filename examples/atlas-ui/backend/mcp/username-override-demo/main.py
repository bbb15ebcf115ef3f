"""Reports who the gateway says is calling."""

import os
from typing import Any, Dict, List, Optional

from fastmcp import FastMCP

mcp = FastMCP(name="username-override-demo")


@mcp.tool
def get_user_info(username: str) -> Dict[str, Any]:
    """Tells who is calling."""
    return {"results": {"username": username, "records": os.environ.get("RECORDS"), "mode": os.environ.get("MODE")}}


@mcp.tool
def new_user_info(_atlas_user: str) -> Dict[str, Any]:
    """Tells who is calling, by the newer name of the argument."""
    return {"results": {"username": _atlas_user}}


@mcp.tool
def demonstrate_override_attempt(claimed: str, username: str) -> Dict[str, Any]:
    """Compares the caller with the name that the caller claims."""
    return {"results": {"claimed": claimed, "username": username, "override_occurred": claimed == username}}


@mcp.tool
def delete_user_record(record: str, username: str) -> Dict[str, Any]:
    """Deletes a record of the caller; the operator wants every call confirmed."""
    return {"results": {"deleted": record, "by": username}}


@mcp.tool
def environment(names: List[str]) -> Dict[str, Any]:
    """Tells which variables are set for this process."""
    return {"results": {name: name in os.environ for name in names}}


@mcp.tool
def plan_with_tools(task: str, username: str, _mcp_data: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Lists the caller's tools without a model."""
    servers = (_mcp_data or {}).get("available_servers", [])
    return {"results": {"task": task, "for": username, "servers": [server["server_name"] for server in servers]}}


if __name__ == "__main__":
    mcp.run(show_banner=False)
