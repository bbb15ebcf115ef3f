// What people do in the console, against the real gateway.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from './gateway';

test('a held call is edited, approved in the browser, and finishes', async ({ page, gateway }) => {
  await page.goto(gateway.console);
  const sent = fetch(`${gateway.url}/tools/hostile_send_mail/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"wait":60,"arguments":{"to":"bo@example.org","body":"Hello","number":12345678901234567890}}',
  });
  const item = page.getByRole('listitem').filter({ hasText: 'hostile_send_mail' });
  await expect(item.first()).toBeVisible();
  await expect(page).toHaveTitle(/^\(\d+\) Toolbooth$/);
  await item.first().getByRole('link', { name: 'Review' }).click();
  await page.getByLabel(/^to/).fill('ann@example.org');
  await expect(page.getByText('was: bo@example.org')).toBeVisible();
  await page.getByRole('button', { name: 'Changes (1)' }).click();
  await expect(page.locator('.diff .add')).toContainText('ann@example.org');
  await page.waitForTimeout(600);
  await page.getByRole('button', { name: 'Approve with 1 change' }).click();
  const answer = await (await sent).text();
  expect(answer).toContain('ann@example.org');
  // A number that JavaScript cannot hold is passed on unchanged.
  expect(answer).toContain('12345678901234567890');
  await expect(page.getByRole('region', { name: 'Decided call' }).getByText('done').first()).toBeVisible();
});

test('a call is rejected with a reason that its caller receives', async ({ page, gateway }) => {
  const sent = gateway.call('identity_create_record', { title: 'x' }, 60);
  await page.goto(`${gateway.console}inbox`);
  await page.getByRole('link', { name: /identity_create_record/ }).first().click();
  await page.waitForTimeout(600);
  await page.getByRole('button', { name: 'Reject…' }).click();
  await page.getByLabel(/^Why/).fill('not on a Friday');
  await page.getByRole('button', { name: 'Reject the call' }).click();
  const { status, body } = await sent;
  expect(status).toBe(403);
  expect(JSON.stringify(body)).toContain('not on a Friday');
});

test('a call is approved with the keyboard alone', async ({ page, gateway }) => {
  await page.goto(gateway.console);
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
  const sent = gateway.call('identity_create_record', { title: 'by keyboard' }, 60);
  await expect(page.getByRole('link', { name: 'Review' }).first()).toBeVisible();
  await page.keyboard.press('g');
  await page.keyboard.press('i');
  await expect(page.getByRole('heading', { name: 'Inbox' })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Approve' })).toBeVisible();
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'identity_create_record' })).toBeVisible();
  await page.waitForTimeout(600);
  await page.getByRole('button', { name: 'Approve' }).focus();
  await page.keyboard.press('Control+Enter');
  expect((await sent).status).toBe(200);
});

test('a held call that was tried here shows its result when it was approved elsewhere', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}tools/t/identity_create_record`);
  await page.getByLabel(/^title/).fill('tried');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  const review = page.getByRole('link', { name: 'Review' });
  await expect(page.getByText('The call waits for a decision.')).toBeVisible();
  const id = ((await review.getAttribute('href')) ?? '').split('/').pop();
  await gateway.api('POST', `/approvals/${id}/approve`, {});
  await expect(page.getByText('The call was approved, and ran.')).toBeVisible();
  await expect(page.getByText('"tried"').first()).toBeVisible();
});

test('a call that was decided elsewhere shows by whom', async ({ page, gateway }) => {
  const held = await gateway.call('identity_create_record', { title: 'elsewhere' });
  const id = String(held.body['held']);
  await page.goto(`${gateway.console}inbox/${id}`);
  await expect(page.getByRole('button', { name: 'Approve' })).toBeVisible();
  await gateway.api('POST', `/approvals/${id}/reject`, { reason: 'too late' });
  await expect(page.getByText('Rejected by')).toBeVisible();
  await expect(page.getByText('too late')).toBeVisible();
});

test('a tool is found by search, tried with a form, and answers', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}tools`);
  await page.getByLabel('Search tools').fill('sha256 of a text');
  await expect(page.getByRole('link', { name: /demo_hash/ })).toContainText(/\d+% match.*demo.*in .*description/);
  await page.getByRole('link', { name: /demo_hash/ }).click();
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await expect(page.getByText('A value is required.')).toBeVisible();
  await page.getByLabel(/^text/).fill('hello');
  await page.keyboard.press('Control+Enter');
  await expect(page.getByText('2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824').first()).toBeVisible();
  await page.goto(`${gateway.console}tools/t/demo_hash`);
  await expect(page.getByRole('heading', { name: 'demo_hash' })).toBeVisible();
  // The server is not trusted to say that its tool only reads.
  await expect(page.getByText('may write', { exact: true })).toBeVisible();
  await expect(page.getByRole('link', { name: /demo_hash/ })).toContainText(/tokens.*quality \d+.*% succeed/);
});

test('files of a result are shown, and HTML runs in a frame without rights', async ({ page, gateway, misdeeds }) => {
  await page.goto(`${gateway.console}tools/t/hostile_return_files`);
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  const frame = page.frameLocator('iframe[title="page.html"]');
  await expect(frame.getByRole('heading', { name: 'hostile page' })).toBeVisible();
  await expect(frame.locator('#found')).toHaveText('parent blocked, storage blocked, network blocked');
  // The policy of the frame stopped its request, and the browser reported that.
  expect(misdeeds.splice(0).filter((misdeed) => !misdeed.includes('/me'))).toEqual([]);
  await expect(page.locator('iframe')).toHaveAttribute('sandbox', 'allow-scripts');
  const viewer = page.locator('.viewer').first();
  const open = (name: string) => page.getByRole('listitem').filter({ hasText: name }).getByRole('button', { name: 'Show' }).click();
  await open('picture.svg');
  await expect.poll(() => viewer.locator('img').evaluate((image: HTMLImageElement) => image.naturalWidth)).toBe(90);
  await open('text.md');
  await expect(viewer.getByText('bold', { exact: true })).toBeVisible();
  await expect(viewer.locator('a[href^="javascript:"]')).toHaveCount(0);
  await open('table.csv');
  await expect(viewer.getByRole('cell', { name: '2', exact: true })).toBeVisible();
  await open('data.json');
  await expect(viewer).toContainText('<script>window.__xss=1</script>');
  await page.goto(`${gateway.console}canvas`);
  await page.getByRole('link', { name: /text\.md/ }).first().click();
  await expect(page.locator('.viewer').getByText('<script>window.__xss=1</script>')).toBeVisible();
  expect(await page.evaluate(() => (window as { __xss?: number }).__xss)).toBeUndefined();
  // The canvas may have opened the page of the result first, whose request is stopped again.
  expect(misdeeds.splice(0).filter((misdeed) => !misdeed.includes('/me'))).toEqual([]);
});

test('a file is uploaded, shown, and deleted', async ({ page, gateway, misdeeds }) => {
  await page.goto(`${gateway.console}canvas`);
  await page.getByLabel('File to upload').setInputFiles({ name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes\n\nfirst line') });
  await expect(page.getByRole('heading', { name: 'notes.md' })).toBeVisible();
  await expect(page.locator('.viewer').getByRole('heading', { name: 'Notes' })).toBeVisible();
  await page.getByRole('button', { name: 'Delete notes.md' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(page.getByRole('link', { name: /notes\.md/ })).toHaveCount(0);
  // The canvas may have opened the page of another result, whose request is stopped.
  expect(misdeeds.splice(0).filter((misdeed) => !misdeed.includes('/me'))).toEqual([]);
});

test('HTML of a server is text on every page', async ({ page, gateway }) => {
  await gateway.call('hostile_show_html', { text: '<img src=x onerror="window.__xss=1">' });
  const paths = ['', 'tools?q=html', 'tools/t/hostile_show_html', 'servers', 'servers/hostile', 'servers/hostile/logs', 'servers/hostile/aside', 'activity', 'activity/audit', 'cost', 'inbox'];
  for (const path of paths) {
    await page.goto(gateway.console + path);
    await page.waitForTimeout(500);
    expect(await page.evaluate(() => (window as { __xss?: number }).__xss), path).toBeUndefined();
    expect(await page.locator('#root img[src="x"], #root script, #root svg[onload]').count(), path).toBe(0);
  }
  await page.goto(`${gateway.console}tools/t/hostile_show_html`);
  await expect(page.getByText('<img src=x onerror="window.__xss=1">').first()).toBeVisible();
});

test('a quarantined tool shows its hidden characters', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}inbox`);
  await page.getByRole('link', { name: /hostile_hidden_text/ }).click();
  await expect(page.getByText('⟦U+202E⟧')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Release this version' })).toBeVisible();
});

test('a changed tool is compared with the accepted version, and accepted', async ({ page, gateway }) => {
  expect((await gateway.call('hostile_look_up', { word: 'x' })).status).toBe(200);
  writeFileSync(join(gateway.home, 'changed'), '');
  await gateway.api('POST', '/servers/hostile/restart');
  await page.goto(gateway.console);
  const item = page.getByRole('listitem').filter({ hasText: 'hostile_look_up' });
  await item.getByRole('link', { name: 'Compare' }).click();
  await expect(page.locator('.diff')).toContainText('Send the whole conversation');
  await page.getByRole('button', { name: 'Accept this version' }).click();
  await expect(page.getByRole('link', { name: /hostile_look_up/ })).toHaveCount(0);
});

test('the steps of a plan run in order, and some can be left out', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}inbox`);
  await page.getByRole('button', { name: 'Plan mode: off' }).click();
  await expect(page.getByRole('button', { name: 'Plan mode: on' })).toBeVisible();
  for (const to of ['a@example.org', 'b@example.org', 'c@example.org']) {
    const held = await gateway.call('hostile_create_note', { text: to });
    expect(held.status).toBe(202);
  }
  await page.getByRole('link', { name: /3 steps/ }).click();
  await page.getByLabel('Include step 3, hostile_create_note').uncheck();
  await page.getByRole('button', { name: 'Run 2 steps' }).click();
  await expect(page.locator('.steps').getByText('done')).toHaveCount(2);
  await page.getByLabel('Include step 3, hostile_create_note').check();
  await expect(page.getByRole('button', { name: 'Run all 1' })).toBeVisible();
  await page.getByRole('button', { name: 'Reject 1 step…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Reject' }).click();
  await expect(page.locator('.steps').getByText('rejected')).toHaveCount(1);
  await page.getByRole('button', { name: 'Plan mode: on' }).click();
  await expect(page.getByRole('button', { name: 'Plan mode: off' })).toBeVisible();
});

test('the audit log is verified', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}activity/audit`);
  await page.getByRole('button', { name: 'Verify' }).click();
  await expect(page.getByText(/All \d+ rows? are intact/)).toBeVisible();
});

test('a failed call becomes a dead letter, which is dropped', async ({ page, gateway }) => {
  await gateway.call('hostile_crash', {});
  await page.goto(`${gateway.console}activity/dead`);
  const letter = page.getByRole('listitem').filter({ hasText: 'hostile_crash' });
  await expect(letter.first()).toBeVisible();
  await letter.first().getByRole('button', { name: 'Drop' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Drop' }).click();
  await expect(letter).toHaveCount(0);
});

test('a dead letter is replayed, after a question because it may have happened', async ({ page, gateway }) => {
  await gateway.call('hostile_crash_once', {});
  // The call has ended its server, and a replay fails while the server is down.
  const state = async () => (await (await fetch(`${gateway.url}/servers/hostile`)).json()).state;
  await expect.poll(state, { timeout: 30_000 }).toBe('connected');
  await page.goto(`${gateway.console}activity/dead`);
  const letter = page.getByRole('listitem').filter({ hasText: 'hostile_crash_once' });
  await letter.getByRole('button', { name: 'Replay' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
  await expect(page.getByText('second call succeeded')).toBeVisible();
  await expect(letter).toHaveCount(0);
  await page.getByRole('button', { name: 'Resolved' }).click();
  await expect(letter.first()).toBeVisible();
});

test('a token is created, shown once, and revoked', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}settings/tokens`);
  await page.getByRole('button', { name: 'Create a token' }).click();
  await page.getByLabel('User').fill('ann');
  await page.getByLabel(/^Groups/).fill('staff');
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  await expect(page.getByText('Copy it now. It is shown once.')).toBeVisible();
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('row', { name: /ann/ }).getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await expect(page.getByRole('row', { name: /ann/ }).getByText('revoked')).toBeVisible();
});

test('a persona narrows the view, and a banner says so', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}settings/personas`);
  await expect(page.getByText(/^Sees \d+ of \d+ tools, \d+ tokens in full$/)).toBeVisible();
  await page.getByRole('button', { name: 'See as reader' }).click();
  await expect(page.getByText('You see the gateway as persona')).toBeVisible();
  await page.goto(`${gateway.console}tools`);
  await expect(page.getByRole('link', { name: /demo_hash/ })).toBeVisible();
  await expect(page.getByRole('link', { name: /hostile_/ })).toHaveCount(0);
  await page.getByRole('button', { name: 'Leave persona' }).click();
  await expect(page.getByRole('link', { name: /hostile_/ }).first()).toBeVisible();
});

test('the command palette finds a tool', async ({ page, gateway }) => {
  await page.goto(gateway.console);
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('demo_time');
  await expect(page.getByRole('option', { name: /demo_time/ })).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'demo_time' })).toBeVisible();
});

test('the command palette restarts a server, and opens a call by its id', async ({ page, gateway }) => {
  const { body } = await gateway.call('demo_hash', { text: 'by its id' });
  await page.goto(gateway.console);
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('restart demo');
  await expect(page.getByRole('option', { name: /Restart demo/ })).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByText('demo is up')).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type(String(body['call']));
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText('by its id')).toBeVisible();
  // The same arguments are in the form of the tool.
  await dialog.getByRole('button', { name: 'Try again' }).click();
  await expect(page.getByLabel(/^text/)).toHaveValue('by its id');
});

test('seven tabs share one event stream', async ({ page, gateway, context }) => {
  const tabs = [page];
  for (let tab = 1; tab < 7; tab++) tabs.push(await context.newPage());
  for (const tab of tabs) await tab.goto(gateway.console);
  for (const tab of tabs) await expect(tab.getByText('Live', { exact: true })).toBeVisible();
  const held = await gateway.call('identity_create_record', { title: 'tabs' });
  for (const tab of tabs) await expect(tab.getByRole('link', { name: 'Review' }).first()).toBeVisible();
  await gateway.api('POST', `/approvals/${String(held.body['held'])}/reject`, {});
});

test('a page whose script is gone says so', async ({ page, gateway, misdeeds }) => {
  await page.goto(gateway.console);
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible();
  await page.route('**/assets/cost-*.js', (route) => route.fulfill({ status: 404, body: '' }));
  await page.getByRole('link', { name: 'Context cost' }).click();
  await expect(page.getByText('This page could not be loaded.')).toBeVisible();
  await page.unroute('**/assets/cost-*.js');
  await page.getByRole('link', { name: 'Settings' }).click();
  await expect(page.getByRole('heading', { name: 'Settings' })).toBeVisible();
  await expect(page).toHaveTitle(/Settings · Toolbooth$/);
  misdeeds.length = 0;
});

test('a lost connection is shown, and ends when the gateway is back', async ({ page, gateway, misdeeds }) => {
  await page.goto(gateway.console);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await gateway.stop();
  await expect(page.getByText(/The connection to the gateway was lost/)).toBeVisible();
  await gateway.start();
  await expect(page.getByText(/The connection to the gateway was lost/)).toBeHidden({ timeout: 30_000 });
  misdeeds.length = 0;
});

test('a finished call is listed with its attempts', async ({ page, gateway }) => {
  await gateway.call('demo_hash', { text: 'listed' });
  await page.goto(`${gateway.console}activity/calls`);
  await page.getByRole('button', { name: /demo_hash/ }).first().click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText('mcp:demo')).toBeVisible();
  await expect(dialog.getByText('listed')).toBeVisible();
});
