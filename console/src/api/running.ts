// Cancelling a call before it has been answered. The id of a call is in its answer, so until then the call is found by the
// name that this page gave to the request.

import { fetchJson } from './client';
import { type RunningCall, cancelCall } from './queries';

/** A name for a request that no other request has. */
export const newRequestName = (): string => `console-${Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;

/** Cancels the call of a request, and no other call. Returns whether it was still running. */
export async function cancelRequest(name: string): Promise<boolean> {
  const { calls } = await fetchJson<{ calls: RunningCall[] }>('GET', '/calls/running');
  const own = calls.find((call) => call.request === name);
  if (own) await cancelCall(own.id);
  return own !== undefined;
}
