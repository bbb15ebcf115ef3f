// Skills, a job and a task for tests.

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

const HELD_SKILL = `---
name: visit-record
description: Makes a record of a visit. A person approves the record.
plan:
  - { id: hash, tool: demo_hash, arguments: { text: "\${arguments.title}" } }
  - { id: record, tool: identity_create_record, arguments: { title: "\${arguments.title}" }, after: [hash] }
  - { id: confirm, tool: demo_echo, arguments: { text: "recorded \${arguments.title}" }, after: [record] }
---

Make a record of the visit.
`;

/** A skill without steps is not a tool. */
const INSTRUCTIONS = `---
name: minutes
description: Writes the minutes of a meeting.
---

Write who came, what was **decided**, and who does what.
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
  for (const [name, text] of [['fingerprint', SKILL], ['visit-record', HELD_SKILL], ['minutes', INSTRUCTIONS]] as const) {
    const folder = join(gateway.home, '.config', 'toolbooth', 'skills', name);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'SKILL.md'), text);
  }
  await gateway.api('POST', '/servers/reload', {});
  await gateway.api('POST', '/jobs', JOB);
  await gateway.api('POST', '/tasks', { name: 'check-hash', summary: 'Compare the hash by hand', priority: 'high' });
}
