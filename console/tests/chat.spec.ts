// The chat: text, calls, decisions, questions and files, with a scripted model and the real gateway.

import AxeBuilder from '@axe-core/playwright';
import { type Gateway, SERVERS, expect, startGateway, test, watch } from './gateway';
import { type Reply, type TestModel, startModel } from './model';
import type { Browser, BrowserContextOptions, Page } from '@playwright/test';

const HTML = '<img src=x onerror="window.__xss=1"><script>window.__xss=1</script>';
const call = (name: string, given: object): Reply => ({ call: 'mcp_tool_call', arguments: { name, arguments: given } });

/** Opens the chat of a gateway whose model gives these replies. */
async function withChat(browser: Browser, replies: Reply[], act: (page: Page, seen: TestModel['seen'], gateway: Gateway, misdeeds: string[]) => Promise<void>, options: BrowserContextOptions = {}) {
  const model = await startModel(replies);
  const config = `${SERVERS}\n[llm]\nbase_url = "${model.url}"\nmodel = "small-1"\nmodels = ["large-1"]\n`;
  const gateway = (await startGateway(config)) as Gateway & { remove(): Promise<void> };
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const misdeeds: string[] = [];
  watch(page, gateway.url, misdeeds);
  try {
    await expect.poll(async () => JSON.stringify((await gateway.api('GET', '/servers')).body), { timeout: 30_000 }).toMatch(/"inn","state":"connected"/);
    await page.goto(`${gateway.console}chat`);
    await act(page, model.seen, gateway, misdeeds);
    expect(misdeeds).toEqual([]);
  } finally {
    await context.close();
    await gateway.remove();
    model.stop();
  }
}

async function say(page: Page, text: string) {
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

test('the model looks for a tool, calls it and answers', async ({ browser }) => {
  const replies: Reply[] = [{ call: 'mcp_tool_search', arguments: { query: 'hash' } }, call('demo_hash', { text: 'hello' }), `The hash is **2cf2**. ${HTML}`];
  await withChat(browser, replies, async (page, seen, gateway) => {
    await expect(page.getByRole('navigation').getByRole('link', { name: 'Chat' }).first()).toBeVisible();
    await page.getByLabel('Model').selectOption('large-1');
    await say(page, 'What is the hash of hello?');
    await expect(page.getByText('The hash is')).toBeVisible();
    await expect(page.getByText(HTML)).toBeVisible();
    const card = page.getByRole('region', { name: 'Call of demo_hash' });
    await expect(page.getByText('Looks for tools: hash')).toBeVisible();
    await expect(card.getByText('text: hello')).toBeVisible();
    await card.locator('summary', { hasText: 'Result' }).click();
    await expect(card.getByText('2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824').first()).toBeVisible();
    expect(await page.evaluate(() => (window as { __xss?: number }).__xss)).toBeUndefined();
    expect(seen.map((request) => request.model)).toEqual(['large-1', 'large-1', 'large-1']);
    expect(seen[2]?.messages.at(-1)?.content).toContain('2cf24dba');
    // The use of the model is in the audit log, the call is an ordinary call of the user.
    const audit = JSON.stringify((await gateway.api('GET', '/audit')).body);
    expect(audit).toMatch(/"kind":"chat"/);
    expect(audit).toMatch(/"tool":"hash"/);
    await page.getByRole('button', { name: 'New chat' }).click();
    await expect(page.getByText('Ask for something')).toBeVisible();
  });
});

test('a held call is decided in the chat', async ({ browser }) => {
  const replies: Reply[] = [call('identity_create_record', { title: 'Visit' }), 'It is created.', call('identity_create_record', { title: 'Other' }), 'Then not.'];
  await withChat(browser, replies, async (page, seen) => {
    await say(page, 'Create a record.');
    const card = page.getByRole('region', { name: 'Call of identity_create_record' });
    await card.getByLabel(/^title/).fill('Visit on Friday');
    await page.waitForTimeout(600);
    await card.getByRole('button', { name: /^Approve/ }).click();
    await expect(page.getByText('It is created.')).toBeVisible();
    expect(seen[1]?.messages.at(-1)?.content).toContain('Visit on Friday');
    await say(page, 'Another one.');
    const second = page.getByRole('region', { name: 'Call of identity_create_record' }).last();
    await page.waitForTimeout(600);
    await second.getByRole('button', { name: 'Reject…' }).click();
    await second.getByLabel(/^Why/).fill('not today');
    await second.getByRole('button', { name: 'Reject the call' }).click();
    await expect(page.getByText('Then not.')).toBeVisible();
    expect(seen[3]?.messages.at(-1)?.content).toContain('not today');
  });
});

test('a question of a server is answered in the chat', async ({ browser }) => {
  await withChat(browser, [call('inn_ask_guest', {}), 'Welcome.'], async (page, seen) => {
    await say(page, 'Ask who comes.');
    const form = page.getByRole('form', { name: 'Question of a server' });
    await form.getByRole('textbox').first().fill('Bo');
    await form.getByRole('button', { name: 'Answer' }).click();
    await expect(page.getByText('Welcome.')).toBeVisible();
    expect(seen[1]?.messages.at(-1)?.role).toBe('tool');
  });
});

test('files open beside the chat, and an answer can be stopped', async ({ browser }) => {
  await withChat(browser, [call('files_make_report', { title: 'Tides' }), 'Here it is.', { endless: 'I count: one' }, 'Fine.'], async (page, seen) => {
    await say(page, 'Make a report.');
    const canvas = page.getByRole('complementary', { name: 'Canvas' });
    await expect(canvas.locator('iframe')).toBeVisible();
    await expect(page.getByText('Here it is.')).toBeVisible();
    await say(page, 'Count.');
    await expect(page.getByText('I count: one')).toBeVisible();
    await page.getByRole('button', { name: 'Stop' }).click();
    await expect(page.getByRole('button', { name: 'Send' })).toBeVisible();
    await say(page, 'Go on.');
    await expect(page.getByText('Fine.')).toBeVisible();
    expect(seen.at(-1)?.messages.map((message) => message.role).slice(-3)).toEqual(['user', 'assistant', 'user']);
  });
});

test('the chat has no serious accessibility problem on a phone', async ({ browser }) => {
  const replies: Reply[] = [call('demo_hash', { text: 'hello' }), 'A **list**:\n\n- one', call('identity_create_record', { title: 'Visit' })];
  await withChat(browser, replies, async (page) => {
    await say(page, 'Hash hello.');
    await expect(page.getByText('A list:')).toBeVisible();
    await say(page, 'Create a record.');
    await expect(page.getByRole('button', { name: 'Reject…' })).toBeVisible();
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    expect(serious.map(({ id, nodes }) => `${id} ${nodes[0]?.html}`)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  }, { viewport: { width: 390, height: 844 }, bypassCSP: true });
});

test('the app of a tool is shown in the chat, and a prompt is inserted with a value that its server offers', async ({ browser }) => {
  await withChat(browser, [call('inn_show_board', { day: 'Monday' }), 'There they are.', 'I have written to them.'], async (page, seen, _gateway, misdeeds) => {
    await say(page, 'Who comes on Monday?');
    const app = page.frameLocator('iframe[title="App of inn_show_board"]');
    await expect(app.locator('#result')).toHaveText('two guests');
    await page.getByRole('button', { name: 'Insert a prompt' }).click();
    await page.getByLabel('Filter prompts').fill('guests');
    await page.getByRole('button', { name: /^Use the prompt .*greet_guests/ }).click();
    await page.getByLabel(/^town/).fill('Osl');
    await expect(page.locator('datalist option[value="Oslo"]')).toHaveCount(1);
    await expect(page.locator('datalist option')).toHaveCount(1);
    await page.getByLabel(/^town/).fill('Oslo');
    await page.getByRole('button', { name: 'Insert into the message' }).click();
    await expect(page.getByRole('textbox', { name: 'Message' })).toHaveValue('Write to the guests from Oslo.');
    await page.getByRole('button', { name: 'Send' }).click();
    await expect(page.getByText('I have written to them.')).toBeVisible();
    expect(seen.at(-1)?.messages.at(-1)?.content).toBe('Write to the guests from Oslo.');
    expect(misdeeds.splice(0).filter((misdeed) => !misdeed.includes('/me'))).toEqual([]);
  });
});

test('a call of the chat is cancelled alone', async ({ browser }) => {
  await withChat(browser, [call('inn_work_slowly', { seconds: 50 }), 'It was cancelled.'], async (page, seen, gateway) => {
    await say(page, 'Work.');
    const card = page.getByRole('region', { name: 'Call of inn_work_slowly' });
    await expect(card.getByRole('button', { name: 'Cancel' })).toBeVisible();
    const other = gateway.call('inn_work_slowly', { seconds: 2 });
    await card.getByRole('button', { name: 'Cancel' }).click();
    await expect(page.getByText('It was cancelled.')).toBeVisible();
    expect(seen[1]?.messages.at(-1)?.content).toContain('call.cancelled');
    expect((await other).status).toBe(200);
  });
});

test('an error of the model is shown with its reason', async ({ browser }) => {
  await withChat(browser, [], async (page) => {
    await say(page, 'Hello');
    await expect(page.getByRole('alert').getByText('llm.refused')).toBeVisible();
    await expect(page.getByRole('button', { name: 'Send' })).toBeVisible();
  });
});

test('without a model there is no chat', async ({ page, gateway }) => {
  await page.goto(`${gateway.console}chat`);
  await expect(page.getByText('No language model is configured')).toBeVisible();
  await expect(page.getByRole('navigation').getByRole('link', { name: 'Chat' })).toHaveCount(0);
});
