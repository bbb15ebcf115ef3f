// Help for a server whose program is not installed: the command that installs it, by operating system.

import { useState } from 'react';
import type { Server } from '../api/queries';
import { CodeBox, Segment } from '../ui/basic';

type System = 'linux' | 'mac' | 'windows';

interface Install {
  /** What contains the program. */
  name: string;
  commands: Record<System, string>;
}

const NODE: Install = { name: 'Node.js', commands: { linux: 'sudo apt install nodejs npm', mac: 'brew install node', windows: 'winget install OpenJS.NodeJS.LTS' } };
const UV: Install = { name: 'uv', commands: { linux: 'curl -LsSf https://astral.sh/uv/install.sh | sh', mac: 'brew install uv', windows: 'winget install astral-sh.uv' } };
const PYTHON: Install = { name: 'Python', commands: { linux: 'sudo apt install python3', mac: 'brew install python', windows: 'winget install Python.Python.3.13' } };
const PIPX: Install = { name: 'pipx', commands: { linux: 'sudo apt install pipx', mac: 'brew install pipx', windows: 'py -m pip install --user pipx' } };
const DOCKER: Install = { name: 'Docker', commands: { linux: 'sudo apt install docker.io', mac: 'brew install --cask docker-desktop', windows: 'winget install Docker.DockerDesktop' } };
const BUN: Install = { name: 'Bun', commands: { linux: 'curl -fsSL https://bun.com/install | bash', mac: 'brew install oven-sh/bun/bun', windows: 'winget install Oven-sh.Bun' } };
const DENO: Install = { name: 'Deno', commands: { linux: 'curl -fsSL https://deno.land/install.sh | sh', mac: 'brew install deno', windows: 'winget install DenoLand.Deno' } };
const GO: Install = { name: 'Go', commands: { linux: 'sudo apt install golang-go', mac: 'brew install go', windows: 'winget install GoLang.Go' } };

/** The programs with which published servers are started. */
const PROGRAMS = new Map<string, Install>([
  ['node', NODE], ['npx', NODE], ['npm', NODE], ['uv', UV], ['uvx', UV], ['python', PYTHON], ['python3', PYTHON], ['pipx', PIPX], ['docker', DOCKER],
  ['bun', BUN], ['bunx', BUN], ['deno', DENO], ['go', GO],
]);
const SYSTEMS: { id: System; label: string }[] = [{ id: 'linux', label: 'Debian, Ubuntu' }, { id: 'mac', label: 'macOS' }, { id: 'windows', label: 'Windows' }];

/** The system of this browser. In most cases the gateway runs on the same machine. */
function ownSystem(): System {
  if (/Windows/.test(navigator.userAgent)) return 'windows';
  return /Mac OS X/.test(navigator.userAgent) ? 'mac' : 'linux';
}

/** The program that a server needs and that the gateway did not find. The gateway's hint names it. */
export function missingProgram({ code, hint }: Pick<Server, 'code' | 'hint'>): string | null {
  if (code !== 'server.command-not-found' && code !== 'server.interpreter-not-found') return null;
  return /^install `([^`]+)`/.exec(hint ?? '')?.[1] ?? null;
}

export function InstallHelp({ server }: { server: Server }) {
  const program = missingProgram(server);
  const [system, setSystem] = useState(ownSystem);
  if (program === null) return null;
  const install = PROGRAMS.get(program.replace(/\.exe$/i, ''));
  return (
    <details className="install-help" open>
      <summary className="small">How to install <code>{program}</code></summary>
      <div className="stack tight">
        {install ? (
          <>
            <p className="small"><code>{program}</code>{install.name === program ? ' can be' : <> is part of {install.name}, which can be</>} installed on the machine of the gateway:</p>
            <Segment label="Operating system of the gateway" value={system} onChange={setSystem} options={SYSTEMS} />
            <CodeBox what="the command" text={install.commands[system]} />
          </>
        ) : <p className="small">Install it on the machine of the gateway. If it is installed already, write its full path in the entry of the server, or add its folder to <code>PATH</code>.</p>}
        <p className="muted small">Then press Reconnect. The gateway finds new programs without a restart if their folder is in its <code>PATH</code>.</p>
      </div>
    </details>
  );
}
