// Calls: those that run now, with a button to cancel them, and finished ones with their stages and attempts.

import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import { ApiError, api } from '../api/client';
import { type RunningCall, cancelCall, useMe, useRunning, useServers } from '../api/queries';
import { count, duration, shortId, span, toolPath } from '../lib/format';
import { Button, CopyButton, Empty, Failure, Outcome, Skeleton, Status, Time, useNow } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { JsonView } from '../ui/json';
import { toast } from '../ui/toast';
import { VirtualList } from '../ui/virtual';
import { FilterInput, useFilter } from './filters';

type CallRecord = Awaited<ReturnType<typeof getCall>>;

const nameOf = (call: CallRecord) => toolPath(call.server, call.tool) || 'unknown tool';
const OUTCOMES = ['done', 'tool_error', 'failed', 'timeout', 'cancelled', 'held', 'unknown'] as const;

const getCall = (id: string, signal?: AbortSignal) => api.get('/calls/{id}', { params: { id }, signal });

export function CallList({ selected }: { selected?: string }) {
  const [, go] = useLocation();
  const me = useMe();
  const servers = useServers();
  const [outcomeText, setOutcome] = useFilter('outcome');
  const outcome = OUTCOMES.find((item) => item === outcomeText);
  const [server, setServer] = useFilter('server');
  const [tool, setTool] = useFilter('tool');
  const [user, setUser] = useFilter('user');
  const filter = { outcome, server: server || undefined, tool: tool || undefined, user: user || undefined };
  const isFiltered = Boolean(outcome || server || tool || user);
  const calls = useInfiniteQuery({
    queryKey: ['audit', 'calls', filter],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ pageParam, signal }) => api.get('/calls', { query: { ...filter, before: pageParam, limit: 200 }, signal }),
    getNextPageParam: (page) => page.next_before ?? undefined,
  });
  const rows = calls.data?.pages.flatMap((page) => page.calls) ?? [];
  const close = () => go(`/activity/calls${location.search}`);
  return (
    <div className="stack">
      <Running />
      <div className="row wrap filters">
        <select className="select" aria-label="Outcome" value={outcome ?? ''} onChange={(event) => setOutcome(event.target.value)}>
          <option value="">All outcomes</option>
          {OUTCOMES.map((item) => <option key={item} value={item}>{item.replaceAll('_', ' ')}</option>)}
        </select>
        <select className="select" aria-label="Server" value={server} onChange={(event) => setServer(event.target.value)}>
          <option value="">All servers</option>
          {servers.data?.servers.map((item) => <option key={item.name} value={item.name}>{item.name}</option>)}
        </select>
        <FilterInput label="Tool" value={tool} onApply={setTool} />
        {me.data?.admin && <FilterInput label="User" value={user} onApply={setUser} />}
        <span className="muted small end">{calls.data ? `${count(rows.length)}${calls.hasNextPage ? '+' : ''} calls` : ''}</span>
      </div>
      {calls.error && !calls.data ? <Failure error={calls.error} retry={() => void calls.refetch()} /> : !calls.data ? <Skeleton lines={8} /> : rows.length === 0 ? (
        <div className="card"><Empty title={isFiltered ? 'No call matches the filter' : 'No calls yet'}>{!isFiltered && <><p>Every call of a tool is listed here when it has ended.</p><Link className="button" href="/tools">Try a tool</Link></>}</Empty></div>
      ) : (
        <div className="card">
          <VirtualList rows={rows} rowHeight={44} height={Math.min(rows.length * 44, 660)} keyOf={(call) => call.id || String(call.audit_seq)} label="Calls" onEnd={() => { if (calls.hasNextPage && !calls.isFetchingNextPage) void calls.fetchNextPage(); }} render={(call) => (
            <button type="button" className="entry event-row" onClick={() => go(`/activity/calls/${call.id}${location.search}`)}>
              <span className="muted small"><Time ms={call.at_ms} /></span>
              <span className="clip"><b>{nameOf(call)}</b></span>
              <span className="muted clip only-wide">{call.user}{call.attempts.length > 1 ? ` · ${call.attempts.length} attempts` : ''}</span>
              <span className="num small"><Outcome state={call.outcome} /> {duration(call.duration_ms)}</span>
            </button>
          )} />
        </div>
      )}
      {selected && <CallDialog id={selected} onClose={close} />}
    </div>
  );
}

/** Calls that have not ended, over REST and of MCP clients. */
function Running() {
  const running = useRunning();
  const me = useMe();
  const list = running.data?.calls ?? [];
  if (list.length === 0) return null;
  return (
    <section className="card" aria-label="Running calls">
      <div className="card-head"><h2>Running now</h2><span className="count">{list.length}</span></div>
      <ul className="items">{list.map((call) => <RunningRow key={call.id} call={call} isMine={call.user === me.data?.user} />)}</ul>
    </section>
  );
}

function RunningRow({ call, isMine }: { call: RunningCall; isMine: boolean }) {
  const now = useNow();
  const client = useQueryClient();
  const cancel = useMutation({
    mutationFn: () => cancelCall(call.id),
    onSuccess: () => toast(`Cancelled the call of ${call.tool}`),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => void client.invalidateQueries({ queryKey: ['running'] }),
  });
  return (
    <li>
      <span className="lead-col"><Status tone={call.state === 'asks' ? 'held' : 'warn'}>{call.state === 'asks' ? 'asks' : 'running'}</Status></span>
      <div className="text"><p className="strong">{call.tool}</p><p className="muted small">{call.user}{call.client ? ` via ${call.client}` : ''} · {span(now - call.at_ms)} · <code>{shortId(call.id)}</code></p></div>
      <div className="acts">
        {call.state === 'asks' && isMine && <Link className="button small primary" href={`/inbox/question:${call.id}`}>Answer</Link>}
        <Button small icon="cross" busy={cancel.isPending} onClick={() => cancel.mutate()}>Cancel</Button>
      </div>
    </li>
  );
}

function CallDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const call = useQuery({ queryKey: ['call', id], queryFn: ({ signal }) => getCall(id, signal) });
  return (
    <Dialog title={call.data ? nameOf(call.data) : 'Call'} onClose={onClose}>
      {call.error ? <Failure error={call.error} /> : !call.data ? <Skeleton /> : <CallDetail call={call.data} onClose={onClose} />}
    </Dialog>
  );
}

function CallDetail({ call, onClose }: { call: CallRecord; onClose: () => void }) {
  const artifacts = call.artifacts as unknown as { id?: string; name?: string }[];
  return (
    <div className="stack">
      <div className="row wrap"><Outcome state={call.outcome} />{call.code && <code>{call.code}</code>}<span className="end"><CopyButton what="the id" text={call.id} /></span></div>
      <dl className="kv">
        <dt>User</dt><dd>{call.user}{call.persona && <> as persona {call.persona}</>}</dd>
        <dt>Time</dt><dd><Time ms={call.at_ms} />, {duration(call.duration_ms)}</dd>
        {call.session && <><dt>Session</dt><dd><code>{call.session}</code></dd></>}
        <dt>Audit row</dt><dd>{call.audit_seq}</dd>
      </dl>
      <section className="stack tight"><h3>Where the time went</h3><Waterfall call={call} /></section>
      {call.arguments_preview != null && <section className="stack tight"><h3>Arguments</h3><pre className="code" tabIndex={0}>{call.arguments_preview}</pre></section>}
      {call.result_bytes != null && <p className="muted small">The result had {count(call.result_bytes)} bytes. It is not stored.</p>}
      {artifacts.length > 0 && <section className="stack tight"><h3>Files</h3><ul className="stack tight">{artifacts.map((file, index) => <li key={index}>{file.id ? <Link href={`/canvas/${file.id}`}>{file.name ?? 'file'}</Link> : file.name ?? 'file'}</li>)}</ul></section>}
      {call.display != null && <details><summary className="muted small">Display hints</summary><JsonView value={call.display} /></details>}
      <div className="dialog-acts">
        {call.held && <Link className="button" href={`/inbox/${call.held}`}>Held call</Link>}
        {call.dead_letter && <Link className="button" href={`/activity/dead/${call.dead_letter}`}>Dead letter</Link>}
        <Button onClick={onClose}>Close</Button>
      </div>
    </div>
  );
}

interface Stage {
  name: string;
  note?: string;
  from: number;
  to: number;
  tone: 'wait' | 'done' | 'failed';
}

/** The stages of a call: the time before it was sent, each attempt, and the work on its result. */
function stagesOf(call: CallRecord): Stage[] {
  const stages: Stage[] = [];
  let at = 0;
  const waited = call.waited_ms ?? (call.attempts.length === 0 ? call.duration_ms : 0);
  if (waited > 0 || call.attempts.length === 0) {
    stages.push({ name: call.attempts.length === 0 ? 'checks; not sent' : 'checks and approval', from: 0, to: waited, tone: 'wait' });
    at = waited;
  }
  for (const [index, attempt] of call.attempts.entries()) {
    const note = attempt.outcome === 'done' ? undefined : attempt.code ?? attempt.outcome.replaceAll('_', ' ');
    stages.push({ name: attempt.provider ?? `attempt ${index + 1}`, note, from: at, to: at + attempt.duration_ms, tone: attempt.outcome === 'done' ? 'done' : 'failed' });
    at += attempt.duration_ms;
  }
  if (call.attempts.length > 0 && call.duration_ms - at > 1) stages.push({ name: 'pauses and result', from: at, to: call.duration_ms, tone: 'wait' });
  return stages;
}

/** Bars over a common time axis, with the numbers as text. A long wait does not hide the rest: its bar is cut. */
function Waterfall({ call }: { call: CallRecord }) {
  const stages = stagesOf(call);
  const total = Math.max(1, call.duration_ms, ...stages.map((stage) => stage.to));
  const cutOf = (stage: Stage) => (stage.tone === 'wait' && stage.to - stage.from > 0.6 * total && stages.length > 1 ? (stage.to - stage.from) - 0.25 * total : 0);
  const cut = stages.reduce((sum, stage) => sum + cutOf(stage), 0);
  const width = total - cut;
  let removed = 0;
  return (
    <ol className="waterfall">
      {stages.map((stage, index) => {
        const left = (stage.from - removed) / width;
        removed += cutOf(stage);
        const right = (stage.to - removed) / width;
        return (
          <li key={index}>
            <span className="stage"><span className="clip">{stage.name}</span>{stage.note && <code className="small clip">{stage.note}</code>}</span>
            <span className="bar" aria-hidden="true"><i className={`${stage.tone} ${cutOf(stage) > 0 ? 'cut' : ''}`} style={{ marginLeft: `${Math.min(99, left * 100)}%`, width: `${Math.max(0.5, (right - left) * 100)}%` }} /></span>
            <span className="num small nowrap">{duration(stage.to - stage.from)}</span>
          </li>
        );
      })}
    </ol>
  );
}
