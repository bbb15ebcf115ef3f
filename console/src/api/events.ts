// The live event stream. One tab of the browser reads it and passes events to the others: browsers open at most six
// connections to one HTTP/1.1 host, so a stream per tab would block the seventh tab.

import { send } from './client';

export interface GatewayEvent {
  id?: string;
  type: string;
  at_ms: number;
  user?: string;
  server?: string;
  tool?: string;
  call?: string;
  duration_ms?: number;
  outcome?: string;
  code?: string;
  reason?: string;
  data?: Record<string, unknown>;
}

export type StreamState = 'connecting' | 'live' | 'lost' | 'refused';

interface Message {
  event?: GatewayEvent;
  state?: StreamState;
  /** The id to continue after. */
  last?: string;
  /** A new tab asks the reader for the current state. */
  ask?: true;
}

type EventListener = (event: GatewayEvent) => void;
const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 10_000;
/** The gateway sends a keep-alive comment more often than this. */
const SILENCE_MS = 60_000;

const listeners = new Set<EventListener>();
const stateListeners = new Set<() => void>();
let state: StreamState = 'connecting';
let since = Date.now();
/** The last event of each identity that this tab has heard of: a tab that becomes the reader continues after it. */
const lastIds = new Map<string, string>();

export const stream = {
  state: () => state,
  /** When the state last changed. */
  since: () => since,
  onState(listener: () => void): () => void {
    stateListeners.add(listener);
    return () => stateListeners.delete(listener);
  },
  onEvent(listener: EventListener): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

function setState(next: StreamState) {
  if (state === next) return;
  state = next;
  since = Date.now();
  stateListeners.forEach((listener) => listener());
}

/** Follows the events of one identity until the returned function is called. */
export function followEvents(identityName: string): () => void {
  const stop = new AbortController();
  setState('connecting');
  const name = `toolbooth-events:${location.host}:${identityName}`;
  if (!('locks' in navigator) || typeof BroadcastChannel === 'undefined') {
    // Only secure contexts have locks: over plain HTTP from another machine each tab reads for itself.
    void read(name, stop.signal, (message) => deliver(name, message));
    return () => stop.abort();
  }
  const channel = new BroadcastChannel(name);
  let isReader = false;
  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    if (data.ask && isReader) channel.postMessage({ state } satisfies Message);
    else if (!isReader) deliver(name, data);
  };
  channel.postMessage({ ask: true } satisfies Message);
  const publish = (message: Message) => {
    deliver(name, message);
    channel.postMessage(message);
  };
  navigator.locks
    .request(name, { signal: stop.signal }, async () => {
      isReader = true;
      await read(name, stop.signal, publish);
    })
    .catch(() => undefined);
  return () => {
    stop.abort();
    channel.close();
  };
}

function deliver(name: string, message: Message) {
  if (message.last) lastIds.set(name, message.last);
  if (message.state) setState(message.state);
  if (message.event) listeners.forEach((listener) => listener(message.event as GatewayEvent));
}

async function read(name: string, signal: AbortSignal, publish: (message: Message) => void) {
  let delay = FIRST_DELAY_MS;
  while (!signal.aborted) {
    // A stream that is silent for too long is taken as lost and opened again.
    const attempt = new AbortController();
    const end = () => attempt.abort();
    signal.addEventListener('abort', end);
    let timer = setTimeout(end, SILENCE_MS);
    try {
      const headers: Record<string, string> = { accept: 'text/event-stream' };
      const last = lastIds.get(name);
      if (last) headers['last-event-id'] = last;
      const response = await send('GET', '/events', { headers, signal: attempt.signal });
      publish({ state: 'live' });
      delay = FIRST_DELAY_MS;
      for await (const block of blocks(response)) {
        clearTimeout(timer);
        timer = setTimeout(end, SILENCE_MS);
        const last = block.id ? { last: block.id } : {};
        if (block.data) publish({ ...last, event: JSON.parse(block.data) as GatewayEvent });
        else if (block.id) publish(last);
      }
      publish({ state: 'lost' });
    } catch (error) {
      if (signal.aborted) return;
      const status = (error as { status?: number }).status;
      // The gateway does not know the event, for example after its store was replaced.
      if (status === 400) lastIds.delete(name);
      if (status === 401 || status === 403) {
        publish({ state: 'refused' });
        return;
      }
      publish({ state: 'lost' });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
    }
    await new Promise((resolve) => setTimeout(resolve, delay * (0.75 + Math.random() / 2)));
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  }
}

/** Splits a response into server-sent events. */
async function* blocks(response: Response): AsyncGenerator<{ id?: string; data?: string }> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let buffer = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer = (buffer + value).replace(/\r\n?/g, '\n');
    for (let end = buffer.indexOf('\n\n'); end >= 0; end = buffer.indexOf('\n\n')) {
      const block: { id?: string; data?: string } = {};
      for (const line of buffer.slice(0, end).split('\n')) {
        const [, field, text] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (field === 'id') block.id = text;
        if (field === 'data') block.data = block.data === undefined ? text : `${block.data}\n${text}`;
      }
      buffer = buffer.slice(end + 2);
      yield block;
    }
  }
}
