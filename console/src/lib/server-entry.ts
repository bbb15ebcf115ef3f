// A server as a person describes it: a command, a URL, or the JSON that a server's own page tells people to paste.

import type { Schemas } from '../api/client';
import { quoted, splitWords } from './words';

/** The body of `POST /servers`. */
export interface NewServer {
  name?: string;
  command?: string[];
  url?: string;
  cwd?: string;
  env?: Record<string, string>;
  headers?: Record<string, string>;
}
/** An entry as the gateway shows it to its owner. A value of `null` is not shown, because it may be a secret. */
export type WrittenServer = Schemas['WrittenServerEntry'];
/** The body of `PUT /servers/{name}`. A value of `null` keeps the present one. */
export type ServerEdit = Schemas['ServerEntryEdit'];
/** What the form shows for a value that it does not know. */
export const HIDDEN = '••••••••';

export interface ReadServers {
  servers: NewServer[];
  /** Why nothing can be added. */
  wrong?: string;
  /** Fields of the JSON that are not added. */
  ignored: string[];
}

const NAME = /^[\w.-]{1,64}$/;
const MAX_SERVERS = 50;
const failed = (wrong: string): ReadServers => ({ servers: [], ignored: [], wrong });

/** Lines of `NAME=value`. */
export function readPairs(text: string): { pairs: Record<string, string>; wrong?: string } {
  const pairs: Record<string, string> = {};
  for (const line of text.split('\n').filter((one) => one.trim() !== '')) {
    const at = line.indexOf('=');
    if (at < 1) return { pairs, wrong: `“${line.trim()}” is not NAME=value.` };
    pairs[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return { pairs };
}

/** What is wrong with a name; null if nothing is. Browsers read “.” and “..” as folders. */
const wrongName = (name: string) => {
  if (name === '') return 'Give the server a name.';
  return NAME.test(name) && !/^\.{1,2}$/.test(name) ? null : 'A name has 1 to 64 letters, digits, “_”, “-” and “.”.';
};

const withPairs = (server: NewServer, field: 'env' | 'headers', text: string): ReadServers => {
  const { pairs, wrong } = readPairs(text);
  if (wrong) return failed(wrong);
  return { servers: [Object.keys(pairs).length > 0 ? { ...server, [field]: pairs } : server], ignored: [] };
};

export function readCommand(name: string, line: string, cwd: string, env: string): ReadServers {
  const split = splitWords(line);
  if ('wrong' in split) return failed(split.wrong);
  const [program] = split.words;
  if (program === undefined) return failed('Write the command that starts the server.');
  const operator = shellOperator(split.words);
  if (operator !== null) return failed(`“${operator}” needs a shell: write sh -c '…', or use the fields for the folder and variables.`);
  const wrong = wrongName(name.trim());
  if (wrong) return failed(wrong);
  const server: NewServer = { name: name.trim(), command: split.words };
  if (cwd.trim() !== '') server.cwd = cwd.trim();
  return withPairs(server, 'env', env);
}

/** What only a shell understands: pipes, several commands, redirections, and variables before the program. */
function shellOperator(words: string[]): string | null {
  const assigned = words[0] !== undefined && /^[A-Za-z_]\w*=/.test(words[0]) ? words[0] : null;
  return assigned ?? words.find((word) => /^(\|\|?|&&?|;|[<>]+)$/.test(word) || /^[^'"]+;$/.test(word)) ?? null;
}

export function readUrl(name: string, url: string, headers: string): ReadServers {
  if (!/^https?:\/\/[^\s/]+/.test(url.trim())) return failed('Write the URL of the server: https://…');
  const wrong = name.trim() === '' ? null : wrongName(name.trim());
  if (wrong) return failed(wrong);
  return withPairs({ ...(name.trim() === '' ? {} : { name: name.trim() }), url: url.trim() }, 'headers', headers);
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
const isEntry = (value: unknown) => isObject(value) && ('command' in value || 'url' in value || 'serverUrl' in value || 'httpUrl' in value);
const texts = (value: unknown) => (isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, String(one)])) : undefined);

/** The map of servers in a configuration of any client. */
function serverMap(json: unknown): Record<string, unknown> | null {
  if (!isObject(json)) return null;
  for (const key of ['mcpServers', 'servers', 'mcp', 'context_servers']) {
    if (isObject(json[key])) return serverMap(json[key]) ?? json[key];
  }
  return Object.values(json).some(isEntry) ? json : null;
}

/** JSON without comments and without commas before a closing bracket, which several clients allow in their files. */
const withoutComments = (text: string) => text.replace(/("(?:[^"\\]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\/|,(?=(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*[}\]])/g, (_, string: string | undefined) => string ?? '');

export function readJson(name: string, text: string): ReadServers {
  let json: unknown;
  try {
    // Pages often show only the part inside the braces.
    const trimmed = text.trim().replace(/,$/, '');
    json = JSON.parse(withoutComments(trimmed.startsWith('"') ? `{${trimmed}}` : trimmed));
  } catch (error) {
    return failed(`This is not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  const map = isEntry(json) ? { [name.trim()]: json } : serverMap(json);
  if (map === null) return failed('There is no server in this JSON: an entry has “command” or “url”.');
  const servers: NewServer[] = [];
  const ignored: string[] = [];
  for (const [key, entry] of Object.entries(map)) {
    if (!isObject(entry) || !isEntry(entry)) {
      ignored.push(key);
      continue;
    }
    if (entry.disabled === true || entry.enabled === false) {
      ignored.push(`${key} (disabled)`);
      continue;
    }
    const wrong = wrongName(key);
    if (wrong) return failed(key === '' ? wrong : `${wrong} “${key}” is not one.`);
    if (entry.args !== undefined && !Array.isArray(entry.args)) return failed(`“args” of “${key}” must be a list: ["…", "…"].`);
    const { command, args, url, serverUrl, httpUrl, cwd, env, headers, type: _, transport: __, disabled: ___, enabled: ____, ...others } = entry;
    const place = url ?? serverUrl ?? httpUrl;
    const words = Array.isArray(command) ? command.map(String) : typeof command === 'string' ? [command] : [];
    const server: NewServer = { name: key };
    if (words.length > 0) server.command = [...words, ...(Array.isArray(args) ? args.map(String) : [])];
    else if (typeof place === 'string') server.url = place;
    if (typeof cwd === 'string' && server.command) server.cwd = cwd;
    const pairs = server.command ? ['env', texts(env)] as const : ['headers', texts(headers)] as const;
    if (pairs[1] && Object.keys(pairs[1]).length > 0) server[pairs[0]] = pairs[1];
    servers.push(server);
    ignored.push(...Object.keys(others).map((field) => `${key}.${field}`));
  }
  if (servers.length === 0 && ignored.some((one) => one.endsWith('(disabled)'))) return failed('Every server in this JSON is disabled.');
  if (servers.length === 0) return failed('There is no server in this JSON: an entry has “command” or “url”.');
  if (servers.length > MAX_SERVERS) return failed(`These are more than ${MAX_SERVERS} servers. Use toolbooth config import instead.`);
  return { servers, ignored };
}

/** The texts of the form for an entry. */
export function formOf({ command, url, cwd, env, headers }: WrittenServer): { text: string; cwd: string; pairs: string } {
  const pairs = Object.entries(command ? env : headers).map(([key, value]) => `${key}=${value ?? HIDDEN}`);
  return { text: command ? command.map(quoted).join(' ') : url ?? '', cwd: cwd ?? '', pairs: pairs.join('\n') };
}

/** The change that the texts of the form ask for, with what will run, or what is wrong with them. */
export function readEdit(entry: WrittenServer, form: { text: string; cwd: string; pairs: string }): { edit: ServerEdit; server: NewServer } | { wrong: string } {
  const read = entry.command ? readCommand(entry.name, form.text, form.cwd, form.pairs) : readUrl(entry.name, form.text, form.pairs);
  const [server] = read.servers;
  if (read.wrong !== undefined || server === undefined) return { wrong: read.wrong ?? '' };
  const field = entry.command ? 'env' : 'headers';
  const values: Record<string, string | null> = {};
  for (const [key, value] of Object.entries(server[field] ?? {})) {
    if (value === HIDDEN && entry[field][key] !== null) return { wrong: `“${key}” has no value yet. Write one instead of the dots.` };
    values[key] = value === HIDDEN ? null : value;
  }
  const edit: ServerEdit = { version: entry.version, [field]: values };
  if (server.command) edit.command = server.command;
  if (server.url !== undefined) edit.url = server.url;
  if (server.cwd !== undefined) edit.cwd = server.cwd;
  return { edit, server };
}

/** The same as a command for a terminal. */
export function asCommand({ name, command, url, cwd, env, headers }: NewServer): string {
  const options = [
    ...(cwd === undefined ? [] : ['--cwd', cwd]),
    ...Object.entries(env ?? {}).flatMap((pair) => ['--env', pair.join('=')]),
    ...Object.entries(headers ?? {}).flatMap((pair) => ['--header', pair.join('=')]),
  ];
  const words = command ? [...options, name ?? '', '--', ...command] : [...options, ...(name === undefined ? [] : [name]), url ?? ''];
  return ['toolbooth servers add', ...words.map(quoted)].join(' ');
}
