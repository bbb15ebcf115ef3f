// PDF files in the canvas: shown by the browser's own viewer, and only if they are PDF files.

import { expect, test, type Gateway } from './gateway';

const PDF = `%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj
4 0 obj<</Length 44>>stream
BT /F1 24 Tf 40 100 Td (Hello PDF) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>`;

async function upload(gateway: Gateway, name: string, text: string): Promise<string> {
  const response = await fetch(`${gateway.url}/files?name=${name}`, { method: 'POST', body: text, headers: { 'content-type': 'application/pdf' } });
  return ((await response.json()) as { id: string }).id;
}

test('a PDF file is shown, and HTML that is named a PDF is not', async ({ page, gateway, misdeeds }) => {
  const id = await upload(gateway, 'paper.pdf', PDF);
  await page.goto(`${gateway.console}canvas/${id}`);
  const frame = page.locator('iframe.pdf-frame');
  await expect(frame).toBeVisible();
  expect(await frame.getAttribute('src')).toMatch(/^blob:/);
  expect(misdeeds).toEqual([]);
  const other = await upload(gateway, 'trick.pdf', '<script>top.__xss=1</script>');
  await page.goto(`${gateway.console}canvas/${other}`);
  await expect(page.getByText('its content is not one')).toBeVisible();
  expect(await page.evaluate(() => (window as { __xss?: number }).__xss)).toBeUndefined();
});
