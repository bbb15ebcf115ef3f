// The arguments of a call: as it was sent, as a person changed it, and as its record has them.

import { type JsonObject, isObject, parseJson } from './json';

interface HeldArguments {
  arguments: unknown;
  edited?: unknown;
}

/** The arguments that the caller sent. */
export const sentArguments = ({ arguments: sent }: HeldArguments): JsonObject => (isObject(sent) ? sent : {});

/** The arguments that the call runs with: those of the person who changed them, else those that were sent. */
export const givenOf = (call: HeldArguments): JsonObject => (isObject(call.edited) ? call.edited : sentArguments(call));

/** The arguments of a record, without secrets; empty if the record has only their beginning. */
export function argumentsOf({ arguments_preview: text }: { arguments_preview?: string | null }): JsonObject {
  try {
    const given = parseJson(text ?? '{}');
    return isObject(given) ? given : {};
  } catch {
    return {};
  }
}
