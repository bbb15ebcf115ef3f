// How fast long lists scroll, and how soon the first page is drawn.

import { expect, test } from './gateway';

const TOOLS = 10_000;
/** One frame at 60 per second, with the inaccuracy of the clock. */
const FRAME_MS = 17.5;
/** A machine that runs other tests at the same time is measured, but judged less strictly. */
const SLACK = process.env['CI'] ? 4 : 1;

function page(from: number, to: number) {
  const tools = Array.from({ length: to - from }, (_, index) => {
    const name = `srv_tool_${from + index}`;
    return { name, id: `mcp.srv.tool_${from + index}`, server: 'srv', description: `Does thing number ${from + index} for the people who ask for it.`, token_cost: 40 + (index % 60), quality: 90 };
  });
  return { tools, next_cursor: to < TOOLS ? String(to) : null, revision: 1 };
}

test('ten thousand tools scroll at 60 frames per second', async ({ page: tab, gateway }) => {
  await tab.route(/\/tools\?/, (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0);
    return route.fulfill({ json: page(from, Math.min(TOOLS, from + 5000)) });
  });
  await tab.goto(`${gateway.console}tools`);
  await expect(tab.getByRole('link', { name: /srv_tool_0/ })).toBeVisible();
  const list = tab.getByRole('list', { name: 'Tools' });
  // The second half is fetched when the end of the first comes into view.
  await list.evaluate((element) => { element.scrollTop = element.scrollHeight; });
  await expect(tab.getByText('10,000', { exact: true })).toBeVisible();
  const { frames, longTasks, end } = await list.evaluate(async (element) => {
    element.scrollTop = 0;
    const longTasks: number[] = [];
    const observer = new PerformanceObserver((entries) => entries.getEntries().forEach((entry) => longTasks.push(entry.duration)));
    observer.observe({ type: 'longtask' });
    const frames: number[] = [];
    const nextFrame = () => new Promise<number>((done) => requestAnimationFrame(done));
    // The first frames after a jump belong to the jump.
    for (let warmUp = 0; warmUp < 20; warmUp++) await nextFrame();
    let before = await nextFrame();
    for (let step = 0; step < 240; step++) {
      element.scrollTop += step % 60 === 0 ? 20_000 : 90;
      const now = await nextFrame();
      frames.push(now - before);
      before = now;
    }
    observer.disconnect();
    return { frames, longTasks, end: element.scrollTop };
  });
  const sorted = frames.toSorted((left, right) => left - right);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0;
  console.log(`frames: median ${at(0.5).toFixed(1)} ms, p95 ${at(0.95).toFixed(1)} ms, long tasks: ${longTasks.length}`);
  expect(end).toBeGreaterThan(80_000);
  expect(at(0.5)).toBeLessThanOrEqual(FRAME_MS * SLACK);
  // At most one frame in twenty may be dropped on a busy machine.
  expect(at(0.95)).toBeLessThanOrEqual(2 * FRAME_MS * SLACK);
  expect(longTasks.filter((duration) => duration > 100 * SLACK)).toEqual([]);
  // Only the visible rows are in the document.
  expect(await list.getByRole('listitem').count()).toBeLessThan(60);
});

test('the first page is drawn within a second', async ({ page: tab, gateway }) => {
  await tab.goto(gateway.console);
  await expect(tab.getByRole('heading', { name: 'Overview' })).toBeVisible();
  const drawn = await tab.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  console.log(`first contentful paint: ${drawn.toFixed(0)} ms`);
  expect(drawn).toBeLessThan(1000 * SLACK);
});
