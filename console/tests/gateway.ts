// Starts a gateway with its own folder, port and servers, and stops it after the tests.

import { test as base, expect, type Page } from '@playwright/test';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const binary = resolve(process.env.TOOLBOOTH_BIN ?? '../target/debug/toolbooth');
const START_MS = 30_000;

export interface Gateway {
  url: string;
  console: string;
  /** The home folder of the gateway; the test server keeps its state there. */
  home: string;
  /** Calls a tool as another client would; `wait` is how long the call waits for an approval. */
  call(tool: string, args: object, wait?: number): Promise<{ status: number; body: Record<string, unknown> }>;
  api(method: string, path: string, body?: object): Promise<{ status: number; body: Record<string, never> }>;
  cli(...args: string[]): string;
  stop(): Promise<void>;
  start(): Promise<void>;
}

async function freePort(): Promise<number> {
  return new Promise((done) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => done(port));
    });
  });
}

export const SERVERS = `
[approval]
expires_seconds = 600

[servers.demo]
command = ["${binary}", "demo-server", "demo"]

[servers.files]
command = ["${binary}", "demo-server", "files"]

[servers.identity]
command = ["${binary}", "demo-server", "identity"]
require_approval = ["create_record"]

[servers.hostile]
command = ["${process.execPath}", "${resolve('tests/hostile-server.mjs')}", "HOME_FOLDER"]
require_approval = ["send_mail"]

[servers.inn]
command = ["${process.execPath}", "${resolve('tests/ask-server.mjs')}"]

[servers.keyed]
url = "http://127.0.0.1:9/keyed"
auth_type = "api_key"
auth_header = "X-Shop-Key"

[servers.tracker]
url = "http://127.0.0.1:9/mcp"

[prompts.weekly]
description = "Writes the report."
text = "Write the report of the week."

[personas.reader]
description = "Only reading"
allowed_tools = ["demo.*"]
`;

export async function startGateway(config: string | null): Promise<Gateway> {
  const home = mkdtempSync(join(tmpdir(), 'console-test-'));
  const folder = join(home, '.config', 'toolbooth');
  mkdirSync(folder, { recursive: true });
  if (config !== null) writeFileSync(join(folder, 'toolbooth.toml'), config.replaceAll('HOME_FOLDER', home));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = { PATH: process.env.PATH ?? '', HOME: home };
  let child: ChildProcess | undefined;
  const gateway: Gateway = {
    url,
    console: `${url}/console/`,
    home,
    async api(method, path, body) {
      const init: RequestInit = { method };
      if (body) {
        init.body = JSON.stringify(body);
        init.headers = { 'content-type': 'application/json' };
      }
      const response = await fetch(url + path, init);
      const text = await response.text();
      return { status: response.status, body: (text ? JSON.parse(text) : null) as Record<string, never> };
    },
    call: (tool, args, wait = 0) => gateway.api('POST', `/tools/${tool}/call`, { arguments: args, wait }),
    cli: (...args) => execFileSync(binary, args, { env, cwd: home, encoding: 'utf8' }),
    async start() {
      child = spawn(binary, ['serve', '--listen', `127.0.0.1:${port}`], { env, cwd: home, stdio: 'ignore' });
      const end = Date.now() + START_MS;
      for (;;) {
        const isUp = await fetch(`${url}/health`).then((response) => response.ok, () => false);
        if (isUp) return;
        if (Date.now() > end || child.exitCode !== null) throw new Error('the gateway did not start');
        await new Promise((done) => setTimeout(done, 100));
      }
    },
    async stop() {
      const running = child;
      child = undefined;
      if (!running || running.exitCode !== null) return;
      const ended = new Promise((done) => running.once('exit', done));
      running.kill('SIGTERM');
      await ended;
    },
  };
  await gateway.start();
  return Object.assign(gateway, {
    remove: async () => {
      await gateway.stop();
      rmSync(home, { recursive: true, force: true });
    },
  });
}

/** Opens a session as an MCP client of this name; the returned function sends a request and returns the answer. */
async function openAsClient(gateway: Gateway, name: string) {
  const headers: Record<string, string> = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const post = (message: object) => fetch(`${gateway.url}/mcp`, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  const protocolVersion = '2025-06-18';
  const opened = await post({ id: 1, method: 'initialize', params: { protocolVersion, capabilities: {}, clientInfo: { name, version: '1' } } });
  headers['mcp-session-id'] = opened.headers.get('mcp-session-id') ?? '';
  headers['mcp-protocol-version'] = protocolVersion;
  await post({ method: 'notifications/initialized' });
  return async (method: string, params?: object) => (await post({ id: 2, method, params })).text();
}

/** Lists the tools as an MCP client of this name. */
export async function listAsClient(gateway: Gateway, name: string) {
  const ask = await openAsClient(gateway, name);
  expect(await ask('tools/list')).toContain('"tools"');
}

/** Calls a tool as an MCP client of this name. */
export async function callAsClient(gateway: Gateway, name: string, tool: string, args: object) {
  const ask = await openAsClient(gateway, name);
  expect(await ask('tools/call', { name: tool, arguments: args })).toContain('"content"');
}

interface WorkerFixtures {
  gateway: Gateway;
}
interface TestFixtures {
  /** What the page did that it must not: script errors, violations of its policy, requests to other hosts. */
  misdeeds: string[];
}

export const test = base.extend<TestFixtures, WorkerFixtures>({
  gateway: [
    async ({}, use) => {
      const gateway = await startGateway(SERVERS);
      await expect.poll(async () => JSON.stringify((await gateway.api('GET', '/servers')).body), { timeout: START_MS }).toMatch(/"demo","state":"connected"/);
      await use(gateway);
      await (gateway as Gateway & { remove(): Promise<void> }).remove();
    },
    { scope: 'worker' },
  ],
  misdeeds: [
    async ({ page, gateway }, use) => {
      const misdeeds: string[] = [];
      watch(page, gateway.url, misdeeds);
      await use(misdeeds);
      expect(misdeeds).toEqual([]);
    },
    { auto: true },
  ],
});

export function watch(page: Page, origin: string, misdeeds: string[]) {
  page.on('pageerror', (error) => misdeeds.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // The frame's own policy stops what its content tries; that is tested where frames are shown.
    const isFrame = message.location().url.includes('frame.html') || message.location().url.startsWith('about:');
    if (/Content Security Policy|Trusted/i.test(message.text()) && !isFrame) misdeeds.push(`policy: ${message.text()}`);
  });
  page.on('request', (request) => {
    // The browser's own viewer of PDF files loads its parts from `chrome:` addresses.
    const isLocal = /^(blob|data|about|chrome|chrome-extension):/.test(request.url());
    if (!request.url().startsWith(origin) && !isLocal) misdeeds.push(`request: ${request.url()}`);
  });
}

export { expect };
