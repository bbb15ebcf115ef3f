// Typed requests to the gateway's REST API. Paths, queries, bodies and answers are checked against its OpenAPI document.

import { parseJson } from '../lib/json';
import { gatewayPath } from '../lib/place';
import type { components, paths } from './schema';
import { identity, session } from './session';

export type Schemas = components['schemas'];
type Method = 'get' | 'post' | 'put' | 'delete';
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P] extends { [K in M]: object } ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends { [K in M]: infer O } ? O : never;
type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? Q : never;
type BodyOf<O> = O extends { requestBody?: { content: { 'application/json': infer B } } } ? B : unknown;
type AnswerOf<O> = O extends { responses: { 200: { content: { 'application/json': infer A } } } } ? A : unknown;

/** A refusal or failure, as the gateway's problem document or as the browser reports it. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }

  /** The gateway did not answer at all. */
  get isOffline(): boolean {
    return this.status === 0;
  }

  static of(error: unknown): ApiError {
    if (error instanceof ApiError) return error;
    const message = error instanceof Error ? error.message : String(error);
    return new ApiError(0, 'console.error', message, (error as { hint?: string | null } | null)?.hint ?? null);
  }
}

export interface RequestOptions {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  /** Content to send as it is, instead of JSON. */
  content?: Blob;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** The URL of an API path with its parameters. */
export function urlOf(path: string, options: Pick<RequestOptions, 'params' | 'query'> = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(options.params?.[name] ?? ''));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options.query ?? {})) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined && item !== null && item !== '') query.append(name, String(item));
    }
  }
  const text = query.toString();
  return `${gatewayPath}${filled}${text ? `?${text}` : ''}`;
}

/** Sends a request; throws an [`ApiError`] unless it succeeded. */
export async function send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  try {
    return await sendOnce(method, path, options);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'auth.csrf') throw error;
    // Another tab has signed in again. The request was refused before it did anything.
    await session.load();
    return sendOnce(method, path, options);
  }
}

async function sendOnce(method: string, path: string, options: RequestOptions): Promise<Response> {
  const headers: Record<string, string> = { accept: 'application/json', ...identity(), ...options.headers };
  const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) {
    headers['content-type'] = 'application/json';
    init.body = JSON.stringify(options.body);
  }
  if (options.content) {
    headers['content-type'] = options.content.type || 'application/octet-stream';
    init.body = options.content;
  }
  let response: Response;
  try {
    response = await fetch(urlOf(path, options), init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, 'console.unreachable', 'The gateway does not answer.', 'Check that `toolbooth serve` is running.');
  }
  if (response.ok) return response;
  if (response.status === 401) void session.lost();
  throw await problemOf(response);
}

async function problemOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  try {
    const problem = JSON.parse(text) as Partial<Schemas['Problem']>;
    if (typeof problem.title === 'string') {
      return new ApiError(response.status, problem.code ?? '', problem.title, problem.hint ?? null);
    }
  } catch {
    // Not a problem document; a proxy may have answered.
  }
  return new ApiError(response.status, `http.${response.status}`, `The gateway answered with status ${response.status}.`, null);
}

interface TypedOptions<O> extends Omit<RequestOptions, 'query' | 'body'> {
  query?: QueryOf<O> extends object ? QueryOf<O> : Record<string, never>;
  body?: BodyOf<O>;
}

async function request<A>(method: string, path: string, options: RequestOptions): Promise<A> {
  const response = await send(method, path, options);
  const text = await response.text();
  return (text ? parseJson(text) : null) as A;
}

/** The answer of a path that is written out, for paths that not every gateway has. */
export function fetchJson<A>(method: string, path: string, options: RequestOptions = {}): Promise<A> {
  return request<A>(method, path, options);
}

export const api = {
  get<P extends PathsWith<'get'>>(path: P, options: TypedOptions<Operation<P, 'get'>> = {}) {
    return request<AnswerOf<Operation<P, 'get'>>>('GET', path, options as RequestOptions);
  },
  post<P extends PathsWith<'post'>>(path: P, options: TypedOptions<Operation<P, 'post'>> = {}) {
    return request<AnswerOf<Operation<P, 'post'>>>('POST', path, options as RequestOptions);
  },
  put<P extends PathsWith<'put'>>(path: P, options: TypedOptions<Operation<P, 'put'>> = {}) {
    return request<AnswerOf<Operation<P, 'put'>>>('PUT', path, options as RequestOptions);
  },
  delete<P extends PathsWith<'delete'>>(path: P, options: TypedOptions<Operation<P, 'delete'>> = {}) {
    return request<AnswerOf<Operation<P, 'delete'>>>('DELETE', path, options as RequestOptions);
  },
};
