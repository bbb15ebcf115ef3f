// The session of this browser with the gateway. Its cookie is hidden from scripts. A request that changes something
// also carries the session's CSRF token, which is kept in memory only.

import { consolePath, gatewayPath } from '../lib/place';

const PERSONA = 'toolbooth-persona';
const CSRF_HEADER = 'x-toolbooth-csrf';
/** The page that was open before the browser went to the identity provider. */
const RETURN = 'toolbooth-return';

export type AuthMode = 'local' | 'header' | 'token' | 'jwt';

export interface Session {
  /** `out`: the gateway wants a sign-in. `failed`: it could not be asked. */
  state: 'loading' | 'open' | 'out' | 'failed';
  mode: AuthMode | null;
  /** The identity provider at which users can sign in. */
  provider: string | null;
  persona: string | null;
  /** The session has ended while it was used. */
  ended: boolean;
  error: unknown;
}

interface SignInAnswer {
  mode: AuthMode;
  session: { user: string; csrf: string; seconds_left: number } | null;
  provider?: string;
  /** Where a user who has just signed out can also sign out at the identity provider. */
  provider_sign_out?: string;
}

let csrf: string | null = null;
let current: Session = { state: 'loading', mode: null, provider: null, persona: sessionStorage.getItem(PERSONA), ended: false, error: null };
const listeners = new Set<() => void>();

function set(change: Partial<Session>) {
  current = { ...current, ...change };
  listeners.forEach((listener) => listener());
}

/** A refusal of the sign-in, as a problem document. */
export class SignInError extends Error {
  constructor(message: string, readonly hint: string | null, readonly status: number) {
    super(message);
  }
}

async function request(method: string, body?: object): Promise<SignInAnswer> {
  const headers: Record<string, string> = { accept: 'application/json' };
  if (body) headers['content-type'] = 'application/json';
  if (csrf) headers[CSRF_HEADER] = csrf;
  const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
  if (body) init.body = JSON.stringify(body);
  const response = await fetch(`${gatewayPath}/console/session`, init).catch(() => null);
  if (!response) throw new SignInError('The gateway does not answer.', 'Check that `toolbooth serve` is running.', 0);
  const answer = (await response.json().catch(() => ({}))) as SignInAnswer & { title?: string; hint?: string };
  if (!response.ok) throw new SignInError(answer.title ?? `The gateway answered with status ${response.status}.`, answer.hint ?? null, response.status);
  return answer;
}

function take(answer: SignInAnswer) {
  csrf = answer.session?.csrf ?? null;
  if (answer.session) goBack();
  set({ state: answer.session || answer.mode === 'local' ? 'open' : 'out', mode: answer.mode, provider: answer.provider ?? null, error: null });
}

/** Shows the page that was open before the sign-in at the identity provider. It is always a page of this console. */
function goBack() {
  const page = sessionStorage.getItem(RETURN);
  sessionStorage.removeItem(RETURN);
  if (page?.startsWith(`${consolePath}/`) && location.pathname === `${consolePath}/`) history.replaceState(null, '', page);
}

let loading: Promise<void> | null = null;

async function load(): Promise<void> {
  try {
    let answer = await request('GET');
    // The proxy names the user, so there is nothing to ask.
    if (!answer.session && answer.mode === 'header') answer = await request('POST', {});
    take(answer);
  } catch (error) {
    csrf = null;
    set({ state: 'failed', error });
  }
}

export const session = {
  get: (): Session => current,
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  /** Asks the gateway for the session of this browser. Several callers share one request. */
  load(): Promise<void> {
    loading ??= load().finally(() => { loading = null; });
    return loading;
  },
  async signIn(token: string) {
    const answer = await request('POST', { token: token.trim() });
    set({ ended: false });
    take(answer);
  },
  /** Leaves the page to sign in at the identity provider. */
  signInAtProvider() {
    sessionStorage.setItem(RETURN, location.pathname + location.search + location.hash);
    location.assign(`${consolePath}/login`);
  },
  async signOut() {
    try {
      const answer = await request('DELETE');
      // Otherwise the provider would sign the next user of this browser in as this one.
      if (answer.provider_sign_out) location.assign(answer.provider_sign_out);
      take(answer);
    } catch (error) {
      // Another tab may have ended it already.
      await session.load();
      if (current.state === 'open') throw error;
    }
    session.setPersona(null);
  },
  /** The gateway did not accept the session: it has ended, or another tab has replaced it. */
  async lost() {
    if (current.state !== 'open') return;
    const before = csrf;
    await session.load();
    const after: Session['state'] = session.get().state;
    if (after === 'out') set({ ended: true });
    // The cookie is still there, but the gateway refuses it.
    else if (before !== null && before === csrf) set({ state: 'out', ended: true });
  },
  /** Views the gateway through a persona, or through none. */
  setPersona(persona: string | null) {
    if (persona === null) sessionStorage.removeItem(PERSONA);
    else sessionStorage.setItem(PERSONA, persona);
    if (persona !== current.persona) set({ persona });
  },
};

/** The headers of a request: the CSRF token and the persona. */
export function identity(): Record<string, string> {
  const headers: Record<string, string> = {};
  if (csrf) headers[CSRF_HEADER] = csrf;
  if (current.persona) headers['x-toolbooth-persona'] = current.persona;
  return headers;
}
