// The official TypeScript SDK, 2.x: both eras.

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const tour = require("./tour.cjs");

const MODES = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };

async function main() {
  const { url, command, era } = tour.target();
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1) });
  const told = [];
  const client = new Client(
    { name: "tour-typescript-2", version: "2" },
    {
      capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
      versionNegotiation: { mode: MODES[era] },
    },
  );
  client.setRequestHandler("elicitation/create", async () => tour.answers.elicitation);
  client.setRequestHandler("sampling/createMessage", async request => tour.answers.sample(request.params));
  client.setRequestHandler("roots/list", async () => tour.answers.roots);
  client.setNotificationHandler("notifications/tools/list_changed", () => told.splice(0).forEach(tell => tell()));
  await client.connect(transport);
  if (era !== "legacy") await client.listen({ toolsListChanged: true });
  await tour.take({
    client,
    era,
    version: client.getNegotiatedProtocolVersion(),
    serverName: client.getServerVersion()?.name,
    told,
    options: options => [options],
  });
  await client.close();
}

main().catch(error => {
  console.error(error);
  process.exitCode = 1;
});
