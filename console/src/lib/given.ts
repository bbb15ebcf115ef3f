// The arguments of a held call.

import { type JsonObject, isObject } from './json';

interface HeldArguments {
  arguments: unknown;
  edited?: unknown;
}

/** The arguments that the caller sent. */
export const sentArguments = ({ arguments: sent }: HeldArguments): JsonObject => (isObject(sent) ? sent : {});

/** The arguments that the call runs with: those of the person who changed them, else those that were sent. */
export const givenOf = (call: HeldArguments): JsonObject => (isObject(call.edited) ? call.edited : sentArguments(call));
