// Servers: is it up, and if not, what mends it; its tools, output and set-aside items.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError, api } from '../api/client';
import { type Server, useChanges, useMe, useServer, useServerLogs, useServers, useTools } from '../api/queries';
import { reasonOf, unsetVariable } from '../lib/config-place';
import { count, plural, span } from '../lib/format';
import { Button, CopyButton, Empty, Failure, Loaded, Note, PageHead, Prose, ServerState, Skeleton, Status, Tabs } from '../ui/basic';
import { Confirm } from '../ui/dialog';
import { toast } from '../ui/toast';
import { VirtualList } from '../ui/virtual';
import { Chips, useClearFilters, useFilter } from './filters';
import { ChangedDetail } from './inbox-change';
import { InstallHelp } from './install-help';
import { MissingVariable } from './missing-variable';
import { ToolCount } from './overview-servers';
import { AddServerButton } from './server-add';
import { EditServerButton } from './server-edit';
import { FixButton, ReloadButton } from './server-fix';
import { RemoveServerButton } from './server-remove';
import { ServerKey } from './settings-keys';

export default function Servers({ selected, tab }: { selected?: string; tab?: string }) {
  return selected === undefined ? <ServerList /> : <ServerDetail key={selected} name={selected} tab={(tab ?? 'tools') as ServerTab} />;
}

/** Groups of states, as people ask for them. */
const STATES: { id: string; label: string; states: string[] }[] = [
  { id: 'up', label: 'Up', states: ['connected'] },
  { id: 'action', label: 'Needs an action', states: ['needs_auth', 'needs_trust', 'config_error'] },
  { id: 'down', label: 'Down', states: ['error', 'connecting'] },
  { id: 'off', label: 'Off', states: ['disconnected', 'disabled'] },
];

function ServerList() {
  const me = useMe();
  const servers = useServers();
  const [text, setText] = useFilter('q');
  const [state, setState] = useFilter('state');
  const clear = useClearFilters('q', 'state');
  const all = servers.data?.servers ?? [];
  const words = text.trim().toLowerCase();
  const found = all.filter((server) => !words || [server.name, server.description, server.short_description, server.reason, server.transport].some((part) => part?.toLowerCase().includes(words)));
  const isIn = (server: Server, id: string) => STATES.find((one) => one.id === id)?.states.includes(server.state) ?? true;
  const shown = found.filter((server) => isIn(server, state));
  const chips = STATES.map(({ id, label }) => ({ id, label, count: found.filter((server) => isIn(server, id)).length })).filter(({ id, count: number }) => number > 0 || id === state);
  return (
    <div className="page">
      <PageHead title="Servers">{me.data?.admin && <ReloadButton />}<AddServerButton /></PageHead>
      <div className="stack tight">
        {all.length > 1 && (
          <div className="row wrap filters">
            <input className="input" style={{ maxWidth: 260 }} type="search" aria-label="Filter servers" placeholder="Name, description or error" value={text} onChange={(event) => setText(event.target.value)} />
            <Chips label="State of the servers" value={state} onChange={setState} options={chips} />
            <span className="muted small end">{shown.length === all.length ? plural(all.length, 'server') : `${count(shown.length)} of ${plural(all.length, 'server')}`}</span>
          </div>
        )}
        <div className="card">
          <Loaded query={servers} lines={6}>
            {() =>
              all.length === 0 ? <Empty title="No servers"><p>Add one here, put it into <code>.mcp.json</code> in the gateway's folder, or run <code>toolbooth up</code>, which takes over the servers of your clients.</p></Empty>
                : shown.length === 0 ? <Empty title="No server matches the filter"><Button onClick={clear}>Show all servers</Button></Empty>
                : <ServerTable servers={shown} />
            }
          </Loaded>
        </div>
      </div>
    </div>
  );
}

function ServerTable({ servers }: { servers: Server[] }) {
  const [, go] = useLocation();
  return (
    <div className="table-wrap">
      <table className="table stacked">
        <thead><tr><th>Name</th><th>State</th><th className="num">Tools</th><th className="num">Prompts</th><th className="num">Resources</th><th>Transport</th><th>Protocol</th><th><span className="visually-hidden">Fix</span></th></tr></thead>
        <tbody>
          {servers.map((server) => (
            <tr key={server.name} style={{ cursor: 'pointer' }} onClick={() => go(`/servers/${encodeURIComponent(server.name)}`)}>
              <td className="wrap-any">
                <Link className="cell" href={`/servers/${encodeURIComponent(server.name)}`} onClick={(event) => event.stopPropagation()}>{server.name}</Link>
                <p className="muted small clip2"><Prose text={reasonOf(server) ?? server.short_description ?? server.description ?? ''} /></p>
              </td>
              <td><ServerState server={server} /></td>
              <td className="num only-wide"><ToolCount server={server} /></td>
              <td className="num only-wide">{server.state === 'connected' ? count(server.prompts) : ''}</td>
              <td className="num only-wide">{server.state === 'connected' ? count(server.resources) : ''}</td>
              <td className="only-wide muted">{server.transport ?? ''}</td>
              <td className="only-wide muted nowrap">{server.revision ?? ''}</td>
              <td className="num fix" onClick={(event) => event.stopPropagation()}>{server.state !== 'connected' && <FixButton server={server} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type ServerTab = 'tools' | 'changes' | 'logs' | 'aside' | 'about';

function ServerDetail({ name, tab }: { name: string; tab: ServerTab }) {
  const me = useMe();
  const server = useServer(name);
  const [, go] = useLocation();
  const admin = me.data?.admin ?? false;
  const changes = useChanges();
  const variable = server.data ? unsetVariable(server.data) : null;
  const changed = changes.data?.tools.filter((tool) => tool.server === name).map((tool) => tool.name) ?? [];
  return (
    <div className="page">
      <p><Link href="/servers">Servers</Link></p>
      <Loaded query={server} lines={8}>
        {(data) => (
          <div className="stack">
            <PageHead title={data.name} lead={data.description ?? undefined}>{admin && <ServerActions server={data} />}{admin && <EditServerButton server={data} />}{admin && <RemoveServerButton server={data} />}</PageHead>
            <div className="row wrap"><ServerState server={data} /><span className="muted">{data.state === 'connected' ? `${plural(data.tools, 'tool')}, ${plural(data.prompts, 'prompt')}, ${plural(data.resources, 'resource')}` : data.tools > 0 ? `${plural(data.tools, 'tool')} at its last connection` : 'its tools are unknown until it connects'}</span>{data.era && <span className="tag">{data.revision}</span>}{data.transport && <span className="tag">{data.transport}</span>}</div>
            {data.reason && (
              <Note tone={data.state === 'needs_auth' || data.state === 'needs_trust' ? 'warn' : 'bad'} action={variable === null && <FixButton server={data} />}>
                <p className="strong"><Prose text={reasonOf(data) ?? ''} /></p>
                {data.hint && variable === null && <p><Prose text={data.hint} /></p>}
                {data.code && <p className="small"><code>{data.code}</code>{data.retry_in_seconds != null && <> · next attempt in {span(data.retry_in_seconds * 1000)}</>}</p>}
              </Note>
            )}
            {admin && <InstallHelp server={data} />}
            {admin && variable !== null && <MissingVariable server={data} variable={variable} />}
            {!data.reason && data.hint && <Note tone="warn" action={<FixButton server={data} />}><Prose text={data.hint} /></Note>}
            <Tabs label="Server" selected={tab} onSelect={(id) => go(`/servers/${encodeURIComponent(name)}/${id}`, { replace: true })} tabs={[
              { id: 'tools', label: 'Tools' },
              { id: 'changes', label: <>Changes{changed.length > 0 && <span className="count">{changed.length}</span>}</> },
              ...(admin ? [{ id: 'logs' as const, label: 'Output' }] : []),
              ...(admin ? [{ id: 'aside' as const, label: <>Set aside{(data.set_aside?.length ?? 0) > 0 && <span className="count">{data.set_aside?.length}</span>}</> }] : []),
              { id: 'about', label: 'About' },
            ]} />
            {data.own_key && <ul className="items card" aria-label="Your key"><ServerKey server={data} /></ul>}
            {tab === 'tools' && <ServerTools name={name} isUp={data.state === 'connected'} />}
            {tab === 'changes' && <Changes tools={changed} />}
            {tab === 'logs' && <Logs name={name} server={data} />}
            {tab === 'aside' && <SetAside server={data} />}
            {tab === 'about' && <About server={data} />}
          </div>
        )}
      </Loaded>
    </div>
  );
}

/** Tools whose definition is not the accepted one, each with its differences. */
function Changes({ tools }: { tools: string[] }) {
  if (tools.length === 0) return <div className="card"><Empty title="No changes"><p>A tool appears here when its server changes its definition. Until an administrator accepts the change, its calls ask for approval.</p></Empty></div>;
  return (
    <div className="stack">
      {tools.map((tool) => (
        <details key={tool} className="card card-body" open={tools.length === 1}>
          <summary className="strong wrap-any">{tool}</summary>
          <div className="inline-decision"><ChangedDetail name={tool} /></div>
        </details>
      ))}
    </div>
  );
}

function ServerActions({ server }: { server: Server }) {
  const client = useQueryClient();
  const [asks, setAsks] = useState(false);
  const act = useMutation({
    mutationFn: (action: string) => api.post('/servers/{name}/{action}', { params: { name: server.name, action } }),
    onSuccess: (_, action) => toast(`${server.name}: ${action} done`),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => void client.invalidateQueries({ queryKey: ['servers'] }),
  });
  const isUp = server.state === 'connected';
  if (['needs_trust', 'config_error', 'disabled'].includes(server.state)) return null;
  return (
    <>
      {isUp && <Button icon="refresh" busy={act.isPending && act.variables === 'refresh'} title="Ask the server for its tools again" onClick={() => act.mutate('refresh')}>Refresh</Button>}
      <Button busy={act.isPending && act.variables === 'restart'} onClick={() => act.mutate('restart')}>Restart</Button>
      {isUp && <Button look="danger" onClick={() => setAsks(true)}>Disconnect</Button>}
      {/* A server that is down has its own button beside the reason. */}
      {server.state === 'disconnected' && <Button look="primary" busy={act.isPending && act.variables === 'connect'} onClick={() => act.mutate('connect')}>Connect</Button>}
      {asks && <Confirm title={`Disconnect ${server.name}?`} action="Disconnect" onClose={() => setAsks(false)} onConfirm={() => { setAsks(false); act.mutate('disconnect'); }}><p>Its {plural(server.tools, 'tool')} stay listed, but calls of them fail until it is connected again.</p></Confirm>}
    </>
  );
}

function ServerTools({ name, isUp }: { name: string; isUp: boolean }) {
  const tools = useTools({ server: name, sort: 'name' });
  if (tools.error && !tools.data) return <Failure error={tools.error} retry={() => void tools.refetch()} />;
  if (!tools.data) return <Skeleton lines={6} />;
  const rows = tools.data.pages.flatMap((page) => page.tools);
  if (rows.length === 0) return isUp ? <Empty title="No tools"><p>This server lists no tool that you may use.</p></Empty> : <Empty title="Unknown"><p>The gateway learns the tools of this server when it connects.</p></Empty>;
  return (
    <div className="card">
      <VirtualList rows={rows} rowHeight={60} maxHeight={600} keyOf={(tool) => tool.name} label="Tools" onEnd={() => { if (tools.hasNextPage && !tools.isFetchingNextPage) void tools.fetchNextPage(); }} render={(tool) => (
        <Link className="entry" style={{ height: 60 }} href={`/tools/t/${encodeURIComponent(tool.name)}`}>
          <span className="line"><span className="title clip">{tool.name}</span><span className="end muted small nowrap">{count(tool.token_cost)} tokens · quality {tool.quality}</span></span>
          <span className="line muted small"><span className="clip">{tool.description}</span></span>
        </Link>
      )} />
    </div>
  );
}

function Logs({ name, server }: { name: string; server: Server }) {
  const [text, setText] = useState('');
  const isProcess = server.transport === 'stdio' || server.transport === 'bundled';
  const logs = useServerLogs(name, isProcess);
  const words = text.toLowerCase();
  const lines = useMemo(() => (logs.data?.lines ?? []).filter((line) => line.toLowerCase().includes(words)), [logs.data, words]);
  if (!isProcess) return <Empty title="No output"><p>The gateway reaches this server over the network, so it does not see its output.</p></Empty>;
  return (
    <Loaded query={logs} lines={8}>
      {(data) => (
        <div className="stack tight">
          <div className="row wrap">
            <input className="input" style={{ maxWidth: 320 }} type="search" aria-label="Filter lines" placeholder="Filter lines" value={text} onChange={(event) => setText(event.target.value)} />
            <span className="muted small">{words ? `${plural(lines.length, 'line')} of the last ${count(data.lines.length)}` : `last ${count(data.lines.length)} of ${plural(data.total, 'line')} on standard error`}</span>
            <span className="end"><CopyButton what="the lines" label="Copy" text={lines.join('\n')} /></span>
          </div>
          {data.lines.length === 0 ? <Empty title="No output"><p>The server has written nothing to standard error.</p></Empty> : <pre className="code" tabIndex={0} style={{ maxHeight: 560 }}>{lines.join('\n')}</pre>}
        </div>
      )}
    </Loaded>
  );
}

function SetAside({ server }: { server: Server }) {
  const list = server.set_aside ?? [];
  if (list.length === 0) return <Empty title="Nothing was set aside"><p>All items that this server lists are in the catalog.</p></Empty>;
  return (
    <ul className="items card">
      {list.map((item, index) => (
        <li key={index}>
          <Status tone={item.kind === 'quarantine' ? 'bad' : 'warn'}>{item.kind}</Status>
          <div className="text"><p className="strong">{item.name}</p><p className="muted small">{item.reason}</p></div>
          {item.kind === 'quarantine' && item.exposed && <Link className="button small" href={`/inbox/quarantine:${encodeURIComponent(item.exposed)}`}>Inspect</Link>}
        </li>
      ))}
    </ul>
  );
}

function About({ server }: { server: Server }) {
  return (
    <dl className="kv">
      {server.target && <><dt>{server.transport === 'stdio' ? 'Command' : 'Target'}</dt><dd><code>{server.target}</code></dd></>}
      <dt>Protocol</dt><dd>{server.revision ? `${server.revision} (${server.era})` : 'not connected'}</dd>
      {server.author && <><dt>Author</dt><dd>{server.author}</dd></>}
      {server.help_email && <><dt>Help</dt><dd>{server.help_email}</dd></>}
      {server.stray_lines != null && <><dt>Stray lines</dt><dd>{count(server.stray_lines)} lines on standard output were not protocol messages</dd></>}
    </dl>
  );
}
