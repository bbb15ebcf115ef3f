// Adds a server to the configuration: shows exactly what will run, and adds it if the gateway knows this browser as its owner's.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { createPortal } from 'react-dom';
import { useLocation } from 'wouter';
import { type Schemas, fetchJson } from '../api/client';
import { useOwner } from '../api/owner';
import { useMe } from '../api/queries';
import { session } from '../api/session';
import { type NewServer, type ReadServers, asCommand, readCommand, readJson, readUrl } from '../lib/server-entry';
import { Button, CodeBox, Failure, Note, Segment } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { toast } from '../ui/toast';
import { EXAMPLES, Extras, Line, Lines, Preview } from './server-form';

type Source = 'command' | 'url' | 'json';
type Added = Schemas['ChangedServerEntry'];

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
        {source !== 'json' && <Extras kind={source} cwd={cwd} pairs={pairs} onCwd={setCwd} onPairs={setPairs} />}
        {read?.wrong && <p className="wrong" role="alert">{read.wrong}</p>}
        {read && !read.wrong && <Preview label="What is added" servers={read.servers} ignored={read.ignored} />}
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
