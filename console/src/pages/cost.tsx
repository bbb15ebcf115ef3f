// What tools cost in a model's context: before and after, by server and tool, and what another mode would cost.

import { useMemo, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { useExposure, useStats } from '../api/queries';
import type { Schemas } from '../api/client';
import { compact, count, percent, plural } from '../lib/format';
import { treemap } from '../lib/treemap';
import { Ago, Empty, Loaded, LongName, Note, PageHead, Prose, Segment } from '../ui/basic';
import { useFilter } from './filters';

type Stats = Schemas['StatsView'];
type ToolWeight = Schemas['ToolWeightView'];

const MAP_WIDTH = 1000;
const MAP_HEIGHT = 420;

export default function Cost() {
  const [client, setClient] = useFilter('client');
  const stats = useStats(client || undefined, 1000);
  return (
    <div className="page">
      <PageHead title="Context cost" lead="Tool definitions fill the context of a model before it has read a single message.">
        {stats.data && stats.data.clients.length > 0 && (
          <select className="select" aria-label="Client" value={stats.data.client ?? ''} onChange={(event) => setClient(event.target.value)}>
            {stats.data.clients.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        )}
      </PageHead>
      <Loaded query={stats} lines={10}>{(data) => <CostOf stats={data} />}</Loaded>
    </div>
  );
}

function CostOf({ stats }: { stats: Stats }) {
  const [measure, setMeasure] = useState<'full' | 'sent'>('full');
  if (stats.tools === 0) return <Empty title="No tools"><p>Tools of servers that you may use are counted here.</p><Link className="button" href="/servers">See the servers</Link></Empty>;
  const hasSent = stats.sent != null;
  const shown = hasSent ? measure : 'full';
  return (
    <div className="stack">
      <div className="grid cost-top">
        <section className="card card-body stack" aria-label="Before and after">
          <Before stats={stats} />
        </section>
        <section className="card card-body" aria-label="Modes"><Modes client={stats.client ?? undefined} /></section>
      </div>
      <section className="card" aria-labelledby="where">
        <div className="card-head"><h2 id="where">Where the tokens are</h2>{hasSent && <span className="end"><Segment label="Count" value={shown} onChange={setMeasure} options={[{ id: 'full', label: 'In full' }, { id: 'sent', label: 'As sent' }]} /></span>}</div>
        <div className="card-body stack">
          <div className="only-wide"><Map stats={stats} measure={shown} /></div>
          <ServerBars stats={stats} measure={shown} />
        </div>
      </section>
      <section className="card" aria-labelledby="dearest">
        <div className="card-head"><h2 id="dearest">Most expensive tools</h2></div>
        <table className="table">
          <thead><tr><th>Tool</th><th className="only-wide">Server</th><th className="num">In full</th><th className="num">Summary</th><th className="num">Sent</th><th className="num only-wide">Loaded on demand</th></tr></thead>
          <tbody>
            {stats.dearest.slice(0, 25).map((tool) => (
              <tr key={tool.name}>
                <td className="wrap-any">{tool.server.startsWith('_') ? <LongName text={tool.name} /> : <Link className="cell" href={`/tools/t/${encodeURIComponent(tool.name)}`}><LongName text={tool.name} /></Link>}</td>
                <td className="only-wide muted">{serverName(tool.server)}</td>
                <td className="num">{count(tool.full)}</td><td className="num">{count(tool.summary)}</td><td className="num">{tool.sent == null ? '–' : count(tool.sent)}</td><td className="num only-wide">{tool.loaded > 0 ? `${count(tool.loaded)} times` : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <p className="muted small">Counted with the tokenizer {stats.tokenizer}. “Sent” is the last list that the client received{stats.listed_at_ms ? <>, <Ago ms={stats.listed_at_ms} /></> : null}.</p>
    </div>
  );
}

/** The name without the prefix that repeats the server. */
const shortName = ({ name, server }: ToolWeight) => (name.startsWith(`${server}_`) ? name.slice(server.length + 1) : name);
/** Names that no server has: the gateway's own tools, and tools that only a manifest or a skill describes. */
const OWN_NAMES: Record<string, string> = { _toolbooth: 'the gateway itself', _manifest: 'manifests and skills' };
const serverName = (name: string) => OWN_NAMES[name] ?? name;

function Before({ stats }: { stats: Stats }) {
  const share = (value: number) => `${Math.max(0.3, (value / Math.max(1, stats.full)) * 100)}%`;
  const net = stats.saved_net ?? null;
  return (
    <>
      <div className="figures">
        <div className="figure"><b>{count(stats.full)}</b><span>tokens of {plural(stats.tools, 'tool')} in full</span></div>
        {stats.sent != null ? <div className="figure"><b>{count(stats.sent)}</b><span>sent to {stats.client}</span></div> : <div className="figure"><b>–</b><span>{stats.client ? `${stats.client} has not asked for the current list` : 'no client has asked for the list yet'}</span></div>}
      </div>
      {stats.sent != null ? (
        <div className="bars">
          <span>before</span><span className="bar"><i style={{ width: '100%' }} /></span><span className="num small">{count(stats.full)}</span>
          <span>after</span><span className="bar"><i style={{ width: share(stats.sent) }} /></span><span className="num small">{count(stats.sent)}</span>
          {stats.loaded.tokens > 0 && <><span>on demand</span><span className="bar"><i style={{ width: share(stats.loaded.tokens) }} /></span><span className="num small">{count(stats.loaded.tokens)} in {plural(stats.loaded.answers, 'answer')}</span></>}
        </div>
      ) : <Note>Connect a client and let it list its tools to see what it receives. <Link href="/">How to connect</Link></Note>}
      {net !== null && <p className="strong">{net >= 0 ? `${count(net)} tokens saved (${percent(net / Math.max(1, stats.full))}), after what was loaded on demand.` : `Searches have cost ${count(-net)} tokens more than the full list would have.`}</p>}
    </>
  );
}

function Modes({ client }: { client?: string }) {
  const exposure = useExposure(client);
  return (
    <Loaded query={exposure} lines={5}>
      {(data) => {
        const modes = [['full', data.tokens.full], ['summary', data.tokens.summary], ['search', data.tokens.search]] as const;
        const highest = Math.max(1, ...modes.map(([, value]) => value));
        const cheapest = modes.reduce((best, mode) => (mode[1] < best[1] ? mode : best));
        const current = modes.find(([mode]) => mode === data.mode)?.[1] ?? 0;
        return (
          <div className="stack">
            <h2>What another mode would cost</h2>
            <div className="bars">
              {modes.map(([mode, value]) => [
                <span key={`${mode} name`}>{mode === data.mode ? <b>{mode} (in use)</b> : mode}</span>,
                <span key={`${mode} bar`} className="bar"><i style={{ width: `${(value / highest) * 100}%` }} /></span>,
                <span key={`${mode} value`} className="num small">{count(value)}</span>,
              ])}
            </div>
            <p className="muted">{data.client === 'unknown' ? 'A new client' : data.client} gets <b>{data.mode}</b>: <Prose text={data.reason} />.</p>
            {cheapest[0] !== data.mode && current > 0 && <p className="muted">Mode <b>{cheapest[0]}</b> would save {compact(current - cheapest[1])} tokens ({percent(1 - cheapest[1] / current)}) per list.</p>}
          </div>
        );
      }}
    </Loaded>
  );
}

const valueOf = (weight: { full: number; sent?: number | null }, measure: 'full' | 'sent') => (measure === 'sent' ? weight.sent ?? 0 : weight.full);

/** Servers by size: their order decides their colour. */
const orderOf = (stats: Stats) => [...stats.servers].sort((left, right) => right.full - left.full).map((server) => server.name);

function Map({ stats, measure }: { stats: Stats; measure: 'full' | 'sent' }) {
  const [, go] = useLocation();
  const boxes = useMemo(() => {
    const order = orderOf(stats);
    const byServer = new globalThis.Map<string, ToolWeight[]>();
    for (const tool of stats.dearest) byServer.set(tool.server, [...(byServer.get(tool.server) ?? []), tool]);
    const servers = treemap([...byServer.entries()], ([, tools]) => tools.reduce((sum, tool) => sum + valueOf(tool, measure), 0), MAP_WIDTH, MAP_HEIGHT);
    return servers.flatMap((server) =>
      treemap(server.item[1], (tool) => valueOf(tool, measure), server.width, server.height).map((box) => ({
        ...box, x: box.x + server.x, y: box.y + server.y, tone: order.indexOf(server.item[0]) % 6,
      })),
    );
  }, [stats, measure]);
  const part = (value: number, whole: number) => `${(value / whole) * 100}%`;
  return (
    <div className="treemap" style={{ aspectRatio: `${MAP_WIDTH} / ${MAP_HEIGHT}` }} role="group" aria-label="Tokens by server and tool">
      {boxes.map(({ item, x, y, width, height, tone }) => (
        <button
          key={item.name}
          type="button"
          tabIndex={-1}
          className={`t${tone}`}
          title={`${item.name}: ${count(valueOf(item, measure))} tokens`}
          style={{ left: part(x, MAP_WIDTH), top: part(y, MAP_HEIGHT), width: part(width, MAP_WIDTH), height: part(height, MAP_HEIGHT) }}
          onClick={() => !item.server.startsWith('_') && go(`/tools/t/${encodeURIComponent(item.name)}`)}
        >
          {width > 60 && height > 24 && <b>{shortName(item)}</b>}
          {width > 60 && height > 44 && count(valueOf(item, measure))}
        </button>
      ))}
    </div>
  );
}

function ServerBars({ stats, measure }: { stats: Stats; measure: 'full' | 'sent' }) {
  const servers = [...stats.servers].sort((left, right) => valueOf(right, measure) - valueOf(left, measure));
  const highest = Math.max(1, ...servers.map((server) => valueOf(server, measure)));
  const order = orderOf(stats);
  return (
    <div className="bars">
      {servers.slice(0, 40).map((server) => [
        <span key={`${server.name} name`} className="wrap-any"><i className={`swatch only-wide t${order.indexOf(server.name) % 6}`} />{serverName(server.name)} <span className="muted small">{plural(server.tools, 'tool')}</span></span>,
        <span key={`${server.name} bar`} className="bar"><i style={{ width: `${(valueOf(server, measure) / highest) * 100}%` }} /></span>,
        <span key={`${server.name} value`} className="num small">{count(valueOf(server, measure))}</span>,
      ])}
    </div>
  );
}
