// Skills, jobs and tasks.

import { expect, test } from './gateway';
import { addWork } from './work';

test('a skill shows its steps as a graph, and runs', async ({ page, gateway }) => {
  await addWork(gateway);
  await page.goto(`${gateway.console}jobs/skills`);
  await page.getByRole('link', { name: 'fingerprint' }).click();
  const graph = page.getByRole('figure', { name: 'Steps of fingerprint' });
  await expect(graph.getByRole('img', { name: /second .*after first/ })).toBeVisible();
  await page.getByRole('region', { name: 'Run', exact: true }).getByLabel(/^text/).fill('hello');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(page.getByText(/succeeded/).first()).toBeVisible();
  await expect(page.getByText(/2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824/).first()).toBeVisible();
  // The run is in the history, and its page lists the calls of its steps.
  await page.getByRole('region', { name: 'Runs', exact: true }).getByRole('link', { name: /:/ }).first().click();
  const steps = page.getByRole('region', { name: 'Steps', exact: true });
  await expect(steps.getByText('succeeded')).toHaveCount(2);
  await expect(steps.getByRole('listitem').filter({ hasText: 'second' })).toHaveCount(1);
  await steps.getByRole('link', { name: 'the call' }).first().click();
  await expect(page.getByRole('dialog', { name: /demo_hash/ })).toBeVisible();
});

test('a run of a skill waits for a person, leads to the inbox, and goes on after the decision', async ({ page, gateway }) => {
  await addWork(gateway);
  await page.goto(`${gateway.console}jobs/skills/visit-record`);
  await page.getByRole('region', { name: 'Run', exact: true }).getByLabel(/^title/).fill('Visit of the auditors');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('link', { name: 'Open the run' }).click();
  await expect(page.getByRole('img', { name: /^record held/ })).toBeVisible();
  const steps = page.getByRole('region', { name: 'Steps', exact: true });
  await expect(steps.getByRole('listitem').filter({ hasText: 'hash' }).getByText('succeeded')).toBeVisible();
  const run = page.url();
  await steps.getByRole('link', { name: 'Review' }).click();
  await expect(page.getByRole('heading', { name: /create_record/ })).toBeVisible();
  const held = page.url().split('/').at(-1) ?? '';
  expect((await gateway.api('POST', `/approvals/${held}/approve`, {})).status).toBe(200);
  await page.goto(run);
  await expect(page.getByRole('img', { name: /^confirm succeeded/ })).toBeVisible();
  await expect(steps.getByText('succeeded')).toHaveCount(3);
  await page.getByRole('link', { name: 'visit-record' }).click();
  await expect(page.getByRole('region', { name: 'Runs', exact: true }).getByText('succeeded').first()).toBeVisible();
});

test('a job is scheduled, run, and its run shows each step', async ({ page, gateway }) => {
  await addWork(gateway);
  await page.goto(`${gateway.console}jobs`);
  await page.getByRole('link', { name: 'nightly-hash' }).click();
  await page.getByRole('button', { name: 'Schedule' }).click();
  await expect(page.getByText('Time zone of the schedule: Europe/Berlin')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Pause' })).toBeVisible();
  await page.getByRole('button', { name: 'Run now' }).click();
  const steps = page.getByRole('region', { name: 'plan' });
  await expect(steps.getByText('succeeded')).toHaveCount(3);
  await page.getByRole('link', { name: 'nightly-hash' }).click();
  await expect(page.getByRole('region', { name: 'Runs' }).getByText('succeeded').first()).toBeVisible();
  await page.goto(`${gateway.console}activity/audit?kind=job`);
  await expect(page.getByRole('button', { name: /job nightly-hash/ }).first()).toBeVisible();
});

test('on a phone the graph of a job goes from top to bottom', async ({ page, gateway }) => {
  await addWork(gateway);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${gateway.console}jobs/jobs/nightly-hash`);
  const [first, second] = [page.getByRole('img', { name: /^hash/ }), page.getByRole('img', { name: /^echo/ })];
  const [above, below] = [await first.boundingBox(), await second.boundingBox()];
  expect(above?.x).toBe(below?.x);
  expect(above?.y).toBeLessThan(below?.y ?? 0);
});

test('a task advances to done', async ({ page, gateway }) => {
  await addWork(gateway);
  await page.goto(`${gateway.console}jobs/tasks`);
  const task = page.getByRole('listitem').filter({ hasText: 'check-hash' }).first();
  for (const action of ['Make ready', 'Start', 'Ask for review', 'Done']) await task.getByRole('button', { name: action, exact: true }).click();
  await expect(task.getByText('done', { exact: true })).toBeVisible();
});

test('a skill without steps is found by search, is marked, and opens on its own page', async ({ page, gateway }) => {
  await addWork(gateway);
  await page.goto(`${gateway.console}tools?q=${encodeURIComponent('minutes of a meeting')}`);
  const hit = page.getByRole('list', { name: 'Tools' }).getByRole('link', { name: /^minutes/ });
  await expect(hit.getByText('skill', { exact: true })).toBeVisible();
  await hit.click();
  await expect(page).toHaveURL(/\/jobs\/skills\/minutes$/);
  await expect(page.getByRole('heading', { name: 'minutes' })).toBeVisible();
  await expect(page.getByText('decided')).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('minutes of a meeting');
  await expect(page.getByRole('option', { name: /minutes\s*Skill/ })).toBeVisible();
});

test('more tasks than one page are loaded on request', async ({ page, gateway }) => {
  const names = Array.from({ length: 120 }, (_, index) => `zz-task-${String(index).padStart(3, '0')}`);
  for (const name of names) expect((await gateway.api('POST', '/tasks', { name, summary: 'One of many' })).status).toBe(201);
  await page.goto(`${gateway.console}jobs/tasks`);
  await expect(page.getByText('zz-task-000')).toBeVisible();
  await expect(page.getByText('zz-task-119')).toHaveCount(0);
  await page.getByRole('button', { name: 'More tasks' }).click();
  await expect(page.getByText('zz-task-119')).toBeVisible();
  await expect(page.getByRole('button', { name: 'More tasks' })).toHaveCount(0);
  for (const name of names) await gateway.api('DELETE', `/tasks/${name}`);
});
