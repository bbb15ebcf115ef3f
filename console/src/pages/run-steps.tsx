// The steps of a run of a job or a skill: as a graph with their states, and as a list with calls, results and errors.

import { Link } from 'wouter';
import { duration } from '../lib/format';
import type { Json } from '../lib/json';
import { Note, Prose, Status } from '../ui/basic';
import type { GraphNode } from '../ui/graph';
import { JsonView } from '../ui/json';
import { type RunError, type RunStep, toneOf } from './jobs-data';

/** The steps of a plan with the states that they have in a run. `rest` is the state of those that have none. */
export function withStates(planned: GraphNode[], steps: RunStep[], rest: string): GraphNode[] {
  const states = new Map(steps.map((step) => [step.id, step.status]));
  return planned.map((node) => ({ ...node, state: states.get(node.id) ?? rest, tone: states.has(node.id) ? toneOf(states.get(node.id)) : 'off' }));
}

export function RunErrorNote({ error, isHeld }: { error: RunError; isHeld: boolean }) {
  return (
    <Note tone={isHeld ? 'held' : 'bad'}>
      <p className="strong"><Prose text={error.message} /></p>
      {error.hint && <p><Prose text={error.hint} /></p>}
      <p className="small"><code>{error.code}</code></p>
    </Note>
  );
}

export function StepList({ steps }: { steps: RunStep[] }) {
  return <ul className="items">{steps.map((step) => <StepRow key={step.id} step={step} />)}</ul>;
}

function StepRow({ step }: { step: RunStep }) {
  return (
    <li>
      <span className="lead-col"><Status tone={toneOf(step.status)}>{step.status}</Status></span>
      <div className="text">
        <p><b>{step.id}</b> <code className="small">{step.tool}</code>{step.call && step.ended_at && !step.held && <> · <Link className="small" href={`/activity/calls/${step.call}`}>the call</Link></>}</p>
        {step.error && <p className="small"><Prose text={step.error.message} /> <code>{step.error.code}</code></p>}
        {step.results != null && <details><summary className="muted small">Results</summary><JsonView value={step.results as Json} /></details>}
      </div>
      <div className="acts">
        {step.held && <Link className="button small primary" href={`/inbox/${step.held}`}>Review</Link>}
        {step.ended_at != null && step.started_at != null && <span className="muted small nowrap">{duration(step.ended_at - step.started_at)}</span>}
      </div>
    </li>
  );
}
