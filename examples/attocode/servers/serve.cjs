// Serves a table of tools over standard input and output with the official SDK.

const { Server } = require("@modelcontextprotocol/sdk/server/index.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { CallToolRequestSchema, ListToolsRequestSchema } = require("@modelcontextprotocol/sdk/types.js");

/** A tool: `properties` is its schema, `required` the names that must be given, `run` its work. */
module.exports = function serve(name, tools) {
  const server = new Server({ name, version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: Object.entries(tools).map(([tool, { description, properties = {}, required, annotations }]) => ({
      name: tool,
      description,
      inputSchema: { type: "object", properties, ...(required ? { required } : {}) },
      ...(annotations ? { annotations } : {}),
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async (request, extra) => {
    const tool = tools[request.params.name];
    if (!tool) throw new Error(`unknown tool ${request.params.name}`);
    try {
      const text = await tool.run(request.params.arguments ?? {}, extra);
      return { content: [{ type: "text", text }] };
    } catch (error) {
      return { content: [{ type: "text", text: String(error.message) }], isError: true };
    }
  });
  return server.connect(new StdioServerTransport());
};
