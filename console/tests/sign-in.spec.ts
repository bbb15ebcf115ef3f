// Sign-in at an identity provider on another site.

import AxeBuilder from '@axe-core/playwright';
import { expect, startGateway, test, SERVERS, type Gateway } from './gateway';
import { startProvider } from './oidc-provider';

test('a user signs in at the identity provider, returns to the page, and signs out', async ({ browser }) => {
  const provider = await startProvider('ann', ['admin']);
  const auth = `[auth]\nmode = "jwt"\n[auth.jwt]\nissuer = "${provider.issuer}"\naudience = "booth"\n[auth.console]\nclient_id = "console"\nprovider_name = "Example ID"\n`;
  const gateway = (await startGateway(`${auth}${SERVERS}`)) as Gateway & { remove(): Promise<void> };
  try {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${gateway.console}inbox`);
    const button = page.getByRole('button', { name: 'Sign in with Example ID' });
    await button.click();
    await expect(page.getByRole('heading', { name: 'Who are you?' })).toBeVisible();
    expect(new URL(page.url()).hostname).toBe('localhost');
    await page.getByRole('link', { name: 'Continue as ann' }).click();
    // The session cookie is `SameSite=Strict`, and works at once although the browser came from another site.
    await expect(page.getByRole('heading', { name: 'Inbox' })).toBeVisible();
    expect(page.url()).toBe(`${gateway.console}inbox`);
    const cookies = (await context.cookies()).filter(({ domain }) => domain === '127.0.0.1');
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict', path: '/' }]);
    const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
    expect(stored).not.toContain(cookies[0]?.value);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await expect(page.getByRole('heading', { name: 'Signed out' })).toBeVisible();
    await page.getByRole('link', { name: 'Back' }).click();
    await expect(button).toBeVisible();

    // An answer that this browser did not ask for.
    await page.goto(`${gateway.console}login/callback?code=x&state=y`);
    await expect(page.getByRole('alert')).toContainText('auth.login-foreign');
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id }) => id)).toEqual([]);
    await page.getByRole('link', { name: 'Back to the console' }).click();
    await expect(button).toBeVisible();
    await context.close();
  } finally {
    await gateway.remove();
    provider.stop();
  }
});
