// Writes src/api/schema.d.ts from the OpenAPI document of a running gateway:
//   npm run types -- http://127.0.0.1:8665
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const url = process.argv[2] ?? process.env.TOOLBOOTH_URL ?? 'http://127.0.0.1:8665';
const folder = mkdtempSync(join(tmpdir(), 'openapi-'));
const file = join(folder, 'openapi.json');
try {
  const response = await fetch(`${url}/openapi.json`);
  if (!response.ok) throw new Error(`${url}/openapi.json answered ${response.status}`);
  writeFileSync(file, await response.text());
  execFileSync('npx', ['openapi-typescript', file, '-o', 'src/api/schema.d.ts'], { stdio: 'inherit' });
} finally {
  rmSync(folder, { recursive: true });
}
