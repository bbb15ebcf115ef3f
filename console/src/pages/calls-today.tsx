// The calls of today and of the last 24 hours, as the audit log counts them.

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { Link, useLocation } from 'wouter';
import { api } from '../api/client';
import { stream } from '../api/events';
import { useMe } from '../api/queries';
import { compact, count, plural, shortTime } from '../lib/format';
import { Loaded, Note, Prose } from '../ui/basic';

type Series = Awaited<ReturnType<typeof getSeries>>;
type Step = 'hour' | 'day';

/** Adding up the results reads more, so only the numbers of the day do it. */
const getSeries = (step: Step, count: number, signal: AbortSignal) =>
  api.get('/stats/series', { query: { step, count, utc_offset: -new Date().getTimezoneOffset(), results: step === 'day' }, signal });

/** Counting reads many rows, so a burst of calls causes one count in this time. */
const COUNT_MS = 2500;

/** Numbers of calls by hour or day, counted again after calls have ended and when a new step begins. */
function useSeries(step: Step, steps: number) {
  const client = useQueryClient();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const unsubscribe = stream.onEvent((event) => {
      if (timer !== undefined || !['tool.result', 'call.held', 'events.gap'].includes(event.type)) return;
      timer = setTimeout(() => {
        timer = undefined;
        void client.invalidateQueries({ queryKey: ['series', step] });
      }, COUNT_MS);
    });
    return () => {
      clearTimeout(timer);
      unsubscribe();
    };
  }, [client, step]);
  return useQuery({ queryKey: ['series', step, steps], queryFn: ({ signal }) => getSeries(step, steps, signal), refetchInterval: 60_000 });
}

/** Which calls the audit log does not record, if some are not recorded. */
function unrecorded(recorded: Series['recorded']): string | null {
  if (recorded === 'none') return 'New calls are not recorded (`audit.calls`).';
  return recorded === 'writes' ? 'Only calls that may change something are recorded (`audit.calls`).' : null;
}

/** Why calls are missing in the numbers, if some are. */
function missing({ recorded, from_ms: from, complete_from_ms: complete }: Series): string | null {
  const tooMany = complete > from ? `There were too many calls to count those before ${shortTime(complete)}.` : null;
  return unrecorded(recorded) ?? tooMany;
}

/** Says that a list of calls is not complete, if it is not. */
export function UnrecordedCalls() {
  const today = useSeries('day', 1);
  const text = today.data ? unrecorded(today.data.recorded) : null;
  return text === null ? null : <Note><Prose text={text} /></Note>;
}

/** How the tokens of results were estimated. */
function amount({ results, bytes, complete_from_ms: from }: NonNullable<Series['results']>, dayMs: number): string {
  const since = from > dayMs ? `, since ${shortTime(from)}` : '';
  return `${plural(results, 'result')} with ${count(bytes)} bytes${since}; about one token for four bytes`;
}

export function CallsToday() {
  const me = useMe();
  const today = useSeries('day', 1);
  const hours = useSeries('hour', 24);
  return (
    <section className="card" aria-labelledby="calls-today">
      <div className="card-head">
        <h2 id="calls-today">Calls today</h2>
        <span className="muted small">{me.data?.admin ? 'of all users' : 'yours'}</span>
        {today.data && <Link href={`/activity/calls?since=${today.data.from_ms}`}>Show</Link>}
      </div>
      <div className="card-body stack">
        <Loaded query={today} lines={2}>
          {(series) => (
            <div className="figures">
              <div className="figure"><b>{compact(series.total.calls)}</b><span>{series.total.calls === 1 ? 'call' : 'calls'}</span></div>
              <div className={`figure ${series.total.failed > 0 ? 'bad' : ''}`}><b>{compact(series.total.failed)}</b><span>failed</span></div>
              <div className="figure minor"><b>{compact(series.total.held)}</b><span>held for approval</span></div>
              <div className="figure minor"><b>{compact(series.total.cancelled)}</b><span>cancelled</span></div>
              {series.results && <div className="figure minor" title={amount(series.results, series.from_ms)}><b>{compact(series.results.tokens)}</b><span>tokens of results</span></div>}
            </div>
          )}
        </Loaded>
        {hours.data && <HourChart series={hours.data} />}
        {hours.data && missing(hours.data) && <p className="muted small"><Prose text={missing(hours.data) ?? ''} /></p>}
      </div>
    </section>
  );
}

const BAR = 10;
const HEIGHT = 56;

/** One bar per hour; the upper part of a bar are the calls that failed. A click lists the calls of the hour. */
function HourChart({ series }: { series: Series }) {
  const [, go] = useLocation();
  const { points, total } = series;
  const highest = Math.max(4, ...points.map((point) => point.calls));
  const hourMs = points.length > 0 ? (series.until_ms - series.from_ms) / points.length : 0;
  const first = points[0];
  if (total.calls === 0) return <p className="muted small">No calls in the last 24 hours.</p>;
  return (
    <figure className="stack tight">
      <svg className="spark" viewBox={`0 0 ${points.length * BAR} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`Calls per hour in the last 24 hours: ${plural(total.calls, 'call')}, ${total.failed} failed`}>
        <line x1="0" x2={points.length * BAR} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
        {points.map((point, index) => {
          const good = ((point.calls - point.failed) / highest) * (HEIGHT - 4);
          const bad = (point.failed / highest) * (HEIGHT - 4);
          return (
            <g key={point.at_ms} className="hour" onClick={() => go(`/activity/calls?since=${point.at_ms}&until=${point.at_ms + hourMs}`)}>
              <title>{`${hourOf(point.at_ms)} to ${hourOf(point.at_ms + hourMs)}: ${plural(point.calls, 'call')}, ${point.failed} failed`}</title>
              <rect className="space" x={index * BAR} width={BAR} y="0" height={HEIGHT} />
              {good > 0 && <rect x={index * BAR + 1} width={BAR - 2} y={HEIGHT - 1 - good} height={good} />}
              {bad > 0 && <rect className="bad" x={index * BAR + 1} width={BAR - 2} y={HEIGHT - 1 - good - bad} height={bad} />}
            </g>
          );
        })}
      </svg>
      <figcaption className="muted small row">
        <span>{first ? hourOf(first.at_ms) : ''}</span>
        <span className="grow center-text">{plural(total.calls, 'call')} in 24 hours</span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}

const hours = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const hourOf = (ms: number) => hours.format(new Date(ms));
