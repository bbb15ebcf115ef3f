// Writes src/api/schema.d.ts from the OpenAPI document of a running gateway:
//   npm run types -- http://127.0.0.1:8665
// With `--check` it only compares, and fails if the types are out of date.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const words = process.argv.slice(2);
const isCheck = words.includes('--check');
const url = words.find((word) => word !== '--check') ?? process.env.TOOLBOOTH_URL ?? 'http://127.0.0.1:8665';
const kept = 'src/api/schema.d.ts';
const folder = mkdtempSync(join(tmpdir(), 'openapi-'));
const [document, made] = [join(folder, 'openapi.json'), join(folder, 'schema.d.ts')];
try {
  const response = await fetch(`${url}/openapi.json`);
  if (!response.ok) throw new Error(`${url}/openapi.json answered ${response.status}`);
  writeFileSync(document, await response.text());
  execFileSync('npx', ['openapi-typescript', document, '-o', made], { stdio: ['ignore', 'ignore', 'inherit'] });
  if (!isCheck) copyFileSync(made, kept);
  else if (readFileSync(made, 'utf8') !== readFileSync(kept, 'utf8')) {
    console.error(`${kept} is out of date: run \`npm run types -- URL\` against a gateway of this version`);
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true });
}
