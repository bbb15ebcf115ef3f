// What needs this person now, what is broken and how to repair it, and what happened today.

import { useEffect, useMemo, useState } from 'react';
import { Link } from 'wouter';
import { ApiError } from '../api/client';
import { useReady, useRecentEvents, useServers, useStats } from '../api/queries';
import { compact, duration, percent, plural, shortTime, toolName } from '../lib/format';
import { useSteadyRows } from '../lib/steady';
import { Button, CodeBox, Empty, Failure, Loaded, Outcome, PageHead, Skeleton } from '../ui/basic';
import { CallsToday } from './calls-today';
import { FirstRun } from './first-run';
import { Broken, NeedsYou } from './overview-needs';
import { ServerTable } from './overview-servers';

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
  const isGone = [servers, ready].every(({ data, error }) => data === undefined && error !== null && ApiError.of(error).isOffline);
  if (isGone) return <div className="page"><PageHead title="Overview" /><GatewayGone retry={() => { void servers.refetch(); void ready.refetch(); }} /></div>;
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

const RETRY_MS = 3000;

/** Nothing could be loaded because the gateway does not answer: one message in place of one for each card. */
function GatewayGone({ retry }: { retry: () => void }) {
  useEffect(() => {
    const timer = setInterval(retry, RETRY_MS);
    return () => clearInterval(timer);
    // The interval starts again with each attempt.
  }, [retry]);
  return (
    <div className="card" role="alert">
      <Empty title="The gateway does not answer">
        <p>It was stopped, or this browser cannot reach it. This page tries again every {RETRY_MS / 1000} seconds. To start it in the background:</p>
        <CodeBox what="the command" text="toolbooth start" />
        <Button icon="refresh" onClick={retry}>Try again now</Button>
      </Empty>
    </div>
  );
}

type CallCounts = { done: number; tool_errors: number; refused: number; failed: number; cancelled: number; held: number; microseconds: number };
const callsIn = (calls: CallCounts | null | undefined) =>
  calls ? calls.done + calls.tool_errors + calls.refused + calls.failed + calls.cancelled : 0;

/** Tools of the gateway itself are sent to clients, but not listed among the tools of servers. */
const ownTools = (servers: { name: string; tools: number }[]) => servers.find((server) => server.name === '_toolbooth')?.tools ?? 0;

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
  const results = useMemo(() => (events.data ?? []).filter((event) => event.type === 'tool.result').reverse(), [events.data]);
  // A row must not move away from the pointer or from the focus.
  const [isReading, setReading] = useState(false);
  const { rows, waiting, release } = useSteadyRows(results, (event) => event.id ?? '', isReading);
  return (
    <section
      className="card" aria-labelledby="latest"
      onPointerEnter={() => setReading(true)}
      onPointerLeave={() => setReading(false)}
      onFocus={() => setReading(true)}
      onBlur={(event) => setReading(event.currentTarget.contains(event.relatedTarget))}
    >
      <div className="card-head"><h2 id="latest">Latest calls</h2>{waiting !== null && <Button small onClick={release}>{waiting} new</Button>}<Link href="/activity">Activity</Link></div>
      {events.error && !events.data ? <div className="card-body"><Failure error={events.error} retry={() => void events.refetch()} /></div> : !events.data ? <Skeleton lines={4} /> : rows.length === 0 ? (
        <div className="card-body muted">No calls yet. <Link href="/tools">Try a tool</Link>.</div>
      ) : (
        <ul className="items">
          {rows.slice(0, 6).map((event) => (
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
