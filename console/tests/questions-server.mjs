// An MCP server for tests of questions: it sends the user to a page, and asks for an answer of a language model.
import { createInterface } from 'node:readline';

const TOOLS = ['open_page', 'open_script', 'ask_model'].map((name) => ({ name, description: 'Asks.', annotations: { readOnlyHint: true }, inputSchema: { type: 'object', properties: {} } }));
const MODEL = {
  messages: [{ role: 'user', content: { type: 'text', text: 'Write <b>a poem</b>.' } }],
  systemPrompt: 'You are a poet.', maxTokens: 50, modelPreferences: { hints: [{ name: 'small' }] },
};
const QUESTIONS = {
  open_page: ['elicitation/create', { mode: 'url', elicitationId: 'visit', message: 'Please pay <b>now</b>.', url: 'https://pay.example/bill?id=1' }],
  open_script: ['elicitation/create', { mode: 'url', elicitationId: 'script', message: 'Please pay.', url: 'javascript:alert(1)' }],
  ask_model: ['sampling/createMessage', MODEL],
};
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const asked = new Map();

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (id === undefined) return;
  if (asked.has(id)) {
    send({ id: asked.get(id), result: text(error ? `refused: ${error.message}` : `answered: ${result.action ?? result.content.text}`) });
    asked.delete(id);
  } else if (method === 'initialize') send({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'asker', version: '1' } } });
  else if (method === 'tools/list') send({ id, result: { tools: TOOLS } });
  else if (method === 'tools/call') {
    const question = `question-${asked.size}-${id}`;
    asked.set(question, id);
    const [ask, given] = QUESTIONS[params.name];
    send({ id: question, method: ask, params: given });
    // The person may finish on the page before the console knows it.
    if (params.name === 'open_page') setTimeout(() => send({ method: 'notifications/elicitation/complete', params: { elicitationId: 'visit' } }), 300);
  } else send({ id, result: {} });
});
