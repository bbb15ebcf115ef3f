// Skills, jobs and tasks.

import { expect, test } from './gateway';
import { addWork } from './work';

test('a skill shows its steps as a graph, and runs', async ({ page, gateway }) => {
  await addWork(gateway);
  await page.goto(`${gateway.console}jobs/skills`);
  await page.getByRole('link', { name: 'fingerprint' }).click();
  const graph = page.getByRole('figure', { name: 'Steps of fingerprint' });
  await expect(graph.getByRole('img', { name: /second .*after first/ })).toBeVisible();
  await page.getByRole('region', { name: 'Run' }).getByLabel(/^text/).fill('hello');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(page.getByText(/succeeded/).first()).toBeVisible();
  await expect(page.getByText(/2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824/).first()).toBeVisible();
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
