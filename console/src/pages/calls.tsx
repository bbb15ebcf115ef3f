// Finished calls with their attempts, from `GET /calls`.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { send } from '../api/client';
import { count, duration } from '../lib/format';
import { type Json, parseJson } from '../lib/json';
import { Button, Empty, Failure, Outcome, Skeleton, Time } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { JsonView } from '../ui/json';
import { VirtualList } from '../ui/virtual';

interface Attempt {
  provider?: string;
  duration_ms: number;
  outcome: string;
  code?: string;
}
interface CallRecord {
  id: string;
  at_ms: number;
  duration_ms: number;
  waited_ms?: number;
  user: string;
  server?: string;
  tool?: string;
  outcome: string;
  code?: string;
  provider?: string;
  attempts: Attempt[];
  arguments_preview?: string;
  result_bytes?: number;
  artifacts: { name?: string }[];
  display?: Json;
  held?: string;
  dead_letter?: string;
  audit_seq: number;
}
interface CallPage {
  calls: CallRecord[];
  next_before?: number | null;
}

const nameOf = (call: CallRecord) => [call.server, call.tool].filter(Boolean).join('.') || 'unknown tool';

async function read<T>(path: string, options: Parameters<typeof send>[2]): Promise<T> {
  return parseJson(await (await send('GET', path, options)).text()) as T;
}

export function CallList({ selected }: { selected?: string }) {
  const [, go] = useLocation();
  const calls = useInfiniteQuery({
    queryKey: ['audit', 'calls'],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ pageParam, signal }) => read<CallPage>('/calls', { query: { before: pageParam }, signal }),
    getNextPageParam: (page) => page.next_before ?? undefined,
  });
  if (calls.error && !calls.data) return <Failure error={calls.error} retry={() => void calls.refetch()} />;
  if (!calls.data) return <Skeleton lines={8} />;
  const rows = calls.data.pages.flatMap((page) => page.calls);
  return (
    <div className="stack tight">
      <p className="muted small">{`${count(rows.length)} calls${calls.hasNextPage ? ', more below' : ''}`}</p>
      {rows.length === 0 ? <div className="card"><Empty title="No calls" /></div> : (
        <div className="card">
          <VirtualList rows={rows} rowHeight={44} height={Math.min(rows.length * 44, 660)} keyOf={(call) => call.id} label="Calls" onEnd={() => { if (calls.hasNextPage && !calls.isFetchingNextPage) void calls.fetchNextPage(); }} render={(call) => (
            <button type="button" className="entry event-row" onClick={() => go(`/activity/calls/${call.id}`)}>
              <span className="muted small"><Time ms={call.at_ms} /></span>
              <span className="clip"><b>{nameOf(call)}</b></span>
              <span className="muted clip only-wide">{call.user}</span>
              <span className="num small"><Outcome state={call.outcome} /> {duration(call.duration_ms)}</span>
            </button>
          )} />
        </div>
      )}
      {selected && <CallDialog id={selected} onClose={() => go('/activity/calls')} />}
    </div>
  );
}

function CallDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const call = useQuery({ queryKey: ['call', id], queryFn: ({ signal }) => read<CallRecord>('/calls/{id}', { params: { id }, signal }) });
  return (
    <Dialog title={call.data ? nameOf(call.data) : 'Call'} onClose={onClose}>
      {call.error ? <Failure error={call.error} /> : !call.data ? <Skeleton /> : (
        <div className="stack">
          <p><Outcome state={call.data.outcome} /> {call.data.code && <code>{call.data.code}</code>} <span className="muted small">{call.data.user} · <Time ms={call.data.at_ms} /> · audit row {call.data.audit_seq}</span></p>
          <Waterfall call={call.data} />
          {call.data.arguments_preview !== undefined && <section><h3>Arguments</h3><pre className="code">{call.data.arguments_preview}</pre></section>}
          {call.data.result_bytes !== undefined && <p className="muted small">The result had {count(call.data.result_bytes)} bytes. It is not stored.</p>}
          {call.data.artifacts.length > 0 && <section><h3>Files</h3><ul>{call.data.artifacts.map((file, index) => <li key={index}>{file.name ?? 'file'}</li>)}</ul></section>}
          {call.data.display !== undefined && <section><h3>Display</h3><JsonView value={call.data.display} /></section>}
          {call.data.held && <p className="small">Held call <code>{call.data.held}</code></p>}
          {call.data.dead_letter && <p className="small">Dead letter <code>{call.data.dead_letter}</code></p>}
          <div className="dialog-acts"><Button onClick={onClose}>Close</Button></div>
        </div>
      )}
    </Dialog>
  );
}

/** The time before the call was sent and of each attempt as bars, with the numbers as text. */
function Waterfall({ call }: { call: CallRecord }) {
  let start = call.waited_ms ?? 0;
  const spans = call.waited_ms ? [{ name: 'before it was sent', from: 0, to: call.waited_ms }] : [];
  for (const [index, attempt] of call.attempts.entries()) {
    spans.push({ name: attempt.provider ?? `attempt ${index + 1}`, from: start, to: start + attempt.duration_ms });
    start += attempt.duration_ms;
  }
  const end = Math.max(1, call.duration_ms, ...spans.map((span) => span.to));
  return (
    <div className="bars">
      {spans.map((span, index) => [
        <span key={`${index} name`}>{span.name}</span>,
        <span key={`${index} bar`} className="bar"><i style={{ marginLeft: `${(span.from / end) * 100}%`, width: `${((span.to - span.from) / end) * 100}%` }} /></span>,
        <span key={`${index} time`} className="num small">{duration(span.to - span.from)}</span>,
      ])}
    </div>
  );
}
