// Shows the user interface of a tool (MCP Apps, 2026-01-26). The app runs in a frame without origin, network and storage.
// It talks to this page by messages: it receives the arguments and the result of its call, and may ask for calls of tools
// of its own server, for resources of its server, and for links to open. A person confirms calls that may change something.

import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import { fetchJson, send } from '../api/client';
import type { Tool } from '../api/queries';
import { type Json, type JsonObject, isObject, pretty } from '../lib/json';
import { consolePath } from '../lib/place';
import { type UiMeta, uiOf } from './app-uri';
import { Button, Failure, Note, Skeleton, Status } from './basic';
import { onTheme, shownTheme } from './theme';

const VERSION = '2026-01-26';
const MAX_MESSAGE = 1_000_000;
const MAX_HEIGHT = 900;
/** Of one app while it is shown. */
const MAX_CALLS = 100;

interface Content {
  uri?: string;
  mimeType?: string;
  text?: string;
  blob?: string;
  _meta?: { ui?: UiMeta };
}
interface RpcMessage {
  jsonrpc: '2.0';
  id?: string | number;
  method?: string;
  params?: JsonObject;
}
interface Question {
  text: string;
  detail: string;
  action: string;
  answer: (isAllowed: boolean) => void;
}

class Refusal extends Error {
  constructor(readonly code: number, message: string) {
    super(message);
  }
}

/** Plain data: numbers that JavaScript cannot hold become ordinary ones. */
const plain = (value: Json): unknown => JSON.parse(pretty(value));

/** Variables of the specification, and the tokens of the console that have their values. */
const VARIABLES: Record<string, string> = {
  '--color-background-primary': '--surface', '--color-background-secondary': '--sunken', '--color-text-primary': '--text', '--color-text-secondary': '--muted',
  '--color-border-primary': '--border', '--font-sans': '--sans', '--font-mono': '--mono',
};

/** The theme of the console, and its colours and fonts. */
function appearance() {
  const style = getComputedStyle(document.documentElement);
  const variables = Object.fromEntries(Object.entries(VARIABLES).map(([name, token]) => [name, style.getPropertyValue(token).trim()]));
  return { theme: shownTheme(), styles: { variables } };
}

export default function AppHost({ tool, uri, given, result }: { tool: Tool; uri: string; given: JsonObject; result: Json }) {
  const resource = useQuery({
    queryKey: ['app', tool.server, uri],
    queryFn: ({ signal }) => fetchJson<{ resource: { contents?: Content[] } }>('POST', '/resources/read', { body: { uri, server: tool.server }, signal }),
    staleTime: Infinity,
  });
  if (resource.error) return <Failure error={resource.error} retry={() => void resource.refetch()} />;
  if (!resource.data) return <Skeleton lines={4} />;
  const content = resource.data.resource.contents?.find((item) => item.mimeType?.startsWith('text/html'));
  const html = content?.text ?? (content?.blob ? decoded(content.blob) : undefined);
  if (html === undefined) return <Note tone="warn">The tool names a user interface, but its server returned no HTML for it.</Note>;
  const wanted = Object.values(content?._meta?.ui?.csp ?? {}).flatMap((list) => list ?? []);
  return (
    <div className="stack tight">
      {wanted.length > 0 && <Note>This app asks for access to {wanted.join(', ')}. The console shows apps without network, so parts of it may be missing.</Note>}
      <AppFrame key={html} tool={tool} html={html} given={given} result={result} />
    </div>
  );
}

function decoded(base64: string): string {
  const content = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  return new TextDecoder().decode(content);
}

function AppFrame({ tool, html, given, result }: { tool: Tool; html: string; given: JsonObject; result: Json }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(320);
  const [questions, setQuestions] = useState<Question[]>([]);
  const calls = useRef(0);
  /** The app has asked for its context, so it receives changes. */
  const isReady = useRef(false);
  const host = useMemo(() => ({
    ask: (question: Omit<Question, 'answer'>) =>
      new Promise<boolean>((done) => {
        const entry: Question = { ...question, answer: (isAllowed) => { setQuestions((before) => before.filter((other) => other !== entry)); done(isAllowed); } };
        setQuestions((before) => [...before, entry]);
      }),
  }), []);
  useEffect(() => {
    let isShown = false;
    const post = (message: object) => frame.current?.contentWindow?.postMessage({ jsonrpc: '2.0', ...message }, '*');
    // The app follows the theme of the console, also when it changes.
    const unsubscribe = onTheme(() => { if (isReady.current) post({ method: 'ui/notifications/host-context-changed', params: appearance() }); });
    const answer = async ({ method, params = {} }: RpcMessage): Promise<unknown> => {
      switch (method) {
        case 'ping':
          return {};
        case 'ui/initialize':
          isReady.current = true;
          return {
            protocolVersion: VERSION,
            hostInfo: { name: 'toolbooth-console', version: '1' },
            hostCapabilities: { openLinks: {}, serverTools: {}, serverResources: {}, logging: {} },
            hostContext: {
              toolInfo: { tool: plain((tool.definition ?? {}) as unknown as Json) },
              ...appearance(),
              displayMode: 'inline',
              availableDisplayModes: ['inline'],
              containerDimensions: { maxHeight: MAX_HEIGHT, maxWidth: frame.current?.clientWidth ?? 600 },
              locale: navigator.language,
              timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
              platform: 'web',
            },
          };
        case 'ui/open-link': {
          const url = String(params['url'] ?? '');
          if (!/^https?:\/\//.test(url)) throw new Refusal(-32602, 'only http and https links can be opened');
          if (!(await host.ask({ text: 'The app wants to open a link:', detail: url, action: 'Open' }))) throw new Refusal(-32000, 'the user refused');
          window.open(url, '_blank', 'noopener,noreferrer');
          return {};
        }
        case 'ui/request-display-mode':
          return { mode: 'inline' };
        case 'tools/call':
          return callTool(tool, params, host.ask, calls);
        case 'resources/read': {
          const uri = String(params['uri'] ?? '');
          if (!uri.startsWith('ui://')) throw new Refusal(-32602, 'only resources of the user interface can be read');
          return plain((await fetchJson<{ resource: Json }>('POST', '/resources/read', { body: { uri, server: tool.server } })).resource);
        }
        default:
          throw new Refusal(-32601, `the console does not support ${method ?? 'this message'}`);
      }
    };
    const onMessage = (event: MessageEvent) => {
      const target = frame.current?.contentWindow;
      if (!target || event.source !== target) return;
      if (event.data === 'frame-ready') {
        // The frame takes its content once.
        target.postMessage(html, '*');
        return;
      }
      const message = event.data as RpcMessage;
      if (!isObject(message as never) || message.jsonrpc !== '2.0' || typeof message.method !== 'string') return;
      if (JSON.stringify(message).length > MAX_MESSAGE) return;
      if (message.id === undefined) {
        if (message.method === 'ui/notifications/initialized' && !isShown) {
          isShown = true;
          post({ method: 'ui/notifications/tool-input', params: { arguments: plain(given) } });
          post({ method: 'ui/notifications/tool-result', params: plain(result) });
        }
        if (message.method === 'ui/notifications/size-changed') {
          const wanted = Number(message.params?.['height']);
          if (Number.isFinite(wanted)) setHeight(Math.min(MAX_HEIGHT, Math.max(80, wanted)));
        }
        return;
      }
      const { id } = message;
      answer(message).then(
        (value) => post({ id, result: value }),
        (error: unknown) => post({ id, error: { code: error instanceof Refusal ? error.code : -32000, message: error instanceof Error ? error.message : 'failed' } }),
      );
    };
    addEventListener('message', onMessage);
    return () => {
      unsubscribe();
      removeEventListener('message', onMessage);
    };
  }, [html, tool, given, result, host]);
  return (
    <section className="card" aria-label="App of the tool">
      <div className="card-head"><h3>App</h3><Status tone="off">in a sandbox without network</Status></div>
      {questions.map((question, index) => (
        <div key={index} className="card-body" role="alert">
          <Note tone="held" action={<span className="row"><Button small look="primary" onClick={() => question.answer(true)}>{question.action}</Button><Button small onClick={() => question.answer(false)}>Refuse</Button></span>}>
            <p>{question.text}</p><pre className="code">{question.detail}</pre>
          </Note>
        </div>
      ))}
      {/* Allowed are scripts and nothing else. `allow-same-origin` would give the app the rights of this page. */}
      <iframe ref={frame} className="app-frame" style={{ height }} title={`App of ${tool.name}`} src={`${consolePath}/frame.html`} sandbox="allow-scripts" referrerPolicy="no-referrer" />
    </section>
  );
}

/** Calls a tool of the app's own server with the rights of the user. */
async function callTool(from: Tool, params: JsonObject, ask: (question: Omit<Question, 'answer'>) => Promise<boolean>, calls: { current: number }): Promise<unknown> {
  const own = String(params['name'] ?? '');
  if (++calls.current > MAX_CALLS) throw new Refusal(-32000, 'the app has made too many calls');
  // The id contains the server, so that an app cannot name a tool of another one.
  const name = `mcp.${from.server}.${own}`;
  const tool = await fetchJson<Tool>('GET', '/tools/{name}', { params: { name } });
  const visibility = uiOf(tool)?.visibility;
  if (tool.server !== from.server || (visibility && !visibility.includes('app'))) throw new Refusal(-32602, `unknown tool: ${own}`);
  const given = isObject(params['arguments']) ? params['arguments'] : {};
  const rung = (tool.effect as unknown as { rung?: string } | undefined)?.rung;
  const isRead = rung === 'read' || rung === 'none';
  if (!isRead && !(await ask({ text: `The app wants to call ${tool.name}:`, detail: pretty(given), action: 'Allow' }))) throw new Refusal(-32000, 'the user refused');
  const response = await send('POST', '/tools/{name}/call', { params: { name }, body: { arguments: given, wait: 300 } });
  const answer = (await response.json()) as { result?: unknown; message?: string };
  if (response.status !== 200) throw new Refusal(-32000, answer.message ?? 'the call has not ended');
  return answer.result;
}
