// What happened: live events, the audit log with its check, and calls that failed for good.

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError, api } from '../api/client';
import { type AuditRow, type DeadLetter, useAudit, useDeadLetters, useMe } from '../api/queries';
import { count, countUpTo, duration, plural, toolName } from '../lib/format';
import { Ago, Button, Empty, Failure, LongName, MoreFailed, Note, Outcome, PageHead, Prose, Segment, Skeleton, Status, Tabs, Time } from '../ui/basic';
import { Confirm, Dialog } from '../ui/dialog';
import { JsonView } from '../ui/json';
import { LiveList } from '../ui/live-list';
import { ResultView } from '../ui/result';
import { toast } from '../ui/toast';
import { CallList } from './calls';
import { EventList } from './events';
import { FilterInput, useFilter } from './filters';

type ActivityTab = 'calls' | 'events' | 'audit' | 'dead';

export default function Activity({ tab, selected }: { tab?: string; selected?: string }) {
  const [, go] = useLocation();
  const dead = useDeadLetters('pending');
  const pending = dead.data?.pages[0]?.dead_letters.length ?? 0;
  const shown = (tab ?? 'calls') as ActivityTab;
  return (
    <div className="page">
      <PageHead title="Activity" />
      <div className="stack">
        <Tabs label="Activity" selected={shown} onSelect={(id) => go(`/activity/${id}`)} tabs={[
          { id: 'calls', label: 'Calls' },
          { id: 'events', label: 'Events' },
          { id: 'audit', label: 'Audit log' },
          { id: 'dead', label: <>Dead letters{pending > 0 && <span className="count bad">{countUpTo(pending, dead.data?.pages[0]?.next_cursor != null)}</span>}</> },
        ]} />
        {shown === 'calls' && <CallList selected={selected} />}
        {shown === 'events' && <EventList />}
        {shown === 'audit' && <Audit selected={selected} />}
        {shown === 'dead' && <DeadLetters selected={selected} />}
      </div>
    </div>
  );
}

const AUDIT_KINDS = ['call', 'decision', 'refusal', 'consent', 'plan', 'tool', 'dead_letter', 'job', 'server', 'config', 'token', 'session', 'login', 'key', 'trust', 'file', 'sampling', 'chat', 'cancellation'];

/** What a row is about: a tool, or what its details name. */
function subjectOf(row: AuditRow): string {
  const tool = toolName(row.server, row.tool);
  if (tool) return tool;
  const detail = (row.detail ?? {}) as Record<string, unknown>;
  const named = ['job', 'skill', 'task', 'server', 'name', 'token', 'file', 'prompt', 'path', 'call', 'model', 'method', 'attempt'].map((key) => detail[key]);
  return String(named.find((value) => typeof value === 'string') ?? row.code ?? '');
}

function Audit({ selected }: { selected?: string }) {
  const me = useMe();
  const [, go] = useLocation();
  const [kind, setKind] = useFilter('kind');
  const [tool, setTool] = useFilter('tool');
  const [user, setUser] = useFilter('user');
  const audit = useAudit({ kind: kind || undefined, tool: tool || undefined, user: user || undefined });
  const rows = audit.rows ?? [];
  return (
    <div className="stack tight">
      {me.data?.admin && <Verify />}
      <div className="row wrap filters">
        <select className="select" aria-label="Kind of row" value={kind} onChange={(event) => setKind(event.target.value)}>
          <option value="">All kinds</option>
          {AUDIT_KINDS.map((item) => <option key={item} value={item}>{item.replaceAll('_', ' ')}</option>)}
        </select>
        <FilterInput label="Tool" value={tool} onApply={setTool} />
        {me.data?.admin && <FilterInput label="User" value={user} onApply={setUser} />}
        <span className="muted small end">{count(rows.length)}{audit.hasMore ? '+' : ''} rows</span>
      </div>
      {audit.error && !audit.rows ? <Failure error={audit.error} retry={() => void audit.refetch()} /> : !audit.rows ? <Skeleton lines={8} /> : rows.length === 0 ? (
        <div className="card"><Empty title="No rows"><p>{kind || tool || user ? 'No row matches the filter.' : 'Every call and decision writes a row here.'}</p></Empty></div>
      ) : (
        <div className="card">
          <LiveList key={JSON.stringify([kind, tool, user])} rows={rows} rowHeight={44} maxHeight={660} measured keyOf={(row) => String(row.seq)} label="Audit log" onEnd={audit.onEnd} render={(row) => (
            <button type="button" className="entry event-row" onClick={() => go(`/activity/audit/${row.seq}${location.search}`)}>
              <span className="muted small"><Time ms={row.at_ms} /></span>
              <span className="name"><b>{row.kind.replaceAll('_', ' ')}</b> <LongName text={subjectOf(row)} /></span>
              <span className="muted clip only-wide">{row.user}{row.by && row.by !== row.user ? ` · by ${row.by}` : ''}</span>
              <span className="num small ended"><Outcome state={row.outcome} /><span>{row.duration_ms != null && duration(row.duration_ms)}</span></span>
            </button>
          )} />
          <MoreFailed error={audit.moreError} retry={() => void audit.loadMore()} />
        </div>
      )}
      {selected !== undefined && /^\d{1,15}$/.test(selected) && <AuditRowDialog seq={Number(selected)} known={rows.find((row) => String(row.seq) === selected)} onClose={() => go(`/activity/audit${location.search}`)} />}
    </div>
  );
}

/** One row of the audit log. A row that the list has not loaded is asked for by its number. */
function AuditRowDialog({ seq, known, onClose }: { seq: number; known?: AuditRow; onClose: () => void }) {
  const found = useQuery({
    queryKey: ['audit', 'row', seq],
    queryFn: ({ signal }) => api.get('/audit', { query: { before: seq + 1, limit: 1 }, signal }),
    enabled: known === undefined,
    staleTime: Infinity,
  });
  const row = known ?? found.data?.rows.find((other) => other.seq === seq);
  return (
    <Dialog title={`Row ${seq}`} onClose={onClose}>
      {row ? <JsonView value={row} /> : found.error ? <Failure error={found.error} /> : !found.data ? <Skeleton /> : <Note>This row does not exist, was removed after its retention, or is not visible to you.</Note>}
      {row?.kind === 'call' && row.call_id && <div className="dialog-acts"><Link className="button" href={`/activity/calls/${row.call_id}`}>The call</Link></div>}
    </Dialog>
  );
}

function Verify() {
  const verify = useMutation({ mutationFn: () => api.post('/audit/verify', {}) });
  const button = <Button small icon="check" busy={verify.isPending} onClick={() => verify.mutate()}>{verify.data ? 'Verify again' : 'Verify'}</Button>;
  if (verify.error) return <Failure error={verify.error} retry={() => verify.mutate()} />;
  if (!verify.data) return <Note action={button}>Each row contains the hash of the row before it. A check finds rows that were changed, removed or added.</Note>;
  const { ok, rows, head, first_bad: bad } = verify.data;
  return (
    <div role="status">
      <Note tone={ok ? 'ok' : 'bad'} action={button}>
        {ok ? <><p className="strong">All {plural(rows, 'row')} are intact.</p><p className="small wrap-any">Newest row {head.seq}, hash <code>{head.hash}</code>. Keep this hash in another place: it proves later that no row before it was changed.</p></>
          : <><p className="strong">The log was changed.</p><p>Row {bad?.seq}: {bad?.why}</p></>}
      </Note>
    </div>
  );
}

function DeadLetters({ selected }: { selected?: string }) {
  const [state, setState] = useFilter('state');
  const letters = useDeadLetters(state || 'pending,retrying');
  const rows = letters.data?.pages.flatMap((page) => page.dead_letters) ?? [];
  // A replayed letter leaves the list of open ones, so its result is kept here.
  const [replayed, setReplayed] = useState<Replayed | null>(null);
  return (
    <div className="stack tight">
      {replayed && (
        <div className="card card-body stack tight" role="status">
          <div className="row"><Status tone="ok">replayed</Status><b className="wrap-any">{replayed.name}</b><Button small look="quiet" icon="cross" className="end" aria-label="Close the result" onClick={() => setReplayed(null)} /></div>
          {replayed.result === undefined || replayed.result === null ? <p className="muted">Only the user whose call it is sees the result.</p> : <ResultView result={replayed.result as never} />}
        </div>
      )}
      <Segment label="State" value={state || 'open'} onChange={(id) => setState(id === 'open' ? '' : id)} options={[{ id: 'open', label: 'Open' }, { id: 'resolved', label: 'Resolved' }, { id: 'dropped', label: 'Dropped' }]} />
      {letters.error && !letters.data ? <Failure error={letters.error} retry={() => void letters.refetch()} /> : !letters.data ? <Skeleton lines={4} /> : rows.length === 0 ? (
        <div className="card"><Empty title="No dead letters"><p>Failed calls are kept here, and can be replayed.</p></Empty></div>
      ) : <ul className="stack tight">{rows.map((letter) => <Letter key={letter.id} letter={letter} isOpen={letter.id === selected} onReplayed={setReplayed} />)}</ul>}
      {letters.hasNextPage && <div><Button busy={letters.isFetchingNextPage} onClick={() => void letters.fetchNextPage()}>More</Button></div>}
    </div>
  );
}

interface Attempt {
  at_ms?: number;
  provider?: string;
  code?: string;
  duration_ms?: number;
}

interface Replayed {
  name: string;
  result: unknown;
}

function Letter({ letter, isOpen, onReplayed }: { letter: DeadLetter; isOpen: boolean; onReplayed: (replayed: Replayed) => void }) {
  const client = useQueryClient();
  const [asks, setAsks] = useState<'replay' | 'drop' | null>(null);
  const settle = () => void client.invalidateQueries({ queryKey: ['dead-letters'] });
  const replay = useMutation({
    mutationFn: () => api.post('/dead-letters/{id}/replay', { params: { id: letter.id }, body: letter.may_have_happened ? { anyway: true } : {} }),
    onSuccess: (answer) => { if (!answer.held) onReplayed({ name: letter.name, result: answer.result }); },
    onSettled: () => { setAsks(null); settle(); },
  });
  const drop = useMutation({
    mutationFn: () => api.delete('/dead-letters/{id}', { params: { id: letter.id } }),
    onSuccess: () => toast(`Dropped the call of ${letter.name}`),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => { setAsks(null); settle(); },
  });
  const isLive = letter.state === 'pending';
  const attempts = letter.attempts as unknown as Attempt[];
  return (
    <li className="card card-body stack tight">
      <div className="row wrap">
        <Status tone={letter.state === 'pending' ? 'bad' : letter.state === 'retrying' ? 'warn' : 'off'}>{letter.state}</Status>
        <b className="wrap-any">{letter.name}</b>
        <span className="muted small">{letter.user} · <Ago ms={letter.created_ms} /></span>
        <span className="end row">
          {isLive && <Button small look="danger" onClick={() => setAsks('drop')}>Drop</Button>}
          {isLive && <Button small look="primary" icon="refresh" busy={replay.isPending} onClick={() => (letter.may_have_happened ? setAsks('replay') : replay.mutate())}>Replay</Button>}
        </span>
      </div>
      <p className="wrap-any"><Prose text={letter.error.message} /> <code>{letter.error.code}</code></p>
      {isLive && <p className="muted small">{letter.next_retry_ms ? <>The gateway replays it at <Time ms={letter.next_retry_ms} />.</> : letter.replaying === 'by_hand' ? 'The gateway does not replay it automatically: it may change something.' : 'The gateway does not replay it again.'}</p>}
      {letter.may_have_happened && <Note tone="warn">The call may already have taken effect. A replay may do it twice.</Note>}
      {replay.error && <Failure error={replay.error} />}
      {replay.data?.held && <Note tone="held" action={<Link className="button small" href={`/inbox/${replay.data.held}`}>Review</Link>}>The replay waits for approval.</Note>}
      <details open={isOpen}>
        <summary className="muted small">Arguments and {plural(attempts.length, 'attempt')}</summary>
        <div className="stack tight" style={{ marginTop: 8 }}>
          <pre className="code">{letter.arguments}</pre>
          <table className="table cards">
            <thead><tr><th>Time</th><th>Provider</th><th>Outcome</th><th className="num">Duration</th></tr></thead>
            <tbody>{attempts.map((attempt, index) => <tr key={index}><td>{attempt.at_ms ? <Time ms={attempt.at_ms} /> : ''}</td><td data-label="provider">{attempt.provider}</td><td data-label="outcome"><code>{attempt.code}</code></td><td className="num" data-label="duration">{duration(attempt.duration_ms ?? 0)}</td></tr>)}</tbody>
          </table>
        </div>
      </details>
      {asks === 'replay' && <Confirm title="Replay although it may have happened?" action="Replay" busy={replay.isPending} onClose={() => setAsks(null)} onConfirm={() => replay.mutate()}><p>The first attempt may have reached the server. Check there before you replay it.</p></Confirm>}
      {asks === 'drop' && <Confirm title="Drop this call?" action="Drop" busy={drop.isPending} onClose={() => setAsks(null)} onConfirm={() => drop.mutate()}><p>It will not be replayed. The audit log keeps its row.</p></Confirm>}
    </li>
  );
}

