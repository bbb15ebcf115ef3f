// A new gateway, and what the page of the context cost says.

import { type Gateway, expect, listAsClient, startGateway, test, watch } from './gateway';

test('a new gateway shows three steps with commands to copy, and which of them are done', async ({ browser }) => {
  const gateway = (await startGateway(null)) as Gateway & { remove(): Promise<void> };
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
  try {
    const page = await context.newPage();
    const misdeeds: string[] = [];
    watch(page, gateway.url, misdeeds);
    await page.goto(gateway.console);
    const steps = page.getByRole('region', { name: 'Start in three steps' });
    const step = (title: string) => steps.locator('.first-run > div').filter({ has: page.getByRole('heading', { name: title }) });
    await expect(step('Call a tool').locator('pre')).toHaveText('toolbooth call demo_hash text=hello');
    const connect = step('Connect your clients');
    await expect(connect.locator('pre')).toHaveText('toolbooth up');
    await connect.getByRole('button', { name: 'Copy the command' }).click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('toolbooth up');
    await connect.getByRole('button', { name: 'One' }).click();
    await connect.getByLabel('Name of the client').selectOption('zed');
    await expect(connect.locator('pre')).toHaveText('toolbooth connect zed');
    await connect.getByRole('button', { name: 'HTTP' }).click();
    await expect(connect.locator('pre')).toContainText(`"url": "${gateway.url}/mcp"`);
    const add = step('Add your servers');
    await expect(add.locator('pre')).toContainText('toolbooth servers add files --');
    await add.getByRole('button', { name: 'URL' }).click();
    await expect(add.locator('pre')).toHaveText('toolbooth servers add https://search.example/mcp');
    // Nothing is done yet. A call and a client that lists its tools finish two steps.
    await expect(steps.getByText('done', { exact: true })).toHaveCount(0);
    await step('Call a tool').getByRole('link', { name: 'Try demo_hash' }).click();
    await page.getByLabel(/^text/).fill('hello');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await expect(page.getByText('2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824').first()).toBeVisible();
    await listAsClient(gateway, 'first-client');
    await page.goto(gateway.console);
    await expect(step('Call a tool').getByText('done', { exact: true })).toBeVisible();
    await expect(step('Connect your clients').getByText('done', { exact: true })).toBeVisible();
    await expect(step('Add your servers').getByText('done', { exact: true })).toHaveCount(0);
    await steps.getByRole('button', { name: 'Hide' }).click();
    await expect(steps).toHaveCount(0);
    expect(misdeeds).toEqual([]);
  } finally {
    await context.close();
    await gateway.remove();
  }
});

test('the first steps name every client that `toolbooth connect` knows', async ({ browser }) => {
  const gateway = (await startGateway(null)) as Gateway & { remove(): Promise<void> };
  const context = await browser.newContext();
  try {
    const help = gateway.cli('connect', '--help');
    const known = /\n\s+<CLIENT>\s+([\s\S]*?)\n\s*\n/.exec(help)?.[1]?.split(/[\s,]+/).filter((word) => word !== '' && word !== 'or') ?? [];
    expect(known.length).toBeGreaterThan(10);
    const page = await context.newPage();
    await page.goto(gateway.console);
    await page.getByRole('group', { name: 'Client' }).getByRole('button', { name: 'One' }).click();
    const shown = await page.getByLabel('Name of the client').locator('option').allTextContents();
    expect(shown.toSorted()).toEqual(known.toSorted());
  } finally {
    await context.close();
    await gateway.remove();
  }
});

interface Stats {
  full: number;
  sent: number;
  tools: number;
  dearest: { name: string; server: string; full: number }[];
}

test('the page of the context cost shows the numbers of the gateway', async ({ page, gateway }) => {
  await listAsClient(gateway, 'cost-client');
  const stats = (await gateway.api('GET', '/stats?limit=1000&client=cost-client')).body as unknown as Stats;
  const number = (value: number) => value.toLocaleString('en-US');
  await page.goto(`${gateway.console}cost?client=cost-client`);
  const before = page.getByRole('region', { name: 'Before and after' });
  await expect(before).toContainText(`${number(stats.full)}tokens of ${number(stats.tools)} tools in full`);
  await expect(before).toContainText(`${number(stats.sent)}sent to cost-client`);
  const modes = page.getByRole('region', { name: 'Modes' });
  await expect(modes).toContainText('(in use)');
  await expect(modes).toContainText(/saves [\d,]+ tokens per list \(\d+%\)/);
  await modes.getByText('How to change it').click();
  await expect(modes).toContainText('[exposure.clients]\n"cost-client" = "search"');
  const dearest = stats.dearest.find((tool) => !tool.server.startsWith('_'));
  const row = page.getByRole('row').filter({ has: page.locator(`a[href$="/tools/t/${dearest?.name}"]`) });
  await expect(row.getByRole('cell').nth(2)).toHaveText(number(dearest?.full ?? 0));
  const box = page.getByRole('group', { name: 'Tokens by server and tool' }).locator(`button[title^="${dearest?.name}: "]`);
  await expect(box).toHaveAttribute('title', `${dearest?.name}: ${number(dearest?.full ?? 0)} tokens`);
  await box.click();
  await expect(page.getByRole('heading', { name: dearest?.name ?? '' })).toBeVisible();
});
