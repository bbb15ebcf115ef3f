// An MCP server with as many tools as its argument says.
import { createInterface } from 'node:readline';

const TOOLS = Array.from({ length: Number(process.argv[2] ?? 100) }, (_, index) => ({
  name: `tool_${String(index).padStart(5, '0')}`,
  description: `Does thing number ${index} for the people who ask for it.`,
  annotations: { readOnlyHint: true },
  inputSchema: { type: 'object', properties: { text: { type: 'string', description: `The text for thing number ${index}.` } } },
}));

createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line);
  if (message.id === undefined) return;
  const answer = (result) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id: message.id, result })}\n`);
  if (message.method === 'initialize') answer({ protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'many', version: '1' } });
  else if (message.method === 'tools/list') answer({ tools: TOOLS });
  else if (message.method === 'tools/call') answer({ content: [{ type: 'text', text: `done ${message.params.name}` }] });
  else answer({});
});
