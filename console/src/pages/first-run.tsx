// The first steps with a new gateway: call a tool, connect clients, add servers.

import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import { useServers, useStats } from '../api/queries';
import { gatewayUrl } from '../lib/place';
import { Button, CodeBox, Segment } from '../ui/basic';
import { Icon } from '../ui/icons';
import { AddServerButton } from './server-add';

/** The clients that `toolbooth connect` knows. */
const CLIENTS = [
  'claude-code', 'claude-desktop', 'cursor', 'vscode', 'codex', 'gemini', 'windsurf', 'zed', 'opencode', 'cline', 'roo', 'copilot', 'continue', 'goose', 'lm-studio', 'amazon-q', 'kiro', 'warp',
  'jetbrains', 'qwen',
];

const HTTP_ENTRY = `{"mcpServers": {
  "toolbooth": {
    "url": "${gatewayUrl}/mcp"
}}}`;
const STDIO_ENTRY = '{"mcpServers": {\n  "toolbooth": {\n    "command": "toolbooth",\n    "args": ["stdio"]\n}}}';

const ADD = {
  command: 'toolbooth servers add files -- \\\n  npx -y @modelcontextprotocol/server-filesystem .',
  url: 'toolbooth servers add https://search.example/mcp',
  file: '{"mcpServers": {\n  "search": {\n    "url": "https://search.example/mcp"\n  }\n}}',
};

/** Three steps for a new gateway. A step is done only if the gateway's data proves it. */
export function FirstRun({ total, onDismiss }: { total: number; onDismiss: () => void }) {
  const stats = useStats(undefined, 0);
  const servers = useServers();
  const [how, setHow] = useState<'all' | 'one' | 'url' | 'stdio'>('all');
  const [client, setClient] = useState('claude-code');
  const [source, setSource] = useState<keyof typeof ADD>('command');
  const hasServer = servers.data?.servers.some((server) => server.transport !== 'bundled') ?? false;
  const hasClient = (stats.data?.clients.length ?? 0) > 0;
  return (
    <section className="card" aria-labelledby="first-run">
      <div className="card-head"><h2 id="first-run">Start in three steps</h2><Button small look="quiet" className="end" onClick={onDismiss}>Hide</Button></div>
      <div className="card-body first-run">
        <Step number={1} done={total > 0} title="Call a tool">
          {hasServer ? <div><Link className="button" href="/tools"><Icon name="play" />Try one of your tools</Link></div> : (
            <>
              <p className="muted">The bundled demo server is running. Its tool computes a hash.</p>
              <div><Link className="button primary" href="/tools/t/demo_hash"><Icon name="play" />Try demo_hash</Link></div>
              <p className="muted small">Or from a terminal:</p>
              <CodeBox what="the command" text="toolbooth call demo_hash text=hello" />
            </>
          )}
        </Step>
        <Step number={2} done={hasClient} title="Connect your clients">
          <Segment label="Client" value={how} onChange={setHow} options={[{ id: 'all', label: 'All' }, { id: 'one', label: 'One' }, { id: 'url', label: 'HTTP' }, { id: 'stdio', label: 'stdio' }]} />
          {how === 'one' && <select className="select" aria-label="Name of the client" value={client} onChange={(event) => setClient(event.target.value)}>{CLIENTS.map((name) => <option key={name} value={name}>{name}</option>)}</select>}
          {how === 'all' && <CodeBox what="the command" text="toolbooth up" />}
          {how === 'one' && <CodeBox what="the command" text={`toolbooth connect ${client}`} />}
          {how === 'url' && <CodeBox what="the configuration" text={HTTP_ENTRY} />}
          {how === 'stdio' && <CodeBox what="the configuration" text={STDIO_ENTRY} />}
          {how === 'all' && <p className="muted small">It shows the clients that it finds, imports their servers and connects them after you confirm. <code>toolbooth up --undo</code> restores every file.</p>}
          {how === 'one' && <p className="muted small">The file of the client is saved first. <code>--undo</code> takes the change back.</p>}
        </Step>
        <Step number={3} done={hasServer} title="Add your servers">
          <div><AddServerButton /></div>
          <p className="muted small">Or from a terminal:</p>
          <Segment label="Kind of server" value={source} onChange={setSource} options={[{ id: 'command', label: 'Command' }, { id: 'url', label: 'URL' }, { id: 'file', label: 'File' }]} />
          <CodeBox what={source === 'file' ? 'the configuration' : 'the command'} text={ADD[source]} />
          {source === 'file' && <p className="muted small">Put this into <code>.mcp.json</code> in the folder where the gateway runs, and confirm it with <code>toolbooth trust</code>.</p>}
        </Step>
      </div>
    </section>
  );
}

function Step({ number, done, title, children }: { number: number; done: boolean; title: string; children: ReactNode }) {
  return (
    <div className="stack tight">
      <div className="row">
        <span className={`step-number ${done ? 'done' : ''}`}>{done ? <Icon name="check" size={14} /> : number}</span>
        <h3>{title}</h3>
        {done && <span className="muted small">done</span>}
      </div>
      {children}
    </div>
  );
}

