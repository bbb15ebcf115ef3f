// Runs the chat: asks the model, makes the calls that it requests as the signed-in user, and waits for the person where a
// call needs a decision or an answer. It goes on while other pages are open.

import { ApiError, api, send } from '../api/client';
import { cancelCall, queryClient } from '../api/queries';
import { cancelRequest, newRequestName } from '../api/running';
import { type Json, type JsonObject, isObject, parseJson } from '../lib/json';
import { type CallOutcome, outcomeOf } from '../pages/question';
import { type ChatCall, type ChatItem, type ChatMessage, type ChatState, type RequestedCall, type ShownFile, bounded, cut, fileToShow, textOf, trimmed } from './conversation';
import { onLeave } from './leave';
import { nextTurn } from './turn';

const MAX_ROUNDS = 16;
const MAX_CALLS = 16;
const POLL_MS = 1000;
const LOOKUPS = ['mcp_tool_search', 'mcp_tool_list', 'mcp_tool_describe'];
const STOPPED = 'error: the person stopped this call';

let state: ChatState = { items: [], isBusy: false, file: null };
let messages: ChatMessage[] = [];
let sessionName = newSession();
let stopper: AbortController | null = null;
let nextKey = 1;
/** Where the answers to open questions of servers go. */
const waiting = new Map<string, (outcome: CallOutcome) => void>();
const listeners = new Set<() => void>();

function newSession(): string {
  return `chat-${Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

function set(change: Partial<ChatState>) {
  state = { ...state, ...change };
  listeners.forEach((listener) => listener());
}

function add(item: ChatItem) {
  set({ items: bounded([...state.items, item]) });
}

function edit(key: number, change: (item: Extract<ChatItem, { kind: 'model' }>) => Partial<Extract<ChatItem, { kind: 'model' }>>) {
  set({ items: state.items.map((item) => (item.key === key && item.kind === 'model' ? { ...item, ...change(item) } : item)) });
}

export const chat = {
  get: () => state,
  subscribe(listener: () => void) {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  },
  showFile: (file: ShownFile | null) => set({ file }),
  /** Passes on what a question of a server was answered with. */
  answered(call: string, outcome: CallOutcome) {
    waiting.get(call)?.(outcome);
  },
  stop() {
    stopper?.abort();
  },
  clear() {
    stopper?.abort();
    stopper = null;
    messages = [];
    sessionName = newSession();
    set({ items: [], isBusy: false, file: null });
  },
  async say(text: string, model: string | null) {
    if (state.isBusy) return;
    const own = new AbortController();
    stopper = own;
    add({ key: nextKey++, kind: 'person', text });
    messages = trimmed([...messages, { role: 'user', content: cut(text, 60_000) }]);
    set({ isBusy: true });
    try {
      await rounds(model, own.signal);
    } catch (error) {
      if (!own.signal.aborted) add({ key: nextKey++, kind: 'problem', error: ApiError.of(error) });
    } finally {
      if (stopper === own) {
        stopper = null;
        set({ isBusy: false });
      }
    }
  },
};

onLeave(() => chat.clear());

/** A chat that was cleared must not get messages of its last turn. */
const isCurrent = (signal: AbortSignal) => stopper?.signal === signal;

async function rounds(model: string | null, signal: AbortSignal) {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const key = nextKey++;
    add({ key, kind: 'model', text: '', isOpen: true, calls: [] });
    let turn;
    try {
      turn = await nextTurn(messages, model, signal, (piece) => edit(key, (item) => ({ text: item.text + piece })));
    } catch (error) {
      const shown = state.items.find((item) => item.key === key);
      const text = shown?.kind === 'model' ? shown.text : '';
      if (signal.aborted && text && isCurrent(signal)) messages = [...messages, { role: 'assistant', content: `${text} (stopped by the person)` }];
      edit(key, () => ({ isOpen: false }));
      if (!text) set({ items: state.items.filter((item) => item.key !== key) });
      throw error;
    }
    const requested = turn.calls.map(understood);
    edit(key, () => ({ text: turn.text, isOpen: false, finish: turn.finish, tokens: turn.prompt_tokens + turn.completion_tokens, calls: requested.map((entry) => entry.shown) }));
    if (signal.aborted) return;
    messages = trimmed([...messages, { role: 'assistant', content: turn.text || null, ...(turn.calls.length ? { calls: turn.calls } : {}) }]);
    if (turn.calls.length === 0) return;
    const update = (id: string, change: Partial<ChatCall>) => edit(key, (item) => ({ calls: item.calls.map((call) => (call.id === id ? { ...call, ...change } : call)) }));
    // Every requested call gets an answer, also after a stop: endpoints refuse a conversation with a call without one.
    const answers: ChatMessage[] = [];
    for (const [number, { shown, wrong }] of requested.entries()) {
      let content = wrong ?? STOPPED;
      if (number >= MAX_CALLS) content = `error: not called: at most ${MAX_CALLS} calls at once`;
      else if (wrong === undefined && !signal.aborted) content = await perform(shown, signal, (change) => update(shown.id, change));
      if (content.startsWith('error: not called') || wrong !== undefined) update(shown.id, { state: 'failed', note: content });
      else if (content === STOPPED) update(shown.id, { state: 'stopped' });
      answers.push({ role: 'tool', call: turn.calls[number]?.id ?? '', content: cut(content) });
    }
    if (!isCurrent(signal)) return;
    messages = [...messages, ...answers];
    if (signal.aborted) return;
  }
  throw new ApiError(0, 'llm.no-end', `The model gave no final answer within ${MAX_ROUNDS} rounds.`, 'Ask for less at once, or use another model.');
}

interface Understood {
  shown: ChatCall;
  /** What the model did wrong. */
  wrong?: string;
}

/** The call that the model means: the meta tool for calls is replaced by the tool that it names. */
export function understood(call: RequestedCall): Understood {
  const shown: ChatCall = { id: call.id, tool: call.name, isLookup: LOOKUPS.includes(call.name), arguments: call.arguments, state: 'running' };
  let given: Json;
  try {
    given = parseJson(call.arguments.trim() || '{}');
  } catch {
    return { shown, wrong: 'error: the arguments are not valid JSON' };
  }
  if (!isObject(given)) return { shown, wrong: 'error: the arguments must be a JSON object' };
  if (call.name !== 'mcp_tool_call') return { shown: { ...shown, arguments: given } };
  let inner: Json | undefined = given['arguments'] ?? {};
  try {
    // Some models encode the object as a string.
    if (typeof inner === 'string') inner = parseJson(inner);
  } catch {
    inner = undefined;
  }
  const name = given['name'];
  if (typeof name !== 'string' || name.trim() === '') return { shown, wrong: 'error: `name` is missing' };
  if (!isObject(inner)) return { shown: { ...shown, tool: name }, wrong: 'error: `arguments` must be an object' };
  return { shown: { ...shown, tool: name.trim(), arguments: inner } };
}

/** What was stopped may have ended already, so a failure to cancel it is not an error. */
const withdraw = (cancelling: Promise<unknown>) => void cancelling.catch(() => undefined);

/** Sends a call. Stop cancels this call at the gateway, and no other call of the same tool. */
async function sendCall(call: ChatCall, request: string, signal: AbortSignal): Promise<CallOutcome> {
  const body = { arguments: call.arguments as JsonObject, session: sessionName, wait: 0, sampling: true, request };
  const own = new AbortController();
  // The request ends after the call was cancelled: without it the gateway would not find the call.
  const stop = () => withdraw(cancelRequest(request).finally(() => own.abort()));
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await outcomeOf(await send('POST', '/tools/{name}/call', { params: { name: call.tool }, body, signal: own.signal }));
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Makes a call and returns its text for the model. */
async function perform(call: ChatCall, signal: AbortSignal, update: (change: Partial<ChatCall>) => void): Promise<string> {
  try {
    const request = newRequestName();
    update({ request });
    let outcome = await sendCall(call, request, signal);
    for (;;) {
      update({ outcome });
      if (outcome.kind === 'question') {
        update({ state: 'asks' });
        outcome = await answerOf(outcome.call, signal);
        continue;
      }
      if (outcome.kind === 'held') return await decided(outcome, signal, update);
      const { result } = outcome;
      const isError = isObject(result) && result['isError'] === true;
      update({ state: isError ? 'failed' : 'done' });
      const file = fileToShow(result, state.file);
      if (file && matchMedia('(min-width: 1000px)').matches) set({ file });
      return textOf(result);
    }
  } catch (error) {
    if (signal.aborted) return STOPPED;
    const problem = ApiError.of(error);
    update({ state: 'failed', error: problem });
    return `error [${problem.code}]: ${problem.message}${problem.hint ? ` (${problem.hint})` : ''}`;
  }
}

/** Waits until the person has answered a question of the server. */
function answerOf(call: string, signal: AbortSignal): Promise<CallOutcome> {
  return new Promise((resolve, reject) => {
    const end = () => waiting.delete(call);
    signal.addEventListener('abort', () => { end(); withdraw(cancelCall(call)); reject(new Error('stopped')); }, { once: true });
    waiting.set(call, (outcome) => { end(); resolve(outcome); });
  });
}

/** Waits until a held call was decided and, if it was approved, has run. */
async function decided(held: Extract<CallOutcome, { kind: 'held' }>, signal: AbortSignal, update: (change: Partial<ChatCall>) => void): Promise<string> {
  update({ state: 'held', held: held.held });
  for (;;) {
    const found = await api.get('/approvals/{id}', { params: { id: held.held }, signal });
    // A step of a plan waits until the whole plan is approved.
    if (found.kind === 'plan') {
      update({ held: undefined, note: 'It is a step of a plan now. The inbox shows the plan.' });
      return `not run yet, held as ${held.held}: ${held.message}`;
    }
    if (found.outcome) {
      const result = found.outcome.result as Json | undefined;
      if (result != null) {
        const isError = isObject(result) && result['isError'] === true;
        update({ state: isError ? 'failed' : 'done', outcome: { kind: 'result', call: found.id, result, warnings: [] } });
        const file = fileToShow(result, state.file);
        if (file && matchMedia('(min-width: 1000px)').matches) set({ file });
        return textOf(result);
      }
      update({ state: found.outcome.kind === 'done' ? 'done' : 'failed', note: `${found.outcome.kind} ${found.outcome.code ?? ''}` });
      return `${found.outcome.kind} ${found.outcome.code ?? ''}`;
    }
    if (found.state !== 'pending' && found.state !== 'approved' && found.state !== 'running') {
      const reason = found.decision_note ? `: ${found.decision_note}` : '';
      update({ state: 'failed', note: `${found.state}${reason}` });
      return `error: the call was ${found.state} by a person${reason}`;
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, POLL_MS);
      signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
    });
    // The held call stays in the inbox.
    if (signal.aborted) return STOPPED;
    void queryClient.invalidateQueries({ queryKey: ['approvals', 'one', held.held] });
  }
}
