// The credential of this tab. It is kept in memory and, so that a reload does not ask again, in sessionStorage: other
// tabs, other sites and later visits cannot read it. It is sent in the Authorization header only, never as a cookie.

const KEY = 'toolbooth-token';
const PERSONA = 'toolbooth-persona';

let token: string | null = sessionStorage.getItem(KEY);
let persona: string | null = sessionStorage.getItem(PERSONA);
const listeners = new Set<() => void>();

export interface Session {
  token: string | null;
  persona: string | null;
}
let current: Session = { token, persona };

function store(key: string, value: string | null) {
  if (value === null) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, value);
}

function publish() {
  current = { token, persona };
  listeners.forEach((listener) => listener());
}

export const session = {
  get: (): Session => current,
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  signIn(value: string) {
    token = value.trim();
    store(KEY, token);
    publish();
  },
  signOut() {
    token = null;
    persona = null;
    store(KEY, null);
    store(PERSONA, null);
    publish();
  },
  /** Views the gateway through a persona, or through none. */
  setPersona(value: string | null) {
    persona = value;
    store(PERSONA, value);
    publish();
  },
};

/** The headers that identify this tab. */
export function identity(): Record<string, string> {
  const headers: Record<string, string> = {};
  if (token) headers['authorization'] = `Bearer ${token}`;
  if (persona) headers['x-toolbooth-persona'] = persona;
  return headers;
}
