// Results of calls that were made in this tab. The gateway stores files, and results of held calls, but no other results; so
// that the Canvas can show such a result again, also after a reload, the tab keeps the newest ones.

import { type Json, type JsonObject, parseJson } from './json';

export interface KeptResult {
  tool: string;
  given: JsonObject;
  result: Json;
}

const PREFIX = 'toolbooth-result:';
const MAX_RESULTS = 10;
const MAX_CHARACTERS = 400_000;

const keptKeys = () => Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX));

/** Keeps the result of a call, unless it is large. Ids of calls are in the order of time. */
export function keepResult(call: string, kept: KeptResult) {
  const text = JSON.stringify(kept);
  if (text.length > MAX_CHARACTERS) return;
  const old = keptKeys().sort().slice(0, -(MAX_RESULTS - 1));
  for (const key of old) sessionStorage.removeItem(key);
  try {
    sessionStorage.setItem(PREFIX + call, text);
  } catch {
    // The storage of the tab is full. The result is still shown where it was made.
  }
}

export function keptResult(call: string): KeptResult | null {
  const text = sessionStorage.getItem(PREFIX + call);
  return text === null ? null : (parseJson(text) as unknown as KeptResult);
}

/** Results belong to their user, not to the browser. */
export function forgetResults() {
  for (const key of keptKeys()) sessionStorage.removeItem(key);
}
