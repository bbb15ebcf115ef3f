// Calls that run, ask and end; apps of tools; the configuration with its origins; keys of users.

import { callAsClient, expect, test } from './gateway';

test('a question of a server is asked where the tool was called, and answered', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}tools/t/inn_ask_guest`);
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  const question = page.getByRole('form', { name: 'Question of a server' });
  await expect(question.getByText('Who comes <b>tonight</b>?')).toBeVisible();
  await expect(question.getByText('inn').first()).toBeVisible();
  await question.getByRole('button', { name: 'Answer' }).click();
  await expect(question.getByText('A value is required.')).toBeVisible();
  await question.getByLabel(/^name/).fill('Ann');
  await question.getByRole('button', { name: 'Answer' }).click();
  await expect(page.getByText('Welcome, Ann!')).toBeVisible();
});

test('a question to a caller without a form is answered in the inbox', async ({ page, gateway }) => {
  const asked = await gateway.call('inn_ask_guest', {});
  expect(asked.status).toBe(202);
  await page.goto(gateway.console);
  await expect(page).toHaveTitle(/^\(\d+\)/);
  const item = page.getByRole('listitem').filter({ hasText: 'inn_ask_guest' });
  await item.getByRole('link', { name: 'Answer' }).first().click();
  const question = page.getByRole('form', { name: 'Question of a server' });
  await question.getByRole('button', { name: 'Decline' }).click();
  await expect(page.getByText('The answer was decline.')).toBeVisible();
  await expect(page.getByRole('link', { name: /inn_ask_guest/ })).toHaveCount(0);
});

test('a page that a server asks for is declined in the inbox', async ({ page, gateway }) => {
  expect((await gateway.call('inn_pay_deposit', {})).status).toBe(202);
  await page.goto(`${gateway.console}inbox`);
  await page.getByRole('link', { name: /inn_pay_deposit/ }).click();
  const question = page.getByRole('region', { name: 'Question of a server' });
  await expect(question.getByText('pay.example', { exact: true })).toBeVisible();
  await question.getByRole('button', { name: 'Decline' }).click();
  await expect(page.getByText('The deposit: decline.')).toBeVisible();
});

test('a running call is listed and cancelled', async ({ page, gateway }) => {
  const sent = gateway.call('inn_work_slowly', { seconds: 50 });
  await page.goto(`${gateway.console}activity/calls`);
  const running = page.getByRole('region', { name: 'Running calls' });
  await running.getByRole('listitem').filter({ hasText: 'inn_work_slowly' }).getByRole('button', { name: 'Cancel' }).click();
  const { status, body } = await sent;
  expect([status, body['code']]).toEqual([409, 'call.cancelled']);
  await expect(running).toHaveCount(0);
  await page.getByLabel('Outcome').selectOption('cancelled');
  await expect(page.getByRole('button', { name: /inn_work_slowly/ }).first()).toBeVisible();
});

test('a running call that waits for approval leads to the inbox', async ({ page, gateway }) => {
  const sent = gateway.call('identity_create_record', { title: 'waits' }, 50);
  await page.goto(`${gateway.console}activity/calls`);
  const row = page.getByRole('region', { name: 'Running calls' }).getByRole('listitem').filter({ hasText: 'identity_create_record' });
  await expect(row.getByText('held', { exact: true })).toBeVisible();
  await row.getByRole('link', { name: 'Review' }).click();
  await expect(page.getByRole('heading', { name: 'identity_create_record' })).toBeVisible();
  await page.waitForTimeout(600);
  await page.getByRole('button', { name: 'Approve' }).click();
  expect((await sent).status).toBe(200);
});

test('a call of the form is cancelled', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}tools/t/inn_work_slowly`);
  await page.getByLabel(/^seconds/).fill('50');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await expect(page.getByText('call.cancelled')).toBeVisible();
});

test('cancelling a call of the form leaves another call of the same tool alone', async ({ page, gateway }) => {
  const running = page.getByRole('region', { name: 'Running calls' });
  await page.goto(`${gateway.console}tools/t/inn_work_slowly`);
  await page.getByLabel(/^seconds/).fill('50');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await expect(page.getByRole('button', { name: 'Cancel' })).toBeVisible();
  // The newest call of the tool is not the one of the form.
  const other = gateway.call('inn_work_slowly', { seconds: 49 });
  const calls = async () => (await gateway.api('GET', '/calls/running')).body['calls'] as unknown as { id: string; request?: string }[];
  await expect.poll(async () => (await calls()).length).toBe(2);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await expect(page.getByText('call.cancelled')).toBeVisible();
  const left = await calls();
  expect(left.map((call) => call.request)).toEqual([undefined]);
  await page.goto(`${gateway.console}activity/calls`);
  await running.getByRole('button', { name: 'Cancel' }).click();
  expect((await other).status).toBe(409);
});

test('calls are filtered on the gateway, and one is opened with its stages', async ({ page, gateway }) => {
  await gateway.call('demo_hash', { text: 'one' });
  await gateway.call('hostile_look_up', { word: 'two' });
  await page.goto(`${gateway.console}activity/calls`);
  await page.getByLabel('Server').selectOption('demo');
  await expect(page).toHaveURL(/server=demo/);
  await expect(page.getByRole('button', { name: /hostile_/ })).toHaveCount(0);
  await page.getByRole('button', { name: /demo_hash/ }).first().click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('heading', { name: 'Where the time went' })).toBeVisible();
  await expect(dialog.getByText('mcp:demo')).toBeVisible();
  await dialog.getByRole('button', { name: 'Close' }).first().click();
  await expect(page).toHaveURL(/activity\/calls\?server=demo/);
});

test('calls are found by client, name and time, and the address keeps the filter', async ({ page, gateway }) => {
  await gateway.call('demo_echo', { text: 'over REST' });
  await callAsClient(gateway, 'notebook', 'demo_echo', { text: 'of a client' });
  await page.goto(`${gateway.console}activity/calls`);
  await page.getByLabel('Tool name contains').fill('ECHO');
  await page.getByLabel('Tool name contains').press('Enter');
  await expect(page).toHaveURL(/q=ECHO/);
  await page.getByRole('button', { name: 'More filters' }).click();
  await page.getByLabel('Client').fill('notebook');
  await page.getByLabel('Client').press('Enter');
  await page.getByLabel('Time').selectOption('Last hour');
  await expect(page).toHaveURL(/since=1h/);
  await expect(page.getByText('1 call', { exact: true })).toBeVisible();
  // The page of the address alone shows the same.
  await page.reload();
  await page.getByRole('button', { name: /demo_echo/ }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('link', { name: 'notebook' })).toBeVisible();
  // The arguments, and the result, which is still in the memory of the gateway.
  await expect(dialog.getByText('of a client').first()).toBeVisible();
  await dialog.getByRole('button', { name: 'Close' }).first().click();
  await page.getByLabel('Time').selectOption('From … until');
  await page.getByLabel('Until').fill('2001-01-01T00:00');
  await expect(page.getByText('No call matches the filter')).toBeVisible();
  await page.getByRole('button', { name: 'Clear the filter' }).click();
  await expect(page).toHaveURL(/activity\/calls$/);
  await expect(page.getByRole('button', { name: /demo_echo/ }).first()).toBeVisible();
});

test('the overview counts the calls of today', async ({ page, gateway }) => {
  await gateway.call('demo_hash', { text: 'counted' });
  await page.goto(gateway.console);
  const card = page.getByRole('region', { name: 'Calls today' });
  const number = card.locator('.figure b').first();
  await expect(number).toHaveText(/^[1-9]/);
  const before = Number(await number.textContent());
  await gateway.call('demo_hash', { text: 'counted, too' });
  await expect(number).not.toHaveText(String(before));
  // The results of these calls fill the context of a model.
  const tokens = card.locator('.figure').filter({ hasText: 'tokens of results' });
  await expect(tokens.locator('b')).toHaveText(/^[1-9]/);
  await expect(tokens).toHaveAttribute('title', /^\d+ results? with [\d,]+ bytes/);
  await expect(card.getByRole('img', { name: /^Calls per hour/ })).toBeVisible();
  await card.getByRole('link', { name: 'Show' }).click();
  await expect(page).toHaveURL(/activity\/calls\?since=\d+/);
  await expect(page.getByRole('button', { name: /demo_hash/ }).first()).toBeVisible();
});

test('a held call is counted apart from calls, on the overview and in the list', async ({ page, gateway }) => {
  await gateway.call('identity_create_record', { title: 'counted apart' });
  await gateway.call('demo_hash', { text: 'a call' });
  await page.goto(gateway.console);
  const card = page.getByRole('region', { name: 'Calls today' });
  const figure = async (about: string) => Number(await card.locator('.figure').filter({ has: page.getByText(about, { exact: true }) }).locator('b').textContent());
  await expect.poll(() => figure('held for approval')).toBeGreaterThan(0);
  const [calls, held] = [await figure('calls'), await figure('held for approval')];
  await card.getByRole('link', { name: 'Show' }).click();
  await expect(page.getByText(`${calls} calls, ${held} held`, { exact: true })).toBeVisible();
});

test('long names are shown in full on a phone', async ({ browser, gateway }) => {
  await gateway.call('identity_create_record', { title: 'on a phone' });
  const context = await browser.newContext({ viewport: { width: 390, height: 844 } });
  const page = await context.newPage();
  for (const path of ['activity/calls', 'activity/events', 'activity/audit']) {
    await page.goto(gateway.console + path);
    const name = page.locator('.event-row .name').filter({ hasText: 'identity_create_record' }).first();
    await expect(name).toBeVisible();
    const isCut = await page.locator('.event-row .name').evaluateAll((names) => names.some((one) => one.scrollWidth > one.clientWidth + 1));
    expect(isCut, path).toBe(false);
  }
  await context.close();
});

test('a setting is shown with the file and line that set it', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}settings/configuration`);
  await page.getByLabel('Filter settings').fill('approval.');
  const row = page.getByRole('listitem').filter({ hasText: 'approval.expires_seconds' });
  await expect(row).toContainText('600');
  await expect(row).toContainText(/toolbooth\.toml:\d+/);
});

test('a key of the user is set and deleted, and never shown', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}settings/keys`);
  const row = page.getByRole('listitem').filter({ hasText: 'keyed' });
  await row.getByRole('button', { name: 'Set key' }).click();
  await page.getByRole('textbox', { name: 'Key' }).fill('k-0123456789');
  await page.getByRole('button', { name: 'Store' }).click();
  await expect(row.getByRole('button', { name: 'Replace' })).toBeVisible({ timeout: 20_000 });
  expect(await page.content()).not.toContain('k-0123456789');
  await row.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(row.getByRole('button', { name: 'Set key' })).toBeVisible();
});

test('the app of a tool receives its result, and asks before it changes something', async ({ page, gateway, misdeeds }) => {
  await page.goto(`${gateway.console}tools/t/inn_show_board`);
  await page.getByLabel(/^day/).fill('Friday');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await expect(page.locator('iframe[title="App of inn_show_board"]')).toHaveAttribute('sandbox', 'allow-scripts');
  const app = page.frameLocator('iframe[title="App of inn_show_board"]');
  await expect(app.locator('#given')).toHaveText('for Friday');
  // The app has the theme of the console, also after a change.
  await expect(app.locator('#theme')).toHaveText('light #1b1c1a');
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await expect(app.locator('#theme')).toHaveText('dark #ecede8');
  await page.getByRole('button', { name: 'Theme: dark' }).click();
  await expect(app.locator('#result')).toHaveText('two guests');
  await expect(app.locator('#other')).toHaveText('other server refused');
  await expect(app.locator('#network')).toHaveText('network blocked');
  await app.getByRole('button', { name: 'Add Bo' }).click();
  await page.getByRole('button', { name: 'Refuse' }).click();
  await expect(app.locator('#added')).toHaveText('error: the user refused');
  await app.getByRole('button', { name: 'Add Bo' }).click();
  await page.getByRole('button', { name: 'Allow' }).click();
  await expect(app.locator('#added')).toHaveText('added Bo');
  // The policy of the frame stopped its request, and the browser reported that.
  expect(misdeeds.splice(0).filter((misdeed) => !misdeed.includes('/me'))).toEqual([]);
});

test('the result of a call has an address of its own, with the app of its tool', async ({ page, gateway, misdeeds }) => {
  await page.goto(`${gateway.console}tools/t/inn_show_board`);
  await page.getByLabel(/^day/).fill('Sunday');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByRole('link', { name: 'Open the result in Canvas' }).click();
  await expect(page).toHaveURL(/canvas\/call\/[0-9a-f-]{36}$/);
  const app = page.frameLocator('iframe[title="App of inn_show_board"]');
  await expect(app.locator('#given')).toHaveText('for Sunday');
  await page.reload();
  await expect(app.locator('#given')).toHaveText('for Sunday');
  await expect(page.locator('pre').getByText('two guests').first()).toBeVisible();
  expect(misdeeds.splice(0).filter((misdeed) => !misdeed.includes('/me'))).toEqual([]);
});

test('a result without its answer still shows the files by its address', async ({ page, gateway }) => {
  const { body } = await gateway.call('files_make_report', { title: 'For all' });
  // Only the newest answers are in the memory of the gateway.
  await gateway.stop();
  await gateway.start();
  await page.goto(`${gateway.console}canvas/call/${String(body['call'])}`);
  await expect(page.getByRole('heading', { name: 'files_make_report' })).toBeVisible();
  await expect(page.getByText('The answer of this call is not available.')).toBeVisible();
  await expect(page.frameLocator('iframe').getByRole('heading', { name: 'For all' })).toBeVisible();
});

test('the result of an approved call shows the app of its tool in the inbox', async ({ page, gateway, misdeeds }) => {
  await page.goto(`${gateway.console}inbox`);
  await page.getByRole('button', { name: 'Plan mode: off' }).click();
  await expect(page.getByRole('button', { name: 'Plan mode: on' })).toBeVisible();
  const held = await gateway.call('inn_add_guest', { name: 'Eva' });
  expect(held.status).toBe(202);
  await expect(page.getByRole('link', { name: /1 step.*inn_add_guest name: Eva/s })).toBeVisible();
  await page.getByRole('link', { name: /1 step/ }).click();
  await page.getByRole('button', { name: 'Run all 1' }).click();
  await expect(page.locator('.steps').getByText('done')).toHaveCount(1);
  await page.getByRole('button', { name: 'Plan mode: on' }).click();
  await page.goto(`${gateway.console}inbox/${String(held.body['held'])}`);
  await expect(page.frameLocator('iframe[title="App of inn_add_guest"]').locator('#result')).toHaveText('added Eva');
  expect(misdeeds.splice(0).filter((misdeed) => !misdeed.includes('/me'))).toEqual([]);
});

test('a prompt is filled in', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}jobs/prompts`);
  await page.getByRole('listitem').filter({ hasText: 'weekly' }).getByRole('button', { name: 'Use' }).click();
  await page.getByRole('button', { name: 'Show the messages' }).click();
  await expect(page.getByText('Write the report of the week.')).toBeVisible();
});

test('a call leads to its row in the audit log', async ({ page, gateway }) => {
  await gateway.call('demo_hash', { text: 'for the audit' });
  await page.goto(`${gateway.console}activity/calls`);
  await page.getByRole('button', { name: /demo_hash/ }).first().click();
  const link = page.getByRole('dialog').getByRole('link', { name: /^\d+$/ });
  const row = await link.textContent();
  await link.click();
  await expect(page).toHaveURL(new RegExp(`/activity/audit/${row}$`));
  const dialog = page.getByRole('dialog', { name: `Row ${row}` });
  await expect(dialog.getByText('for the audit')).toBeVisible();
  await dialog.getByRole('link', { name: 'The call' }).click();
  await expect(page.getByRole('dialog', { name: /demo_hash/ })).toBeVisible();
});
