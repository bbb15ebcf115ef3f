// The user's own keys for servers. A key can be set, replaced and deleted, but not read.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { ApiError, api } from '../api/client';
import { type Server, useServers } from '../api/queries';
import { Ago, Button, Empty, Failure, Loaded, Status } from '../ui/basic';
import { Confirm, Dialog } from '../ui/dialog';
import { toast } from '../ui/toast';

export function MyKeys() {
  const servers = useServers();
  return (
    <div className="stack tight">
      <p className="muted">Some servers act with a key of your own. The gateway stores it sealed, uses it for your calls only, and never shows it.</p>
      <div className="card">
        <Loaded query={servers}>
          {({ servers: list }) => {
            const keyed = list.filter((server) => server.own_key);
            return keyed.length === 0 ? <Empty title="No server takes a key of yours"><p>A server asks for keys of its users if its entry has <code>auth_type</code> without <code>auth_token</code>.</p></Empty>
              : <ul className="items">{keyed.map((server) => <ServerKey key={server.name} server={server} />)}</ul>;
          }}
        </Loaded>
      </div>
    </div>
  );
}

/** The state of the key for one server, with buttons to change it. */
export function ServerKey({ server }: { server: Server }) {
  const client = useQueryClient();
  const [dialog, setDialog] = useState<'set' | 'delete' | null>(null);
  const own = server.own_key;
  const remove = useMutation({
    mutationFn: () => api.delete('/servers/{name}/key', { params: { name: server.name } }),
    onSuccess: () => toast(`Deleted your key for ${server.name}`),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => { setDialog(null); void client.invalidateQueries({ queryKey: ['servers'] }); },
  });
  return (
    <li>
      <span className="lead-col"><Status tone={!own?.set ? 'warn' : own.refused ? 'bad' : 'ok'}>{!own?.set ? 'no key' : own.refused ? 'refused' : 'set'}</Status></span>
      <div className="text"><p className="strong">{server.name}</p><p className="muted small">{!own?.set ? 'Your calls of its tools fail until you set a key.' : own.refused ? 'The server did not accept your key.' : <>Set {own.set_at_ms ? <Ago ms={own.set_at_ms} /> : ''}</>}</p></div>
      <div className="acts">
        <Button small look={own?.set ? undefined : 'primary'} onClick={() => setDialog('set')}>{own?.set ? 'Replace' : 'Set key'}</Button>
        {own?.set && <Button small look="danger" onClick={() => setDialog('delete')}>Delete</Button>}
      </div>
      {dialog === 'set' && <SetKey server={server.name} onClose={() => setDialog(null)} />}
      {dialog === 'delete' && <Confirm title={`Delete your key for ${server.name}?`} action="Delete" busy={remove.isPending} onClose={() => setDialog(null)} onConfirm={() => remove.mutate()}><p>Your calls of its tools fail until you set another one.</p></Confirm>}
    </li>
  );
}

function SetKey({ server, onClose }: { server: string; onClose: () => void }) {
  const client = useQueryClient();
  const set = useMutation({
    mutationFn: (key: string) => api.put('/servers/{name}/key', { params: { name: server }, body: { key } }),
    onSuccess: (view) => { toast(view.refused ? `${server} did not accept the key` : `Stored your key for ${server}`); onClose(); },
    onSettled: () => void client.invalidateQueries({ queryKey: ['servers'] }),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const key = String(new FormData(event.currentTarget).get('key') ?? '').trim();
    if (key) set.mutate(key);
  };
  return (
    <Dialog title={`Your key for ${server}`} onClose={onClose}>
      <form className="form" onSubmit={submit}>
        <div className="field"><label htmlFor="own-key">Key</label><input id="own-key" name="key" className="input mono" type="password" autoComplete="off" spellCheck={false} autoFocus required maxLength={4096} /><p className="about">It cannot be read again, not even by you.</p></div>
        {set.error && <Failure error={set.error} />}
        <div className="dialog-acts"><Button onClick={onClose}>Cancel</Button><Button look="primary" type="submit" busy={set.isPending}>Store</Button></div>
      </form>
    </Dialog>
  );
}
