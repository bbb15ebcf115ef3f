// What needs this person now, what is broken and how to mend it, and what happened today.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError, api } from '../api/client';
import { type GatewayEvent } from '../api/events';
import {
  type Approval, type Server, useChanges, useDeadLetters, useMe, usePendingApprovals, usePendingSteps, useQuarantine, useReady, useRecentEvents, useRunning, useServers, useStats,
} from '../api/queries';
import { reasonOf, unsetVariable } from '../lib/config-place';
import { compact, count, duration, percent, plural, shortTime, toolName } from '../lib/format';
import { Button, Empty, Failure, Loaded, Outcome, PageHead, Prose, Remaining, ServerState, Status } from '../ui/basic';
import { Icon } from '../ui/icons';
import { toast } from '../ui/toast';
import { CallsToday } from './calls-today';
import { FilePlace } from './entry-place';
import { FirstRun } from './first-run';
import { beginSignIn } from './sign-in-server';
import { TrustButton, useUntrustedSettings } from './trust';

export function Overview() {
  const servers = useServers();
  const ready = useReady();
  const total = callsIn(ready.data?.calls);
  const isBundledOnly = servers.data?.servers.every((server) => server.transport === 'bundled') ?? false;
  const [started, setStarted] = useState(localStorage.getItem('toolbooth-started'));
  const note = (value: 'begun' | 'yes') => {
    localStorage.setItem('toolbooth-started', value);
    setStarted(value);
  };
  const hasClient = (useStats(undefined, 0).data?.clients.length ?? 1) > 0;
  const isNew = isBundledOnly && started !== 'yes' && servers.data !== undefined;
  // The first steps stay after a server was added, until a client is connected.
  const isFirstRun = isNew || (started === 'begun' && !hasClient);
  useEffect(() => {
    if (isNew && started === null) note('begun');
  }, [isNew, started]);
  return (
    <div className="page">
      <PageHead title="Overview" />
      {isFirstRun && <FirstRun total={total} onDismiss={() => note('yes')} />}
      <div className="grid overview" style={isFirstRun ? { marginTop: 16 } : undefined}>
        <div className="stack">
          <NeedsYou />
          <Broken />
          <ServerTable />
          <Latest />
        </div>
        <div className="stack">
          <CallsToday />
          <Tokens />
        </div>
      </div>
    </div>
  );
}

type CallCounts = { done: number; tool_errors: number; refused: number; failed: number; cancelled: number; held: number; microseconds: number };
const callsIn = (calls: CallCounts | null | undefined) =>
  calls ? calls.done + calls.tool_errors + calls.refused + calls.failed + calls.cancelled : 0;

function Item({ tone, word, title, text, children }: { tone: 'held' | 'bad' | 'warn'; word: string; title: ReactNode; text?: ReactNode; children?: ReactNode }) {
  return (
    <li>
      <span className="lead-col"><Status tone={tone}>{word}</Status></span>
      <div className="text"><p className="strong">{title}</p>{text && <p className="muted small">{text}</p>}</div>
      <div className="acts">{children}</div>
    </li>
  );
}

function NeedsYou() {
  const me = useMe();
  const admin = me.data?.admin ?? false;
  const held = usePendingApprovals();
  const steps = usePendingSteps();
  const changes = useChanges();
  const quarantine = useQuarantine(admin);
  const mine = held.data?.approvals.filter((call) => call.yours) ?? [];
  const plans = [...groupByPlan(steps.data?.approvals ?? [])];
  const changed = admin ? changes.data?.tools ?? [] : [];
  const quarantined = quarantine.data?.tools ?? [];
  const running = useRunning();
  const questions = (running.data?.calls ?? []).filter((call) => call.question);
  const total = questions.length + mine.length + plans.length + changed.length + quarantined.length;
  return (
    <section className="card" aria-labelledby="needs-you">
      <div className="card-head"><h2 id="needs-you">Needs you</h2>{total > 0 && <span className="count held">{total}</span>}{total > 0 && <Link href="/inbox">Open the inbox</Link>}</div>
      {held.error && !held.data ? <div className="card-body"><Failure error={held.error} retry={() => void held.refetch()} /></div> : null}
      {total === 0 ? (
        <div className="card-body row muted"><Icon name="check" />No call, plan or changed tool waits for you.</div>
      ) : (
        <ul className="items">
          {questions.slice(0, 5).map((call) => (
            <Item key={call.id} tone="held" word="question" title={call.tool} text={`${call.question?.server ?? 'The server'} asks: ${call.question?.message ?? ''}`}>
              <Link className="button primary" href={`/inbox/question:${call.id}`}>Answer</Link>
            </Item>
          ))}
          {mine.slice(0, 5).map((call) => (
            <Item key={call.id} tone="held" word="call" title={call.name} text={<>{callerOf(call)}{call.expires_ms ? <> · <Remaining until={call.expires_ms} /></> : null}</>}>
              <Link className="button primary" href={`/inbox/${call.id}`}>Review</Link>
            </Item>
          ))}
          {mine.length > 5 && <li><Link href="/inbox">{plural(mine.length - 5, 'more call')} in the inbox</Link></li>}
          {plans.map(([id, waiting]) => (
            <Item key={id} tone="held" word="plan" title={`A plan with ${plural(waiting.length, 'waiting step')}`} text={waiting.map((step) => step.name).slice(0, 4).join(', ')}>
              <Link className="button" href={`/inbox/plans/${id}`}>Review</Link>
            </Item>
          ))}
          {changed.slice(0, 5).map((tool) => (
            <Item key={tool.name} tone="warn" word="changed" title={tool.name} text={`Server ${tool.server} changed this tool after it was accepted.`}>
              <Link className="button" href={`/inbox/changed:${encodeURIComponent(tool.name)}`}>Compare</Link>
            </Item>
          ))}
          {quarantined.slice(0, 5).map((tool) => (
            <Item key={tool.name} tone="bad" word="quarantine" title={tool.name} text={<Prose text={tool.quarantined?.reason ?? ''} />}>
              <Link className="button" href={`/inbox/quarantine:${encodeURIComponent(tool.name)}`}>Inspect</Link>
            </Item>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Tools of the gateway itself are sent to clients, but not listed among the tools of servers. */
const ownTools = (servers: { name: string; tools: number }[]) => servers.find((server) => server.name === '_toolbooth')?.tools ?? 0;

/** The user of a call and, if it is known, the client. */
export const callerOf = (call: Approval) => (call.client && call.client !== 'unknown' ? `${call.user} via ${call.client}` : call.user);

export function groupByPlan(steps: Approval[]): Map<string, Approval[]> {
  const plans = new Map<string, Approval[]>();
  for (const step of steps) {
    if (step.plan) plans.set(step.plan.id, [...(plans.get(step.plan.id) ?? []), step]);
  }
  return plans;
}

const BROKEN = ['error', 'needs_auth', 'needs_trust', 'config_error'];

function Broken() {
  const servers = useServers();
  const ready = useReady();
  const me = useMe();
  const untrusted = useUntrustedSettings(me.data?.admin ?? false);
  const dead = useDeadLetters('pending');
  const broken = servers.data?.servers.filter((server) => BROKEN.includes(server.state)) ?? [];
  const letters = dead.data?.pages.flatMap((page) => page.dead_letters) ?? [];
  const reload = ready.data?.config?.reload_error;
  const restart = ready.data?.config?.restart_needed ?? [];
  const total = broken.length + untrusted.length + (letters.length > 0 ? 1 : 0) + (reload ? 1 : 0) + (restart.length > 0 ? 1 : 0);
  if (total === 0) return null;
  return (
    <section className="card" aria-labelledby="broken">
      <div className="card-head"><h2 id="broken">Broken</h2><span className="count bad">{total}</span></div>
      <ul className="items">
        {broken.map((server) => <BrokenServer key={server.name} server={server} />)}
        {untrusted.map((file) => (
          <Item key={file} tone="warn" word="not trusted" title="Settings of a project file have no effect" text={<code className="wrap-any">{file}</code>}>
            <TrustButton subject={{ file }} />
          </Item>
        ))}
        {letters.length > 0 && (
          <Item tone="bad" word="failed calls" title={`${plural(letters.length, 'dead letter')}`} text="Failed calls, which can be replayed.">
            <Link className="button" href="/activity/dead">Open</Link>
          </Item>
        )}
        {reload && (
          <Item tone="bad" word="configuration" title={<Prose text={reload.message} />} text={<><Prose text={reload.hint ?? ''} /> The last good configuration stays in force.</>}>
            <ReloadButton />
          </Item>
        )}
        {restart.length > 0 && (
          <Item tone="warn" word="restart" title="Some changed settings need a restart" text={restart.join(', ')} />
        )}
      </ul>
    </section>
  );
}

export function ReloadButton() {
  const client = useQueryClient();
  const reload = useMutation({
    mutationFn: () => api.post('/servers/reload', {}),
    onSuccess: () => { toast('Configuration reloaded'); void client.invalidateQueries(); },
    onError: (error) => { toast(ApiError.of(error).message); void client.invalidateQueries({ queryKey: ['ready'] }); },
  });
  return <Button icon="refresh" busy={reload.isPending} onClick={() => reload.mutate()}>Reload</Button>;
}

function BrokenServer({ server }: { server: Server }) {
  const variable = unsetVariable(server);
  return (
    <li>
      <span className="lead-col"><ServerState server={server} /></span>
      <div className="text">
        <p className="strong"><Link href={`/servers/${encodeURIComponent(server.name)}`}>{server.name}</Link></p>
        {server.reason && <p className="small"><Prose text={reasonOf(server) ?? ''} /></p>}
        {variable?.place && <p className="muted small">used in <FilePlace place={variable.place} /></p>}
        {!variable && server.hint && <p className="muted small clip2" title={server.hint}><Prose text={server.hint} /></p>}
      </div>
      <div className="acts"><FixButton server={server} /></div>
    </li>
  );
}

/** The button that mends a server, by its state. */
export function FixButton({ server }: { server: Server }) {
  const me = useMe();
  const client = useQueryClient();
  const act = useMutation({
    mutationFn: (action: string) => api.post('/servers/{name}/{action}', { params: { name: server.name, action } }),
    onSuccess: (answer) => {
      const { state } = answer as { state?: string };
      toast(state === 'connected' ? `${server.name} is up` : `${server.name} is still ${state?.replaceAll('_', ' ') ?? 'down'}`);
    },
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => void client.invalidateQueries({ queryKey: ['servers'] }),
  });
  const signIn = useMutation({ mutationFn: () => beginSignIn(server.name), onError: (error) => toast(ApiError.of(error).message) });
  if (server.own_key && (!server.own_key.set || server.own_key.refused)) return <Link className="button primary" href="/settings/keys">Set your key</Link>;
  if (!me.data?.admin) return <span className="muted small">Ask an administrator</span>;
  switch (server.state) {
    case 'error':
      return <Button icon="refresh" busy={act.isPending} onClick={() => act.mutate('connect')}>Reconnect</Button>;
    case 'disconnected':
      return <Button busy={act.isPending} onClick={() => act.mutate('connect')}>Connect</Button>;
    case 'needs_auth':
      return <Button look="primary" busy={signIn.isPending} onClick={() => signIn.mutate()}>Sign in</Button>;
    case 'needs_trust':
      return <TrustButton subject={{ server: server.name }} />;
    case 'config_error':
      return unsetVariable(server) === null ? <ReloadButton /> : <Link className="button primary" href={`/servers/${encodeURIComponent(server.name)}`}>How to set it</Link>;
    default:
      return null;
  }
}

interface ServerHealth {
  calls: number;
  success: number;
  medianMs: number;
}

/** Success and latency of each server, from the recent calls that this person may see. */
function healthOf(events: GatewayEvent[]): Map<string, ServerHealth> {
  const ended = new Map<string, GatewayEvent[]>();
  const sent = new Map(events.flatMap((event) => (event.type === 'tool.call' && event.call ? [[event.call, event.at_ms] as const] : [])));
  // A call that waited for a person is not slow: only the time since it was sent counts. Times of events are whole milliseconds.
  const latencyOf = ({ call, at_ms: end, duration_ms: whole }: GatewayEvent) => (whole === undefined ? [] : [Math.min(whole, end - (sent.get(call ?? '') ?? -Infinity) + 1)]);
  for (const event of events) {
    const isSent = event.type === 'tool.result' && !['held', 'cancelled', 'refused'].includes(event.outcome ?? '');
    if (!isSent || !event.server) continue;
    const calls = ended.get(event.server);
    if (calls) calls.push(event);
    else ended.set(event.server, [event]);
  }
  return new Map([...ended].map(([server, calls]) => {
    const times = calls.flatMap(latencyOf).sort((left, right) => left - right);
    const success = calls.filter((call) => call.outcome === 'done').length / calls.length;
    return [server, { calls: calls.length, success, medianMs: times[Math.floor(times.length / 2)] ?? 0 }];
  }));
}

function Health({ health }: { health: ServerHealth | undefined }) {
  if (!health) return <span className="muted small">no recent calls</span>;
  const title = `Of ${plural(health.calls, 'recent call')}; median latency`;
  return <span className="small nowrap" title={title}>{health.success < 0.9 ? <Status tone="warn">{percent(health.success)}</Status> : percent(health.success)} · {duration(health.medianMs)}</span>;
}

function ServerTable() {
  const servers = useServers();
  const events = useRecentEvents(1000);
  const health = useMemo(() => healthOf(events.data ?? []), [events.data]);
  const [, go] = useLocation();
  return (
    <section className="card" aria-labelledby="servers">
      <div className="card-head"><h2 id="servers">Servers</h2>{servers.data && <ServerCounts servers={servers.data.servers} />}<Link href="/servers">All servers</Link></div>
      <Loaded query={servers} lines={5}>
        {({ servers: list }) =>
          list.length === 0 ? (
            <Empty title="You see no servers"><p>Your groups give access to none. Ask an administrator.</p></Empty>
          ) : (
            <table className="table stacked">
              <thead><tr><th>Name</th><th>State</th><th className="num">Tools</th><th title="Success and median latency of recent calls">Health</th><th>Protocol</th></tr></thead>
              <tbody>
                {list.slice(0, 12).map((server) => (
                  <tr key={server.name} onClick={() => go(`/servers/${encodeURIComponent(server.name)}`)} style={{ cursor: 'pointer' }}>
                    <td className="wrap-any"><Link className="cell" href={`/servers/${encodeURIComponent(server.name)}`} onClick={(event) => event.stopPropagation()}>{server.name}</Link></td>
                    <td><ServerState server={server} /></td>
                    <td className="num only-wide"><ToolCount server={server} /></td>
                    <td className="only-wide"><Health health={health.get(server.name)} /></td>
                    <td className="muted small only-wide">{[server.transport, server.revision].filter(Boolean).join(' · ')}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Loaded>
    </section>
  );
}

/** The number of tools. A server that is down and was never up has an unknown number, not zero. */
export function ToolCount({ server }: { server: Server }) {
  if (server.state === 'connected') return count(server.tools);
  return server.tools === 0 ? <span className="muted" title="Unknown until it connects">unknown</span> : <span className="muted" title="From its last connection">{count(server.tools)}</span>;
}

function ServerCounts({ servers }: { servers: Server[] }) {
  const up = servers.filter((server) => server.state === 'connected').length;
  return <span className="muted small">{up} of {servers.length} up</span>;
}

function Tokens() {
  const stats = useStats(undefined, 0);
  return (
    <section className="card" aria-labelledby="tokens">
      <div className="card-head"><h2 id="tokens">Context</h2><Link href="/cost">Details</Link></div>
      <div className="card-body">
        <Loaded query={stats} lines={2}>
          {(data) => (
            <div className="figures">
              <div className="figure minor"><b>{compact(data.full)}</b><span>tokens of {plural(data.tools - ownTools(data.servers), 'tool')}{ownTools(data.servers) > 0 ? ' and the gateway’s own' : ''}</span></div>
              <div className="figure minor">
                {data.sent == null ? <><b>–</b><span>no client has asked yet</span></> : <><b>{compact(Math.max(0, data.saved ?? 0))}</b><span>saved for {data.client}{data.full > 0 ? ` (${percent(Math.max(0, data.saved ?? 0) / data.full)})` : ''}</span></>}
              </div>
            </div>
          )}
        </Loaded>
      </div>
    </section>
  );
}

function Latest() {
  const events = useRecentEvents(1000);
  const results = (events.data ?? []).filter((event) => event.type === 'tool.result').slice(-6).reverse();
  return (
    <section className="card" aria-labelledby="latest">
      <div className="card-head"><h2 id="latest">Latest calls</h2><Link href="/activity">Activity</Link></div>
      {results.length === 0 ? (
        <div className="card-body muted">No calls yet. <Link href="/tools">Try a tool</Link>.</div>
      ) : (
        <ul className="items">
          {results.map((event) => (
            <li key={event.id} className="latest">
              <span className="clip" title={toolName(event.server, event.tool)}>{event.call ? <Link className="cell" href={`/activity/calls/${event.call}`}>{toolName(event.server, event.tool)}</Link> : toolName(event.server, event.tool)}</span>
              <span className="muted small clip only-wide">{event.user}</span>
              <span className="muted small nowrap">{shortTime(event.at_ms)}</span>
              <Outcome state={event.outcome ?? ''} />
              <span className="num small">{duration(event.duration_ms ?? 0)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
