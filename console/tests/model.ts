// A language model for tests: an OpenAI-compatible endpoint that streams scripted replies in order.

import { type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A text, a call of a tool, or a text that never ends. */
export type Reply = string | { call: string; arguments: object } | { endless: string };

export interface TestModel {
  url: string;
  /** The requests that it got. */
  seen: { model: string; messages: { role: string; content: string | null }[] }[];
  stop(): void;
}

function chunk(response: ServerResponse, delta: object, finish: string | null = null) {
  response.write(`data: ${JSON.stringify({ model: 'test-1', choices: [{ delta, finish_reason: finish }] })}\n\n`);
}

function answer(response: ServerResponse, reply: Reply | undefined) {
  if (reply === undefined) {
    response.writeHead(500).end('{}');
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if (typeof reply === 'object' && 'endless' in reply) {
    chunk(response, { content: reply.endless });
    return;
  }
  if (typeof reply === 'string') {
    for (const word of reply.split(/(?<= )/)) chunk(response, { content: word });
    chunk(response, {}, 'stop');
  } else {
    const call = { index: 0, id: `call-${Math.random()}`, type: 'function', function: { name: reply.call, arguments: JSON.stringify(reply.arguments) } };
    chunk(response, { tool_calls: [call] });
    chunk(response, {}, 'tool_calls');
  }
  response.end('data: [DONE]\n\n');
}

export async function startModel(replies: Reply[]): Promise<TestModel> {
  const seen: TestModel['seen'] = [];
  const server: Server = createServer((request, response) => {
    let body = '';
    request.on('data', (piece: Buffer) => { body += piece.toString(); });
    request.on('end', () => {
      seen.push(JSON.parse(body) as TestModel['seen'][number]);
      answer(response, replies.shift());
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, seen, stop: () => { server.closeAllConnections(); server.close(); } };
}
