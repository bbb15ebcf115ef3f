// The form of a server's entry: its fields, and exactly what will run. Adding and changing a server share it.

import { Fragment, useId } from 'react';
import { visible } from '../lib/hidden';
import { HIDDEN, type NewServer } from '../lib/server-entry';
import { Note, Prose } from '../ui/basic';

export const EXAMPLES = {
  command: 'npx -y @modelcontextprotocol/server-filesystem ~/notes',
  url: 'https://search.example/mcp',
  json: '{"mcpServers": {"search": {"url": "https://search.example/mcp"}}}',
};
const shown = (text: string) => visible(text) as string;

interface FieldProps {
  label: string;
  about?: string;
  value: string;
  placeholder: string;
  onChange: (value: string) => void;
}
export function Line({ label, about, value, placeholder, onChange }: FieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input id={id} className="input" value={value} placeholder={placeholder} autoCapitalize="off" autoComplete="off" spellCheck={false} aria-describedby={about && `${id}-about`} onChange={(event) => onChange(event.target.value)} />
      {about && <p className="about" id={`${id}-about`}>{about}</p>}
    </div>
  );
}

export function Lines({ label, about, value, placeholder, rows, onChange }: FieldProps & { rows: number }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea id={id} className="area" rows={rows} value={value} placeholder={placeholder} autoCapitalize="off" autoComplete="off" spellCheck={false} aria-describedby={about && `${id}-about`} onChange={(event) => onChange(event.target.value)} />
      {about && <p className="about" id={`${id}-about`}>{about}</p>}
    </div>
  );
}

interface ExtrasProps {
  kind: 'command' | 'url';
  cwd: string;
  pairs: string;
  onCwd: (cwd: string) => void;
  onPairs: (pairs: string) => void;
  /** What to know about the pairs, besides how they are written. */
  about?: string;
  open?: boolean;
}
/** The folder and the variables of a local server, or the headers of a remote one. */
export function Extras({ kind, cwd, pairs, onCwd, onPairs, about, open }: ExtrasProps) {
  const how = 'One per line: NAME=value. A value ${NAME} is read from a variable of the gateway, so that a secret is not in the file.';
  return (
    <details open={open}>
      <summary>{kind === 'command' ? 'Folder and variables' : 'Headers'}</summary>
      <div className="stack">
        {kind === 'command' && <Line label="Folder" about="The working folder of the server." value={cwd} placeholder="~/notes" onChange={onCwd} />}
        <Lines label={kind === 'command' ? 'Variables' : 'Headers'} about={about ? `${how} ${about}` : how} value={pairs} placeholder={kind === 'command' ? 'GITHUB_TOKEN=${GITHUB_TOKEN}' : 'Authorization=Bearer ${TOKEN}'} rows={3} onChange={onPairs} />
      </div>
    </details>
  );
}

interface PreviewProps {
  label: string;
  servers: NewServer[];
  /** Fields that are not added. */
  ignored?: string[];
}
/** Exactly what will run or be reached, word by word. */
export function Preview({ label, servers, ignored = [] }: PreviewProps) {
  const local = servers.filter((server) => server.command).length;
  return (
    <section className="stack tight" aria-label={label}>
      {local > 0 && <p>{local === servers.length ? 'It runs' : 'Local servers run'} with your permissions, so check every word.</p>}
      {servers.map((server) => (
        <dl key={server.name ?? server.url} className="kv">
          {server.name && <><dt>name</dt><dd><code>{shown(server.name)}</code></dd></>}
          {server.command?.map((word, place) => <Fragment key={place}><dt>{place === 0 ? 'command' : ''}</dt><dd><code>{shown(word)}</code></dd></Fragment>)}
          {server.url && <><dt>url</dt><dd><code>{shown(server.url)}</code></dd></>}
          {server.cwd && <><dt>cwd</dt><dd><code>{shown(server.cwd)}</code></dd></>}
          {Object.entries(server.env ?? server.headers ?? {}).map(([key, value]) => <Fragment key={key}><dt>{shown(key)}</dt><dd>{value === HIDDEN ? <span className="muted">as it is</span> : <code>{shown(value)}</code>}</dd></Fragment>)}
        </dl>
      ))}
      {ignored.length > 0 && <Note tone="warn"><Prose text={`Not added: ${ignored.slice(0, 8).map((field) => `\`${field}\``).join(', ')}`} /></Note>}
    </section>
  );
}
