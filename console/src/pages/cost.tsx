// What tools cost in a model's context: before and after, by server and tool, and what another mode would cost.

import { useState } from 'react';
import { Link } from 'wouter';
import { useExposure, useStats } from '../api/queries';
import type { Schemas } from '../api/client';
import { compact, count, percent, plural } from '../lib/format';
import { Ago, CodeBox, Empty, Loaded, LongName, Note, PageHead, Prose, Segment } from '../ui/basic';
import { CostMap, ServerBars, serverLabel } from './cost-map';
import { useFilter } from './filters';

type Stats = Schemas['StatsView'];

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
          <div className="only-wide"><CostMap stats={stats} measure={shown} /></div>
          <ServerBars stats={stats} measure={shown} />
        </div>
      </section>
      <section className="card" aria-labelledby="dearest">
        <div className="card-head"><h2 id="dearest">Most expensive tools</h2></div>
        <table className="table cards">
          <thead><tr><th>Tool</th><th className="only-wide">Server</th><th className="num">In full</th><th className="num">Summary</th><th className="num">Sent</th><th className="num only-wide">Loaded on demand</th></tr></thead>
          <tbody>
            {stats.dearest.slice(0, 25).map((tool) => (
              <tr key={tool.name}>
                <td className="wrap-any">{tool.server.startsWith('_') ? <LongName text={tool.name} /> : <Link className="cell" href={`/tools/t/${encodeURIComponent(tool.name)}`}><LongName text={tool.name} /></Link>}</td>
                <td className="only-wide muted">{serverLabel(tool.server)}</td>
                <td className="num" data-label="in full">{count(tool.full)}</td><td className="num" data-label="summary">{count(tool.summary)}</td><td className="num" data-label="sent">{tool.sent == null ? '–' : count(tool.sent)}</td><td className="num only-wide">{tool.loaded > 0 ? `${count(tool.loaded)} times` : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <p className="muted small">Counted with the tokenizer {stats.tokenizer}. “Sent” is the last list that the client received{stats.listed_at_ms ? <>, <Ago ms={stats.listed_at_ms} /></> : null}.</p>
    </div>
  );
}

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

type Mode = 'full' | 'summary' | 'search';

function Modes({ client }: { client?: string }) {
  const exposure = useExposure(client);
  return <Loaded query={exposure} lines={5}>{(data) => <ModesOf exposure={data} client={client} />}</Loaded>;
}

function ModesOf({ exposure, client }: { exposure: Schemas['ExposureView']; client?: string }) {
  const [chosen, setChosen] = useState<Mode | null>(null);
  const { tokens, mode: inUse } = exposure;
  const modes: [Mode, number][] = [['full', tokens.full], ['summary', tokens.summary], ['search', tokens.search]];
  const highest = Math.max(1, ...modes.map(([, value]) => value));
  const others = modes.filter(([mode]) => mode !== inUse);
  // Without a choice, the cheapest of the other modes.
  const other = others.find(([mode]) => mode === chosen) ?? others.reduce((best, mode) => (mode[1] < best[1] ? mode : best));
  const current = tokens[inUse as Mode] ?? 0;
  const saved = current - other[1];
  return (
    <div className="stack">
      <h2>What another mode would cost</h2>
      <div className="bars">
        {modes.map(([mode, value]) => [
          <span key={`${mode} name`}>{mode === inUse ? <b>{mode} (in use)</b> : mode}</span>,
          <span key={`${mode} bar`} className="bar"><i className={mode === inUse ? '' : 'other'} style={{ width: `${(value / highest) * 100}%` }} /></span>,
          <span key={`${mode} value`} className="num small">{count(value)}</span>,
        ])}
      </div>
      <p className="muted">{exposure.client === 'unknown' ? 'A new client' : exposure.client} gets <b>{inUse}</b>: <Prose text={exposure.reason} />.</p>
      <div className="row wrap">
        <span>Change to</span>
        <Segment label="Other mode" value={other[0]} onChange={setChosen} options={others.map(([mode]) => ({ id: mode, label: mode }))} />
        <b className={saved > 0 ? 'tone-ok' : ''}>{savingOf(saved, current)}</b>
      </div>
      <details>
        <summary className="muted small">How to change it</summary>
        <div className="stack tight" style={{ marginTop: 8 }}>
          <p className="muted small">Put this into <code>toolbooth.toml</code>. Every tool can still be called; only the list is shorter or longer.</p>
          <CodeBox what="the setting" text={settingOf(other[0], client)} />
        </div>
      </details>
    </div>
  );
}

function savingOf(saved: number, current: number): string {
  if (saved === 0 || current === 0) return 'costs the same';
  const share = percent(Math.abs(saved) / current);
  return saved > 0 ? `saves ${compact(saved)} tokens per list (${share})` : `costs ${compact(-saved)} tokens more per list (${share})`;
}

/** The lines that give a client this mode, or all clients. A client chooses its name: one that is a pattern, or not plain text, is left out. */
const settingOf = (mode: Mode, client?: string) => (client !== undefined && /^[\w .@/-]{1,80}$/.test(client) ? `[exposure.clients]\n"${client}" = "${mode}"` : `[exposure]\nmode = "${mode}"`);
