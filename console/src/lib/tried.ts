// The arguments with which a tool was last tried in this tab, so that its form has them again.

import { type JsonObject, isObject, parseJson } from './json';

const keyOf = (tool: string) => `toolbooth-try:${tool}`;

export function rememberArguments(tool: string, value: JsonObject) {
  sessionStorage.setItem(keyOf(tool), JSON.stringify(value));
}

export function rememberedArguments(tool: string): JsonObject {
  try {
    const stored = parseJson(sessionStorage.getItem(keyOf(tool)) ?? '{}');
    return isObject(stored) ? stored : {};
  } catch {
    return {};
  }
}
