// The types of the API are those of the gateway that is tested.

import { execFileSync } from 'node:child_process';
import { expect, test } from './gateway';

test('the types match the OpenAPI document of the gateway', async ({ gateway }) => {
  const check = () => execFileSync(process.execPath, ['scripts/types.mjs', '--check', gateway.url], { encoding: 'utf8', stdio: 'pipe' });
  expect(check).not.toThrow();
});
