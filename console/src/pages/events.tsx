// Events of the gateway: the latest ones, and those that arrive while the page is open.

import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { useEventFeed } from '../api/event-feed';
import type { GatewayEvent } from '../api/events';
import { duration, plural, toolName } from '../lib/format';
import { Button, Empty, Failure, LongName, Outcome, Skeleton, Time } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { JsonView } from '../ui/json';
import { LiveList } from '../ui/live-list';
import { useFilter } from './filters';

const KINDS = ['tool', 'call', 'server', 'plan', 'dead_letter', 'skill', 'job', 'task', 'catalog', 'config', 'request'];

/** The events of a kind that contain a text. */
function filtered(events: GatewayEvent[], kind: string, text: string): GatewayEvent[] {
  const isFound = (event: GatewayEvent) => [event.type, event.user, event.server, event.tool, toolName(event.server, event.tool), event.code, event.call, event.outcome].some((part) => part?.toLowerCase().includes(text));
  return events.filter((event) => (!kind || event.type.startsWith(`${kind}.`)) && (!text || isFound(event)));
}

export function EventList() {
  const feed = useEventFeed();
  const [isPaused, setPaused] = useState(false);
  const [kind, setKind] = useFilter('kind');
  const [text, setText] = useFilter('q');
  const [open, setOpen] = useState<GatewayEvent | null>(null);
  const rows = useMemo(() => filtered(feed.all, kind, text.toLowerCase()), [feed.all, kind, text]);
  return (
    <div className="stack tight">
      <div className="row wrap filters">
        <select className="select" aria-label="Kind of event" value={kind} onChange={(event) => setKind(event.target.value)}>
          <option value="">All events</option>
          {KINDS.map((item) => <option key={item} value={item}>{item.replaceAll('_', ' ')}</option>)}
        </select>
        <input className="input grow" style={{ maxWidth: 300 }} type="search" aria-label="Filter events" placeholder="User, server, tool, code or id" value={text} onChange={(event) => setText(event.target.value)} />
        <Button aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>{isPaused ? 'Resume' : 'Pause'}</Button>
        <span className="muted small end">{plural(rows.length, 'event')}</span>
      </div>
      {feed.error && !feed.isLoaded ? <Failure error={feed.error} retry={() => void feed.refetch()} /> : !feed.isLoaded ? <Skeleton lines={8} /> : rows.length === 0 ? (
        <div className="card"><Empty title="No events"><p>{kind || text ? 'No kept event matches the filter.' : 'Events appear here as they happen.'}</p></Empty></div>
      ) : (
        <div className="card">
          <LiveList key={`${kind} ${text}`} rows={rows} isPaused={isPaused} rowHeight={44} maxHeight={660} measured keyOf={(event) => event.id ?? String(event.at_ms)} label="Events" render={(event) => (
            <button type="button" className="entry event-row" onClick={() => setOpen(event)}>
              <span className="muted small"><Time ms={event.at_ms} /></span>
              <span className="name"><b>{event.type}</b> <LongName text={aboutOf(event)} /></span>
              <span className="muted clip only-wide">{event.user ?? ''}</span>
              {stateOf(event) ? <span className="num small ended"><Outcome state={stateOf(event)} /><span>{event.duration_ms !== undefined && duration(event.duration_ms)}</span></span> : <span className="small ended">{event.code && <code className="clip">{event.code}</code>}</span>}
            </button>
          )} />
        </div>
      )}
      {open && <EventDialog event={open} all={feed.all} onClose={() => setOpen(null)} />}
    </div>
  );
}

/** What an event is about: a tool, or a job, skill or task with its step. */
function aboutOf({ server, tool, data }: GatewayEvent): string {
  const named = [data?.['job'] ?? data?.['skill'] ?? data?.['task'], data?.['step']].filter((name) => typeof name === 'string');
  return toolName(server, tool) || named.join(' · ');
}

/** The outcome of an event, or the state of its step. */
function stateOf({ outcome, data }: GatewayEvent): string {
  const state = data?.['state'];
  return outcome ?? (typeof state === 'string' ? state : '');
}

/** An event and, if it belongs to a call, what else happened in that call. */
function EventDialog({ event, all, onClose }: { event: GatewayEvent; all: GatewayEvent[]; onClose: () => void }) {
  const related = event.call === undefined ? [] : all.filter((other) => other.call === event.call).reverse();
  const start = related[0]?.at_ms ?? 0;
  const isHeld = related.some((other) => other.type.startsWith('call.'));
  return (
    <Dialog title={[event.type, aboutOf(event)].filter(Boolean).join(' · ')} onClose={onClose}>
      {related.length > 1 && (
        <section className="stack tight">
          <h3>This call</h3>
          <div className="bars">
            {related.map((other) => [
              <span key={`${other.id} time`} className="muted small num">+{duration(other.at_ms - start)}</span>,
              <span key={`${other.id} type`}>{other.type}</span>,
              <span key={`${other.id} end`} className="small">{other.outcome ? <Outcome state={other.outcome} /> : other.code ? <code>{other.code}</code> : ''}</span>,
            ])}
          </div>
        </section>
      )}
      {isHeld && <div><Link className="button" href={`/inbox/${event.call}`} onClick={onClose}>Open the held call</Link></div>}
      <JsonView value={event} />
    </Dialog>
  );
}
