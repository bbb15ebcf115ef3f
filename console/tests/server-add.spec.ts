// Servers that are added and removed in the console, and who may do that.

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { asCommand, readCommand, readJson, readPairs, readUrl } from '../src/lib/server-entry';
import { quoted, splitWords } from '../src/lib/words';
import { type Gateway, expect, startGateway, test, watch } from './gateway';

test('command lines are split as in a shell', () => {
  const cases: [string, string[] | null][] = [
    ['npx -y pkg', ['npx', '-y', 'pkg']],
    ['  a \t b\n', ['a', 'b']],
    [`a "b c" 'd "e"' f\\ g`, ['a', 'b c', 'd "e"', 'f g']],
    ['a "" b', ['a', '', 'b']],
    [`a --x="1 2"'3'`, ['a', '--x=1 23']],
    ['a "b\\"c\\d" \'e\\f\'', ['a', 'b"c\\d', 'e\\f']],
    ['a \\\n b', ['a', 'b']],
    ['$HOME ~ *', ['$HOME', '~', '*']],
    ['a "b', null],
    ["a 'b", null],
    ['', []],
  ];
  for (const [line, words] of cases) {
    const split = splitWords(line);
    expect('words' in split ? split.words : null, line).toEqual(words);
  }
  for (const word of ['a', 'a b', "it's", '', '$X', '--a=b', 'ä', 'a;b']) {
    expect(splitWords(quoted(word)), word).toEqual({ words: [word] });
  }
});

test('servers are read from commands, URLs and the JSON of other clients', () => {
  const command = ['npx', '-y', 'x'];
  expect(readCommand('notes', 'npx -y x', ' ~/n ', 'K=${K}\n\nL = a=b').servers).toEqual([{ name: 'notes', command, cwd: '~/n', env: { K: '${K}', L: 'a=b' } }]);
  expect(readUrl('', 'https://a.example/mcp', 'Authorization=Bearer ${T}').servers).toEqual([{ url: 'https://a.example/mcp', headers: { Authorization: 'Bearer ${T}' } }]);
  for (const wrong of [readCommand('', 'x', '', ''), readCommand('a b', 'x', '', ''), readCommand('a', '', '', ''), readCommand('a', '"', '', ''), readCommand('a', 'x', '', 'K'), readCommand('..', 'x', '', ''), readCommand('a', 'x | y', '', ''), readCommand('a', 'K=v x', '', ''), readCommand('a', 'cd /n; x', '', ''), readUrl('', 'a.example', ''), readUrl('a b', 'https://a.example', '')]) {
    expect(wrong.wrong).toBeTruthy();
    expect(wrong.servers).toEqual([]);
  }
  const one = [{ name: 'notes', command }];
  const cases: [string, object[]][] = [
    ['{"mcpServers": {"notes": {"command": "npx", "args": ["-y", "x"]}}}', one],
    ['{"servers": {"notes": {"type": "stdio", "command": "npx", "args": ["-y", "x"]}}}', one],
    ['{"mcp": {"servers": {"notes": {"command": "npx", "args": ["-y", "x"]}}}}', one],
    ['"notes": {"command": "npx", "args": ["-y", "x"]},', one],
    ['{"notes": {"command": ["npx", "-y", "x"]}}', one],
    ['{"command": "npx", "args": ["-y", "x"]}', one],
    ['{ // mine\n "notes": {"command": "npx", /* two, */ "args": ["-y", "x",], }, // end\n}', one],
    ['{"notes": {"url": "https://a.example//x,}"}}', [{ name: 'notes', url: 'https://a.example//x,}' }]],
    ['{"mcpServers": {"a": {"serverUrl": "https://a.example"}, "b": {"httpUrl": "https://b.example", "headers": {"N": 1}}}}', [{ name: 'a', url: 'https://a.example' }, { name: 'b', url: 'https://b.example', headers: { N: '1' } }]],
  ];
  for (const [text, servers] of cases) expect(readJson('notes', text).servers, text).toEqual(servers);
  expect(readJson('', '{"mcpServers": {"a": {"url": "https://a.example", "disabled": true}, "b": {"url": "https://b.example", "timeout": 3}}}').ignored).toEqual(['a (disabled)', 'b.timeout']);
  for (const text of ['{"a": {"command": "x", "args": "y"}}', '{"a": {"command": "x", "disabled": true}}', '', '[]', '{', '{}', '"a"', '{"mcpServers": {"a": 1}}', '{"mcpServers": {"a b": {"url": "https://a.example"}}}']) expect(readJson('', text).wrong, text).toBeTruthy();
  expect(asCommand({ name: 'n', command: ['npx', 'a b'], env: { K: '${K}' } })).toBe("toolbooth servers add --env 'K=${K}' n -- npx 'a b'");
  expect(asCommand({ url: 'https://a.example/mcp' })).toBe('toolbooth servers add https://a.example/mcp');
  expect(readPairs('a').wrong).toBeTruthy();
});

test('the owner adds a server and removes it; another browser gets commands', async ({ browser }) => {
  const gateway = (await startGateway(null)) as Gateway & { remove(): Promise<void> };
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const misdeeds: string[] = [];
    watch(page, gateway.url, misdeeds);
    const words = [process.execPath, resolve('tests/ask-server.mjs')];
    await page.goto(gateway.console);
    const steps = page.getByRole('region', { name: 'Start in three steps' });
    const dialog = page.getByRole('dialog', { name: 'Add a server' });
    await steps.getByRole('button', { name: 'Add a server' }).click();
    await dialog.getByLabel('Command', { exact: true }).fill(words.join(' '));
    await dialog.getByLabel('Name').fill('inn');
    // Any program could have opened this page.
    await expect(dialog.locator('pre')).toHaveText(['toolbooth console', `toolbooth servers add inn -- ${words.join(' ')}`]);
    await expect(dialog.getByRole('button', { name: 'Add', exact: true })).toHaveCount(0);
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);

    const { url } = JSON.parse(gateway.cli('console', '--json')) as { url: string };
    await page.goto('about:blank');
    await page.goto(url);
    await steps.getByRole('button', { name: 'Add a server' }).click();
    const add = dialog.getByRole('button', { name: 'Add', exact: true });
    await expect(add).toBeDisabled();
    await dialog.getByRole('button', { name: 'JSON' }).click();
    await dialog.getByLabel('JSON', { exact: true }).fill(JSON.stringify({ mcpServers: { inn: { command: words[0], args: words.slice(1), env: { NOTE: '<b>x</b>' } } } }));
    const preview = dialog.getByRole('region', { name: 'What is added' });
    for (const word of [...words, 'NOTE', '<b>x</b>']) await expect(preview).toContainText(word);
    await add.click();
    await expect(page).toHaveURL(`${gateway.console}servers/inn`);
    await expect(page.getByRole('heading', { name: 'inn', level: 1 })).toBeVisible();
    await expect(page.locator('.page .status').first()).toHaveText('up');
    const file = join(gateway.home, '.config', 'toolbooth', 'toolbooth.toml');
    expect(readFileSync(file, 'utf8')).toContain('[servers.inn]');

    await page.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog', { name: 'Remove inn?' }).getByRole('button', { name: 'Remove' }).click();
    await expect(page).toHaveURL(`${gateway.console}servers`);
    await expect(page.getByRole('link', { name: 'inn' })).toHaveCount(0);
    expect(readFileSync(file, 'utf8')).not.toContain('inn');

    // An error of the gateway is shown, and nothing is lost.
    await page.getByRole('button', { name: 'Add a server' }).click();
    await dialog.getByRole('button', { name: 'URL' }).click();
    await dialog.getByLabel('URL', { exact: true }).fill('http://user:secret@a.example/mcp');
    await add.click();
    await expect(dialog.getByRole('alert')).toBeVisible();
    await expect(dialog.getByLabel('URL', { exact: true })).toHaveValue('http://user:secret@a.example/mcp');
    expect(misdeeds).toEqual([]);
  } finally {
    await context.close();
    await gateway.remove();
  }
});
