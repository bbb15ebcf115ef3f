// Files of each type in the canvas, by their content, and the display hints of results.

import type { Page } from '@playwright/test';
import { type Gateway, expect, test } from './gateway';

/** A picture of 3 by 2 pixels. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAD0lEQVR42mNgaGiAIjgLADkUBgGpJGEDAAAAAElFTkSuQmCC';

async function show(page: Page, gateway: Gateway, name: string, mime: string, content: string | Uint8Array<ArrayBuffer>) {
  const response = await fetch(`${gateway.url}/files?name=${name}`, { method: 'POST', body: content, headers: { 'content-type': mime } });
  expect(response.status).toBe(201);
  const { id } = (await response.json()) as { id: string };
  await page.goto(`${gateway.console}canvas/${id}`);
  await expect(page.getByRole('heading', { name })).toBeVisible();
}

const bytesOf = (base64: string) => new Uint8Array(Buffer.from(base64, 'base64'));
const sizeOf = (page: Page) => page.locator('.viewer img').evaluate((image: HTMLImageElement) => [image.naturalWidth, image.naturalHeight]);

test('a PNG picture is shown in its size', async ({ page, gateway }) => {
  await show(page, gateway, 'dots.png', 'image/png', bytesOf(PNG));
  await expect.poll(() => sizeOf(page)).toEqual([3, 2]);
  await expect(page.locator('.viewer img')).toHaveAttribute('src', /^blob:/);
});

test('code is shown as it is', async ({ page, gateway }) => {
  const code = 'fn main() {\n    println!("<b>{}</b>", 1 < 2);\n}\n';
  await show(page, gateway, 'main.rs', 'text/plain', code);
  expect(await page.locator('.viewer pre').textContent()).toBe(code);
});

test('a notebook shows its text, code, outputs and pictures', async ({ page, gateway }) => {
  const notebook = {
    nbformat: 4,
    cells: [
      { cell_type: 'markdown', source: ['# Tides\n', 'of the **week**'] },
      {
        cell_type: 'code',
        source: 'plot(tides)',
        outputs: [
          { output_type: 'stream', text: ['two rows\n'] },
          { output_type: 'display_data', data: { 'image/png': `${PNG}\n`, 'text/plain': '<Figure of tides>' } },
          { output_type: 'display_data', data: { 'text/html': '<img src=x onerror="window.__xss=1">', 'text/plain': 'a table' } },
          { output_type: 'error', traceback: ['\u001b[31mValueError\u001b[0m: no data'] },
        ],
      },
    ],
  };
  await show(page, gateway, 'tides.ipynb', 'application/x-ipynb+json', JSON.stringify(notebook));
  const viewer = page.locator('.viewer');
  await expect(viewer.getByRole('heading', { name: 'Tides' })).toBeVisible();
  await expect(viewer.getByText('plot(tides)')).toBeVisible();
  await expect(viewer.getByText('two rows')).toBeVisible();
  await expect(viewer.getByText('a table')).toBeVisible();
  await expect(viewer.getByText('ValueError: no data')).toBeVisible();
  await expect(viewer.getByRole('img', { name: '<Figure of tides>' })).toBeVisible();
  await expect.poll(() => sizeOf(page)).toEqual([3, 2]);
  expect(await page.evaluate(() => (window as { __xss?: number }).__xss)).toBeUndefined();
});

/** A quarter of a second of silence, as a WAV file. */
function silence(): Uint8Array<ArrayBuffer> {
  const samples = 2000;
  const file = Buffer.alloc(44 + samples, 128);
  file.write('RIFF', 0);
  file.writeUInt32LE(36 + samples, 4);
  file.write('WAVEfmt ', 8);
  file.writeUInt32LE(16, 16);
  file.writeUInt16LE(1, 20);
  file.writeUInt16LE(1, 22);
  file.writeUInt32LE(8000, 24);
  file.writeUInt32LE(8000, 28);
  file.writeUInt16LE(1, 32);
  file.writeUInt16LE(8, 34);
  file.write('data', 36);
  file.writeUInt32LE(samples, 40);
  return new Uint8Array(file);
}

test('a sound can be played', async ({ page, gateway }) => {
  await show(page, gateway, 'quiet.wav', 'audio/wav', silence());
  const player = page.locator('.viewer audio');
  await expect(player).toHaveAttribute('controls', '');
  await expect.poll(() => player.evaluate((element: HTMLAudioElement) => element.duration)).toBeCloseTo(0.25, 2);
});

test('a film is shown in its size', async ({ page, gateway }) => {
  await page.goto('about:blank');
  const film = await page.evaluate(async () => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 32 });
    const pen = canvas.getContext('2d');
    const recorder = new MediaRecorder(canvas.captureStream(20), { mimeType: 'video/webm' });
    const parts: Blob[] = [];
    recorder.ondataavailable = (event) => parts.push(event.data);
    const ended = new Promise((done) => { recorder.onstop = done; });
    recorder.start();
    for (let step = 0; step < 10; step++) {
      pen?.fillRect(step, step, 8, 8);
      await new Promise((done) => setTimeout(done, 50));
    }
    recorder.stop();
    await ended;
    return [...new Uint8Array(await new Blob(parts).arrayBuffer())];
  });
  await show(page, gateway, 'film.webm', 'video/webm', new Uint8Array(film));
  const player = page.locator('.viewer video');
  await expect.poll(() => player.evaluate((element: HTMLVideoElement) => [element.videoWidth, element.videoHeight])).toEqual([64, 32]);
});

/** Calls the tool that returns two files with these display hints. */
async function callWith(page: Page, gateway: Gateway, display: object) {
  await page.goto(`${gateway.console}tools/t/hostile_show_display`);
  await page.getByRole('button', { name: 'JSON', exact: true }).click();
  await page.getByLabel('Arguments as JSON').fill(JSON.stringify({ display }));
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await expect(page.getByText('numbers.txt').first()).toBeVisible();
}

test('a result chooses the file that opens, its viewer, its title, and that it replaces the answer', async ({ page, gateway }) => {
  await callWith(page, gateway, { open_canvas: true, primary_file: 'numbers.txt', viewer_hint: 'csv', title: 'Numbers of May', mode: 'replace' });
  await expect(page.getByRole('heading', { name: 'Numbers of May' })).toBeVisible();
  await expect(page.locator('.viewer').getByRole('cell', { name: '17' })).toBeVisible();
  await expect(page.getByText('the sum is 17')).toBeHidden();
  await page.getByText('Answer of the tool').click();
  await expect(page.getByText('the sum is 17')).toBeVisible();
});

test('a result can leave its files closed', async ({ page, gateway }) => {
  await callWith(page, gateway, { open_canvas: false, primary_file: 'numbers.txt' });
  await expect(page.getByText('the sum is 17')).toBeVisible();
  await expect(page.locator('.viewer')).toHaveCount(0);
  await expect(page.getByRole('button', { name: 'Show', exact: true })).toHaveCount(2);
});

test('a page of a host that is not allowed is named with the setting that allows it, also later', async ({ page, gateway }) => {
  await callWith(page, gateway, { type: 'iframe', url: 'https://dash.example:8443/tides', title: 'Dashboard' });
  const setting = '[display]\niframe_hosts = ["dash.example:8443"]';
  await expect(page.locator('pre', { hasText: 'iframe_hosts' })).toHaveText(setting);
  await expect(page.locator('iframe')).toHaveCount(0);
  await page.goto(`${gateway.console}activity/calls?tool=show_display`);
  await page.getByRole('button', { name: /hostile_show_display/ }).first().click();
  const dialog = page.getByRole('dialog');
  // In the record, and in the result, which is still in the memory of the gateway.
  await expect(dialog.getByText('Dashboard', { exact: true }).first()).toBeVisible();
  await expect(dialog.locator('pre', { hasText: 'iframe_hosts' }).first()).toHaveText(setting);
});
