// Adds a server to the configuration: shows exactly what will run, and adds it if the gateway knows this browser as its owner's.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Fragment, useEffect, useId, useState } from 'react';
import { createPortal } from 'react-dom';
import { useLocation } from 'wouter';
import { type Schemas, fetchJson } from '../api/client';
import { useOwner } from '../api/owner';
import { useMe } from '../api/queries';
import { session } from '../api/session';
import { type NewServer, type ReadServers, asCommand, readCommand, readJson, readUrl } from '../lib/server-entry';
import { visible } from '../lib/hidden';
import { Button, CodeBox, Failure, Note, Prose, Segment } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { toast } from '../ui/toast';

type Source = 'command' | 'url' | 'json';
type Added = Schemas['ChangedServerEntry'];

const EXAMPLES = {
  command: 'npx -y @modelcontextprotocol/server-filesystem ~/notes',
  url: 'https://search.example/mcp',
  json: '{"mcpServers": {"search": {"url": "https://search.example/mcp"}}}',
};
const shown = (text: string) => visible(text) as string;

/** For administrators: others cannot change the configuration. */
export function AddServerButton({ small }: { small?: boolean }) {
  const me = useMe();
  const [open, setOpen] = useState(false);
  if (!me.data?.admin) return null;
  return (
    <>
      <Button small={small} look="primary" icon="plus" onClick={() => setOpen(true)}>Add a server</Button>
      {open && createPortal(<AddServer onClose={() => setOpen(false)} />, document.body)}
    </>
  );
}

function AddServer({ onClose }: { onClose: () => void }) {
  const owner = useOwner();
  const client = useQueryClient();
  const [, go] = useLocation();
  const [source, setSource] = useState<Source>('command');
  const [name, setName] = useState('');
  const [text, setText] = useState<Record<Source, string>>({ command: '', url: '', json: '' });
  const [cwd, setCwd] = useState('');
  const [pairs, setPairs] = useState('');
  const read = text[source].trim() === '' ? null : readSource(source, { name, text: text[source], cwd, pairs });
  const isOwners = session.get().mode === 'local' && owner.data === true;
  const add = useMutation({
    mutationFn: async (servers: NewServer[]) => {
      const added: Added[] = [];
      for (const server of servers) added.push(await fetchJson<Added>('POST', '/servers', { body: server }));
      return added;
    },
    onSuccess: (added) => {
      for (const note of added.flatMap((one) => one.notes)) toast(note.replaceAll('`', ''));
      toast(`Added ${added.map((one) => one.name).join(', ')} to ${added[0]?.file ?? ''}`);
      onClose();
      go(added.length === 1 ? `/servers/${encodeURIComponent(added[0]?.name ?? '')}` : '/servers');
    },
    onSettled: () => void client.invalidateQueries(),
  });
  // An error is about what was sent, not about what is written now.
  const { reset } = add;
  useEffect(reset, [reset, source, name, text, cwd, pairs]);
  return (
    <Dialog title="Add a server" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (isOwners && read && !read.wrong) add.mutate(read.servers);
        }}
      >
        <Segment label="Kind of server" value={source} onChange={setSource} options={[{ id: 'command', label: 'Command' }, { id: 'url', label: 'URL' }, { id: 'json', label: 'JSON' }]} />
        {source === 'command' && <Line label="Command" about="The program and its arguments. Quotes work as in a shell; pipes and variables do not." value={text.command} placeholder={EXAMPLES.command} onChange={(command) => setText({ ...text, command })} />}
        {source === 'url' && <Line label="URL" value={text.url} placeholder={EXAMPLES.url} onChange={(url) => setText({ ...text, url })} />}
        {source === 'json' && <Lines label="JSON" about="The configuration that the page of a server tells you to paste, for any client." value={text.json} placeholder={EXAMPLES.json} rows={6} onChange={(json) => setText({ ...text, json })} />}
        <Line label="Name" about={source === 'url' ? 'If it is empty, it is made from the URL.' : source === 'json' ? 'Only for an entry that has no name of its own.' : undefined} value={name} placeholder="for example search" onChange={setName} />
        {source !== 'json' && (
          <details>
            <summary>{source === 'command' ? 'Folder and variables' : 'Headers'}</summary>
            <div className="stack">
              {source === 'command' && <Line label="Folder" about="The working folder of the server." value={cwd} placeholder="~/notes" onChange={setCwd} />}
              <Lines label={source === 'command' ? 'Variables' : 'Headers'} about="One per line: NAME=value. A value ${NAME} is read from a variable of the gateway, so that a secret is not in the file." value={pairs} placeholder={source === 'command' ? 'GITHUB_TOKEN=${GITHUB_TOKEN}' : 'Authorization=Bearer ${TOKEN}'} rows={3} onChange={setPairs} />
            </div>
          </details>
        )}
        {read?.wrong && <p className="wrong" role="alert">{read.wrong}</p>}
        {read && !read.wrong && <Preview read={read} />}
        {add.error && <Failure error={add.error} />}
        {!isOwners && owner.data !== undefined && <Commands servers={read?.servers ?? []} />}
        <div className="dialog-acts">
          <Button onClick={onClose}>Cancel</Button>
          {isOwners && <Button type="submit" look="primary" busy={add.isPending} disabled={!read || read.wrong !== undefined}>{(read?.servers.length ?? 0) > 1 ? `Add ${read?.servers.length} servers` : 'Add'}</Button>}
        </div>
      </form>
    </Dialog>
  );
}

function readSource(source: Source, { name, text, cwd, pairs }: { name: string; text: string; cwd: string; pairs: string }): ReadServers {
  if (source === 'command') return readCommand(name, text, cwd, pairs);
  return source === 'url' ? readUrl(name, text, pairs) : readJson(name, text);
}

interface FieldProps {
  label: string;
  about?: string;
  value: string;
  placeholder: string;
  onChange: (value: string) => void;
}
function Line({ label, about, value, placeholder, onChange }: FieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input id={id} className="input" value={value} placeholder={placeholder} autoCapitalize="off" autoComplete="off" spellCheck={false} aria-describedby={about && `${id}-about`} onChange={(event) => onChange(event.target.value)} />
      {about && <p className="about" id={`${id}-about`}>{about}</p>}
    </div>
  );
}

function Lines({ label, about, value, placeholder, rows, onChange }: FieldProps & { rows: number }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea id={id} className="area" rows={rows} value={value} placeholder={placeholder} autoCapitalize="off" autoComplete="off" spellCheck={false} aria-describedby={about && `${id}-about`} onChange={(event) => onChange(event.target.value)} />
      {about && <p className="about" id={`${id}-about`}>{about}</p>}
    </div>
  );
}

/** Exactly what will run or be reached, word by word. */
function Preview({ read: { servers, ignored } }: { read: ReadServers }) {
  const local = servers.filter((server) => server.command).length;
  return (
    <section className="stack tight" aria-label="What is added">
      {local > 0 && <p>{local === servers.length ? 'It runs' : 'Local servers run'} with your permissions, so check every word.</p>}
      {servers.map((server) => (
        <dl key={server.name ?? server.url} className="kv">
          {server.name && <><dt>name</dt><dd><code>{shown(server.name)}</code></dd></>}
          {server.command?.map((word, place) => <Fragment key={place}><dt>{place === 0 ? 'command' : ''}</dt><dd><code>{shown(word)}</code></dd></Fragment>)}
          {server.url && <><dt>url</dt><dd><code>{shown(server.url)}</code></dd></>}
          {server.cwd && <><dt>cwd</dt><dd><code>{shown(server.cwd)}</code></dd></>}
          {Object.entries(server.env ?? server.headers ?? {}).map(([key, value]) => <Fragment key={key}><dt>{shown(key)}</dt><dd><code>{shown(value)}</code></dd></Fragment>)}
        </dl>
      ))}
      {ignored.length > 0 && <Note tone="warn"><Prose text={`Not added: ${ignored.slice(0, 8).map((field) => `\`${field}\``).join(', ')}`} /></Note>}
    </section>
  );
}

/** What to do in a browser that the gateway does not know as the owner's. */
function Commands({ servers }: { servers: NewServer[] }) {
  return (
    <>
      <Note>The gateway does not know that this browser is yours, so it accepts no new server from it. Open the console with this command:</Note>
      <CodeBox what="command" text="toolbooth console" />
      {servers.length > 0 && <p>Or add it in a terminal:</p>}
      {servers.map((server) => <CodeBox key={server.name ?? server.url} what="command" text={asCommand(server)} />)}
    </>
  );
}
