// Requests for the model's next turn: a stream of events over `POST /chat`.

import { ApiError, type Schemas, send } from '../api/client';
import type { ChatMessage, RequestedCall } from './conversation';

export interface Turn {
  text: string;
  calls: RequestedCall[];
  model: string;
  finish: string;
  prompt_tokens: number;
  completion_tokens: number;
}

type ChatEvent = { type: 'text'; text: string } | ({ type: 'turn' } & Turn) | { type: 'failed'; problem: Schemas['Problem'] };

/** The data of the complete events at the beginning of a text, and the rest of it. */
export function eventsIn(text: string): [string[], string] {
  const parts = text.split('\n\n');
  const rest = parts.pop() ?? '';
  const data = parts.map((part) => part.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\n'));
  return [data.filter((part) => part !== ''), rest];
}

/** Gets the next turn. `onText` receives each piece of its text. */
export async function nextTurn(messages: ChatMessage[], model: string | null, signal: AbortSignal, onText: (piece: string) => void): Promise<Turn> {
  const response = await send('POST', '/chat', { body: { messages, ...(model ? { model } : {}) }, signal, headers: { accept: 'text/event-stream' } });
  const reader = response.body?.getReader();
  if (!reader) throw new ApiError(0, 'console.error', 'The answer has no content.', null);
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new ApiError(0, 'console.cut-off', 'The answer of the gateway ended early.', 'Send the message again.');
    const [events, rest] = eventsIn(text + decoder.decode(value, { stream: true }));
    text = rest;
    for (const data of events) {
      const event = JSON.parse(data) as ChatEvent;
      if (event.type === 'text') onText(event.text);
      else if (event.type === 'turn') return event;
      else throw new ApiError(event.problem.status, event.problem.code, event.problem.title, event.problem.hint ?? null);
    }
  }
}
