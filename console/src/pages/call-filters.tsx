// The filters of the list of calls. The gateway applies them, and the URL contains them.

import { useMemo, useState } from 'react';
import { useSearchParams } from 'wouter';
import { useMe, useServers } from '../api/queries';
import { Button } from '../ui/basic';
import { FilterInput, useFilter } from './filters';

const OUTCOMES = ['done', 'tool_error', 'failed', 'timeout', 'cancelled', 'held', 'unknown'] as const;
const NAMES = ['outcome', 'server', 'q', 'tool', 'user', 'client', 'session', 'since', 'until'];
/** Filters that are hidden until they are asked for or used. */
const RARE = ['tool', 'user', 'client', 'session'];
const HOUR_MS = 3_600_000;
/** Spans until now, as they are in the URL: a link to the last hour means the last hour when it is opened. */
const SPANS = new Map([
  ['1h', { label: 'Last hour', lengthMs: HOUR_MS }],
  ['24h', { label: 'Last 24 hours', lengthMs: 24 * HOUR_MS }],
  ['7d', { label: 'Last 7 days', lengthMs: 7 * 24 * HOUR_MS }],
]);

/** When a span began, or a time in milliseconds. */
function beginningOf(text: string): number | undefined {
  const span = SPANS.get(text);
  return span ? Date.now() - span.lengthMs : timeIn(text);
}

/** A time in milliseconds, or `undefined` for a text that is none. */
const timeIn = (text: string): number | undefined => (/^\d{1,15}$/.test(text) ? Number(text) : undefined);

/** The filter of the URL, as the gateway takes it. */
export function useCallFilter() {
  const [params, setParams] = useSearchParams();
  const text = (name: string) => params.get(name) || undefined;
  const since = params.get('since') ?? '';
  // The beginning of a span stays the same while more calls are loaded.
  const sinceMs = useMemo(() => beginningOf(since), [since]);
  const filter = {
    outcome: OUTCOMES.find((item) => item === params.get('outcome')),
    server: text('server'), q: text('q'), tool: text('tool'), user: text('user'), client: text('client'), session: text('session'),
    since: sinceMs,
    until: timeIn(params.get('until') ?? ''),
  };
  const clear = () => setParams((before) => new URLSearchParams([...before].filter(([name]) => !NAMES.includes(name))), { replace: true });
  return { filter, isFiltered: Object.values(filter).some((value) => value !== undefined), clear };
}

export function CallFilters({ counted }: { counted: string }) {
  const me = useMe();
  const servers = useServers();
  const { filter, isFiltered, clear } = useCallFilter();
  const [, setOutcome] = useFilter('outcome');
  const [server, setServer] = useFilter('server');
  const [text, setText] = useFilter('q');
  const [params] = useSearchParams();
  const times = useTimeFilter();
  const [isOpen, setOpen] = useState(false);
  const isRareShown = isOpen || RARE.some((name) => params.get(name));
  return (
    <div className="stack tight">
      <div className="row wrap filters in-columns">
        <FilterInput label="Tool name contains" value={text} onApply={setText} />
        <select className="select" aria-label="Outcome" value={filter.outcome ?? ''} onChange={(event) => setOutcome(event.target.value)}>
          <option value="">All outcomes</option>
          {OUTCOMES.map((item) => <option key={item} value={item}>{item.replaceAll('_', ' ')}</option>)}
        </select>
        <select className="select" aria-label="Server" value={server} onChange={(event) => setServer(event.target.value)}>
          <option value="">All servers</option>
          {servers.data?.servers.map((item) => <option key={item.name} value={item.name}>{item.name}</option>)}
        </select>
        <select className="select" aria-label="Time" value={times.choice} onChange={(event) => times.choose(event.target.value)}>
          <option value="">All times</option>
          {[...SPANS].map(([id, { label }]) => <option key={id} value={id}>{label}</option>)}
          <option value="between">From … until</option>
        </select>
        {!isRareShown && <Button look="quiet" onClick={() => setOpen(true)}>More filters</Button>}
        {isFiltered && <Button look="quiet" onClick={() => { setOpen(false); clear(); }}>Clear</Button>}
        <span className="muted small end">{counted}</span>
      </div>
      {(times.choice === 'between' || isRareShown) && (
        <div className="row wrap filters in-columns rare">
          {times.choice === 'between' && <TimeInput label="From" value={times.since} onChange={(time) => times.set({ since: time, until: times.until })} />}
          {times.choice === 'between' && <TimeInput label="Until" value={times.until} onChange={(time) => times.set({ since: times.since, until: time })} />}
          {isRareShown && (
            <>
              <NamedFilter name="tool" label="Tool" />
              {me.data?.admin && <NamedFilter name="user" label="User" />}
              <NamedFilter name="client" label="Client" />
              <NamedFilter name="session" label="Session" />
            </>
          )}
        </div>
      )}
    </div>
  );
}

function NamedFilter({ name, label }: { name: string; label: string }) {
  const [value, setValue] = useFilter(name);
  return <FilterInput label={label} value={value} onApply={setValue} />;
}

/** The times of the URL: a span until now, or two times. */
function useTimeFilter() {
  const [params, setParams] = useSearchParams();
  const since = params.get('since') ?? '';
  const until = params.get('until') ?? '';
  const set = (times: { since: string; until: string }) =>
    setParams((before) => {
      const next = new URLSearchParams(before);
      for (const [name, value] of Object.entries(times)) {
        if (value) next.set(name, value);
        else next.delete(name);
      }
      return next;
    }, { replace: true });
  const isBetween = timeIn(since) !== undefined || timeIn(until) !== undefined;
  const choice = isBetween ? 'between' : SPANS.has(since) ? since : '';
  const startOfToday = () => String(new Date().setHours(0, 0, 0, 0));
  const choose = (chosen: string) => set({ since: chosen === 'between' ? startOfToday() : chosen, until: '' });
  return { since, until, choice, choose, set };
}

/** A time is applied when it is whole; while a person types, the year is incomplete. An empty one is applied at the end. */
function TimeInput({ label, value, onChange }: { label: string; value: string; onChange: (ms: string) => void }) {
  const ms = timeIn(value);
  const [draft, setDraft] = useState<string | null>(null);
  const type = (text: string) => {
    setDraft(text);
    const date = new Date(text);
    if (date.getFullYear() >= 2000) onChange(String(date.getTime()));
  };
  return (
    <label className="row time-filter">
      <span className="muted small">{label}</span>
      <input className="input" type="datetime-local" value={draft ?? (ms === undefined ? '' : localText(ms))} onChange={({ target }) => type(target.value)}
        onBlur={() => { if (draft === '') onChange(''); setDraft(null); }} />
    </label>
  );
}

/** A time as the input shows it: in the time zone of this browser, without one. */
const localText = (ms: number): string => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
