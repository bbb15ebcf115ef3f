// Pictures of every page, for people to look at:  npm run shots   (written to shots/)

import { resolve } from 'node:path';
import { SERVERS, callAsClient, expect, listAsClient, startGateway, test, type Gateway } from './gateway';
import type { Browser, Page } from '@playwright/test';
import { type Reply, startModel } from './model';
import { addWork } from './work';

const PAGES: Record<string, string> = {
  overview: '', inbox: 'inbox', tools: 'tools?q=file', tool: 'tools/t/demo_hash', servers: 'servers', server: 'servers/hostile', down: 'servers/tracker',
  changes: 'servers/hostile/changes', calls: 'activity', 'calls-filtered': 'activity/calls?since=24h&client=notebook', 'calls-between': 'activity/calls?since=1', events: 'activity/events', audit: 'activity/audit', 'dead-letters': 'activity/dead', canvas: 'canvas', cost: 'cost', settings: 'settings',
  jobs: 'jobs', job: 'jobs/jobs/nightly-hash', skill: 'jobs/skills/fingerprint', tasks: 'jobs/tasks', skills: 'jobs/skills', prompts: 'jobs/prompts', keys: 'settings/keys',
  tokens: 'settings/tokens', consents: 'settings/approvals', 'see-as': 'settings/personas', configuration: 'settings/configuration',
};
const ALL_VIEWS = [[1280, 'light'], [1280, 'dark'], [390, 'light'], [390, 'dark']] as const;
/** `SCHEME=light` makes the pictures of one colour scheme only. */
const VIEWS = ALL_VIEWS.filter(([, scheme]) => !process.env.SCHEME || process.env.SCHEME === scheme);

async function shoot(page: Page, name: string) {
  await page.waitForTimeout(700);
  await page.screenshot({ path: `shots/${name}.png`, fullPage: true });
}

/** Calls, files, a failure, held calls, a question, a skill, a job and a task. */
async function fill(gateway: Gateway) {
  for (const text of ['hello', 'world']) await gateway.call('demo_hash', { text });
  await gateway.call('files_make_report', { title: 'Third quarter' });
  await gateway.call('hostile_return_files', {});
  await gateway.call('hostile_crash', {});
  await callAsClient(gateway, 'notebook', 'demo_echo', { text: 'of a client' });
  await gateway.call('hostile_send_mail', { to: 'bo@example.org', body: 'The report is ready.', copies: ['ann@example.org'] });
  await gateway.call('identity_create_record', { title: 'Visit' });
  await gateway.call('inn_ask_guest', {});
  void gateway.call('inn_work_slowly', { seconds: 600 }).catch(() => undefined);
  await addWork(gateway);
  await gateway.api('POST', '/jobs/nightly-hash/run', {});
  await gateway.api('POST', '/skills/visit-record/run', { arguments: { title: 'Visit of the auditors' }, wait: 0 });
}

test('every page with data @shots', async ({ browser, gateway }) => {
  test.setTimeout(300_000);
  await fill(gateway);
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
    await page.goto(`${gateway.console}tools/t/inn_show_board`);
    await page.getByLabel(/^day/).fill('Friday');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await expect(page.frameLocator('iframe').getByText('two guests')).toBeVisible();
    await shoot(page, `app-${width}-${colorScheme}`);
    await page.goto(`${gateway.console}jobs/skills/visit-record`);
    await page.getByRole('region', { name: 'Runs', exact: true }).getByRole('link', { name: /:/ }).first().click();
    await expect(page.getByRole('link', { name: 'Review' }).first()).toBeVisible();
    await shoot(page, `skill-run-${width}-${colorScheme}`);
    await page.goto(`${gateway.console}activity`);
    await page.getByRole('button', { name: /hostile_crash/ }).first().click();
    await shoot(page, `call-${width}-${colorScheme}`);
    await page.route('**/servers', (route) => route.fulfill({ status: 500, contentType: 'application/problem+json', body: JSON.stringify({ title: 'the store `main.db` cannot be read', code: 'store.failed', hint: 'check the disk' }) }));
    await page.goto(gateway.console);
    await shoot(page, `error-${width}-${colorScheme}`);
    await context.close();
  }
});

/** The servers of the tests under names that readers of the guide understand. Three of them are the bundled ones. */
const guideServers = () =>
  SERVERS.split(/\n(?=\[)/).filter((section) => !/^\[servers\.(hostile|keyed)\]/.test(section)).join('\n')
    .replace('[servers.inn]', '[servers.booking]')
    .replaceAll(/command = \[".*", "demo-server", "(\w+)"\]/g, 'bundled = "$1"');

/** A call that a person approved after some seconds; returns its id. */
async function callApproved(gateway: Gateway): Promise<string> {
  const sent = gateway.call('identity_create_record', { title: 'Visit of the board' }, 60);
  const held = async () => ((await gateway.api('GET', '/approvals?state=pending')).body as unknown as { approvals: { id: string }[] }).approvals[0]?.id;
  await expect.poll(held).toBeTruthy();
  await new Promise((done) => setTimeout(done, 4000));
  await gateway.api('POST', `/approvals/${await held()}/approve`, {});
  return String((await sent).body['call']);
}

test('pictures of the guide @shots', async ({ browser }) => {
  // They contain times, so they are only made on request: GUIDE=1 npm run shots
  test.skip(!process.env.GUIDE);
  test.setTimeout(240_000);
  const gateway = (await startGateway(`${guideServers()}\n[exposure]\nmode = "search"\n`)) as Gateway & { remove(): Promise<void> };
  await expect.poll(async () => JSON.stringify((await gateway.api('GET', '/servers')).body)).toMatch(/"booking","state":"connected"/);
  for (const text of ['hello', 'world']) await gateway.call('demo_hash', { text });
  await gateway.call('files_make_report', { title: 'Third quarter' });
  await gateway.call('demo_flaky', {});
  await callAsClient(gateway, 'cursor', 'demo_hash', { text: 'hello from a client' });
  const approved = await callApproved(gateway);
  await gateway.call('identity_create_record', { title: 'Visit of the auditors' });
  await addWork(gateway);
  await listAsClient(gateway, 'cursor');
  await gateway.api('POST', '/jobs/nightly-hash/transition', { target_status: 'scheduled' });
  await gateway.api('POST', '/jobs/nightly-hash/run', {});
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 }, colorScheme: 'light' });
  const page = await context.newPage();
  const pictures = { overview: '', inbox: 'inbox', call: `activity/calls/${approved}`, job: 'jobs/jobs/nightly-hash', tools: 'tools/t/demo_hash', servers: 'servers', activity: 'activity', cost: 'cost', settings: 'settings/personas' };
  for (const [name, path] of Object.entries(pictures)) {
    await page.goto(gateway.console + path);
    if (name === 'inbox') await page.getByLabel(/^title/).fill('Visit of the auditors on Friday');
    await page.waitForTimeout(700);
    await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
    await page.screenshot({ path: `../docs/guide/images/console-${name}.png` });
  }
  const { body } = await gateway.api('POST', '/skills/visit-record/run', { arguments: { title: 'Visit of the auditors' }, wait: 0 });
  const { run } = (body as unknown as { result: { structuredContent: { run: string } } }).result.structuredContent;
  await page.goto(`${gateway.console}jobs/skills/visit-record/${run}`);
  await expect(page.getByRole('link', { name: 'Review' }).first()).toBeVisible();
  await page.waitForTimeout(700);
  await page.screenshot({ path: '../docs/guide/images/console-skill-run.png' });
  const files = (await gateway.api('GET', '/files')).body as unknown as { files: { id: string; name: string }[] };
  const report = files.files.find((file) => file.name.endsWith('.html'));
  await page.goto(`${gateway.console}canvas/${report?.id ?? ''}`);
  await expect(page.frameLocator('iframe').getByText('Third quarter').first()).toBeVisible({ timeout: 30_000 });
  await page.waitForTimeout(700);
  await page.screenshot({ path: '../docs/guide/images/console-canvas.png' });
  await context.close();
  await shootPhone(browser, gateway);
  await gateway.remove();
});

/** One picture of each main page at the width of a phone. */
async function shootPhone(browser: Browser, gateway: Gateway) {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, colorScheme: 'light' });
  const page = await context.newPage();
  for (const [name, path] of Object.entries({ overview: '', inbox: 'inbox', tools: 'tools', servers: 'servers', activity: 'activity', canvas: 'canvas', jobs: 'jobs', cost: 'cost', settings: 'settings' })) {
    await page.goto(gateway.console + path);
    await page.waitForTimeout(700);
    await expect(page.locator('[aria-busy="true"]')).toHaveCount(0);
    await page.screenshot({ path: `../docs/guide/images/console-${name}-390.png` });
  }
  await context.close();
}

test('the chat @shots', async ({ browser }) => {
  test.setTimeout(180_000);
  const call = (name: string, given: object): Reply => ({ call: 'mcp_tool_call', arguments: { name, arguments: given } });
  const replies = (): Reply[] => [
    { call: 'mcp_tool_search', arguments: { query: 'make a report' } },
    call('files_make_report', { title: 'Tides of the week' }),
    'The **report** is beside this chat. It has five rows:\n\n- the first column is the number\n- the second one its square',
    call('identity_create_record', { title: 'Report of the tides' }),
  ];
  const model = await startModel(VIEWS.flatMap(replies));
  const config = `${guideServers()}\n[llm]\nbase_url = "${model.url}"\nmodel = "small-1"\n`;
  const gateway = (await startGateway(config)) as Gateway & { remove(): Promise<void> };
  await expect.poll(async () => JSON.stringify((await gateway.api('GET', '/servers')).body)).toMatch(/"booking","state":"connected"/);
  for (const [width, colorScheme] of VIEWS) {
    const context = await browser.newContext({ viewport: { width, height: 820 }, colorScheme });
    const page = await context.newPage();
    await page.goto(`${gateway.console}chat`);
    await shoot(page, `empty-chat-${width}-${colorScheme}`);
    const say = async (text: string) => {
      await page.getByRole('textbox', { name: 'Message' }).fill(text);
      await page.getByRole('button', { name: 'Send' }).click();
    };
    await say('Make a report about the tides.');
    await expect(page.getByText('its square')).toBeVisible();
    await say('Make a record of it, too.');
    await expect(page.getByRole('button', { name: 'Reject…' })).toBeVisible();
    await shoot(page, `chat-${width}-${colorScheme}`);
    if (process.env.GUIDE && colorScheme === 'light') await page.screenshot({ path: `../docs/guide/images/console-chat${width === 1280 ? '' : '-390'}.png` });
    await context.close();
  }
  await gateway.remove();
  model.stop();
});

test('questions of servers @shots', async ({ browser }) => {
  test.setTimeout(180_000);
  const model = await startModel(VIEWS.map((): Reply => 'Welcome! The room is ready, and the fire is lit.'));
  const config = `[servers.asker]\ncommand = ["${process.execPath}", "${resolve('tests/questions-server.mjs')}"]\n[llm]\nbase_url = "${model.url}"\nmodel = "small-1"\n`;
  const gateway = (await startGateway(config)) as Gateway & { remove(): Promise<void> };
  await expect.poll(async () => JSON.stringify((await gateway.api('GET', '/servers')).body), { timeout: 30_000 }).toMatch(/"asker","state":"connected"/);
  for (const [width, colorScheme] of VIEWS) {
    const context = await browser.newContext({ viewport: { width, height: width > 500 ? 800 : 844 }, colorScheme });
    const page = await context.newPage();
    for (const [name, tool] of [['question-page', 'asker_open_page'], ['question-sampling', 'asker_ask_model']] as const) {
      await page.goto(`${gateway.console}tools/t/${tool}`);
      await page.getByRole('button', { name: 'Call', exact: true }).click();
      const question = page.getByRole('region', { name: 'Question of a server' });
      await expect(question).toBeVisible();
      if (tool === 'asker_ask_model') {
        await question.getByRole('button', { name: 'Draft with the model' }).click();
        await expect(question.getByLabel('Answer')).not.toHaveValue('');
      }
      await shoot(page, `${name}-${width}-${colorScheme}`);
      await question.getByRole('button', { name: 'Decline' }).click();
      await expect(question).toHaveCount(0);
    }
    await context.close();
  }
  await gateway.remove();
  model.stop();
});

test('servers to repair and to change @shots', async ({ browser }) => {
  test.setTimeout(180_000);
  const config = `[servers.inn]
command = ["${process.execPath}", "${resolve('tests/ask-server.mjs')}"]
cwd = "${process.cwd()}"
env = { INN_KEY = "hunter2", PLACE = "\${HOME}" }
groups = ["users"]

[servers.shop]
url = "http://127.0.0.1:9/mcp"
headers = { Authorization = "Bearer \${SHOP_TOKEN}" }
`;
  const gateway = (await startGateway(config)) as Gateway & { remove(): Promise<void> };
  for (const [width, colorScheme] of VIEWS) {
    const context = await browser.newContext({ viewport: { width, height: width > 500 ? 800 : 844 }, colorScheme });
    const page = await context.newPage();
    const { url } = JSON.parse(gateway.cli('console', '--json')) as { url: string };
    await page.goto(url);
    await shoot(page, `broken-${width}-${colorScheme}`);
    await page.goto(`${gateway.console}servers/shop`);
    await shoot(page, `unset-variable-${width}-${colorScheme}`);
    await page.goto(`${gateway.console}servers/inn`);
    await page.getByRole('button', { name: 'Edit' }).click();
    await shoot(page, `edit-server-${width}-${colorScheme}`);
    await page.goto(`${gateway.console}servers`);
    await page.getByRole('button', { name: 'Add a server' }).click();
    await page.getByLabel('Command', { exact: true }).fill('npx -y @modelcontextprotocol/server-filesystem ~/notes');
    await page.getByLabel('Name').fill('notes');
    await shoot(page, `add-server-${width}-${colorScheme}`);
    await context.close();
  }
  await gateway.remove();
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
