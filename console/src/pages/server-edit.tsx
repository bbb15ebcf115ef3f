// Changes a server's entry in the configuration file that has it. Values that may be secrets stay in the gateway.

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { createPortal } from 'react-dom';
import { ApiError, api } from '../api/client';
import { useOwner } from '../api/owner';
import { type Server } from '../api/queries';
import { session } from '../api/session';
import { type ServerEdit, type WrittenServer, formOf, readEdit } from '../lib/server-entry';
import { Button, CodeBox, Failure, Loaded, Note, Prose } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { toast } from '../ui/toast';
import { EntryPlace } from './entry-place';
import { EXAMPLES, Extras, Line, Preview } from './server-form';

export function EditServerButton({ server }: { server: Server }) {
  const [open, setOpen] = useState(false);
  // Bundled servers are in no file.
  if (server.transport === 'bundled' || session.get().mode !== 'local') return null;
  return (
    <>
      <Button onClick={() => setOpen(true)}>Edit</Button>
      {open && createPortal(<EditServer name={server.name} onClose={() => setOpen(false)} />, document.body)}
    </>
  );
}

function EditServer({ name, onClose }: { name: string; onClose: () => void }) {
  const owner = useOwner();
  const entry = useQuery({
    queryKey: ['entry', name],
    queryFn: ({ signal }) => api.get('/servers/{name}/entry', { params: { name }, signal }),
    enabled: owner.data === true,
    // The form starts from the entry as it is now.
    gcTime: 0,
  });
  const [round, setRound] = useState(0);
  return (
    <Dialog title={`Edit ${name}`} onClose={onClose}>
      {owner.data === false ? <ByHand name={name} onClose={onClose} /> : (
        <Loaded query={entry} lines={5}>
          {(data) => <EntryForm key={round} present={data} onClose={onClose} onReadAgain={() => void entry.refetch().then(() => setRound(round + 1))} />}
        </Loaded>
      )}
    </Dialog>
  );
}

function EntryForm({ present, onClose, onReadAgain }: { present: WrittenServer; onClose: () => void; onReadAgain: () => void }) {
  const client = useQueryClient();
  // A change of the file meanwhile must not replace what a person writes. Saving says that the entry has changed.
  const [entry] = useState(present);
  const [form, setForm] = useState(() => formOf(entry));
  const kind = entry.command ? 'command' : 'url';
  const read = readEdit(entry, form);
  const hasHidden = Object.values(entry.command ? entry.env : entry.headers).includes(null);
  const change = useMutation({
    mutationFn: (edit: ServerEdit) => api.put('/servers/{name}', { params: { name: entry.name }, body: edit }),
    onSuccess: ({ name, file, notes }) => {
      for (const note of notes) toast(note.replaceAll('`', ''));
      toast(`Changed ${name} in ${file}`);
      onClose();
    },
    onSettled: () => void client.invalidateQueries(),
  });
  // An error is about what was sent, not about what is written now.
  const { reset } = change;
  useEffect(reset, [reset, form]);
  const isStale = change.error !== null && ApiError.of(change.error).code === 'servers.changed';
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if ('edit' in read) change.mutate(read.edit);
      }}
    >
      <p className="muted small wrap-any">In <code>{entry.file}</code></p>
      {kind === 'command'
        ? <Line label="Command" about="The program and its arguments. Quotes work as in a shell; pipes and variables do not." value={form.text} placeholder={EXAMPLES.command} onChange={(text) => setForm({ ...form, text })} />
        : <Line label="URL" value={form.text} placeholder={EXAMPLES.url} onChange={(text) => setForm({ ...form, text })} />}
      <Extras open={form.cwd !== '' || form.pairs !== ''} kind={kind} cwd={form.cwd} pairs={form.pairs} onCwd={(cwd) => setForm({ ...form, cwd })} onPairs={(pairs) => setForm({ ...form, pairs })}
        about={hasHidden ? 'Dots stand for a value that is not shown; leave them to keep it.' : undefined} />
      {entry.kept.length > 0 && <p className="muted small"><Prose text={`These fields stay as they are: ${entry.kept.map((field) => `\`${field}\``).join(', ')}.`} /></p>}
      {'wrong' in read ? <p className="wrong" role="alert">{read.wrong}</p> : <Preview label="What will run" servers={[read.server]} />}
      {change.error && <Failure error={change.error} />}
      {isStale && <div><Button icon="refresh" onClick={onReadAgain}>Show the entry as it is now</Button></div>}
      <div className="dialog-acts">
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" look="primary" busy={change.isPending} disabled={'wrong' in read}>Save</Button>
      </div>
    </form>
  );
}

/** What to do in a browser that the gateway does not know as the owner's. */
function ByHand({ name, onClose }: { name: string; onClose: () => void }) {
  return (
    <div className="stack">
      <Note>The gateway does not know that this browser is yours, so it accepts no change from it. Open the console with this command:</Note>
      <CodeBox what="command" text="toolbooth console" />
      <p>Or change its entry by hand. <EntryPlace name={name} /></p>
      <div className="dialog-acts"><Button onClick={onClose}>Close</Button></div>
    </div>
  );
}
