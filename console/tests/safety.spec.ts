// Policies, sign-in and accessibility.

import AxeBuilder from '@axe-core/playwright';
import { expect, startGateway, test, watch, SERVERS, type Gateway } from './gateway';
import { addWork } from './work';

const PAGES = ['', 'inbox', 'tools', 'tools?q=hash', 'tools/t/demo_hash', 'servers', 'servers/demo', 'servers/demo/changes', 'servers/demo/logs', 'servers/demo/aside', 'servers/demo/about', 'servers/tracker', 'chat', 'activity', 'activity/events', 'activity/audit', 'activity/dead', 'canvas', 'jobs', 'jobs/tasks', 'jobs/skills', 'jobs/prompts', 'cost', 'settings', 'settings/keys', 'settings/tokens', 'settings/approvals', 'settings/personas', 'settings/configuration'];

test('no page violates its policy, has an error, or asks another site', async ({ page, gateway, misdeeds }) => {
  test.setTimeout(120_000);
  const { held } = await addContent(gateway);
  for (const path of [...PAGES, ...openPages(held)]) {
    await page.goto(gateway.console + path);
    await expect(page.locator('#main :is(h1, h2, h3):visible').first(), path).toBeVisible();
    await expect(page.locator('[aria-busy="true"]'), path).toHaveCount(0);
    expect(misdeeds, path).toEqual([]);
  }
  await gateway.api('POST', `/approvals/${held}/reject`, {});
});

/** A held call, a finished one, files, a job and a skill, so that pages are not empty. */
async function addContent(gateway: Gateway): Promise<{ held: string }> {
  await gateway.call('files_make_report', { title: 'Report' });
  await gateway.call('demo_hash', { text: 'hello' });
  await addWork(gateway);
  return { held: String((await gateway.call('identity_create_record', { title: 'Visit' })).body['held']) };
}

/** Pages with something open. */
const openPages = (held: string) => [`inbox/${held}`, 'jobs/jobs/nightly-hash', 'jobs/skills/visit-record', 'canvas'];

// The rules take seconds for each page; the contrast is all that the second combination of theme and width can add.
for (const [theme, width, rules] of [['light', 1280, null], ['dark', 390, null], ['dark', 1280, 'color-contrast']] as const) {
  test(`no serious accessibility problem, ${theme}, ${width} px`, async ({ browser, gateway }) => {
    test.setTimeout(240_000);
    const { held } = await addContent(gateway);
    const context = await browser.newContext({ colorScheme: theme, viewport: { width, height: 844 }, bypassCSP: true });
    const page = await context.newPage();
    for (const path of [...PAGES, ...openPages(held)]) {
      await page.goto(gateway.console + path);
      await expect(page.locator('#main :is(h1, h2, h3):visible').first(), path).toBeVisible();
      await expect(page.locator('[aria-busy="true"]'), path).toHaveCount(0);
      const axe = new AxeBuilder({ page });
      const { violations } = await (rules === null ? axe : axe.withRules(rules)).analyze();
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      expect(serious.map(({ id, nodes }) => `${path}: ${id} ${nodes[0]?.html}`)).toEqual([]);
      // Nothing is wider than the screen.
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), path).toBeLessThanOrEqual(0);
    }
    await context.close();
    await gateway.api('POST', `/approvals/${held}/reject`, {});
  });
}

test('the policy stops evaluated code, and reports it', async ({ page, gateway, misdeeds }) => {
  await page.goto(gateway.console);
  const stopped = await page.evaluate(async () => {
    const reported = new Promise<string>((done) => document.addEventListener('securitypolicyviolation', (event) => done(event.violatedDirective), { once: true }));
    let error = '';
    try {
      document.body.appendChild(document.createElement('div')).innerHTML = '<b>x</b>';
    } catch (problem) {
      error = String(problem);
    }
    return { error, directive: await reported };
  });
  expect(stopped.error).toContain('TrustedHTML');
  expect(stopped.directive).toBe('require-trusted-types-for');
  misdeeds.length = 0;
});

test('the console is served with safe headers, and only for reading', async ({ gateway }) => {
  const page = await fetch(gateway.console);
  const policy = page.headers.get('content-security-policy') ?? '';
  expect(policy).toContain("script-src 'self';");
  expect(policy).not.toContain('unsafe');
  expect(page.headers.get('cache-control')).toBe('no-store');
  expect(page.headers.get('x-frame-options')).toBe('DENY');
  const script = /src="\.\/(assets\/[^"]+\.js)"/.exec(await page.text())?.[1];
  const answer = await fetch(gateway.console + script);
  expect(answer.headers.get('cache-control')).toContain('immutable');
  const again = await fetch(gateway.console + script, { headers: { 'if-none-match': answer.headers.get('etag') ?? '' } });
  expect(again.status).toBe(304);
  expect((await fetch(gateway.console, { method: 'POST' })).status).toBe(405);
  expect((await fetch(`${gateway.url}/`, { headers: { accept: 'text/html' }, redirect: 'manual' })).headers.get('location')).toBe('console/');
  expect((await fetch(`${gateway.url}/`)).status).toBe(404);
  expect((await fetch(gateway.console, { headers: { origin: 'http://evil.example' } })).status).toBe(403);
});

test('with tokens, the console exchanges one for a session that scripts cannot read', async ({ browser }) => {
  const gateway = (await startGateway(`[auth]\nmode = "token"\n[groups]\nadmin = ["ann"]\n${SERVERS}`)) as Gateway & { remove(): Promise<void> };
  try {
    const made = JSON.parse(gateway.cli('tokens', 'create', '--user', 'ann', '--groups', 'admin', '--json')) as { token: string };
    const context = await browser.newContext();
    const page = await context.newPage();
    const misdeeds: string[] = [];
    watch(page, gateway.url, misdeeds);
    await page.goto(`${gateway.console}inbox`);
    await expect(page.getByRole('heading', { name: 'Sign in to Toolbooth' })).toBeVisible();
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expect(page.getByRole('alert')).toBeVisible();
    await page.getByLabel('Token').fill(made.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expect(page.getByRole('heading', { name: 'Inbox' })).toBeVisible();
    await expect(page.getByText('Live', { exact: true })).toBeVisible();
    await page.reload();
    await expect(page.getByRole('heading', { name: 'Inbox' })).toBeVisible();
    const [cookie, ...more] = await context.cookies();
    expect(more).toEqual([]);
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
    expect(cookie?.value).not.toContain(made.token);
    const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
    expect(stored).not.toContain(made.token);
    expect(stored).not.toContain(cookie?.value);
    // A call from the page works; the same request without the CSRF token does not.
    await page.goto(`${gateway.console}tools/t/demo_hash`);
    await page.getByLabel(/^text/).fill('hello');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await expect(page.getByText('2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824').first()).toBeVisible();
    const forged = await page.evaluate(async () => (await fetch('/tools/demo_hash/call', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"arguments":{"text":"x"}}' })).status);
    expect(forged).toBe(403);
    // Other tabs share the session, also when it ends.
    const other = await context.newPage();
    await other.goto(gateway.console);
    await expect(other.getByRole('heading', { name: 'Overview' })).toBeVisible();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await expect(page.getByRole('heading', { name: 'Sign in to Toolbooth' })).toBeVisible();
    await expect(other.getByRole('heading', { name: 'Sign in to Toolbooth' })).toBeVisible();
    await expect(other.getByText('Your session has ended.')).toBeVisible();
    expect(misdeeds).toEqual([]);
    await context.close();
  } finally {
    await gateway.remove();
  }
});
