// Servers whose entry is changed in the console, and servers that lack a variable.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { HIDDEN, type WrittenServer, formOf, readEdit } from '../src/lib/server-entry';
import { type Gateway, expect, startGateway, test, watch } from './gateway';

const ENTRY: WrittenServer = { name: 'x', file: '/x.toml', version: '1', env: {}, headers: {}, kept: [] };

test('a form that was not changed sends what was read', () => {
  const entries: WrittenServer[] = [
    { ...ENTRY, command: ['npx', '-y', 'a b', "it's"], cwd: '/n', env: { A: null, B: '${B}', C: '' } },
    { ...ENTRY, url: 'https://a.example/mcp', headers: { Authorization: null } },
    { ...ENTRY, command: ['x'] },
  ];
  for (const entry of entries) {
    const { name: _, file: __, kept: ___, env, headers, ...same } = entry;
    expect(readEdit(entry, formOf(entry))).toMatchObject({ edit: entry.command ? { ...same, env } : { ...same, headers } });
  }
});

test('dots keep a value only where there is one', () => {
  const entry = { ...ENTRY, command: ['x'], env: { A: null, B: '${B}' } };
  const edited = (pairs: string) => readEdit(entry, { text: 'x', cwd: '', pairs });
  expect(edited(`A=${HIDDEN}`)).toMatchObject({ edit: { env: { A: null } } });
  expect(edited('A=new')).toMatchObject({ edit: { env: { A: 'new' } } });
  for (const pairs of [`B=${HIDDEN}`, `C=${HIDDEN}`, 'C']) expect(edited(pairs), pairs).toHaveProperty('wrong');
  expect(readEdit(entry, { text: '', cwd: '', pairs: '' })).toHaveProperty('wrong');
});

test('the owner changes an entry, and its secrets stay in the gateway', async ({ browser }) => {
  const words = [process.execPath, resolve('tests/ask-server.mjs')];
  const config = `# mine\n[servers.inn]\ncommand = "${words[0]}"\nargs = ["${words[1]}"] # the inn\nenv = { KEY = "hunter2hunter2", HOST = "\${HOME}" }\n`;
  const gateway = (await startGateway(config)) as Gateway & { remove(): Promise<void> };
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const misdeeds: string[] = [];
    const answers: string[] = [];
    watch(page, gateway.url, misdeeds);
    page.on('response', (response) => void response.text().then((text) => answers.push(text), () => undefined));
    const dialog = page.getByRole('dialog', { name: 'Edit inn' });
    const file = join(gateway.home, '.config', 'toolbooth', 'toolbooth.toml');
    await page.goto(`${gateway.console}servers/inn`);
    await page.getByRole('button', { name: 'Edit' }).click();
    // Any program could have opened this page.
    await expect(dialog.locator('pre')).toHaveText(['toolbooth console']);
    await expect(dialog).toContainText(`${file}, line 2`);
    await page.keyboard.press('Escape');

    const { url } = JSON.parse(gateway.cli('console', '--json')) as { url: string };
    await page.goto('about:blank');
    await page.goto(url);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.goto(`${gateway.console}servers/inn`);
    await page.getByRole('button', { name: 'Edit' }).click();
    await expect(dialog.getByLabel('Command', { exact: true })).toHaveValue(words.join(' '));
    const variables = dialog.getByLabel('Variables');
    await expect(variables).toHaveValue(`HOST=\${HOME}\nKEY=${HIDDEN}`);
    await variables.fill(`HOST=\${HOME}\nKEY=${HIDDEN}\nNEW=${HIDDEN}`);
    await expect(dialog.getByRole('alert')).toContainText('NEW');
    await expect(dialog.getByRole('button', { name: 'Save' })).toBeDisabled();
    await variables.fill(`KEY=${HIDDEN}\nNEW=\${PATH}`);
    await expect(dialog.getByRole('region', { name: 'What will run' })).toContainText('as it is');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect(dialog).toHaveCount(0);
    await expect(page.locator('.page .status').first()).toHaveText('up');
    expect(readFileSync(file, 'utf8')).toBe(config.replace(', HOST = "${HOME}"', ', NEW = "${PATH}"'));

    // Another program changes the entry while the form is open.
    await page.getByRole('button', { name: 'Edit' }).click();
    await dialog.getByLabel('Folder').fill(gateway.home);
    writeFileSync(file, readFileSync(file, 'utf8').replace('NEW', 'NEWER'));
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect(dialog.getByRole('alert')).toContainText('servers.changed');
    await expect(dialog.getByLabel('Folder')).toHaveValue(gateway.home);
    await dialog.getByRole('button', { name: 'Show the entry as it is now' }).click();
    await expect(variables).toHaveValue(/NEWER/);
    expect(answers.join('\n')).not.toContain('hunter2');
    expect(misdeeds).toEqual([]);
  } finally {
    await context.close();
    await gateway.remove();
  }
});

test('a server that lacks a variable says where it is used and how to set it', async ({ browser }) => {
  const gateway = (await startGateway('env_file = "secrets.env"\n[servers.shop]\nurl = "http://127.0.0.1:9/mcp"\nheaders = { Authorization = "Bearer ${SHOP_TOKEN}" }\n')) as Gateway & { remove(): Promise<void> };
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const folder = join(gateway.home, '.config', 'toolbooth');
    mkdirSync(folder, { recursive: true });
    await page.goto(gateway.console);
    const broken = page.getByRole('region', { name: 'Broken' });
    await expect(broken).toContainText('SHOP_TOKEN');
    await expect(broken).toContainText(`used in ${folder}/toolbooth.toml, line 4`);
    await broken.getByRole('link', { name: 'How to set it' }).click();
    const steps = page.getByRole('region', { name: 'How to set the variable' });
    await expect(steps).toContainText(`${folder}/secrets.env`);
    await expect(steps.locator('pre').first()).toHaveText('toolbooth secrets set SHOP_TOKEN');
    await expect(steps.locator('pre').nth(1)).toHaveText('SHOP_TOKEN="VALUE"');
    await expect(steps.locator('pre').last()).toContainText('read -rs SHOP_TOKEN && export SHOP_TOKEN');
    writeFileSync(join(folder, 'secrets.env'), 'SHOP_TOKEN="value"\n', { mode: 0o600 });
    await steps.getByRole('button', { name: 'Reload' }).click();
    await expect(steps).toHaveCount(0);
    await expect(page.locator('.page .status').first()).not.toHaveText('configuration error');
  } finally {
    await context.close();
    await gateway.remove();
  }
});
