// The canvas: files of new calls, sessions, versions, and files side by side.

import { callAsClient, expect, test } from './gateway';

test('a file that a call asks to show opens on the canvas, unless the person does not want that', async ({ page, gateway }) => {
  await gateway.call('files_make_report', { title: 'Before' });
  await page.goto(`${gateway.console}canvas`);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  // The main file of the newest call is open, although another of its files is newer.
  await expect(page.frameLocator('iframe').getByRole('heading', { name: 'Before' })).toBeVisible();
  await page.getByRole('link', { name: /numbers\.csv/ }).first().click();
  await expect(page.locator('.canvas-file h1')).toHaveText('numbers.csv');
  await gateway.call('files_make_report', { title: 'Followed' });
  await expect(page.locator('.canvas-file h1')).toHaveText('report.html');
  await expect(page.frameLocator('iframe').getByRole('heading', { name: 'Followed' })).toBeVisible();
  await page.getByRole('link', { name: /numbers\.csv/ }).first().click();
  await expect(page.locator('.canvas-file h1')).toHaveText('numbers.csv');
  await page.getByLabel('Open the files of new calls').uncheck();
  await gateway.call('files_make_report', { title: 'Waits' });
  const news = page.getByRole('status').filter({ hasText: 'New: report.html' });
  await expect(news).toBeVisible();
  await expect(page.locator('.canvas-file h1')).toHaveText('numbers.csv');
  await news.getByRole('button', { name: 'Show' }).click();
  await expect(page.frameLocator('iframe').getByRole('heading', { name: 'Waits' })).toBeVisible();
  await expect(news).toHaveCount(0);
});

test('two versions of a file are compared side by side', async ({ page, gateway }) => {
  for (const title of ['First title', 'Second title']) await gateway.call('files_make_report', { title });
  await page.goto(`${gateway.console}canvas`);
  await page.getByRole('link', { name: /report\.html/ }).first().click();
  await expect(page.frameLocator('iframe').getByRole('heading', { name: 'Second title' })).toBeVisible();
  const earlier = page.getByLabel('Show beside').getByRole('option', { name: /^report\.html v/ }).first();
  await page.getByLabel('Show beside').selectOption((await earlier.getAttribute('value')) ?? '');
  await expect(page.frameLocator('iframe').nth(1).getByRole('heading', { name: 'First title' })).toBeVisible();
  await page.reload();
  await expect(page.locator('.canvas-file')).toHaveCount(2);
  await page.getByRole('button', { name: 'Close report.html' }).click();
  await expect(page.locator('.canvas-file')).toHaveCount(1);
});

test('a file leads to the call that made it, and a session to its files', async ({ page, gateway }) => {
  await gateway.call('files_make_report', { title: 'Without a session' });
  await callAsClient(gateway, 'painter', 'files_make_report', { title: 'In a session' });
  await page.goto(`${gateway.console}canvas`);
  const sessions = page.getByLabel('Session', { exact: true });
  await expect(sessions.getByRole('option')).not.toHaveCount(0);
  await page.locator('.canvas-file').getByRole('link', { name: /^….{6}$/ }).click();
  await expect(sessions).not.toHaveValue('');
  await expect(page.locator('.pane-list a.entry')).toHaveCount(2);
  await page.getByRole('link', { name: /report\.html/ }).first().click();
  await page.getByRole('link', { name: 'files_make_report', exact: true }).click();
  await expect(page.getByRole('dialog').getByText('painter')).toBeVisible();
});
