// The data of the console: one query per REST resource, and which events make which data out of date.

import { QueryClient, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { ApiError, api, fetchJson, type Schemas } from './client';
import { type GatewayEvent, stream } from './events';
import type { Json } from '../lib/json';
import { useRecords } from './live-pages';

export type Server = Schemas['ServerView'];
export type Tool = Schemas['ToolView'];
export type Approval = Schemas['ApprovalView'];
export type Plan = Schemas['PlanView'];
export type DeadLetter = Schemas['DeadLetterView'];
export type AuditRow = Schemas['RowView'];
/** The result is there while the gateway has it in memory, for the user of the call. */
export type CallRecord = Omit<Schemas['CallRecordView'], 'result' | 'stages'> & { result?: Json | null; stages?: CallStage[] };
/** One step of the gateway's work on a call. */
export interface CallStage {
  name: string;
  start_us: number;
  duration_us: number;
}
export type StoredFile = Schemas['FileView'];

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      refetchOnWindowFocus: true,
      retry: (failures, error) => failures < 2 && ApiError.of(error).isOffline,
      retryDelay: (attempt) => 400 * 2 ** attempt,
    },
  },
});

export const useMe = () => useQuery({ queryKey: ['me'], queryFn: ({ signal }) => api.get('/me', { signal }), staleTime: 60_000 });
export const useReady = () => useQuery({ queryKey: ['ready'], queryFn: ({ signal }) => api.get('/ready', { signal }) });
export const useHealth = () => useQuery({ queryKey: ['health'], queryFn: ({ signal }) => api.get('/health', { signal }), staleTime: Infinity });
export const useServers = () => useQuery({ queryKey: ['servers'], queryFn: ({ signal }) => api.get('/servers', { signal }) });
export const useServer = (name: string) =>
  useQuery({ queryKey: ['servers', name], queryFn: ({ signal }) => api.get('/servers/{name}', { params: { name }, signal }) });
export const useServerLogs = (name: string, enabled: boolean) =>
  useQuery({
    queryKey: ['logs', name],
    queryFn: ({ signal }) => api.get('/servers/{name}/logs', { params: { name }, signal }),
    refetchInterval: 3000,
    enabled,
  });

export const usePendingApprovals = () =>
  useQuery({
    queryKey: ['approvals', 'pending'],
    queryFn: ({ signal }) => api.get('/approvals', { query: { state: 'pending', kind: 'approval', limit: 200 }, signal }),
  });
export const usePendingSteps = () =>
  useQuery({
    queryKey: ['approvals', 'steps'],
    queryFn: ({ signal }) => api.get('/approvals', { query: { state: 'pending', kind: 'plan', limit: 200 }, signal }),
  });
export const useRecentApprovals = () =>
  useQuery({
    queryKey: ['approvals', 'recent'],
    queryFn: ({ signal }) => api.get('/approvals', { query: { kind: 'approval', limit: 60 }, signal }),
  });
export const useApproval = (id: string) =>
  useQuery({
    queryKey: ['approvals', 'one', id],
    queryFn: ({ signal }) => api.get('/approvals/{id}', { params: { id }, signal }),
    // An approved call runs at once or later; its end is not an event of its own.
    refetchInterval: ({ state }) => (state.data?.state === 'approved' ? 700 : false),
  });
/** A page that a server asks the person to open. */
export interface QuestionPage {
  url: string;
  host: string;
  is_complete: boolean;
}
/** A server's request to a language model, which a person answers. */
export interface SamplingRequest {
  messages: { role: string; text: string; other?: string[] }[];
  system_prompt?: string;
  model_hints?: string[];
  priorities?: Record<string, number>;
  max_tokens?: number;
  temperature?: number;
  can_draft: boolean;
}
export interface ServerQuestion {
  server?: string;
  /** Absent from gateways of earlier versions, which only ask with forms. */
  mode?: 'form' | 'url' | 'sampling';
  message: string;
  schema?: unknown;
  page?: QuestionPage;
  sampling?: SamplingRequest;
}
/** A call that has not ended. */
export interface RunningCall {
  /** The MCP client that made it. */
  client?: string;
  id: string;
  user: string;
  tool: string;
  at_ms: number;
  /** `held`: it waits for approval. */
  state: 'running' | 'asks' | 'held';
  /** The held call, if it waits for approval. */
  held?: string;
  /** The name that this user's client gave to the request. */
  request?: string;
  question?: ServerQuestion;
}
export const useRunning = () =>
  useQuery({
    queryKey: ['running'],
    queryFn: ({ signal }) => fetchJson<{ calls: RunningCall[] }>('GET', '/calls/running', { signal }),
    // A question is not an event, so running calls are looked at again.
    refetchInterval: ({ state }) => (state.data && state.data.calls.length > 0 ? 2500 : false),
  });
/** How often, and after which time, the record of a call is asked for again: it may be written shortly after the answer. */
const RECORD_ATTEMPTS = 4;
const RECORD_DELAY_MS = 400;
export const useCall = (id: string) =>
  useQuery({
    queryKey: ['call', id],
    queryFn: async ({ signal }) => (await api.get('/calls/{id}', { params: { id }, signal })) as CallRecord,
    retry: (failures, error) => failures < RECORD_ATTEMPTS && [0, 404].includes(ApiError.of(error).status),
    retryDelay: RECORD_DELAY_MS,
  });
/** The models of the chat. Gateways of earlier versions have none. */
export const useChatModels = () =>
  useQuery({
    queryKey: ['chat'],
    queryFn: ({ signal }) => api.get('/chat', { signal }).catch((error: unknown) => {
      if (ApiError.of(error).status === 404) return { models: [] };
      throw error;
    }),
    staleTime: 60_000,
  });
export const cancelCall = (id: string) => fetchJson<unknown>('POST', '/calls/{id}/cancel', { params: { id } });
export interface Setting {
  key: string;
  value?: unknown;
  origin: string;
  overrides: { origin: string; value: unknown }[];
}
export const useSettings = () =>
  useQuery({ queryKey: ['config'], queryFn: ({ signal }) => fetchJson<{ settings: Setting[] }>('GET', '/config', { signal }) });
export const usePlans = () => useQuery({ queryKey: ['plans'], queryFn: ({ signal }) => api.get('/plans', { signal }) });
export const usePlan = (id: string) =>
  useQuery({ queryKey: ['plans', id], queryFn: ({ signal }) => api.get('/plans/{id}', { params: { id }, signal }) });
export const useConsents = () => useQuery({ queryKey: ['consents'], queryFn: ({ signal }) => api.get('/consents', { signal }) });
export const useChanges = () => useQuery({ queryKey: ['changes'], queryFn: ({ signal }) => api.get('/changes', { signal }) });
export const useQuarantine = (enabled: boolean) =>
  useQuery({ queryKey: ['quarantine'], queryFn: ({ signal }) => api.get('/quarantine', { signal }), enabled });
export const useDiff = (name: string, enabled = true) =>
  useQuery({ queryKey: ['diff', name], queryFn: ({ signal }) => api.get('/tools/{name}/diff', { params: { name }, signal }), enabled });

export type ToolSort = 'name' | 'server' | '-calls' | '-token_cost' | 'quality' | 'success_rate';
export const useTools = (filter: { server?: string; sort?: ToolSort; effect?: string }, enabled = true) =>
  useInfiniteQuery({
    queryKey: ['tools', 'list', filter],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      api.get('/tools', {
        query: {
          limit: 500,
          cursor: pageParam,
          server: filter.server ? [filter.server] : undefined,
          side_effects: filter.effect ? [filter.effect] : undefined,
          sort: filter.sort,
        },
        signal,
      }),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    enabled,
  });
export const useSearch = (text: string, server?: string) =>
  useQuery({
    queryKey: ['search', text, server ?? ''],
    queryFn: ({ signal }) => api.get('/tools/search', { query: { q: [text], limit: 50, server: server ? [server] : undefined }, signal }),
    enabled: text !== '',
    placeholderData: (before) => before,
  });
export const useTool = (name: string) =>
  useQuery({ queryKey: ['tools', 'one', name], queryFn: ({ signal }) => api.get('/tools/{name}', { params: { name }, signal }), enabled: name !== '' });
export const useLint = (tool: Tool | undefined) =>
  useQuery({
    queryKey: ['lint', tool?.server],
    queryFn: ({ signal }) => api.get('/lint', { query: { server: [tool?.server ?? ''], limit: 1000 }, signal }),
    enabled: tool !== undefined,
  });

export const useStats = (client: string | undefined, limit: number) =>
  useQuery({ queryKey: ['stats', client ?? '', limit], queryFn: ({ signal }) => api.get('/stats', { query: { client, limit }, signal }) });
export const useExposure = (client: string | undefined, persona?: string) =>
  useQuery({ queryKey: ['exposure', client ?? '', persona ?? ''], queryFn: ({ signal }) => api.get('/exposure', { query: { client, persona }, signal }) });

export const useDeadLetters = (state: string) =>
  useInfiniteQuery({
    queryKey: ['dead-letters', state],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => api.get('/dead-letters', { query: { state: state || undefined, cursor: pageParam, limit: 100 }, signal }),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
export const useAudit = (filter: { kind?: string; tool?: string; user?: string; server?: string }) =>
  useRecords<AuditRow>({
    queryKey: ['audit', filter],
    fetchPage: async (before, signal) => {
      const { rows, next_before: next } = await api.get('/audit', { query: { ...filter, before, limit: 200 }, signal });
      return { rows, next: next ?? null };
    },
    keyOf: (row) => String(row.seq),
  });
export const useRecentEvents = (limit: number) =>
  useQuery({
    queryKey: ['events', limit],
    queryFn: async ({ signal }) => {
      const recent = await api.get('/events/recent', { query: { limit }, signal });
      return recent.events as unknown as GatewayEvent[];
    },
  });
export const useFiles = () =>
  useInfiniteQuery({
    queryKey: ['files'],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => api.get('/files', { query: { before: pageParam, limit: 100 }, signal }),
    getNextPageParam: (page) => page.next ?? undefined,
  });
/** A file that the list of files may not have loaded. */
export const useFile = (id: string, enabled: boolean) =>
  useQuery({ queryKey: ['files', 'one', id], queryFn: ({ signal }) => api.get('/files/{id}', { params: { id }, signal }), enabled });
export const useTokens = (enabled: boolean) =>
  useQuery({ queryKey: ['tokens'], queryFn: ({ signal }) => api.get('/tokens', { signal }), enabled });
export const usePersonas = () => useQuery({ queryKey: ['personas'], queryFn: ({ signal }) => api.get('/personas', { signal }) });

/** The API paths of this gateway. Pages that need a newer gateway are hidden until their path exists. */
export const useApiPaths = () =>
  useQuery({
    queryKey: ['openapi'],
    queryFn: async ({ signal }) => {
      const document = (await api.get('/openapi.json', { signal })) as { paths?: Record<string, unknown> };
      return new Set(Object.keys(document.paths ?? {}));
    },
    staleTime: Infinity,
  });

/** Which data an event of a type makes out of date. */
const OUTDATED: [prefix: string, keys: string[]][] = [
  ['server.', ['servers', 'ready', 'events']],
  ['catalog.', ['servers', 'tools', 'search', 'stats', 'exposure', 'changes', 'quarantine', 'lint', 'skills', 'prompts']],
  ['tool.call', ['running']],
  ['tool.result', ['ready', 'audit', 'files', 'events', 'running']],
  ['tool.changed', ['tools', 'changes', 'diff', 'quarantine']],
  ['call.', ['approvals', 'plans', 'audit', 'events', 'running']],
  ['plan.', ['plans', 'approvals', 'audit', 'events']],
  ['dead_letter.', ['dead-letters', 'events']],
  ['job.', ['jobs', 'tasks', 'approvals', 'events']],
  ['task.', ['tasks', 'jobs']],
  ['skill.', ['skills', 'prompts', 'events']],
  ['config.', ['ready', 'servers', 'config', 'trust']],
  ['request.refused', ['audit', 'events']],
];
/** Calls may end thousands of times a second; questions to a person must appear at once. */
const URGENT_MS = 100;
const COLLECT_MS = 1000;
/** Refreshes of a busy gateway are this far apart: at least, and for what is not urgent. */
const BUSY_URGENT_MS = 500;
const BUSY_MS = 3000;
/** More events than this in one refresh: the gateway is busy. */
const BUSY_EVENTS = 20;

/** How long an event waits for others. */
function delayOf(isUrgent: boolean, isBusy: boolean): number {
  if (isUrgent) return isBusy ? BUSY_URGENT_MS : URGENT_MS;
  return isBusy ? BUSY_MS : COLLECT_MS;
}

/** Keeps the data up to date with the event stream. A burst of events causes one refresh. */
export function useLiveData() {
  const client = useQueryClient();
  useEffect(() => {
    const outdated = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let timerIsUrgent = false;
    let events = 0;
    let isBusy = false;
    const refresh = (filter: { queryKey?: string[] }) => {
      // The library does not repeat the first request of a query, but its answer may be older than the event.
      const requests = client.getQueryCache().findAll({ ...filter, fetchStatus: 'fetching' });
      const hasFirst = requests.some((query) => query.state.data === undefined);
      const refreshed = client.invalidateQueries(filter);
      if (hasFirst) void refreshed.then(() => client.invalidateQueries(filter));
    };
    const flush = () => {
      timer = undefined;
      isBusy = events > BUSY_EVENTS;
      events = 0;
      for (const key of outdated) refresh({ queryKey: [key] });
      outdated.clear();
    };
    const unsubscribe = stream.onEvent((event) => {
      if (event.type === 'events.gap') {
        refresh({});
        return;
      }
      for (const [prefix, keys] of OUTDATED) {
        if (event.type.startsWith(prefix)) keys.forEach((key) => outdated.add(key));
      }
      if (outdated.size === 0) return;
      events += 1;
      const isUrgent = /^(call|plan|server)\./.test(event.type);
      // A waiting urgent refresh is not delayed: many urgent events in a row would postpone it again and again.
      if (timer !== undefined && (timerIsUrgent || !isUrgent)) return;
      clearTimeout(timer);
      timerIsUrgent = isUrgent;
      timer = setTimeout(flush, delayOf(isUrgent, isBusy));
    });
    // What happened before the stream was open is not in the stream.
    const unsubscribeState = stream.onState(() => {
      if (stream.state() === 'live') refresh({});
    });
    return () => {
      clearTimeout(timer);
      unsubscribe();
      unsubscribeState();
    };
  }, [client]);
}
