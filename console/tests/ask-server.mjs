// An MCP server for tests of calls: it asks questions during calls, works slowly, and has a tool with an app.
import { createInterface } from 'node:readline';

const FORM = { type: 'object', required: ['name'], properties: { name: { type: 'string', title: 'Name of the guest' }, guests: { type: 'integer', minimum: 1 } } };
const TOOLS = [
  { name: 'ask_guest', description: 'Asks who comes.', annotations: { readOnlyHint: true }, inputSchema: { type: 'object', properties: {} } },
  { name: 'pay_deposit', description: 'Asks to pay on a page.', annotations: { readOnlyHint: true }, inputSchema: { type: 'object', properties: {} } },
  { name: 'work_slowly', description: 'Works for some seconds.', annotations: { readOnlyHint: true }, inputSchema: { type: 'object', properties: { seconds: { type: 'number' } } } },
];
const BOARD = 'ui://inn/board';
TOOLS.push(
  { name: 'show_board', description: 'Shows the guests.', annotations: { readOnlyHint: true }, inputSchema: { type: 'object', properties: { day: { type: 'string' } } }, _meta: { ui: { resourceUri: BOARD } } },
  { name: 'add_guest', description: 'Adds a guest.', inputSchema: { type: 'object', properties: { name: { type: 'string' } } }, _meta: { ui: { resourceUri: BOARD, visibility: ['app', 'model'] } } },
);
// The smallest app: it shows what it is given, adds a guest, and tries what it must not do.
const APP = `<h1>Guests</h1><p id="theme"></p><p id="given"></p><p id="result"></p><button id="add">Add Bo</button><p id="added"></p><p id="other"></p><p id="network"></p><script>
  let next = 1;
  const waiting = new Map();
  const ask = (method, params) => new Promise((done, fail) => { const id = next++; waiting.set(id, [done, fail]); parent.postMessage({ jsonrpc: '2.0', id, method, params }, '*'); });
  const tell = (method, params) => parent.postMessage({ jsonrpc: '2.0', method, params }, '*');
  const show = (id, text) => { document.getElementById(id).textContent = text; };
  addEventListener('message', ({ data }) => {
    if (data.id && waiting.has(data.id)) { const [done, fail] = waiting.get(data.id); data.error ? fail(new Error(data.error.message)) : done(data.result); }
    if (data.method === 'ui/notifications/host-context-changed') show('theme', data.params.theme + ' ' + data.params.styles.variables['--color-text-primary']);
    if (data.method === 'ui/notifications/tool-input') show('given', 'for ' + data.params.arguments.day);
    if (data.method === 'ui/notifications/tool-result') show('result', data.params.content[0].text);
  });
  document.getElementById('add').onclick = () => ask('tools/call', { name: 'add_guest', arguments: { name: 'Bo' } }).then((answer) => show('added', answer.content[0].text), (error) => show('added', 'error: ' + error.message));
  ask('ui/initialize', { protocolVersion: '2026-01-26', appInfo: { name: 'board', version: '1' }, appCapabilities: {} }).then(({ hostContext }) => { show('theme', hostContext.theme + ' ' + hostContext.styles.variables['--color-text-primary']); tell('ui/notifications/initialized', {}); tell('ui/notifications/size-changed', { height: 260 }); });
  ask('tools/call', { name: '../hostile.show_html', arguments: {} }).then(() => show('other', 'other server called'), () => show('other', 'other server refused'));
  fetch('/me').then(() => show('network', 'network open'), () => show('network', 'network blocked'));
</script>`;
const PROMPT = { name: 'greet_guests', description: 'Writes to the guests from a town.', arguments: [{ name: 'town', description: 'Where they come from', required: true }] };
const TOWNS = ['Oslo', 'Osaka', 'Turku'];
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const QUESTIONS = {
  ask_guest: {
    method: 'elicitation/create',
    params: { message: 'Who comes <b>tonight</b>?', requestedSchema: FORM },
    read: (answer) => (answer?.action === 'accept' ? `Welcome, ${answer.content.name}!` : `The answer was ${answer?.action ?? 'missing'}.`),
  },
  pay_deposit: {
    method: 'elicitation/create',
    params: { mode: 'url', elicitationId: 'deposit-1', url: 'https://pay.example/deposit?booking=7', message: 'Pay the deposit, please.' },
    read: (answer) => `The deposit: ${answer?.action ?? 'missing'}.`,
  },
};
const asked = new Map();
const timers = new Map();
let questions = 0;

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params, result } = JSON.parse(line);
  if (method === 'notifications/cancelled') {
    clearTimeout(timers.get(params.requestId));
    return;
  }
  if (id === undefined) return;
  if (asked.has(id)) {
    const { call, read } = asked.get(id);
    send({ id: call, result: text(read(result)) });
    asked.delete(id);
  } else if (method === 'initialize') send({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {}, resources: {}, prompts: {}, completions: {} }, serverInfo: { name: 'inn', version: '1' } } });
  else if (method === 'tools/list') send({ id, result: { tools: TOOLS } });
  else if (method === 'prompts/list') send({ id, result: { prompts: [PROMPT] } });
  else if (method === 'prompts/get') send({ id, result: { messages: [{ role: 'user', content: { type: 'text', text: `Write to the guests from ${params.arguments.town}.` } }] } });
  else if (method === 'completion/complete') send({ id, result: { completion: { values: TOWNS.filter((town) => town.startsWith(params.argument.value)), total: 1, hasMore: false } } });
  else if (method === 'resources/list') send({ id, result: { resources: [{ uri: BOARD, name: 'board', mimeType: 'text/html;profile=mcp-app' }] } });
  else if (method === 'resources/templates/list') send({ id, result: { resourceTemplates: [] } });
  else if (method === 'resources/read') send({ id, result: { contents: [{ uri: BOARD, mimeType: 'text/html;profile=mcp-app', text: APP }] } });
  else if (method === 'tools/call' && params.name === 'show_board') send({ id, result: text('two guests') });
  else if (method === 'tools/call' && params.name === 'add_guest') send({ id, result: text(`added ${params.arguments.name}`) });
  else if (method === 'tools/call' && QUESTIONS[params.name]) {
    const { read, ...question } = QUESTIONS[params.name];
    questions += 1;
    asked.set(`question-${questions}`, { call: id, read });
    send({ id: `question-${questions}`, ...question });
  } else if (method === 'tools/call') timers.set(id, setTimeout(() => send({ id, result: text('done at last') }), 1000 * (params.arguments?.seconds ?? 1)));
  else send({ id, result: {} });
});
