"""A server without a library: one good tool, and one whose schema is not an object. An argument names the good one."""

import json
import sys

TOOLS = [
    {"name": (sys.argv[1:] or ["good"])[0], "description": "Answers with its text.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {"name": "bad", "description": "Has a schema that is not an object.", "inputSchema": {"type": "array", "items": {"type": "string"}}},
]

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method, params = request["method"], request.get("params") or {}
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    if method == "initialize":
        info = {"name": "odd_schema", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": TOOLS}
    elif method == "tools/call":
        text = str((params.get("arguments") or {}).get("text"))
        answer["result"] = {"content": [{"type": "text", "text": text}]}
    elif method == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "method not found"}
    print(json.dumps(answer), flush=True)
