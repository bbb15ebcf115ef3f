// Pictures of every page, for people to look at:  npm run shots   (written to shots/)

import { expect, startGateway, test, type Gateway } from './gateway';
import type { Page } from '@playwright/test';

const PAGES: Record<string, string> = {
  overview: '', inbox: 'inbox', tools: 'tools?q=file', tool: 'tools/t/demo_hash', servers: 'servers', server: 'servers/hostile', down: 'servers/tracker',
  events: 'activity', audit: 'activity/audit', 'dead-letters': 'activity/dead', canvas: 'canvas', cost: 'cost', settings: 'settings',
  tokens: 'settings/tokens', consents: 'settings/approvals', 'see-as': 'settings/personas', configuration: 'settings/configuration',
};
const VIEWS = [[1280, 'light'], [1280, 'dark'], [390, 'light'], [390, 'dark']] as const;

async function shoot(page: Page, name: string) {
  await page.waitForTimeout(700);
  await page.screenshot({ path: `shots/${name}.png`, fullPage: true });
}

test('every page with data @shots', async ({ browser, gateway }) => {
  test.setTimeout(300_000);
  for (const text of ['hello', 'world']) await gateway.call('demo_hash', { text });
  await gateway.call('files_make_report', { title: 'Third quarter' });
  await gateway.call('hostile_return_files', {});
  await gateway.call('hostile_crash', {});
  await gateway.call('hostile_send_mail', { to: 'bo@example.org', body: 'The report is ready.', copies: ['ann@example.org'] });
  await gateway.call('identity_create_record', { title: 'Visit' });
  for (const [width, colorScheme] of VIEWS) {
    const context = await browser.newContext({ viewport: { width, height: width > 500 ? 800 : 844 }, colorScheme });
    const page = await context.newPage();
    for (const [name, path] of Object.entries(PAGES)) {
      await page.goto(gateway.console + path);
      await shoot(page, `${name}-${width}-${colorScheme}`);
    }
    await page.goto(`${gateway.console}tools/t/files_make_report`);
    await page.getByLabel(/^title/).fill('Third quarter');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await expect(page.locator('iframe')).toBeVisible();
    await shoot(page, `result-${width}-${colorScheme}`);
    await page.route('**/servers', (route) => route.fulfill({ status: 500, contentType: 'application/problem+json', body: JSON.stringify({ title: 'the store `main.db` cannot be read', code: 'store.failed', hint: 'check the disk' }) }));
    await page.goto(gateway.console);
    await shoot(page, `error-${width}-${colorScheme}`);
    await context.close();
  }
});

test('a new gateway, and sign-in @shots', async ({ browser }) => {
  test.setTimeout(180_000);
  const fresh = (await startGateway(null)) as Gateway & { remove(): Promise<void> };
  const guarded = (await startGateway('[auth]\nmode = "token"\n')) as Gateway & { remove(): Promise<void> };
  for (const [width, colorScheme] of VIEWS) {
    const context = await browser.newContext({ viewport: { width, height: width > 500 ? 800 : 844 }, colorScheme });
    const page = await context.newPage();
    for (const [name, path] of Object.entries({ 'first-run': '', 'empty-inbox': 'inbox', 'empty-canvas': 'canvas', 'empty-activity': 'activity/dead' })) {
      await page.goto(fresh.console + path);
      await shoot(page, `${name}-${width}-${colorScheme}`);
    }
    await page.goto(guarded.console);
    await shoot(page, `sign-in-${width}-${colorScheme}`);
    await context.close();
  }
  await fresh.remove();
  await guarded.remove();
});
