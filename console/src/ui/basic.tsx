// Small parts that every page uses: status, time, buttons, notes, empty and error states.

import { type ButtonHTMLAttributes, type ReactNode, useEffect, useRef, useState } from 'react';
import { ApiError } from '../api/client';
import { countdown, fullTime, shortTime, span } from '../lib/format';
import { Icon, type IconName, Shape } from './icons';
import { toast } from './toast';

export type Tone = 'ok' | 'warn' | 'bad' | 'held' | 'off';

export function Status({ tone, children, plain }: { tone: Tone; children: ReactNode; plain?: boolean }) {
  return <span className={`status ${plain ? 'plain' : tone}`}><Shape kind={tone} />{children}</span>;
}

const SERVER_STATES: Record<string, [Tone, string]> = {
  connected: ['ok', 'up'],
  connecting: ['warn', 'connecting'],
  error: ['bad', 'down'],
  needs_auth: ['warn', 'needs sign-in'],
  needs_trust: ['warn', 'not trusted'],
  config_error: ['bad', 'configuration error'],
  disconnected: ['off', 'disconnected'],
  disabled: ['off', 'disabled'],
};
export function ServerState({ server: { state, own_key: key } }: { server: { state: string; own_key?: { set: boolean } | null } }) {
  if (state === 'needs_auth' && key && !key.set) return <Status tone="warn">needs your key</Status>;
  const [tone, word] = SERVER_STATES[state] ?? (['off', state] as const);
  return <Status tone={tone}>{word}</Status>;
}

const HELD_STATES: Record<string, [Tone, string]> = {
  pending: ['held', 'waiting'],
  approved: ['ok', 'approved'],
  running: ['warn', 'running'],
  done: ['ok', 'done'],
  succeeded: ['ok', 'succeeded'],
  waiting: ['held', 'waiting'],
  tool_error: ['bad', 'tool error'],
  failed: ['bad', 'failed'],
  rejected: ['off', 'rejected'],
  expired: ['off', 'expired'],
  cancelled: ['off', 'cancelled'],
  unknown: ['warn', 'outcome unknown'],
  held: ['held', 'held'],
  refused: ['bad', 'refused'],
  timeout: ['bad', 'timed out'],
};
export function Outcome({ state }: { state: string }) {
  const [tone, word] = HELD_STATES[state] ?? (['off', state.replaceAll('_', ' ')] as const);
  return <Status tone={tone} plain={state === 'done' || state === 'succeeded'}>{word}</Status>;
}

export function Time({ ms }: { ms: number }) {
  return <time dateTime={new Date(ms).toISOString()} title={fullTime(ms)} className="nowrap">{shortTime(ms)}</time>;
}

/** The current time, updated every `everyMs`. */
export function useNow(everyMs = 1000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** The value, after it has not changed for a moment: a search per letter would fill the event log. */
export function useSettled<T>(value: T, delayMs = 140): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delayMs);
    return () => clearTimeout(timer);
  }, [value, delayMs]);
  return settled;
}

export function Ago({ ms }: { ms: number }) {
  const now = useNow(10_000);
  return <time dateTime={new Date(ms).toISOString()} title={fullTime(ms)} className="nowrap">{span(now - ms)} ago</time>;
}

export function Remaining({ until }: { until: number }) {
  const now = useNow();
  const left = until - now;
  return <span className="nowrap" title={`expires at ${fullTime(until)}`}>{left > 0 ? `${countdown(left)} left` : 'expired'}</span>;
}

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: 'primary' | 'danger' | 'quiet';
  small?: boolean;
  icon?: IconName;
  /** The action runs; a second click does nothing. */
  busy?: boolean;
}
export function Button({ look, small, icon, busy, children, className, disabled, ...rest }: ButtonProps) {
  const names = ['button', look, small && 'small', icon && !children && 'icon', className].filter(Boolean).join(' ');
  return (
    <button type="button" className={names} disabled={disabled || busy} aria-busy={busy || undefined} {...rest}>
      {icon && <Icon name={icon} size={small ? 14 : 16} />}
      {children}
    </button>
  );
}

export async function copyText(text: string, what: string) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied ${what}`);
  } catch {
    // Clipboard access needs a secure context. Over plain HTTP the text can be copied by hand.
    toast('The browser does not allow copying here. Select the text instead.');
  }
}

export function CopyButton({ text, what, label }: { text: string; what: string; label?: string }) {
  return <Button small look="quiet" icon="copy" aria-label={label ? undefined : `Copy ${what}`} onClick={() => void copyText(text, what)}>{label}</Button>;
}

export function CodeBox({ text, what }: { text: string; what: string }) {
  return (
    <div className="code-box">
      <pre className="code" tabIndex={0}>{text}</pre>
      <span className="copy"><CopyButton text={text} what={what} /></span>
    </div>
  );
}

/** A sentence of the gateway. Names between backticks are shown as code. */
export function Prose({ text }: { text: string }) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}

/** A name that may break after its underscores, on narrow screens. */
export function LongName({ text }: { text: string }) {
  return text.split(/(?<=_)/).map((part, index) => <span key={index}>{index > 0 && <wbr />}{part}</span>);
}

export function Note({ tone, children, action }: { tone?: 'ok' | 'warn' | 'bad' | 'held'; children: ReactNode; action?: ReactNode }) {
  const icon: IconName = tone === 'ok' ? 'check' : tone === 'warn' || tone === 'bad' ? 'warn' : 'info';
  return <div className={`note ${tone ?? ''}`}><Icon name={icon} /><div className="grow">{children}</div>{action}</div>;
}

/** What to show instead of data that could not be loaded. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = ApiError.of(error);
  return (
    <div role="alert">
      <Note tone="bad" action={retry && <Button small onClick={retry}>Retry</Button>}>
        <p className="strong"><Prose text={problem.message} /></p>
        {problem.hint && <p><Prose text={problem.hint} /></p>}
        {problem.code && <p className="small"><code>{problem.code}</code></p>}
      </Note>
    </div>
  );
}

/** Under a list whose next rows could not be loaded. */
export function MoreFailed({ error, retry }: { error: unknown; retry: () => void }) {
  return error == null ? null : <div className="card-body"><Failure error={error} retry={retry} /></div>;
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return <div className="empty"><h3>{title}</h3>{children}</div>;
}

/** Placeholder lines of the final size. They appear after 150 ms, so that fast answers do not flicker. */
export function Skeleton({ lines = 3, height = 14 }: { lines?: number; height?: number }) {
  return (
    <div className="stack tight card-body" role="progressbar" aria-busy="true" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} className="skeleton" style={{ width: `${92 - ((index * 23) % 48)}%`, height }} />
      ))}
    </div>
  );
}

interface Loadable<T> {
  data: T | undefined;
  error: unknown;
  refetch: () => unknown;
}
/** Shows the data of a query, or that it is loading, or why it failed. Data that is there stays visible. */
export function Loaded<T>({ query, lines, children }: { query: Loadable<T>; lines?: number; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <div className="failed"><Failure error={query.error} retry={() => void query.refetch()} /></div>;
  return <Skeleton lines={lines} />;
}

export interface Tab<T extends string> {
  id: T;
  label: ReactNode;
}
/** Tabs with arrow keys. The panel is whatever the caller renders for the selected tab. */
export function Tabs<T extends string>({ tabs, selected, onSelect, label }: { tabs: Tab<T>[]; selected: T; onSelect: (id: T) => void; label: string }) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // On a narrow screen the selected tab may be outside the visible part.
    const bar = list.current;
    const tab = bar?.querySelector<HTMLElement>('[aria-selected="true"]');
    if (bar && tab) bar.scrollLeft = tab.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
  }, [selected]);
  const move = (step: number) => {
    const at = tabs.findIndex((tab) => tab.id === selected);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onSelect(next.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div className="tabs" role="tablist" aria-label={label} ref={list}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          data-tab={tab.id}
          aria-selected={tab.id === selected}
          tabIndex={tab.id === selected ? 0 : -1}
          onClick={() => onSelect(tab.id)}
          onKeyDown={(event) => {
            if (event.key === 'ArrowRight') move(1);
            if (event.key === 'ArrowLeft') move(-1);
          }}
        >
          {tab.label}
        </button>
      ))}
    </div>
  );
}

export function Segment<T extends string>({ options, value, onChange, label }: { options: { id: T; label: string; title?: string }[]; value: T; onChange: (id: T) => void; label: string }) {
  return (
    <div className="segment" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option.id} type="button" title={option.title} aria-pressed={option.id === value} onClick={() => onChange(option.id)}>{option.label}</button>
      ))}
    </div>
  );
}

export function PageHead({ title, lead, children }: { title: string; lead?: ReactNode; children?: ReactNode }) {
  return (
    <header className="page-head">
      <h1>{title}</h1>
      {children && <div className="head-actions">{children}</div>}
      {lead && <p className="lead">{lead}</p>}
    </header>
  );
}
