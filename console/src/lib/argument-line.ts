// The main arguments of a call in one line: `to: bo@example.org, subject: Hello`.

import { visible } from './hidden';
import type { Json, JsonObject } from './json';
import { rawNumber } from './json';

const MAX_VALUE = 60;

function valueOf(value: Json): string {
  const text = typeof value === 'string' ? value.replace(/\s+/g, ' ').trim() : rawNumber(value) ?? JSON.stringify(value);
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text;
}

/** How much a value tells about the call: short texts and numbers first, then lists and objects, then long texts. */
function rankOf(value: Json): number {
  if (typeof value === 'string') return value.length <= 2 * MAX_VALUE ? 0 : 2;
  return typeof value === 'object' && value !== null && rawNumber(value) === undefined ? 1 : 0;
}

/** The arguments, the ones that tell most first. Hidden characters are shown as codes. */
export function argumentLine(given: JsonObject, limit = 160): string {
  const entries = Object.entries(given).filter(([, value]) => value !== null && value !== '');
  if (entries.length === 0) return 'no arguments';
  const sorted = entries.map((entry, index) => ({ entry, index })).sort((left, right) => rankOf(left.entry[1]) - rankOf(right.entry[1]) || left.index - right.index);
  const text = sorted.map(({ entry: [name, value] }) => `${name}: ${valueOf(value)}`).join(', ');
  return visible(text.length > limit ? `${text.slice(0, limit)}…` : text) as string;
}
