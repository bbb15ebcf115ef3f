// Checks that `dist` is what the sources give: builds into another folder and compares all files.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const built = mkdtempSync(join(tmpdir(), 'console-'));
const files = (folder) => readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
  .sort();
try {
  execFileSync('npx', ['vite', 'build', '--outDir', built, '--emptyOutDir', '--logLevel', 'warn'], { stdio: 'inherit' });
  const [expected, found] = [files(built), files('dist')];
  const different = [...new Set([...expected, ...found])].filter((file) =>
    !expected.includes(file) || !found.includes(file) || !readFileSync(join(built, file)).equals(readFileSync(join('dist', file))));
  if (different.length > 0) {
    console.error(`dist is out of date, run \`npm run build\`: ${different.join(', ')}`);
    process.exitCode = 1;
  } else console.log(`dist is up to date: ${found.length} files`);
} finally {
  rmSync(built, { recursive: true });
}
