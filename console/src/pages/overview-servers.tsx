// The servers on the overview, with the success and latency of their recent calls.

import { useMemo } from 'react';
import { Link, useLocation } from 'wouter';
import type { GatewayEvent } from '../api/events';
import { type Server, useRecentEvents, useServers } from '../api/queries';
import { count, duration, percent, plural } from '../lib/format';
import { Empty, Loaded, ServerState, Status } from '../ui/basic';

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

export function ServerTable() {
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
