// Tests of the console against the real gateway in Debian's Chromium:
//   TOOLBOOTH_BIN=../target/debug/toolbooth npm test
import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results',
  // One gateway and one browser at a time: the tests run on two cores.
  workers: 1,
  // The result of a test can depend on the load of the machine. A test that passes only when repeated is listed as unstable.
  retries: process.env.CI ? 1 : 0,
  timeout: 60_000,
  expect: { timeout: 10_000 },
  reporter: [['list']],
  use: {
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    },
    viewport: { width: 1280, height: 800 },
    colorScheme: 'light',
    screenshot: 'only-on-failure',
  },
});
