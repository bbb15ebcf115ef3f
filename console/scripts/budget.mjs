// Checks the size of the scripts: all of them together, except viewers that load on demand, are below the limit.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const LIMIT_KB = 300;
/** Chunks that only load when a file or an app is shown. */
const LAZY = /^(viewer|app-host)-/;

const scripts = readdirSync('dist/assets').filter((file) => file.endsWith('.js.gz') && !LAZY.test(file));
const bytes = scripts.reduce((sum, file) => sum + statSync(join('dist/assets', file)).size, 0);
const kb = bytes / 1000;
console.log(`scripts: ${kb.toFixed(0)} KB with gzip in ${scripts.length} files, limit ${LIMIT_KB} KB`);
if (kb > LIMIT_KB) {
  console.error(`the scripts are over the limit by ${(kb - LIMIT_KB).toFixed(0)} KB`);
  process.exitCode = 1;
}
