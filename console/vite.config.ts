// Builds the console into `dist`. The gateway embeds that folder, so the same sources must give the same bytes.
import react from '@vitejs/plugin-react';
import { gzipSync } from 'fflate';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { extname, join, relative, resolve } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

const gateway = process.env.TOOLBOOTH_URL ?? 'http://127.0.0.1:8665';

const TYPES: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Compresses the files and writes the table that the gateway includes. `fflate` gives the same bytes in every Node. */
function embed(): Plugin {
  let dist = '';
  return {
    name: 'embed',
    apply: 'build',
    configResolved: ({ root, build }) => { dist = resolve(root, build.outDir); },
    closeBundle() {
      const paths = (readdirSync(dist, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => relative(dist, join(entry.parentPath, entry.name)))
        .filter((path) => path !== 'index.html' && TYPES[extname(path)])
        .sort();
      const rows = paths.map((path) => {
        const compress = path.startsWith('assets/');
        if (compress) {
          const file = join(dist, path);
          const packed = gzipSync(readFileSync(file), { level: 9, mtime: 0 });
          writeFileSync(`${file}.gz`, packed);
          rmSync(file);
        }
        const coding = compress ? 'Gzip' : 'Identity';
        return `    ConsoleFile {
        path: "${path}",
        content_type: "${TYPES[extname(path)]}",
        coding: ContentCoding::${coding},
        content: include_bytes!("${path}${compress ? '.gz' : ''}"),
    },`;
      });
      writeFileSync(join(dist, 'files.rs'), `&[\n${rows.join('\n')}\n]\n`);
    },
  };
}

const API = ['about', 'approvals', 'audit', 'changes', 'consents', 'dead-letters', 'events', 'exposure', 'files', 'health',
  'lint', 'manifests', 'me', 'metrics', 'openapi.json', 'personas', 'plans', 'quarantine', 'ready', 'registry', 'servers',
  'stats', 'tokens', 'tools', 'trust', 'calls', 'chat', 'sessions', 'mcp', 'docs', 'config', 'jobs', 'tasks', 'skills', 'prompts', 'resources'];
// The gateway accepts pages of its own origin only.
const proxy = Object.fromEntries([...API, 'console/session'].map((path) => [`^/${path}(/|\\?|$)`, {
  target: gateway, changeOrigin: true, headers: { origin: gateway },
}]));

export default defineConfig(({ command }) => ({
  base: command === 'build' ? './' : '/console/',
  plugins: [react(), embed()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 600,
  },
  server: { host: '127.0.0.1', port: 5173, strictPort: true, proxy },
}));
