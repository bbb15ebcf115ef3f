// Lists that grow while a person reads them, and filters of lists.

import { type Gateway, expect, startGateway, test } from './gateway';
import type { Page } from '@playwright/test';

/** Makes calls one after the other. */
async function callTimes(gateway: Gateway, times: number, text: string) {
  for (let number = 0; number < times; number++) await gateway.call('demo_hash', { text: `${text} ${number}` });
}

/** The newest row of a call of `demo_hash`. A server that is down adds rows of its own. */
const callRow = (page: Page, list: string) => page.getByRole('list', { name: list }).getByRole('listitem').filter({ hasText: 'demo_hash' }).first();
const topRow = (page: Page, list: string) => page.getByRole('list', { name: list }).getByRole('listitem').first();

for (const [name, path] of [['Calls', 'activity/calls'], ['Events', 'activity/events'], ['Audit log', 'activity/audit']] as const) {
  test(`new rows of the list “${name}” wait while it is read`, async ({ page, gateway }) => {
    await callTimes(gateway, 25, 'before');
    await page.goto(gateway.console + path);
    const list = page.getByRole('list', { name });
    // The page opens with what has happened already.
    await expect(callRow(page, name)).toBeVisible();
    await expect(page.getByText('Live', { exact: true })).toBeVisible();
    await list.evaluate((element) => { element.scrollTop = 90; });
    const shown = await list.evaluate((element) => [...element.querySelectorAll('button')].map((row) => row.textContent));
    await callTimes(gateway, 3, 'meanwhile');
    const button = page.getByRole('button', { name: new RegExp(`^${name}: show \\d+ new$`) });
    await expect(button).toBeVisible();
    const still = await list.evaluate((element) => [...element.querySelectorAll('button')].map((row) => row.textContent));
    expect(still.slice(0, 8)).toEqual(shown.slice(0, 8));
    expect(await list.evaluate((element) => element.scrollTop)).toBe(90);
    await button.click();
    await expect(button).toHaveCount(0);
    expect(await list.evaluate((element) => element.scrollTop)).toBe(0);
    // A row with the focus stays, too.
    await topRow(page, name).getByRole('button').focus();
    await callTimes(gateway, 1, 'focused');
    await expect(button).toBeVisible();
  });
}

test('a tab that becomes the reader of events continues after the last event', async ({ page, gateway, context }) => {
  await page.goto(`${gateway.console}activity/events`);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  const other = await context.newPage();
  await other.goto(`${gateway.console}activity/events`);
  await expect(other.getByText('Live', { exact: true })).toBeVisible();
  await callTimes(gateway, 1, 'first');
  await expect(callRow(other, 'Events')).toBeVisible();
  const resumed = other.waitForRequest((request) => new URL(request.url()).pathname === '/events');
  await page.close();
  expect((await resumed).headers()['last-event-id']).toMatch(/.+/);
  await callTimes(gateway, 1, 'second');
  await expect(other.getByText('Live', { exact: true })).toBeVisible();
});

test('tools are searched in one server, and filtered by state', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}tools?q=hash&server=files`);
  await expect(page.getByRole('link', { name: /demo_hash/ })).toHaveCount(0);
  await page.getByLabel('Server').selectOption('demo');
  await expect(page.getByRole('link', { name: /demo_hash/ })).toBeVisible();
  await page.getByLabel('Search tools').fill('');
  await page.getByLabel('Server').selectOption('');
  await page.getByRole('button', { name: 'Needs approval' }).click();
  await expect(page).toHaveURL(/state=approval/);
  await expect(page.getByRole('link', { name: /identity_create_record/ })).toBeVisible();
  await expect(page.getByRole('link', { name: /demo_hash/ })).toHaveCount(0);
  await page.getByRole('button', { name: 'Needs approval' }).click();
  await expect(page.getByRole('link', { name: /demo_hash/ })).toBeVisible();
});

test('servers are filtered by text and state, and a missing program has its install command', async ({ browser }) => {
  const gateway = (await startGateway('[servers.music]\ncommand = ["bunx", "music-server"]\n\n[servers.odd]\ncommand = ["no-such-program"]\n\n[servers.demo]\nbundled = "demo"\n')) as Gateway & { remove(): Promise<void> };
  const page = await browser.newPage();
  try {
    await page.goto(`${gateway.console}servers`);
    await page.getByRole('button', { name: /^Down/ }).click();
    await expect(page.getByRole('row', { name: /music/ })).toBeVisible();
    await expect(page.getByRole('row', { name: /demo/ })).toHaveCount(0);
    await page.getByLabel('Filter servers').fill('odd');
    await expect(page.getByRole('row', { name: /music/ })).toHaveCount(0);
    await page.getByLabel('Filter servers').fill('nothing like this');
    await page.getByRole('button', { name: 'Show all servers' }).click();
    await page.getByRole('row', { name: /music/ }).getByRole('link', { name: 'music' }).click();
    await page.getByRole('button', { name: 'macOS' }).click();
    await expect(page.getByText('brew install oven-sh/bun/bun')).toBeVisible();
    await page.getByRole('button', { name: 'Copy the command' }).click();
    await page.goto(gateway.console);
    const broken = page.getByRole('region', { name: 'Broken' }).getByRole('listitem').filter({ hasText: 'odd' });
    await expect(broken.getByText('How to install no-such-program')).toBeVisible();
  } finally {
    await page.close();
    await gateway.remove();
  }
});

test('waiting calls show their main arguments in the inbox', async ({ page, gateway }) => {
  const { body } = await gateway.call('hostile_send_mail', { body: 'The report is ready.', to: 'bo@example.org' });
  await page.goto(`${gateway.console}inbox`);
  await expect(page.getByRole('link', { name: /hostile_send_mail/ }).first()).toContainText('to: bo@example.org');
  await gateway.api('POST', `/approvals/${String(body['held'])}/reject`, {});
});

test('the map of tokens is used with the keyboard', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}cost`);
  const map = page.getByRole('group', { name: /^Tokens by server and tool/ });
  const first = map.locator('button[tabindex="0"]');
  await expect(first).toHaveCount(1);
  await first.focus();
  const before = await page.evaluate(() => document.activeElement?.getAttribute('aria-label'));
  await page.keyboard.press('ArrowRight');
  const after = await page.evaluate(() => document.activeElement?.getAttribute('aria-label'));
  expect(after).toMatch(/: \d+ tokens$/);
  expect(after).not.toBe(before);
});

test('the overview says that the gateway does not answer, and recovers', async ({ page, gateway, misdeeds }) => {
  await page.goto(`${gateway.console}settings`);
  await expect(page.getByRole('heading', { name: 'Settings' })).toBeVisible();
  // Requests fail as they do without a gateway; the page itself is loaded already.
  for (const path of ['**/servers', '**/ready']) await page.route(path, (route) => route.abort());
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.getByRole('navigation').getByRole('link', { name: 'Overview' }).first().click();
  await expect(page.getByText('The gateway does not answer').first()).toBeVisible();
  await expect(page.getByText('toolbooth start')).toBeVisible();
  for (const path of ['**/servers', '**/ready']) await page.unroute(path);
  await expect(page.getByRole('region', { name: 'Servers' })).toBeVisible({ timeout: 20_000 });
  misdeeds.length = 0;
});

test('measured stages of a call are shown above its attempts', async ({ page, gateway }) => {
  const { body } = await gateway.call('demo_hash', { text: 'measured' });
  await page.goto(`${gateway.console}activity/calls/${String(body['call'])}`);
  const rows = page.getByRole('dialog').locator('.waterfall > li');
  await expect(rows.first()).toContainText('find the tool');
  await expect(rows.filter({ hasText: 'call the server' })).toContainText(/\d (µs|ms)/);
  await expect(rows.filter({ hasText: 'call the server' })).toContainText('mcp:demo');
});
