// A skill, a job and a task for tests.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Gateway } from './gateway';

const SKILL = `---
name: fingerprint
description: Hashes a text and its hash. Use it to compare texts.
safety_notes: It calls two tools.
plan:
  - { id: first, tool: demo_hash, arguments: { text: "\${arguments.text}" } }
  - { id: second, tool: demo_echo, arguments: { text: "hash of \${arguments.text}" }, after: [first] }
---

Call the tool **twice**.
`;

const JOB = {
  name: 'nightly-hash',
  summary: 'Hashes a word every night',
  plan: [
    { id: 'hash', tool: 'demo_hash', arguments: { text: 'night' } },
    { id: 'echo', tool: 'demo_echo', arguments: { text: 'done' }, after: ['hash'] },
  ],
  recurrence: { cron: '0 2 * * *', timezone: 'Europe/Berlin' },
  escalation_policy: { level: 'editor', contact: 'editor@example.org', timeframe: '2h' },
};

export async function addWork(gateway: Gateway) {
  const folder = join(gateway.home, '.config', 'toolbooth', 'skills', 'fingerprint');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'SKILL.md'), SKILL);
  await gateway.api('POST', '/reload', {});
  await gateway.api('POST', '/jobs', JOB);
  await gateway.api('POST', '/tasks', { name: 'check-hash', summary: 'Compare the hash by hand', priority: 'high' });
}
