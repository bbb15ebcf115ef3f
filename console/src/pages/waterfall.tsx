// Where the time of a call went: bars over a common time axis, with the numbers as text.

import type { CallRecord } from '../api/queries';
import { duration } from '../lib/format';

interface Stage {
  name: string;
  note?: string;
  from: number;
  to: number;
  tone: 'wait' | 'done' | 'failed';
  /** Nothing else happens during this stage, so that a long one can be shown shorter. */
  isAlone: boolean;
}

/** What the gateway does in each stage. */
const STAGE_NAMES: Record<string, string> = {
  resolve: 'find the tool', authorise: 'check the rights', draft: 'check the arguments', judge: 'apply the policies', ask: 'wait for a decision',
  seal: 'prepare the request', route: 'choose the provider', dispatch: 'call the server', shape: 'process the result', record: 'write the record',
};

/** The measured stages, or an empty list. */
function measuredOf(call: CallRecord): Stage[] {
  const inOrder = [...(call.stages ?? [])].sort((left, right) => left.start_us - right.start_us);
  return inOrder.map(({ name, start_us: start, duration_us: length }) => ({
    name: STAGE_NAMES[name] ?? name.replaceAll('_', ' '), from: start / 1000, to: (start + length) / 1000, tone: 'wait' as const, isAlone: name === 'ask',
  }));
}

/** The attempts. Their places are known only from the time before the first one and from their own times. */
function attemptsOf(call: CallRecord, start: number): Stage[] {
  let at = start;
  return call.attempts.map((attempt, index) => {
    const note = attempt.outcome === 'done' ? undefined : attempt.code ?? attempt.outcome.replaceAll('_', ' ');
    const stage: Stage = { name: attempt.provider ?? `attempt ${index + 1}`, note, from: at, to: at + attempt.duration_ms, tone: attempt.outcome === 'done' ? 'done' : 'failed', isAlone: false };
    at = stage.to;
    return stage;
  });
}

/** The measured stages with the attempts: a single one is the call of the server itself, several follow it. */
function withAttempts(call: CallRecord, measured: Stage[]): Stage[] {
  const at = measured.findLastIndex((stage) => stage.name === STAGE_NAMES.dispatch);
  const sent = measured[at];
  const attempts = attemptsOf(call, sent?.from ?? call.waited_ms ?? 0);
  const [first] = attempts;
  if (!sent || !first) return [...measured, ...attempts];
  const shown: Stage[] = attempts.length === 1
    ? [{ ...sent, tone: first.tone, note: first.note ? `${first.name} ${first.note}` : first.name }]
    : [sent, ...attempts];
  return [...measured.slice(0, at), ...shown, ...measured.slice(at + 1)];
}

/** The stages of a call: the gateway's own steps if they were measured, with each attempt; else what follows from the attempts. */
function stagesOf(call: CallRecord): Stage[] {
  const measured = measuredOf(call);
  if (measured.length > 0) return withAttempts(call, measured);
  const waited = call.waited_ms ?? (call.attempts.length === 0 ? call.duration_ms : 0);
  const before: Stage[] = waited > 0 || call.attempts.length === 0 ? [{ name: call.attempts.length === 0 ? 'checks; not sent' : 'checks and approval', from: 0, to: waited, tone: 'wait', isAlone: true }] : [];
  const attempts = attemptsOf(call, before.length > 0 ? waited : 0);
  const end = attempts.at(-1)?.to ?? call.duration_ms;
  const after: Stage[] = attempts.length > 0 && call.duration_ms - end > 1 ? [{ name: 'pauses and result', from: end, to: call.duration_ms, tone: 'wait', isAlone: true }] : [];
  return [...before, ...attempts, ...after];
}

/** The time that the whole width stands for is at least this long. */
const SHORTEST_MS = 0.1;

/** The length of a stage. Those of the gateway's own are often shorter than a millisecond. */
function lengthOf({ from, to }: Stage): string {
  const ms = to - from;
  return ms > 0 && ms < 1 ? `${Math.max(1, Math.round(ms * 1000))} µs` : duration(ms);
}

/** Bars over a common time axis, with the numbers as text. A long wait does not hide the rest: its bar is cut. */
export function Waterfall({ call }: { call: CallRecord }) {
  const stages = stagesOf(call);
  const total = Math.max(SHORTEST_MS, call.duration_ms, ...stages.map((stage) => stage.to));
  // A wait that is much longer than the rest is shown as twice the rest.
  const cutOf = ({ isAlone, from, to }: Stage) => (isAlone && to - from > 0.7 * total && stages.length > 1 ? to - from - Math.max(1, 2 * (total - (to - from))) : 0);
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
            <span className="stage"><span className="clip">{stage.name}</span>{stage.note && <code className={`small clip ${stage.tone === 'failed' ? 'failed' : ''}`}>{stage.note}</code>}</span>
            <span className="bar" aria-hidden="true"><i className={`${stage.tone} ${cutOf(stage) > 0 ? 'cut' : ''}`} style={{ marginLeft: `${Math.min(99, left * 100)}%`, width: `${Math.max(0.5, (right - left) * 100)}%` }} /></span>
            <span className="num small nowrap">{lengthOf(stage)}</span>
          </li>
        );
      })}
    </ol>
  );
}
