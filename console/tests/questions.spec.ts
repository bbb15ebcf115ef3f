// Questions of servers that are not forms: a page to open, and a request to a language model.

import { resolve } from 'node:path';
import { type Gateway, expect, startGateway, test, watch } from './gateway';
import { type TestModel, startModel } from './model';
import type { Browser, Locator, Page } from '@playwright/test';

const SERVER = resolve('tests/questions-server.mjs');

/** Opens the page of a tool of the asking server, and calls it. */
async function withQuestion(browser: Browser, tool: string, act: (page: Page, question: Locator, seen: TestModel['seen']) => Promise<void>) {
  const model = await startModel(['drip, drop']);
  const config = `[servers.asker]\ncommand = ["${process.execPath}", "${SERVER}"]\n[llm]\nbase_url = "${model.url}"\nmodel = "small-1"\n`;
  const gateway = (await startGateway(config)) as Gateway & { remove(): Promise<void> };
  const context = await browser.newContext();
  const page = await context.newPage();
  const misdeeds: string[] = [];
  watch(page, gateway.url, misdeeds);
  try {
    await expect.poll(async () => JSON.stringify((await gateway.api('GET', '/servers')).body), { timeout: 30_000 }).toMatch(/"asker","state":"connected"/);
    await page.goto(`${gateway.console}tools/t/asker_${tool}`);
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await act(page, page.getByRole('region', { name: 'Question of a server' }), model.seen);
    expect(misdeeds).toEqual([]);
  } finally {
    await context.close();
    await gateway.remove();
    model.stop();
  }
}

test('a page is shown with its host and opened only by a click', async ({ browser }) => {
  await withQuestion(browser, 'open_page', async (page, question) => {
    await expect(question.getByText('Please pay <b>now</b>.')).toBeVisible();
    await expect(question.getByText('pay.example', { exact: true })).toBeVisible();
    await expect(question.getByText('https://pay.example/bill?id=1')).toBeVisible();
    const link = question.getByRole('link', { name: 'Open pay.example' });
    await expect(link).toHaveAttribute('href', 'https://pay.example/bill?id=1');
    await expect(link).toHaveAttribute('rel', /noopener/);
    expect(page.context().pages()).toHaveLength(1);
    await question.getByRole('button', { name: 'I have finished there' }).click();
    await expect(page.getByText('answered: accept')).toBeVisible();
  });
});

test('an address that is not a page is refused', async ({ browser }) => {
  await withQuestion(browser, 'open_script', async (page, question) => {
    await expect(page.getByText(/refused: refused: its URL/)).toBeVisible();
    await expect(question).toHaveCount(0);
  });
});

test('a person sends the answer of the model after reading and changing it', async ({ browser }) => {
  await withQuestion(browser, 'ask_model', async (page, question, seen) => {
    await expect(question.getByText('Write <b>a poem</b>.')).toBeVisible();
    await expect(question.getByText('You are a poet.')).toBeVisible();
    await expect(question.getByText(/at most 50 tokens · preferred models: small/)).toBeVisible();
    expect(seen).toHaveLength(0);
    await expect(question.getByRole('button', { name: 'Send the answer' })).toBeDisabled();
    await question.getByRole('button', { name: 'Draft with the model' }).click();
    await expect(question.getByLabel('Answer')).toHaveValue('drip, drop');
    expect(seen).toHaveLength(1);
    await question.getByLabel('Answer').fill('drip, drop, plop');
    await question.getByRole('button', { name: 'Send the answer' }).click();
    await expect(page.getByText('answered: drip, drop, plop')).toBeVisible();
  });
});
