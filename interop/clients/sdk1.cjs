// The official TypeScript SDK, 1.x: sessions only.

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");
const tour = require("./tour.cjs");

async function main() {
  const { url, command } = tour.target();
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1) });
  const told = [];
  const client = new Client(
    { name: "tour-typescript-1", version: "1" },
    { capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} } },
  );
  client.setRequestHandler(types.ElicitRequestSchema, async () => tour.answers.elicitation);
  client.setRequestHandler(types.CreateMessageRequestSchema, async request => tour.answers.sample(request.params));
  client.setRequestHandler(types.ListRootsRequestSchema, async () => tour.answers.roots);
  client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => told.splice(0).forEach(tell => tell()));
  await client.connect(transport);
  await tour.take({
    client,
    era: "legacy",
    // The transport keeps the version only over HTTP.
    version: transport.protocolVersion ?? "2025-11-25",
    serverName: client.getServerVersion().name,
    told,
    // The schema of the result comes first.
    options: options => [undefined, options],
  });
  await client.close();
}

main().catch(error => {
  console.error(error);
  process.exitCode = 1;
});
