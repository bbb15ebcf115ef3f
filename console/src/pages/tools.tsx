// Tools: search as you type with the gateway's own ranking, schema, cost, health, and a form to try each tool.

import { useEffect, useMemo, useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { type Tool, type ToolSort, useLint, useMe, useSearch, useServers, useTool, useTools } from '../api/queries';
import { statedEffects } from '../lib/effects';
import { count, duration, percent, plural } from '../lib/format';
import { Ago, Button, CopyButton, Empty, Failure, Loaded, Note, Prose, Skeleton, Status, Tabs, useSettled } from '../ui/basic';
import { Icon } from '../ui/icons';
import { JsonView } from '../ui/json';
import { VirtualList } from '../ui/virtual';
import { Chips, useClearFilters, useFilter } from './filters';
import { skillHref, skillOf } from './skills-data';
import { TryTool } from './tool-try';

interface Row {
  id?: string;
  /** `tool` or `skill`, of a search hit. A skill without a plan is not a tool, so it has no page here. */
  kind?: string;
  uri?: string | null;
  name: string;
  description?: string | null;
  server: string;
  tokens?: number;
  quality?: number;
  /** Of recent calls. */
  health?: HealthData | null;
  matched?: string[];
  score?: number;
}

const SORTS: { id: ToolSort; label: string }[] = [
  { id: 'name', label: 'Name' },
  { id: '-token_cost', label: 'Most tokens' },
  { id: '-calls', label: 'Most calls' },
  { id: 'success_rate', label: 'Lowest success' },
  { id: 'quality', label: 'Lowest quality' },
];

export default function Tools({ selected }: { selected?: string }) {
  const [params] = useSearchParams();
  const [asked, setAsked] = useFilter('q');
  const [server, setServer] = useFilter('server');
  const [order, setOrder] = useFilter('sort');
  const [text, setText] = useState(asked);
  const query = useSettled(text.trim());
  const sort = (order || 'name') as ToolSort;
  useEffect(() => {
    const timer = setTimeout(() => { if (asked !== query) setAsked(query); }, 300);
    return () => clearTimeout(timer);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [query]);
  const [chip, setChip] = useFilter('state');
  const clear = useClearFilters('q', 'state', 'server');
  const search = useSearch(query, server || undefined);
  const tools = useTools({ server: server || undefined, sort }, query === '');
  const servers = useServers();
  const rows: Row[] = useMemo(() => {
    if (query !== '') return search.data?.hits ?? [];
    const isShown = CHIPS.find((one) => one.id === chip)?.has ?? (() => true);
    return (tools.data?.pages ?? []).flatMap((page) => page.tools).filter(isShown).map((tool) => ({
      name: tool.name, description: tool.description, server: tool.server, tokens: tool.token_cost, quality: tool.quality,
      health: tool.health as unknown as HealthData | null | undefined,
    }));
  }, [query, search.data, tools.data, chip]);
  const more = tools.hasNextPage;
  const keep = params.toString() ? `?${params.toString()}` : '';
  const active = query === '' ? tools : search;
  const showIndex = useMemo(() => rows.findIndex((row) => row.name === selected), [rows, selected]);
  return (
    <div className="page fill">
      <div className="panes wide" data-open={selected !== undefined}>
        <div className="pane-list">
          <div className="pane-head">
            <div className="row"><h1>Tools</h1><span className="muted end small">{active.data ? `${count(rows.length)}${more ? '+' : ''}${query ? ' found' : ''}` : ''}</span></div>
            <div className="search">
              <Icon name="search" />
              <input className="input" type="search" aria-label="Search tools" placeholder="What should the tool do?" value={text} onChange={(event) => setText(event.target.value)} autoComplete="off" spellCheck={false} />
            </div>
            <div className="row">
              <select className="select grow" aria-label="Server" value={server} onChange={(event) => setServer(event.target.value)}>
                <option value="">All servers</option>
                {servers.data?.servers.map((item) => <option key={item.name} value={item.name}>{item.name}</option>)}
              </select>
              <select className="select grow" aria-label="Sort by" value={sort} disabled={query !== ''} title={query ? 'Search results are sorted by relevance' : undefined} onChange={(event) => setOrder(event.target.value === 'name' ? '' : event.target.value)}>
                {SORTS.map((item) => <option key={item.id} value={item.id}>{query ? 'Relevance' : item.label}</option>)}
              </select>
            </div>
            {query === '' && <Chips label="State of the tools" value={chip} onChange={setChip} options={CHIPS} />}
          </div>
          {search.data?.notes.map((note) => query && <div key={note.server} style={{ padding: '8px 16px 0' }}><Note tone="warn"><Prose text={note.text} /></Note></div>)}
          {active.error && !active.data ? <div className="card-body"><Failure error={active.error} retry={() => void active.refetch()} /></div>
            : !active.data ? <Skeleton lines={8} />
            : rows.length === 0 && chip && !query && more ? <MoreTools load={() => void tools.fetchNextPage()} isLoading={tools.isFetchingNextPage} />
            : rows.length === 0 ? (
              <Empty title={query ? `No tool matches “${query}”` : chip ? 'No tool is in this state' : 'No tools'}>
                <p>{emptyText(query, server, chip)}</p>
                {query || chip || server ? <Button onClick={() => { setText(''); clear(); }}>Show all tools</Button> : <Link className="button" href="/servers">See the servers</Link>}
              </Empty>
            ) : (
              <VirtualList
                rows={rows}
                rowHeight={ROW_HEIGHT}
                keyOf={(row) => row.id ?? row.name}
                label="Tools"
                showIndex={showIndex}
                onEnd={() => { if (query === '' && more && !tools.isFetchingNextPage) void tools.fetchNextPage(); }}
                render={(row) => <ToolEntry row={row} isOpen={row.name === selected} keep={keep} />}
              />
            )}
        </div>
        <div className="pane-detail">
          {selected === undefined ? <Empty title="Choose a tool"><p>See what the model sees, and try it with a form made from its schema.</p></Empty> : <ToolDetail key={selected} name={selected} keep={keep} />}
        </div>
      </div>
    </div>
  );
}

/** Why no tool is listed. */
function emptyText(query: string, server: string, chip: string): string {
  if (query) return server ? `Only tools of ${server} were searched.` : 'Search finds tools by name, description, arguments and meaning.';
  if (chip || server) return 'Remove the filter to see other tools.';
  return 'No server that you may use lists a tool.';
}

/** None of the loaded tools is in the state, but there are further tools. */
function MoreTools({ load, isLoading }: { load: () => void; isLoading: boolean }) {
  useEffect(() => { if (!isLoading) load(); }, [load, isLoading]);
  return <Skeleton lines={8} />;
}

const rungOf = (tool: Tool) => (tool.effect as unknown as { rung?: string } | undefined)?.rung ?? 'unknown';
const isRead = (tool: Tool) => ['read', 'none'].includes(rungOf(tool));

/** States of tools. */
const CHIPS: { id: string; label: string; has: (tool: Tool) => boolean }[] = [
  { id: 'reads', label: 'Only reads', has: isRead },
  { id: 'writes', label: 'May write', has: (tool) => !isRead(tool) },
  { id: 'approval', label: 'Needs approval', has: (tool) => tool.requires_approval },
  { id: 'changed', label: 'Changed', has: (tool) => tool.changed != null },
  { id: 'failing', label: 'Often fails', has: (tool) => { const health = tool.health as unknown as HealthData | null | undefined; return health?.success_rate != null && health.success_rate < 0.9; } },
];

/** Name, description, and a line of facts. */
const ROW_HEIGHT = 71;

function ToolEntry({ row, isOpen, keep }: { row: Row; isOpen: boolean; keep: string }) {
  const why = row.matched === undefined ? '' : row.matched.length === 0 ? 'by meaning' : `in ${row.matched.join(', ')}`;
  const skill = skillOf(row);
  const { health } = row;
  const rate = health?.calls ? health.success_rate : null;
  return (
    <Link className="entry" href={skill === null ? `/tools/t/${encodeURIComponent(row.name)}${keep}` : skillHref(skill)} aria-current={isOpen ? 'true' : undefined} style={{ height: ROW_HEIGHT }}>
      <span className="line">
        <span className="title clip">{row.name}</span>
        {row.kind === 'skill' && <span className="tag">skill</span>}
        <span className="end muted small nowrap">{row.score !== undefined ? `${percent(row.score)} match` : `${count(row.tokens ?? 0)} tokens`}</span>
      </span>
      <span className="line muted small"><span className="clip">{row.description || 'No description'}</span></span>
      <span className="line muted small facts">
        {!row.server.startsWith('_') && <span className="clip">{row.server}</span>}
        {why && <span className="nowrap">{why}</span>}
        {row.quality !== undefined && <span className={`nowrap ${row.quality < 70 ? 'tone-warn' : ''}`}>quality {row.quality}</span>}
        {rate != null && <span className={`nowrap ${rate < 0.9 ? 'tone-warn' : ''}`} title={`Of ${plural(health?.calls ?? 0, 'recent call')}`}>{percent(rate)} succeed{health?.latency_ms?.p50 !== undefined && <>, {duration(health.latency_ms.p50)}</>}</span>}
      </span>
    </Link>
  );
}

type DetailTab = 'try' | 'model' | 'schema' | 'health' | 'quality';

function ToolDetail({ name, keep }: { name: string; keep: string }) {
  const tool = useTool(name);
  const [tab, setTab] = useState<DetailTab>('try');
  const [, go] = useLocation();
  return (
    <>
      <Button className="back" look="quiet" icon="back" onClick={() => go(`/tools${keep}`)}>Tools</Button>
      <Loaded query={tool} lines={8}>
        {(data) => (
          <div className="stack">
            <header className="stack tight">
              <div className="row wrap"><h1 className="wrap-any">{data.name}</h1><EffectStatus tool={data} /></div>
              <p className="wrap-any">{data.description || <span className="muted">The server gave no description.</span>}</p>
              <p className="muted small row wrap">
                <Link href={`/servers/${encodeURIComponent(data.server)}`}>{data.server}</Link>
                <span>{count(data.token_cost)} tokens</span>
                <span>quality {data.quality}</span>
                {data.requires_approval && <span className="tag">needs approval</span>}
                {!data.credentials_configured && <span className="tag">credentials missing</span>}
                {data.version && <span className="tag">version {data.version}</span>}
              </p>
            </header>
            {data.changed && <Note tone="warn" action={<Link className="button small" href={`/inbox/changed:${encodeURIComponent(name)}`}>Compare</Link>}>This tool changed after it was accepted. Its next call asks for approval.</Note>}
            {data.quarantined && <Note tone="bad" action={<Link className="button small" href={`/inbox/quarantine:${encodeURIComponent(name)}`}>Inspect</Link>}>In quarantine: <Prose text={data.quarantined.reason} /></Note>}
            <Tabs label="Tool" selected={tab} onSelect={(next) => {
              setTab(next);
              // The end of each call changes it, which is too often to follow.
              if (next === 'health') void tool.refetch();
            }} tabs={[
              { id: 'try', label: 'Try' },
              { id: 'model', label: 'What the model sees' },
              { id: 'schema', label: 'Schema' },
              { id: 'health', label: 'Health' },
              { id: 'quality', label: 'Quality' },
            ]} />
            {tab === 'try' && <TryTool tool={data} />}
            {tab === 'model' && <ModelView tool={data} />}
            {tab === 'schema' && <JsonView value={data.parameters ?? {}} />}
            {tab === 'health' && <Health tool={data} />}
            {tab === 'quality' && <Quality tool={data} />}
          </div>
        )}
      </Loaded>
    </>
  );
}

/** Who says what a call of the tool changes. */
const BASES: Record<string, string> = {
  label: 'the configuration says so', annotation: 'the server says so', name: 'according to the words of its name',
  unknown: 'nothing says what it changes, so it is treated as a write',
};

function EffectStatus({ tool }: { tool: Tool }) {
  const effect = tool.effect as unknown as { rung?: string; basis?: string } | undefined;
  const rung = effect?.rung ?? 'unknown';
  const isCalm = ['read', 'none', 'unknown'].includes(rung) || effect?.basis === 'unknown';
  const word = effect?.basis === 'unknown' && rung === 'write' ? 'may write' : rung.replaceAll('_', ' ');
  return <span title={BASES[effect?.basis ?? '']}><Status tone={isCalm ? 'off' : 'warn'}>{word}</Status></span>;
}

function ModelView({ tool }: { tool: Tool }) {
  return (
    <div className="stack tight">
      <p className="muted">The definition that a client with full exposure receives: {count(tool.token_cost)} tokens. Clients with summaries or search receive less; see <Link href="/cost">Context cost</Link>.</p>
      <JsonView value={tool.definition ?? {}} />
    </div>
  );
}

interface HealthData {
  calls?: number;
  success_rate?: number | null;
  latency_ms?: { avg?: number; p50?: number; p95?: number };
  last_call?: { at_ms?: number; outcome?: string; duration_ms?: number; provider?: string; code?: string };
}

function Health({ tool }: { tool: Tool }) {
  const health = tool.health as unknown as HealthData | null | undefined;
  const providers = (tool.providers ?? []) as unknown as { id?: string; name?: string; priority?: number; server?: string; tool?: string }[];
  return (
    <div className="stack">
      {!health?.calls ? <Note>This tool has not been called yet, so its health is unknown.</Note> : (
        <dl className="kv">
          <dt>Calls</dt><dd>{count(health.calls)}</dd>
          <dt>Success</dt><dd>{health.success_rate == null ? 'unknown' : percent(health.success_rate)}</dd>
          <dt>Latency</dt><dd>{health.latency_ms ? `median ${duration(health.latency_ms.p50 ?? 0)}, 95th percentile ${duration(health.latency_ms.p95 ?? 0)}` : 'unknown'}</dd>
          {health.last_call?.at_ms && <><dt>Last call</dt><dd>{health.last_call.outcome}, <Ago ms={health.last_call.at_ms} />{health.last_call.code && <> (<code>{health.last_call.code}</code>)</>}</dd></>}
        </dl>
      )}
      <section className="stack tight">
        <h3>Providers</h3>
        {providers.map((provider, index) => (
          <div key={index} className="row wrap"><code>{provider.id ?? provider.name}</code><span className="muted">priority {provider.priority ?? 0}</span></div>
        ))}
      </section>
      <section className="stack tight">
        <h3>Settings</h3>
        <dl className="kv">
          <dt>Timeout</dt><dd>{tool.default_timeout} s</dd>
          <dt>Side effects</dt><dd>{statedEffects(tool)}</dd>
          <dt>Consent</dt><dd>{consentOf(tool)}</dd>
          <dt>Approval</dt><dd>{tool.requires_approval ? 'every call' : 'by policy'}</dd>
          {tool.origin && <><dt>Defined in</dt><dd><code>{tool.origin}</code></dd></>}
          <dt>Id</dt><dd><code>{tool.id}</code> <CopyButton what="the id" text={tool.id} /></dd>
        </dl>
      </section>
    </div>
  );
}

/** Who asks for consent to the first call. */
function consentOf(tool: Tool): string {
  const terms = tool as Tool & { asks_consent?: boolean };
  if (terms.asks_consent) return 'asked by the gateway at the first call';
  return tool.requires_consent ? 'left to the client' : 'not needed';
}

function Quality({ tool }: { tool: Tool }) {
  const me = useMe();
  const lint = useLint(tool);
  const found = lint.data?.tools.find((item) => item.name === tool.name);
  if (lint.error) return <Failure error={lint.error} retry={() => void lint.refetch()} />;
  if (!lint.data) return <Skeleton />;
  if (!found) return <Note>{me.data?.admin ? 'This tool was not checked.' : 'Only tools that you may use are checked.'}</Note>;
  return (
    <div className="stack tight">
      <p>Score {found.score} of 100.</p>
      {found.findings.length === 0 ? <Note tone="ok">No findings: names, descriptions and schema are clear.</Note> : (
        <ul className="items card">
          {found.findings.map((finding, index) => (
            <li key={index}>
              <Status tone={finding.severity === 'error' ? 'bad' : finding.severity === 'warning' ? 'warn' : 'off'}>{finding.severity}</Status>
              <div className="text"><p>{finding.message}</p><p className="muted small">{finding.hint} <code>{finding.code}</code></p></div>
              <span className="muted small nowrap">−{finding.points}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

