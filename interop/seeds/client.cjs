// The official TypeScript SDK, 2.x: runs the steps of its argument and prints their results as JSON.
//
// {"url", "headers", "name"?, "answer"?, "steps": [{"list": true} | {"call": NAME, "arguments": {}} | {"prompts": true}]}

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

async function main() {
  const { url, headers, steps, name, answer, mode } = JSON.parse(process.argv[2]);
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  const client = new Client(
    { name: name ?? "seeds-typescript", version: "1" },
    { capabilities: answer ? { elicitation: { form: {} } } : {}, versionNegotiation: { mode: mode ?? "legacy" } },
  );
  if (answer) client.setRequestHandler("elicitation/create", async () => answer);
  await client.connect(transport);
  const results = [];
  for (const step of steps) {
    try {
      if (step.list) results.push((await client.listTools()).tools);
      else if (step.prompts) results.push((await client.listPrompts()).prompts);
      else results.push(await client.callTool({ name: step.call, arguments: step.arguments ?? {} }));
    } catch (error) {
      results.push({ error: String(error.message ?? error) });
    }
  }
  await client.close();
  console.log(JSON.stringify(results));
}

main().catch(error => {
  console.error(error);
  process.exitCode = 1;
});
