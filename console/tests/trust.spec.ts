// Servers of a project file: what they would run, and who may trust them.

import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Gateway, expect, startGateway, test, watch } from './gateway';

test('a server of a project is trusted only in a browser that its owner opened', async ({ browser }) => {
  const gateway = (await startGateway(null)) as Gateway & { remove(): Promise<void> };
  const context = await browser.newContext();
  try {
    await gateway.stop();
    const inn = { command: process.execPath, args: [resolve('tests/ask-server.mjs')] };
    writeFileSync(join(gateway.home, '.mcp.json'), JSON.stringify({ mcpServers: { inn } }));
    await gateway.start();
    const page = await context.newPage();
    const misdeeds: string[] = [];
    watch(page, gateway.url, misdeeds);
    await page.goto(gateway.console);
    const broken = page.getByRole('region', { name: 'Broken' });
    const dialog = page.getByRole('dialog', { name: 'Trust the server inn?' });
    const trust = dialog.getByRole('button', { name: 'Trust', exact: true });
    await broken.getByRole('button', { name: 'Review' }).click();
    // Any program could have opened this page, so it only shows what would run, and the commands.
    await expect(dialog).toContainText(process.execPath);
    await expect(dialog).toContainText('ask-server.mjs');
    await expect(dialog.locator('pre')).toHaveText(['toolbooth console', 'toolbooth trust']);
    await expect(trust).toHaveCount(0);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await expect(dialog).toHaveCount(0);

    const { url } = JSON.parse(gateway.cli('console', '--json')) as { url: string };
    expect(url.startsWith(`${gateway.console}#owner=`)).toBe(true);
    await page.goto('about:blank');
    await page.goto(url);
    // The code is removed from the address bar.
    await expect(page).toHaveURL(gateway.console);
    await broken.getByRole('button', { name: 'Review' }).click();
    await trust.click();
    await expect(dialog).toHaveCount(0);
    await expect.poll(async () => (await gateway.api('GET', '/servers/inn')).body.state).toBe('connected');
    await expect(broken).toHaveCount(0);
    expect(misdeeds).toEqual([]);
  } finally {
    await context.close();
    await gateway.remove();
  }
});
