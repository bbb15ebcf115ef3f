// What records of the gateway are called and counted as on every page.

import { countedCalls } from '../src/lib/call-counts';
import { pathFrom, placeOf, unsetVariable } from '../src/lib/config-place';
import { statedEffects } from '../src/lib/effects';
import { joined } from '../src/api/live-pages';
import { argumentLine } from '../src/lib/argument-line';
import { atLeast, countUpTo, toolName } from '../src/lib/format';
import { expect, test } from './gateway';

test('tools have the name that clients see', () => {
  const cases: [string | null, string | null, string | null, string][] = [
    ['demo', 'hash', null, 'demo_hash'],
    ['demo', 'hash', 'hash_2', 'hash_2'],
    ['git', 'git_status', null, 'git_status'],
    ['git', 'git-log', null, 'git_log'],
    ['git', 'git__status', null, 'git_status'],
    ['git', 'git', null, 'git_git'],
    ['my.files', 'read/all', null, 'my_files_read_all'],
    ['_toolbooth', 'mcp_tool_call', null, 'mcp_tool_call'],
    [null, 'no_such_tool', null, 'no_such_tool'],
    ['demo', null, null, 'demo'],
    [null, null, null, ''],
  ];
  for (const [server, tool, exposed, name] of cases) expect(toolName(server, tool, exposed), `${server} ${tool}`).toBe(name);
});

test('held requests are not counted as calls', () => {
  const rows = (...outcomes: string[]) => outcomes.map((outcome) => ({ outcome }));
  expect(countedCalls([], false)).toBe('0 calls');
  expect(countedCalls(rows('done'), false)).toBe('1 call');
  expect(countedCalls(rows('done', 'held', 'failed'), false)).toBe('2 calls, 1 held');
  expect(countedCalls(rows('held'), false)).toBe('1 held');
  expect(countedCalls(rows('done', 'held'), true)).toBe('1+ calls, 1+ held');
});

test('the place of a setting is read from its origin', () => {
  expect(placeOf('/home/me/a b/toolbooth.toml:3:8 (user)')).toEqual({ file: '/home/me/a b/toolbooth.toml', line: 3 });
  expect(placeOf('/etc/toolbooth.toml (system), /home/me/toolbooth.toml:1:1 (user)')).toEqual({ file: '/etc/toolbooth.toml', line: 0 });
  for (const other of ['built in', 'variable `TOOLBOOTH_LISTEN` (environment)', '']) expect(placeOf(other)).toBeUndefined();
  expect(pathFrom('/home/me/toolbooth.toml', 'secrets.env')).toBe('/home/me/secrets.env');
  expect(pathFrom('/home/me/toolbooth.toml', '/etc/secrets.env')).toBe('/etc/secrets.env');
  const missing = (reason: string, code = 'config.variable') => unsetVariable({ code, reason });
  expect(missing('server `a`: the variable `TOKEN` is not set')).toEqual({ name: 'TOKEN' });
  expect(missing('/home/me/a b.toml:9:29: server `a`: the variable `TOKEN` is not set')).toEqual({ name: 'TOKEN', place: { file: '/home/me/a b.toml', line: 9 } });
  expect(missing('`${` has no closing `}`')).toBeNull();
  expect(missing('the variable `TOKEN` is not set', 'server.lost')).toBeNull();
});

test('a guess about side effects is not shown as a statement', () => {
  expect(statedEffects({ side_effects: 'network' })).toBe('not stated');
  expect(statedEffects({ side_effects: 'network', origin: '/home/me/tools/mail.json' })).toBe('network');
  expect(statedEffects({ side_effects: 'filesystem' })).toBe('filesystem');
});

test('the number of a list that goes on is a lower bound', () => {
  expect([countUpTo(200, true), countUpTo(200, false)]).toEqual(['200+', '200']);
  expect([atLeast(1, false, 'step'), atLeast(1000, true, 'step')]).toEqual(['1 step', '1,000+ steps']);
});

test('a new first page is joined with the older rows that are loaded', () => {
  const page = (from: number, to: number, next: number | null) => ({ rows: Array.from({ length: from - to + 1 }, (_, index) => from - index), next });
  const ids = (number: number) => String(number);
  expect(joined(undefined, page(5, 4, 4), ids)).toEqual(page(5, 4, 4));
  expect(joined(page(5, 1, null), page(7, 4, 4), ids)).toEqual(page(7, 1, null));
  // Too many are new: what is between is not known.
  expect(joined(page(5, 1, null), page(9, 8, 8), ids)).toEqual(page(9, 8, 8));
  expect(joined(page(5, 1, 1), page(2, 1, null), ids)).toEqual(page(2, 1, null));
});

test('a preview of arguments begins with the short ones, and hides nothing', () => {
  expect(argumentLine({})).toBe('no arguments');
  expect(argumentLine({ body: 'x'.repeat(200), to: 'bo@example.org', tags: ['a'], note: '' })).toBe(`to: bo@example.org, tags: ["a"], body: ${'x'.repeat(60)}…`);
  expect(argumentLine({ name: 'a\u202Eb' })).toBe('name: a⟦U+202E⟧b');
});
