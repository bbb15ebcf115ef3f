// The data of jobs and tasks, as the gateway's REST API shows it.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { fetchJson } from '../api/client';
import type { Tone } from '../ui/basic';

export interface RunError {
  code: string;
  message: string;
  hint?: string | null;
}
export interface RunStep {
  id: string;
  tool: string;
  status: string;
  call?: string | null;
  held?: string | null;
  started_at?: number | null;
  ended_at?: number | null;
  results?: unknown;
  error?: RunError | null;
}
export interface Run {
  id: string;
  job: string;
  status: string;
  trigger: string;
  started_by?: string | null;
  due_at?: number | null;
  created_at: number;
  started_at?: number | null;
  ended_at?: number | null;
  duration_ms?: number | null;
  /** The job's own plan, or its tasks in order. */
  parts: { id: string; after: string[]; outcome?: string | null; task?: string | null; steps: RunStep[] }[];
  criteria: { criterion: string; met?: boolean | null; by?: string | null; at?: number | null }[];
  error?: RunError | null;
  escalations: string[];
}
export interface Job {
  name: string;
  summary: string;
  description?: string | null;
  persona?: string | null;
  status: string;
  paused: boolean;
  owner?: string | null;
  required_skills: string[];
  required_tools: string[];
  task_graph: { task: string; depends_on?: string[]; description?: string }[];
  plan?: unknown;
  recurrence?: unknown;
  next_run_at?: number | null;
  active_run?: string | null;
  last_run?: string | null;
  ready: boolean;
  reasons: string[];
  health: { job: { runs: number; success_rate?: number | null; latency_ms?: { p50?: number; p95?: number } | null } };
  origin?: string;
  schedule?: { paused: boolean; timezone?: string | null; upcoming: number[] };
  runs?: Run[];
}
export interface Task {
  id: string;
  name: string;
  summary?: string;
  description?: string | null;
  status: string;
  priority?: string | null;
  run?: string | null;
  tags?: string[];
  depends_on?: string[];
  persona?: string | null;
  owner?: string | null;
  updated_at?: number | null;
}

interface JobPage {
  jobs: Job[];
  next_cursor?: string | null;
}
interface TaskPage {
  tasks: Task[];
  next_cursor?: string | null;
}
const PAGE = 100;

export const useJobs = () =>
  useInfiniteQuery({
    queryKey: ['jobs'],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => fetchJson<JobPage>('GET', '/jobs', { query: { cursor: pageParam, limit: PAGE }, signal }),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
export const useJob = (name: string) =>
  useQuery({ queryKey: ['jobs', name], queryFn: ({ signal }) => fetchJson<Job>('GET', '/jobs/{name}', { params: { name }, query: { include: 'schedule,runs' }, signal }) });
export const useRun = (job: string, id: string) =>
  useQuery({
    queryKey: ['jobs', job, id],
    queryFn: ({ signal }) => fetchJson<Run>('GET', '/jobs/{name}/runs/{id}', { params: { name: job, id }, signal }),
    // Single steps are not events of the job.
    refetchInterval: ({ state }) => (['pending', 'running'].includes(state.data?.status ?? '') ? 1000 : false),
  });
export const useTasks = () =>
  useInfiniteQuery({
    queryKey: ['tasks'],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => fetchJson<TaskPage>('GET', '/tasks', { query: { cursor: pageParam, limit: PAGE }, signal }),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });

const TONES: Record<string, Tone> = {
  scheduled: 'ok', succeeded: 'ok', done: 'ok', running: 'warn', pending: 'warn', in_progress: 'warn', review: 'held', waiting: 'held', held: 'held',
  failed: 'bad', missed: 'bad', ready: 'ok', draft: 'off', cancelled: 'off', skipped: 'off',
};
export const toneOf = (state: string | undefined): Tone => TONES[state ?? ''] ?? 'off';
