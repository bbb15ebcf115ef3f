// The page of the REST API at /docs, in a wide and in a narrow window.

import { expect, test } from './gateway';

for (const width of [1280, 390]) {
  test(`the header of the REST page fits a window of ${width} pixels`, async ({ page, gateway }) => {
    await page.setViewportSize({ width, height: 800 });
    await page.goto(`${gateway.url}/docs`);
    await expect(page.locator('details.operation').first()).toBeVisible();
    const sideways = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(sideways).toBeLessThanOrEqual(0);
    for (const id of ['filter', 'token']) {
      const { room, text, height, right } = await page.locator(`#${id}`).evaluate((field: HTMLInputElement) => {
        const style = getComputedStyle(field);
        const pen = document.createElement('canvas').getContext('2d');
        if (pen) pen.font = `${style.fontSize} ${style.fontFamily}`;
        const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
        return {
          room: field.clientWidth - padding,
          text: pen?.measureText(field.placeholder).width ?? 0,
          height: field.parentElement?.getBoundingClientRect().height ?? 0,
          right: field.getBoundingClientRect().right,
        };
      });
      // The placeholder is not cut off, and the label and its field are in one line.
      expect(room, id).toBeGreaterThanOrEqual(text);
      expect(height, id).toBeLessThan(45);
      expect(right, id).toBeLessThanOrEqual(width);
    }
  });
}
