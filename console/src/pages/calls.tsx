// Calls: those that run now, with a button to cancel them, and finished ones with their stages and attempts.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import { ApiError, api } from '../api/client';
import { useRecords } from '../api/live-pages';
import { type CallRecord, type RunningCall, cancelCall, useMe, useRunning } from '../api/queries';
import { countedCalls } from '../lib/call-counts';
import { countUpTo, duration, shortId, span } from '../lib/format';
import { Button, Empty, Failure, LongName, MoreFailed, Outcome, Skeleton, Status, Time, useNow } from '../ui/basic';
import { toast } from '../ui/toast';
import { LiveList } from '../ui/live-list';
import { CallDialog, callName } from './call-detail';
import { CallFilters, useCallFilter } from './call-filters';
import { UnrecordedCalls } from './calls-today';

/** The gateway lists at most this many running calls. */
const MAX_RUNNING = 500;
const keyOf = (call: CallRecord) => String(call.audit_seq);

export function CallList({ selected }: { selected?: string }) {
  const [, go] = useLocation();
  const { filter, isFiltered, clear } = useCallFilter();
  const calls = useRecords<CallRecord>({
    queryKey: ['audit', 'calls', filter],
    fetchPage: async (before, signal) => {
      const { calls: rows, next_before: next } = await api.get('/calls', { query: { ...filter, before, limit: 200 }, signal });
      return { rows, next: next ?? null };
    },
    keyOf,
  });
  const { rows } = calls;
  const close = () => go(`/activity/calls${location.search}`);
  return (
    <div className="stack">
      <Running />
      <CallFilters counted={rows ? countedCalls(rows, calls.hasMore) : ''} />
      <UnrecordedCalls />
      {calls.error && !rows ? <Failure error={calls.error} retry={() => void calls.refetch()} /> : !rows ? <Skeleton lines={8} /> : rows.length === 0 ? (
        <div className="card"><Empty title={isFiltered ? 'No call matches the filter' : 'No calls yet'}>{isFiltered ? <Button onClick={clear}>Clear the filter</Button> : <><p>Every call of a tool is listed here when it has ended.</p><Link className="button" href="/tools">Try a tool</Link></>}</Empty></div>
      ) : (
        <div className="card">
          <LiveList key={JSON.stringify(filter)} rows={rows} rowHeight={44} maxHeight={660} measured keyOf={keyOf} label="Calls" onEnd={calls.onEnd} render={(call) => (
            <button type="button" className="entry event-row" onClick={() => go(`/activity/calls/${call.id}${location.search}`)}>
              <span className="muted small"><Time ms={call.at_ms} /></span>
              <span className="name"><b><LongName text={callName(call)} /></b></span>
              <span className="muted clip only-wide">{call.user}{call.client ? ` via ${call.client}` : ''}{call.attempts.length > 1 ? ` · ${call.attempts.length} attempts` : ''}</span>
              <span className="num small ended"><Outcome state={call.outcome} /><span>{duration(call.duration_ms)}</span></span>
            </button>
          )} />
          <MoreFailed error={calls.moreError} retry={() => void calls.loadMore()} />
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
      <div className="card-head"><h2>Running now</h2><span className="count">{countUpTo(list.length, list.length >= MAX_RUNNING)}</span></div>
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
      <span className="lead-col"><Status tone={call.state === 'running' ? 'warn' : 'held'}>{call.state}</Status></span>
      <div className="text"><p className="strong">{call.tool}</p><p className="muted small">{call.user}{call.client ? ` via ${call.client}` : ''} · {span(now - call.at_ms)} · <code>{shortId(call.id)}</code></p></div>
      <div className="acts">
        {call.state === 'asks' && isMine && <Link className="button small primary" href={`/inbox/question:${call.id}`}>Answer</Link>}
        {call.held && <Link className="button small" href={`/inbox/${call.held}`}>Review</Link>}
        <Button small icon="cross" busy={cancel.isPending} onClick={() => cancel.mutate()}>Cancel</Button>
      </div>
    </li>
  );
}

