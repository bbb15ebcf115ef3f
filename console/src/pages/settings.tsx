// Settings of this browser, the caller, remembered approvals, tokens, personas, and the configuration of the gateway.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState, useSyncExternalStore } from 'react';
import { useLocation } from 'wouter';
import { ApiError, api } from '../api/client';
import { useConsents, useExposure, useMe, usePersonas, useServers, useTokens } from '../api/queries';
import { session } from '../api/session';
import { count, toolName } from '../lib/format';
import { gatewayUrl } from '../lib/place';
import { Ago, Button, CodeBox, Empty, Failure, Loaded, Note, PageHead, Segment, Status, Tabs, Time } from '../ui/basic';
import { Confirm, Dialog } from '../ui/dialog';
import { type Theme, setTheme, useTheme } from '../ui/theme';
import { toast } from '../ui/toast';
import { Configuration } from './settings-configuration';
import { MyKeys } from './settings-keys';

type Section = 'general' | 'keys' | 'tokens' | 'approvals' | 'personas' | 'configuration';

export default function Settings({ section }: { section?: string }) {
  const me = useMe();
  const [, go] = useLocation();
  const shown = (section ?? 'general') as Section;
  const admin = me.data?.admin ?? false;
  const servers = useServers();
  const hasKeys = shown === 'keys' || (servers.data?.servers.some((server) => server.own_key) ?? false);
  return (
    <div className="page">
      <PageHead title="Settings" />
      <div className="stack">
        <Tabs label="Settings" selected={shown} onSelect={(id) => go(`/settings/${id}`)} tabs={[
          { id: 'general', label: 'General' },
          ...(hasKeys ? [{ id: 'keys' as const, label: 'My keys' }] : []),
          ...(admin ? [{ id: 'tokens' as const, label: 'Tokens' }] : []),
          { id: 'approvals', label: 'Remembered approvals' },
          { id: 'personas', label: 'See as' },
          ...(admin ? [{ id: 'configuration' as const, label: 'Configuration' }] : []),
        ]} />
        {shown === 'general' && <General />}
        {shown === 'keys' && <MyKeys />}
        {shown === 'tokens' && admin && <Tokens />}
        {shown === 'approvals' && <Consents />}
        {shown === 'personas' && <Personas />}
        {shown === 'configuration' && admin && <Configuration />}
      </div>
    </div>
  );
}

function General() {
  const me = useMe();
  const theme = useTheme();
  const [notify, setNotify] = useState(localStorage.getItem('toolbooth-notify') === 'on');
  const switchNotify = async () => {
    if (!notify && (await Notification.requestPermission()) !== 'granted') {
      toast('The browser does not allow notifications for this page.');
      return;
    }
    localStorage.setItem('toolbooth-notify', notify ? 'off' : 'on');
    setNotify(!notify);
  };
  return (
    <div className="stack">
      <section className="card card-body stack tight">
        <h2>You</h2>
        <Loaded query={me} lines={2}>
          {(data) => (
            <dl className="kv">
              <dt>User</dt><dd>{data.user}</dd>
              <dt>Groups</dt><dd>{typeof data.groups === 'string' ? data.groups : data.groups.join(', ') || 'none'}</dd>
              <dt>Administrator</dt><dd>{data.admin ? 'yes' : 'no'}</dd>
              {data.compliance_level && <><dt>Compliance level</dt><dd>{data.compliance_level}</dd></>}
              <dt>MCP endpoint</dt><dd><code>{gatewayUrl}/mcp</code></dd>
            </dl>
          )}
        </Loaded>
      </section>
      <section className="card card-body stack tight">
        <h2>This browser</h2>
        <div className="row wrap"><span style={{ minWidth: 140 }}>Theme</span><Segment label="Theme" value={theme} onChange={(id: Theme) => setTheme(id)} options={[{ id: 'system', label: 'System' }, { id: 'light', label: 'Light' }, { id: 'dark', label: 'Dark' }]} /></div>
        {typeof Notification !== 'undefined' && (
          <label className="check"><input type="checkbox" checked={notify} onChange={() => void switchNotify()} /><span>Notify me on the desktop when a call waits for a decision<br /><span className="muted small">A notification names the tool, never its arguments.</span></span></label>
        )}
      </section>
      <section className="card card-body stack tight"><h2>API</h2><p>Everything on these pages is also available over REST: <a href={`${gatewayUrl}/docs`} target="_blank" rel="noreferrer">API documentation</a>.</p></section>
    </div>
  );
}

function Tokens() {
  const tokens = useTokens(true);
  const client = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const [asks, setAsks] = useState<string | null>(null);
  const revoke = useMutation({
    mutationFn: (id: string) => api.delete('/tokens/{id}', { params: { id } }),
    onSuccess: () => toast('Token revoked'),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => { setAsks(null); void client.invalidateQueries({ queryKey: ['tokens'] }); },
  });
  return (
    <div className="stack tight">
      <div className="row"><p className="muted grow">Tokens identify users if <code>auth.mode</code> is <code>token</code>. The gateway keeps only their hashes.</p><Button look="primary" icon="plus" onClick={() => setOpen(true)}>Create a token</Button></div>
      <div className="card">
        <Loaded query={tokens}>
          {({ tokens: list }) => list.length === 0 ? <Empty title="No tokens" /> : (
            <div className="table-wrap"><table className="table cards">
              <thead><tr><th>User</th><th>Groups</th><th>Note</th><th>State</th><th>Expires</th><th><span className="visually-hidden">Revoke</span></th></tr></thead>
              <tbody>
                {list.map((token) => (
                  <tr key={token.id}>
                    <td><b>{token.user}</b> <code className="muted">{token.id}</code></td>
                    <td data-label="groups">{token.groups.join(', ')}</td>
                    <td className="muted" data-label="note">{token.note}</td>
                    <td><Status tone={token.standing === 'live' ? 'ok' : 'off'}>{token.standing}</Status></td>
                    <td className="muted" data-label="expires">{token.expires_ms ? <Time ms={token.expires_ms} /> : 'never'}</td>
                    <td className="num">{token.standing === 'live' && <Button small look="danger" onClick={() => setAsks(token.id)}>Revoke</Button>}</td>
                  </tr>
                ))}
              </tbody>
            </table></div>
          )}
        </Loaded>
      </div>
      {asks && <Confirm title="Revoke this token?" action="Revoke" busy={revoke.isPending} onClose={() => setAsks(null)} onConfirm={() => revoke.mutate(asks)}><p>It stops working at once, and open streams of its user end.</p></Confirm>}
      {isOpen && <CreateToken onClose={() => setOpen(false)} />}
    </div>
  );
}

const DAYS: [string, number][] = [['7 days', 7], ['30 days', 30], ['90 days', 90], ['1 year', 365]];

function CreateToken({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: (body: { user: string; groups: string[]; note?: string; expires_seconds?: number }) => api.post('/tokens', { body }),
    onSuccess: () => void client.invalidateQueries({ queryKey: ['tokens'] }),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const days = Number(text('days'));
    create.mutate({
      user: text('user'),
      groups: text('groups').split(',').map((group) => group.trim()).filter(Boolean),
      ...(text('note') ? { note: text('note') } : {}),
      ...(days > 0 ? { expires_seconds: days * 86_400 } : {}),
    });
  };
  const made = create.data as { token?: string; user?: string } | undefined;
  if (made?.token) {
    return (
      <Dialog title={`Token of ${made.user}`} onClose={onClose}>
        <Note tone="warn">Copy it now. It is shown once.</Note>
        <CodeBox what="the token" text={made.token} />
        <div className="dialog-acts"><Button look="primary" onClick={onClose}>Done</Button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Create a token" onClose={onClose}>
      <form className="form" onSubmit={submit}>
        <div className="field"><label htmlFor="token-user">User</label><input id="token-user" name="user" className="input" required autoFocus autoComplete="off" /></div>
        <div className="field"><label htmlFor="token-groups">Groups <span className="kind">separated by commas</span></label><input id="token-groups" name="groups" className="input" autoComplete="off" /></div>
        <div className="field"><label htmlFor="token-note">Note <span className="kind">what it is for</span></label><input id="token-note" name="note" className="input" autoComplete="off" /></div>
        <div className="field"><label htmlFor="token-days">Expires after</label><select id="token-days" name="days" className="select" defaultValue="90">{DAYS.map(([label, days]) => <option key={days} value={days}>{label}</option>)}<option value="0">never</option></select></div>
        {create.error && <Failure error={create.error} />}
        <div className="dialog-acts"><Button onClick={onClose}>Cancel</Button><Button look="primary" type="submit" busy={create.isPending}>Create</Button></div>
      </form>
    </Dialog>
  );
}

function Consents() {
  const consents = useConsents();
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: (id: string) => api.delete('/consents/{id}', { params: { id } }),
    onSuccess: () => toast('The next call asks again'),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => void client.invalidateQueries({ queryKey: ['consents'] }),
  });
  return (
    <div className="card">
      <Loaded query={consents}>
        {({ consents: list }) => list.length === 0 ? <Empty title="No remembered approvals"><p>An approval with “for this session” or “always” is listed here. It covers one version of one tool.</p></Empty> : (
          <ul className="items">
            {list.map((consent) => (
              <li key={consent.id}>
                <div className="text"><p className="strong">{toolName(consent.server, consent.tool)}</p><p className="muted small">{consent.user} · granted by {consent.granted_by}, <Ago ms={consent.created_ms} /> · {consent.session ? `session ${consent.session}` : 'always'}</p></div>
                <div className="acts"><Button small look="danger" busy={revoke.isPending && revoke.variables === consent.id} onClick={() => revoke.mutate(consent.id)}>Revoke</Button></div>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </div>
  );
}

function Personas() {
  const personas = usePersonas();
  const identity = useSyncExternalStore(session.subscribe, session.get);
  return (
    <div className="stack tight">
      <p className="muted">A persona is a narrower view of the tools. Choose one to see the gateway as a client with that persona does.</p>
      <div className="card">
        <Loaded query={personas}>
          {({ personas: list }) => list.length === 0 ? <Empty title="No personas"><p>Define them in the configuration:</p><CodeBox what="configuration" text={'[personas.support]\nallowed_tools = ["tickets.*", "wiki_search"]'} /></Empty> : (
            <ul className="items">
              {list.map((persona) => (
                <li key={persona.name}>
                  <div className="text"><p className="strong">{persona.name}</p>{persona.description && <p className="muted small">{persona.description}</p>}<PersonaView name={persona.name} /></div>
                  <div className="acts">{identity.persona === persona.name ? <Button small onClick={() => session.setPersona(null)}>Leave</Button> : <Button small onClick={() => session.setPersona(persona.name)}>See as {persona.name}</Button>}</div>
                </li>
              ))}
            </ul>
          )}
        </Loaded>
      </div>
    </div>
  );
}

/** How much of the catalog a persona sees. */
function PersonaView({ name }: { name: string }) {
  const whole = useExposure(undefined);
  const seen = useExposure(undefined, name);
  if (!seen.data) return null;
  const of = whole.data && session.get().persona === null ? ` of ${count(whole.data.tools)}` : '';
  return <p className="muted small">Sees {count(seen.data.tools)}{of} tools, {count(seen.data.tokens.full)} tokens in full</p>;
}
