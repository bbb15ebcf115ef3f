// Skills, jobs, tasks and prompts: what runs next, what ran, and how its steps depend on each other.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError, fetchJson } from '../api/client';
import { useApiPaths } from '../api/queries';
import { duration, fullTime, percent } from '../lib/format';
import { Ago, Button, CodeBox, Empty, Loaded, Note, PageHead, Prose, Status, Tabs, Time } from '../ui/basic';
import { Graph, type GraphNode } from '../ui/graph';
import { Confirm } from '../ui/dialog';
import { toast } from '../ui/toast';
import { type Job, type Run, toneOf, useJob, useJobs, useRun, useTasks } from './jobs-data';
import { PromptList } from './prompts';
import { RunErrorNote, StepList, withStates } from './run-steps';
import { SkillRunPage } from './skill-runs';
import { SkillList } from './skills';
import { nodesOf } from './skills-data';
import { TaskList } from './tasks';

type WorkTab = 'jobs' | 'tasks' | 'skills' | 'prompts';

export default function Jobs({ tab, name, run }: { tab?: string; name?: string; run?: string }) {
  const [, go] = useLocation();
  const paths = useApiPaths();
  const tasks = useTasks();
  const has = (path: string) => paths.data?.has(path) ?? true;
  const shown = (tab ?? 'jobs') as WorkTab;
  const known = tasks.data?.pages.flatMap((page) => page.tasks) ?? [];
  const open = known.filter((task) => ['ready', 'in_progress', 'review'].includes(task.status)).length;
  return (
    <div className="page">
      <PageHead title="Jobs" />
      <div className="stack">
        <Tabs label="Jobs" selected={shown} onSelect={(id) => go(id === 'jobs' ? '/jobs' : `/jobs/${id}`)} tabs={[
          { id: 'jobs', label: 'Jobs' },
          ...(has('/tasks') ? [{ id: 'tasks' as const, label: <>Tasks{open > 0 && <span className="count">{open}{tasks.hasNextPage ? '+' : ''}</span>}</> }] : []),
          ...(has('/skills') ? [{ id: 'skills' as const, label: 'Skills' }] : []),
          ...(has('/prompts') ? [{ id: 'prompts' as const, label: 'Prompts' }] : []),
        ]} />
        {shown === 'jobs' && (name === undefined ? <JobList /> : run === undefined ? <JobDetail key={name} name={name} /> : <RunDetail key={run} job={name} id={run} />)}
        {shown === 'tasks' && <TaskList />}
        {shown === 'skills' && (name === undefined || run === undefined ? <SkillList selected={name} /> : <SkillRunPage key={run} skill={name} id={run} />)}
        {shown === 'prompts' && <PromptList selected={name} />}
      </div>
    </div>
  );
}

const hrefOf = (job: string, run?: string) => `/jobs/jobs/${encodeURIComponent(job)}${run ? `/${run}` : ''}`;

function JobState({ job }: { job: Job }) {
  return job.paused ? <Status tone="off">paused</Status> : <Status tone={toneOf(job.status)}>{job.status}</Status>;
}

const EXAMPLE_JOB = `{
  "name": "nightly",
  "summary": "Hashes a word every night",
  "plan": [{ "id": "hash", "tool": "demo_hash", "arguments": { "text": "night" } }],
  "recurrence": { "cron": "0 2 * * *" }
}`;

function JobList() {
  const jobs = useJobs();
  const list = jobs.data?.pages.flatMap((page) => page.jobs) ?? [];
  return (
    <Loaded query={jobs} lines={6}>
      {() => list.length === 0 ? (
        <div className="card"><Empty title="No jobs"><p>A job runs skills or steps on a schedule or on request. Define jobs in files <code>jobs/*.json</code> beside the configuration, or create one from a file:</p><CodeBox what="the command" text="toolbooth jobs create nightly.json" /><CodeBox what="the file" text={EXAMPLE_JOB} /></Empty></div>
      ) : (
        <div className="stack tight">
          <ul className="card items">
            {list.map((job) => {
              const next = job.next_run_at;
              return (
                <li key={job.name}>
                  <span className="lead-col"><JobState job={job} /></span>
                  <div className="text">
                    <p><Link className="strong" href={hrefOf(job.name)}>{job.name}</Link></p>
                    <p className="muted small clip2">{job.summary}</p>
                    {!job.ready && <p className="small muted">Not ready: <Prose text={job.reasons.join('; ')} /></p>}
                  </div>
                  <span className="muted small nowrap">{next ? <>next <Time ms={next} /></> : job.recurrence ? 'not scheduled' : 'on request'}</span>
                </li>
              );
            })}
          </ul>
          {jobs.hasNextPage && <div><Button busy={jobs.isFetchingNextPage} onClick={() => void jobs.fetchNextPage()}>More jobs</Button></div>}
        </div>
      )}
    </Loaded>
  );
}

type JobAction = 'run' | 'rerun' | 'pause' | 'resume' | 'scheduled' | 'cancelled';
const DONE: Record<JobAction, string> = { run: 'Started', rerun: 'Started', pause: 'Paused the schedule of', resume: 'Resumed the schedule of', scheduled: 'Scheduled', cancelled: 'Cancelled' };

function JobActions({ job }: { job: Job }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [asks, setAsks] = useState(false);
  const act = useMutation({
    mutationFn: (action: JobAction) => {
      const options = { params: { name: job.name } };
      if (action === 'run' || action === 'rerun') return fetchJson<{ id?: string }>('POST', `/jobs/{name}/${action}`, { ...options, body: {} });
      if (action === 'pause' || action === 'resume') return fetchJson<{ id?: string }>('POST', `/jobs/{name}/schedule/${action}`, options);
      return fetchJson<{ id?: string }>('POST', '/jobs/{name}/transition', { ...options, body: { target_status: action } });
    },
    onSuccess: (answer, action) => {
      toast(`${DONE[action]} ${job.name}`);
      if (action.endsWith('run') && answer.id) go(hrefOf(job.name, answer.id));
    },
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => { setAsks(false); void client.invalidateQueries({ queryKey: ['jobs'] }); },
  });
  const button = (action: JobAction, label: string) => <Button busy={act.isPending && act.variables === action} onClick={() => act.mutate(action)}>{label}</Button>;
  const isOver = ['succeeded', 'failed', 'cancelled'].includes(job.status);
  return (
    <>
      {job.status === 'draft' && job.recurrence != null && button('scheduled', 'Schedule')}
      {job.status === 'cancelled' && job.recurrence != null && button('resume', 'Schedule')}
      {job.paused && job.status !== 'cancelled' ? button('resume', 'Resume') : job.status === 'scheduled' && button('pause', 'Pause')}
      {!isOver && job.status !== 'draft' && <Button look="danger" onClick={() => setAsks(true)}>Cancel…</Button>}
      {!isOver && !job.active_run && <Button look="primary" icon="play" busy={act.isPending && act.variables === 'run'} onClick={() => act.mutate('run')}>Run now</Button>}
      {isOver && <Button look="primary" icon="play" busy={act.isPending} onClick={() => act.mutate('rerun')}>Run again</Button>}
      {asks && <Confirm title={`Cancel ${job.name}?`} action="Cancel the job" busy={act.isPending} onClose={() => setAsks(false)} onConfirm={() => act.mutate('cancelled')}><p>A run that has not ended is stopped, and the job does not run until it is scheduled again.</p></Confirm>}
    </>
  );
}

function JobDetail({ name }: { name: string }) {
  const job = useJob(name);
  return (
    <Loaded query={job} lines={8}>
      {(data) => <JobView job={data} />}
    </Loaded>
  );
}

function JobView({ job }: { job: Job }) {
  const nodes: GraphNode[] = useMemo(
    () => (job.task_graph.length ? job.task_graph.map((node) => ({ id: node.task, label: node.description, after: node.depends_on ?? [] })) : nodesOf(job.plan)),
    [job],
  );
  const runs = job.runs ?? [];
  const health = job.health.job;
  const upcoming = job.schedule?.upcoming ?? [];
  return (
    <div className="stack">
      <div className="row wrap">
        <Link href="/jobs">Jobs</Link>
        <span className="end row"><JobActions job={job} /></span>
      </div>
      <header className="stack tight">
        <div className="row wrap"><h2 className="wrap-any">{job.name}</h2><JobState job={job} />{job.owner && <span className="tag">runs as {job.owner}</span>}</div>
        <p>{job.description ?? job.summary}</p>
      </header>
      {!job.ready && <Note tone="warn"><p className="strong">This job is not ready.</p>{job.reasons.map((reason, index) => <p key={index}><Prose text={reason} /></p>)}</Note>}
      {nodes.length > 0 && <section className="card card-body stack tight"><h3>{job.task_graph.length ? 'Tasks' : 'Steps'}</h3><Graph nodes={nodes} label={`Graph of ${job.name}`} /></section>}
      <div className="grid two">
        <section className="card card-body stack tight">
          <h3>Next runs</h3>
          {job.paused ? <p className="muted">The schedule is paused.</p> : upcoming.length === 0 ? <p className="muted">{job.recurrence ? 'No further times.' : 'It has no schedule. Start it with “Run now”.'}</p> : (
            <>
              {job.status !== 'scheduled' && job.status !== 'running' && <p className="muted">It is not scheduled. Its times would be:</p>}
              <ol className="stack tight">{upcoming.slice(0, 5).map((ms) => <li key={ms}>{fullTime(ms)}</li>)}</ol>
              {job.schedule?.timezone && <p className="muted small">Time zone of the schedule: {job.schedule.timezone}</p>}
            </>
          )}
        </section>
        <section className="card card-body stack tight">
          <h3>Health</h3>
          {health.runs === 0 ? <p className="muted">It has not run yet.</p> : (
            <dl className="kv">
              <dt>Runs</dt><dd>{health.runs}</dd>
              <dt>Success</dt><dd>{health.success_rate == null ? 'unknown' : percent(health.success_rate)}</dd>
              {health.latency_ms && <><dt>Duration</dt><dd>median {duration(health.latency_ms.p50 ?? 0)}, 95th percentile {duration(health.latency_ms.p95 ?? 0)}</dd></>}
            </dl>
          )}
        </section>
      </div>
      <section className="card" aria-label="Runs">
        <div className="card-head"><h3>History</h3></div>
        {runs.length === 0 ? <Empty title="No runs yet" /> : (
          <ul className="items">
            {runs.map((run) => (
              <li key={run.id}>
                <span className="lead-col"><Status tone={toneOf(run.status)}>{run.status}</Status></span>
                <div className="text">
                  <p><Link href={hrefOf(job.name, run.id)}><Time ms={run.started_at ?? run.created_at} /></Link> <span className="muted small">{run.trigger}{run.started_by ? ` by ${run.started_by}` : ''}</span></p>
                  {run.error && <p className="muted small clip2"><Prose text={run.error.message} /></p>}
                </div>
                <span className="muted small nowrap">{run.duration_ms != null ? duration(run.duration_ms) : ''}</span>
              </li>
            ))}
          </ul>
        )}
      </section>
    </div>
  );
}

function RunDetail({ job, id }: { job: string; id: string }) {
  const run = useRun(job, id);
  return (
    <div className="stack">
      <div className="row"><Link href="/jobs">Jobs</Link> / <Link href={hrefOf(job)}>{job}</Link></div>
      <Loaded query={run} lines={8}>{(data) => <RunView job={job} run={data} />}</Loaded>
    </div>
  );
}

function RunView({ job, run }: { job: string; run: Run }) {
  const definition = useJob(job);
  const nodes: GraphNode[] = useMemo(() => {
    const [only, ...more] = run.parts;
    const planned = only && more.length === 0 ? nodesOf(definition.data?.plan) : [];
    if (only && planned.length > 0) return withStates(planned, only.steps, 'waiting');
    return run.parts.map((part) => ({ id: part.id, after: part.after, state: part.outcome ?? 'open', tone: part.outcome ? toneOf(part.outcome) : 'off', label: part.task ? 'task for a person' : undefined }));
  }, [run.parts, definition.data]);
  return (
    <div className="stack">
      <div className="row wrap">
        <h2><Status tone={toneOf(run.status)}>{run.status}</Status></h2>
        <span className="muted">{run.trigger}{run.started_by ? ` by ${run.started_by}` : ''} · <Ago ms={run.started_at ?? run.created_at} />{run.duration_ms != null ? ` · ${duration(run.duration_ms)}` : ''}</span>
        <RunActions job={job} run={run} />
      </div>
      {run.error && <RunErrorNote error={run.error} isHeld={run.status === 'held'} />}
      {run.escalations.length > 0 && <Note tone="warn">Escalated: {run.escalations.join(', ')}</Note>}
      {nodes.length > 1 && <section className="card card-body"><Graph nodes={nodes} label="Steps of the run" /></section>}
      {run.parts.map((part) => (
        <section key={part.id} className="card" aria-label={part.id}>
          <div className="card-head"><h3>{part.id}</h3>{part.outcome && <Status tone={toneOf(part.outcome)}>{part.outcome}</Status>}{part.task && <Link href="/jobs/tasks">A person completes this task</Link>}</div>
          {part.steps.length > 0 && <StepList steps={part.steps} />}
        </section>
      ))}
      {run.criteria.length > 0 && <Criteria job={job} run={run} />}
    </div>
  );
}

/** What a person can do about a run that has ended badly or waits for a decision. */
function RunActions({ job, run }: { job: string; run: Run }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const act = useMutation({
    mutationFn: (action: 'rerun' | 'repeat' | 'skip') =>
      action === 'rerun'
        ? fetchJson<{ id: string }>('POST', '/jobs/{name}/rerun', { params: { name: job }, body: {} })
        : fetchJson<{ id: string }>('POST', '/jobs/{name}/runs/{id}/decide', { params: { name: job, id: run.id }, body: { interrupted: action } }),
    onSuccess: (answer, action) => { if (action === 'rerun') go(hrefOf(job, answer.id)); },
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => void client.invalidateQueries({ queryKey: ['jobs'] }),
  });
  return (
    <span className="end row">
      {run.status === 'held' && <Button look="danger" busy={act.isPending && act.variables === 'repeat'} onClick={() => act.mutate('repeat')}>Repeat the step</Button>}
      {run.status === 'held' && <Button busy={act.isPending && act.variables === 'skip'} onClick={() => act.mutate('skip')}>Go on without it</Button>}
      {['failed', 'cancelled', 'missed'].includes(run.status) && <Button icon="refresh" busy={act.isPending} onClick={() => act.mutate('rerun')}>Run again</Button>}
    </span>
  );
}

function Criteria({ job, run }: { job: string; run: Run }) {
  const client = useQueryClient();
  const confirm = useMutation({
    mutationFn: (body: { criterion: number; met: boolean }) => fetchJson<unknown>('POST', '/jobs/{name}/runs/{id}/criteria', { params: { name: job, id: run.id }, body }),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => void client.invalidateQueries({ queryKey: ['jobs'] }),
  });
  return (
    <section className="card" aria-label="Acceptance criteria">
      <div className="card-head"><h3>Acceptance criteria</h3></div>
      <ul className="items">
        {run.criteria.map((entry, index) => (
          <li key={index}>
            <span className="lead-col"><Status tone={entry.met == null ? 'held' : entry.met ? 'ok' : 'bad'}>{entry.met == null ? 'open' : entry.met ? 'met' : 'not met'}</Status></span>
            <div className="text"><p>{entry.criterion}</p>{entry.by && <p className="muted small">by {entry.by}</p>}</div>
            {entry.met == null && <div className="acts"><Button small onClick={() => confirm.mutate({ criterion: index, met: true })}>Met</Button><Button small onClick={() => confirm.mutate({ criterion: index, met: false })}>Not met</Button></div>}
          </li>
        ))}
      </ul>
    </section>
  );
}
