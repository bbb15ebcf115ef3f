// Single calls with their stages and attempts. Shown if the gateway offers `GET /calls` (see `useApiPaths`).

import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { send } from '../api/client';
import { count, duration } from '../lib/format';
import { type Json, parseJson } from '../lib/json';
import { Button, Empty, Failure, Outcome, Skeleton, Time } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { JsonView } from '../ui/json';
import { ResultView } from '../ui/result';
import { VirtualList } from '../ui/virtual';

interface CallSummary {
  id: string;
  at_ms: number;
  tool: string;
  server: string;
  user: string;
  client?: string;
  outcome: string;
  code?: string;
  duration_us: number;
  attempts?: number;
  provider?: string;
}
interface Span {
  name?: string;
  provider?: string;
  start_us: number;
  end_us: number;
  outcome?: string;
  code?: string;
}
interface CallRecord extends CallSummary {
  stages?: Span[];
  tries?: Span[];
  arguments?: Json;
  result?: Json;
}
interface CallPage {
  calls: CallSummary[];
  next_cursor?: string | null;
  total?: number;
}

async function read<T>(path: string, options: Parameters<typeof send>[2]): Promise<T> {
  return parseJson(await (await send('GET', path, options)).text()) as T;
}

export function CallList({ selected }: { selected?: string }) {
  const [, go] = useLocation();
  const calls = useInfiniteQuery({
    queryKey: ['audit', 'calls'],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => read<CallPage>('/calls', { query: { cursor: pageParam }, signal }),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
  if (calls.error && !calls.data) return <Failure error={calls.error} retry={() => void calls.refetch()} />;
  if (!calls.data) return <Skeleton lines={8} />;
  const rows = calls.data.pages.flatMap((page) => page.calls);
  const total = calls.data.pages[0]?.total;
  return (
    <div className="stack tight">
      <p className="muted small">{total === undefined ? `${count(rows.length)} calls` : `${count(rows.length)} of ${count(total)} calls`}</p>
      {rows.length === 0 ? <div className="card"><Empty title="No calls" /></div> : (
        <div className="card">
          <VirtualList rows={rows} rowHeight={44} height={Math.min(rows.length * 44, 660)} keyOf={(call) => call.id} label="Calls" onEnd={() => { if (calls.hasNextPage && !calls.isFetchingNextPage) void calls.fetchNextPage(); }} render={(call) => (
            <button type="button" className="entry event-row" onClick={() => go(`/activity/calls/${call.id}`)}>
              <span className="muted small"><Time ms={call.at_ms} /></span>
              <span className="clip"><b>{call.server}.{call.tool}</b></span>
              <span className="muted clip only-wide">{call.user}</span>
              <span className="num small"><Outcome state={call.outcome} /> {duration(call.duration_us / 1000)}</span>
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
    <Dialog title={call.data ? `${call.data.server}.${call.data.tool}` : 'Call'} onClose={onClose}>
      {call.error ? <Failure error={call.error} /> : !call.data ? <Skeleton /> : (
        <div className="stack">
          <Waterfall spans={[...(call.data.stages ?? []), ...(call.data.tries ?? [])]} />
          {call.data.arguments !== undefined && <section><h3>Arguments</h3><JsonView value={call.data.arguments} /></section>}
          {call.data.result !== undefined && <section><h3>Result</h3><ResultView result={call.data.result} /></section>}
          <div className="dialog-acts"><Button onClick={onClose}>Close</Button></div>
        </div>
      )}
    </Dialog>
  );
}

/** Time of stages and attempts as bars, with the numbers as text. */
function Waterfall({ spans }: { spans: Span[] }) {
  const end = Math.max(1, ...spans.map((span) => span.end_us));
  return (
    <div className="bars">
      {spans.map((span, index) => [
        <span key={`${index} name`}>{span.name ?? span.provider}</span>,
        <span key={`${index} bar`} className="bar"><i style={{ marginLeft: `${(span.start_us / end) * 100}%`, width: `${((span.end_us - span.start_us) / end) * 100}%` }} /></span>,
        <span key={`${index} time`} className="num small">{duration((span.end_us - span.start_us) / 1000)}</span>,
      ])}
    </div>
  );
}
