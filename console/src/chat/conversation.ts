// The conversation of the chat: what the person sees, and the messages that the model gets. It is kept in memory only.

import { ApiError } from '../api/client';
import type { Json, JsonObject } from '../lib/json';
import type { CallOutcome } from '../pages/question';
import { resultHints } from '../ui/display';

export interface RequestedCall {
  id: string;
  name: string;
  arguments: string;
}

/** A message in the format of `POST /chat`. */
export interface ChatMessage {
  role: 'user' | 'assistant' | 'tool';
  content?: string | null;
  calls?: RequestedCall[];
  call?: string;
}

export type CallState = 'running' | 'held' | 'asks' | 'done' | 'failed' | 'stopped';

/** A call of the model, as the person sees it. */
export interface ChatCall {
  id: string;
  tool: string;
  /** Whether the model only looks for tools. */
  isLookup: boolean;
  arguments: Json;
  state: CallState;
  /** The name of the request, by which the call can be cancelled before it has an answer. */
  request?: string;
  held?: string;
  outcome?: CallOutcome;
  error?: ApiError;
  note?: string;
}

export type ChatItem =
  | { key: number; kind: 'person'; text: string }
  | { key: number; kind: 'model'; text: string; isOpen: boolean; calls: ChatCall[]; finish?: string; tokens?: number }
  | { key: number; kind: 'problem'; error: ApiError };

export interface ChatState {
  items: ChatItem[];
  isBusy: boolean;
  /** The file that the canvas beside the chat shows. */
  file: ShownFile | null;
}
export interface ShownFile {
  id: string;
  name: string;
  mime: string;
  size_bytes: number;
  version: number;
  /** The viewer that the result asks for. */
  hint?: string;
}

const MAX_ITEMS = 200;
const MAX_MESSAGES = 120;
const MAX_CHARACTERS = 240_000;
const MAX_RESULT = 24_000;

/** Cuts a text for the model. */
export function cut(text: string, longest = MAX_RESULT): string {
  return text.length <= longest ? text : `${text.slice(0, longest)}\n… (truncated: the first ${longest} of ${text.length} characters)`;
}

const sizeOf = (message: ChatMessage) =>
  (message.content?.length ?? 0) + (message.calls ?? []).reduce((sum, call) => sum + call.arguments.length + call.name.length, 0);

/** The messages without the oldest turns, each dropped as a whole: an answer without its call is refused by endpoints. */
export function trimmed(messages: ChatMessage[]): ChatMessage[] {
  let size = messages.reduce((sum, message) => sum + sizeOf(message), 0);
  let start = 0;
  while (size > MAX_CHARACTERS || messages.length - start > MAX_MESSAGES) {
    const next = messages.findIndex((message, index) => index > start && message.role === 'user');
    if (next < 0) break;
    size -= messages.slice(start, next).reduce((sum, message) => sum + sizeOf(message), 0);
    start = next;
  }
  return messages.slice(start);
}

/** What the person sees, with a limit. */
export const bounded = (items: ChatItem[]): ChatItem[] => (items.length > MAX_ITEMS ? items.slice(-MAX_ITEMS) : items);

interface Block {
  type?: string;
  text?: string;
  resource?: { text?: string };
}

/** The text of a result for the model: no images, no base64. */
export function textOf(result: Json): string {
  const members = (result ?? {}) as JsonObject;
  const blocks = (Array.isArray(members['content']) ? members['content'] : []) as unknown as Block[];
  const words = blocks.map((block) => block.text ?? block.resource?.text ?? `[${block.type ?? 'content'}]`).join('\n');
  const text = words || JSON.stringify(members['structuredContent'] ?? null);
  return `${members['isError'] === true ? 'error: ' : ''}${text}`;
}

/**
 * The file that a result wants to be shown, or its first one. A result can leave the canvas closed, and a mode other than
 * `replace` keeps the file that is open.
 */
export function fileToShow(result: Json, open: ShownFile | null): ShownFile | null {
  const meta = ((result ?? {}) as JsonObject)['_meta'] as JsonObject | undefined;
  const files = (Array.isArray(meta?.['toolbooth/artifacts']) ? meta['toolbooth/artifacts'] : []) as unknown as ShownFile[];
  const display = resultHints(result);
  const file = files.find((other) => other.name === display.primary_file) ?? files[0] ?? null;
  if (file === null || display.open_canvas === false) return null;
  if (open !== null && display.mode !== undefined && display.mode !== 'replace') return null;
  return display.viewer_hint === undefined ? file : { ...file, hint: display.viewer_hint };
}
