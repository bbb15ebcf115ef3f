// A server over HTTP that answers every other call with 429 and Retry-After: `node limited.cjs PORT`. No library.

const http = require("node:http");

const tools = [
  { name: "get_quota", description: "Tell how much is left.", inputSchema: { type: "object", properties: {} }, annotations: { readOnlyHint: true } },
  { name: "buy_quota", description: "Buy more.", inputSchema: { type: "object", properties: {} } },
];
let calls = 0;

function answer({ method, params, id }) {
  if (method === "initialize")
    return { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "limited", version: "1" } };
  if (method === "tools/list") return { tools };
  if (method === "ping") return {};
  if (method === "tools/call") return { content: [{ type: "text", text: `${params.name} after ${calls} requests` }] };
  return undefined;
}

http
  .createServer((request, response) => {
    let body = "";
    request.on("data", part => (body += part));
    request.on("end", () => {
      if (request.method !== "POST") return response.writeHead(405).end();
      const message = JSON.parse(body);
      if (message.id === undefined) return response.writeHead(202).end();
      if (message.method === "tools/call" && ++calls % 2 === 1) {
        response.writeHead(429, { "Retry-After": "1", "Content-Type": "text/plain" });
        return response.end("slow down");
      }
      const result = answer(message);
      const error = { code: -32601, message: "method not found" };
      const reply = { jsonrpc: "2.0", id: message.id, ...(result ? { result } : { error }) };
      response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(reply));
    });
  })
  .listen(Number(process.argv[2]), "127.0.0.1");
