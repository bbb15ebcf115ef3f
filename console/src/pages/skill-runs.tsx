// Runs of a skill: those in the record of calls, and those that waited for a person, which the gateway stores.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { Link } from 'wouter';
import { ApiError, api, fetchJson } from '../api/client';
import { type AuditRow, type RunningCall, useRunning } from '../api/queries';
import { duration, toolName } from '../lib/format';
import type { Json } from '../lib/json';
import { Ago, Button, Empty, Failure, Loaded, Note, Skeleton, Status, Time } from '../ui/basic';
import { Graph } from '../ui/graph';
import { JsonView } from '../ui/json';
import { type RunError, type RunStep, toneOf } from './jobs-data';
import { RunErrorNote, StepList, withStates } from './run-steps';
import { nodesOf, skillHref, useSkills } from './skills-data';

/** The outcome of the skill's own call as the state of a run. */
const STATES: Record<string, string> = { done: 'succeeded', tool_error: 'failed', timeout: 'failed' };
const stateOf = (outcome: string) => STATES[outcome] ?? outcome;
const isOpen = (status: string | undefined) => ['pending', 'running', 'waiting', 'held'].includes(status ?? '');
const toolOf = (skill: string) => `skill_${skill}`;
const isCallOf = (skill: string, tool: string) => tool === toolOf(skill) || tool === `tool.${toolOf(skill)}`;

interface RunEntry {
  id: string;
  status: string;
  at: number;
  user: string;
  /** Undefined for a run that has not ended. */
  took?: number;
  error?: string;
}

const PAGE = 50;

/** The latest runs, newest first. A stored run replaces the record of its call, which ended when the run began to wait. */
function useSkillRuns(skill: string) {
  const running = useRunning();
  const calls = useInfiniteQuery({
    queryKey: ['audit', 'calls', 'skill', skill],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ pageParam, signal }) => api.get('/calls', { query: { tool: toolOf(skill), before: pageParam, limit: PAGE }, signal }),
    getNextPageParam: (page) => page.next_before ?? undefined,
  });
  const stored = useInfiniteQuery({
    queryKey: ['skills', skill, 'runs'],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => api.get('/skills/{name}/runs', { params: { name: skill }, query: { cursor: pageParam, limit: PAGE }, signal }),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: ({ state }) => (state.data?.pages.some((page) => page.runs.some((run) => isOpen(run.status))) ? 2000 : false),
  });
  const entries = useMemo(() => {
    const called = calls.data?.pages.flatMap((page) => page.calls) ?? [];
    const kept = stored.data?.pages.flatMap((page) => page.runs) ?? [];
    const runs = new Map<string, RunEntry>();
    for (const call of running.data?.calls ?? []) if (isCallOf(skill, call.tool)) runs.set(call.id, { id: call.id, status: 'running', at: call.at_ms, user: call.user });
    for (const call of called) runs.set(call.id, { id: call.id, status: stateOf(call.outcome), at: call.at_ms, user: call.user, took: call.duration_ms, error: call.code ?? undefined });
    for (const run of kept) {
      const at = runs.get(run.id)?.at ?? startOf(run.steps, run.created_at);
      runs.set(run.id, { id: run.id, status: run.status, at, user: run.owner, took: run.ended_at == null ? undefined : run.ended_at - at, error: run.error?.message });
    }
    // Where one list goes on and the other does not, older entries would have gaps between them.
    const from = Math.max(calls.hasNextPage ? called.at(-1)?.at_ms ?? 0 : 0, stored.hasNextPage ? kept.at(-1)?.created_at ?? 0 : 0);
    return [...runs.values()].filter((run) => run.at >= from).sort((left, right) => right.at - left.at);
  }, [skill, running.data, calls.data, calls.hasNextPage, stored.data, stored.hasNextPage]);
  const next = [calls, stored].filter((query) => query.hasNextPage);
  return {
    entries,
    isLoading: !calls.data || !stored.data,
    error: calls.error ?? stored.error,
    retry: () => { void calls.refetch(); void stored.refetch(); },
    more: next.length > 0 ? () => next.forEach((query) => void query.fetchNextPage()) : undefined,
  };
}

/** The first start of a step. A run that is stored knows when it began to wait, not when it began. */
function startOf(steps: { started_at?: number | null }[], otherwise: number): number {
  return Math.min(otherwise, ...steps.map((step) => step.started_at ?? otherwise));
}

export function SkillRuns({ skill }: { skill: string }) {
  const { entries, isLoading, error, retry, more } = useSkillRuns(skill);
  return (
    <section className="card" aria-label="Runs">
      <div className="card-head"><h3>History</h3>{entries.length > 0 && <Link href={`/activity/calls?tool=${encodeURIComponent(toolOf(skill))}`}>All calls</Link>}</div>
      {isLoading && error ? <div className="failed"><Failure error={error} retry={retry} /></div> : isLoading ? <Skeleton lines={3} /> : entries.length === 0 ? <Empty title="No runs yet" /> : (
        <ul className="items">
          {entries.map((run) => (
            <li key={run.id}>
              <span className="lead-col"><Status tone={toneOf(run.status)}>{run.status}</Status></span>
              <div className="text">
                <p><Link href={skillHref(skill, run.id)}><Time ms={run.at} /></Link> <span className="muted small">by {run.user}</span></p>
                {run.error && <p className="muted small clip2">{run.error}</p>}
              </div>
              <span className="muted small nowrap">{run.took != null ? duration(run.took) : ''}</span>
            </li>
          ))}
        </ul>
      )}
      {more && <div className="card-body"><Button onClick={more}>Show older runs</Button></div>}
    </section>
  );
}

interface SkillRun {
  status: string;
  user: string;
  at: number;
  took?: number;
  /** The held call that the whole run waits for: the skill itself needs approval. */
  held?: string;
  error?: RunError | null;
  arguments?: Json;
  steps: RunStep[];
  /** Whether the gateway stores the run, with the results of its steps. */
  isStored: boolean;
}

const unlessMissing = <T,>(request: Promise<T>): Promise<T | null> =>
  request.catch((error: unknown) => {
    if (ApiError.of(error).status === 404) return null;
    throw error;
  });

async function loadRun(skill: string, id: string, signal: AbortSignal): Promise<SkillRun> {
  const shown = api.get('/skills/{name}/runs/{id}', { params: { name: skill, id }, signal });
  const [stored, record] = await Promise.all([unlessMissing(shown), unlessMissing(api.get('/calls/{id}', { params: { id }, signal }))]);
  const call = record && isCallOf(skill, record.tool ?? '') ? record : null;
  if (stored) {
    const at = call?.at_ms ?? startOf(stored.steps, stored.created_at);
    const took = stored.ended_at == null ? undefined : stored.ended_at - at;
    return { status: stored.status, user: stored.owner, at, took, error: stored.error, arguments: stored.arguments as Json, steps: stored.steps, isStored: true };
  }
  if (call) {
    const error = call.code ? { code: call.code, message: 'The run failed.' } : null;
    const steps = await stepsOfRun(id, call.at_ms, call.audit_seq, signal);
    return { status: stateOf(call.outcome), user: call.user, at: call.at_ms, took: call.duration_ms, held: call.held ?? undefined, error, steps, isStored: false };
  }
  const { calls } = await fetchJson<{ calls: RunningCall[] }>('GET', '/calls/running', { signal });
  const running = calls.find((other) => other.id === id && isCallOf(skill, other.tool));
  // The gateway knows no such run: its own answer says so.
  if (!running) await shown;
  return { status: 'running', user: running?.user ?? '', at: running?.at_ms ?? Date.now(), steps: await stepsOfRun(id, running?.at_ms ?? 0, undefined, signal), isStored: false };
}

/** Pages of the audit log that are searched for the calls of a run. */
const MAX_PAGES = 5;
const WORDS: Record<string, string> = { tool_error: 'The tool returned an error.', timeout: 'The call took too long.', failed: 'The call failed.', unknown: 'Whether the call took effect is not known.' };

/** The steps of a run that is not stored: the calls that name it, which end before the call of the skill. */
async function stepsOfRun(id: string, from: number, before: number | undefined, signal: AbortSignal): Promise<RunStep[]> {
  const steps: RunStep[] = [];
  for (let number = 0; number < MAX_PAGES; number += 1) {
    const page = await api.get('/audit', { query: { kind: 'call', before, limit: 200 }, signal });
    for (const row of page.rows) {
      const detail = (row.detail ?? {}) as { run?: string; step?: string; held?: string };
      if (detail.run === id) steps.unshift(stepOf(row, detail));
    }
    before = page.next_before ?? undefined;
    if (before === undefined || (page.rows.at(-1)?.at_ms ?? 0) < from) break;
  }
  return steps.sort((left, right) => (left.started_at ?? 0) - (right.started_at ?? 0));
}

function stepOf(row: AuditRow, detail: { step?: string; held?: string }): RunStep {
  const message = WORDS[row.outcome];
  return {
    id: detail.step ?? row.tool ?? '',
    tool: toolName(row.server, row.tool),
    status: stateOf(row.outcome),
    call: row.call_id,
    held: detail.held,
    started_at: row.at_ms - (row.duration_ms ?? 0),
    ended_at: row.at_ms,
    error: message ? { code: row.code ?? row.outcome, message } : null,
  };
}

export function SkillRunPage({ skill, id }: { skill: string; id: string }) {
  const run = useQuery({
    queryKey: ['skills', skill, 'run', id],
    queryFn: ({ signal }) => loadRun(skill, id, signal),
    // Single steps are not events of the run.
    refetchInterval: ({ state }) => (isOpen(state.data?.status) ? 1500 : false),
  });
  return (
    <div className="stack">
      <div className="row wrap"><Link href="/jobs/skills">Skills</Link> / <Link href={skillHref(skill)}>{skill}</Link></div>
      <Loaded query={run} lines={8}>{(data) => <SkillRunView skill={skill} run={data} />}</Loaded>
    </div>
  );
}

function SkillRunView({ skill, run }: { skill: string; run: SkillRun }) {
  const skills = useSkills();
  const plan = skills.data?.skills.find((other) => other.name === skill)?.plan;
  const nodes = useMemo(() => withStates(nodesOf(plan), run.steps, isOpen(run.status) ? 'waiting' : 'not run'), [plan, run]);
  const held = run.held ?? run.steps.find((step) => step.held)?.held;
  const isHeld = held != null && isOpen(run.status);
  return (
    <div className="stack">
      <div className="row wrap">
        <h2><Status tone={toneOf(run.status)}>{run.status}</Status></h2>
        <span className="muted">by {run.user} · <Ago ms={run.at} />{run.took != null ? ` · ${duration(run.took)}` : ''}</span>
      </div>
      {isHeld && <Note tone="held" action={<Link className="button small primary" href={`/inbox/${held}`}>Review</Link>}><p className="strong">The run waits for a decision.</p><p>It goes on when the call is approved.</p></Note>}
      {run.error && <RunErrorNote error={run.error} isHeld={isHeld} />}
      {nodes.length > 1 && <section className="card card-body"><Graph nodes={nodes} label="Steps of the run" /></section>}
      <section className="card" aria-label="Steps">
        <div className="card-head"><h3>Steps</h3></div>
        {run.steps.length > 0 ? <StepList steps={run.steps} /> : <Empty title="No step has run" />}
      </section>
      {run.arguments != null && Object.keys(run.arguments).length > 0 && <section className="card card-body stack tight"><h3>Arguments</h3><JsonView value={run.arguments} /></section>}
      {!run.isStored && !isOpen(run.status) && <p className="muted small">The results of the steps are in the answer that the caller received. The gateway stores them only for runs that wait for a person.</p>}
    </div>
  );
}
