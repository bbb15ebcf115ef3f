// A form to try a tool: its arguments, its call and the answer, and the same call as a command to copy.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { send } from '../api/client';
import type { Tool } from '../api/queries';
import { newRequestName } from '../api/running';
import { session } from '../api/session';
import { JsonArea, SchemaForm } from '../form/form';
import { type Schema, errorsOf } from '../form/schema';
import { duration, plural } from '../lib/format';
import { type JsonObject, isObject, pretty } from '../lib/json';
import { gatewayUrl } from '../lib/place';
import { rememberArguments, rememberedArguments } from '../lib/tried';
import { Button, Failure, Segment, copyText } from '../ui/basic';
import { Icon } from '../ui/icons';
import { CancelCall } from './cancel-call';
import { type CallOutcome, OutcomeView, outcomeOf } from './question';

export function TryTool({ tool }: { tool: Tool }) {
  const schema = (tool.parameters ?? {}) as unknown as Schema;
  const [value, setValue] = useState<JsonObject>(() => rememberedArguments(tool.name));
  const [mode, setMode] = useState<'form' | 'json'>('form');
  const [isInvalid, setInvalid] = useState(false);
  const [isChecked, setChecked] = useState(false);
  const client = useQueryClient();
  const errors = useMemo(() => errorsOf(schema, value), [schema, value]);
  const [outcome, setOutcome] = useState<CallOutcome | null>(null);
  const [ms, setMs] = useState(0);
  const [sent, setSent] = useState<JsonObject | null>(null);
  const [request, setRequest] = useState('');
  const call = useMutation({
    mutationFn: async (name: string) => {
      const start = performance.now();
      const response = await send('POST', '/tools/{name}/call', { params: { name: tool.name }, body: { arguments: value, wait: 0, sampling: true, request: name } });
      const answer = await outcomeOf(response);
      setMs(performance.now() - start);
      return answer;
    },
    onMutate: (name) => { setRequest(name); setOutcome(null); setSent(value); },
    onSuccess: setOutcome,
    onSettled: () => void client.invalidateQueries({ queryKey: ['approvals'] }),
  });
  const run = () => {
    setChecked(true);
    if (isInvalid || errors.size > 0 || call.isPending) return;
    rememberArguments(tool.name, value);
    call.mutate(newRequestName());
  };
  return (
    <div className="stack" onKeyDown={(event) => { if ((event.ctrlKey || event.metaKey) && event.key === 'Enter') { event.preventDefault(); run(); } }}>
      <div className="row wrap">
        <Segment label="Arguments as" value={mode} onChange={(next) => { if (!isInvalid) setMode(next); }} options={[{ id: 'form', label: 'Form' }, { id: 'json', label: 'JSON' }]} />
        {Object.keys(value).length > 0 && <Button small look="quiet" onClick={() => { setValue({}); setChecked(false); }}>Clear</Button>}
      </div>
      {mode === 'form' ? (
        <SchemaForm schema={schema} value={value} onChange={setValue} errors={isChecked ? errors : new Map()} />
      ) : (
        <div className="field">
          <JsonArea id="try-json" label="Arguments as JSON" value={value} onInvalid={setInvalid} onChange={(next) => setValue(isObject(next) ? next : {})} />
          {isChecked && [...errors].map(([pointer, error]) => <p key={pointer} className="wrong">{pointer || 'Arguments'}: {error}</p>)}
        </div>
      )}
      <div className="row wrap">
        <Button look="primary" icon="play" busy={call.isPending} onClick={run}>{call.isPending ? 'Calling…' : 'Call'}</Button>
        {call.isPending && <CancelCall key={request} request={request} />}
        <CopyAs tool={tool} value={value} />
        {isChecked && errors.size > 0 && <span className="wrong" role="alert">{plural(errors.size, 'argument needs', 'arguments need')} your attention.</span>}
      </div>
      <section aria-live="polite" aria-label="Result" className="stack tight">
        {call.error && <Failure error={call.error} />}
        {outcome?.kind === 'result' && call.data?.kind === 'result' && <p className="muted small">Answered in {duration(ms)}</p>}
        {outcome && <OutcomeView outcome={outcome} made={{ tool: tool.name, given: sent ?? {} }} onOutcome={setOutcome} />}
      </section>
    </div>
  );
}

const shellQuote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

function CopyAs({ tool, value }: { tool: Tool; value: JsonObject }) {
  const json = JSON.stringify(value);
  const auth = ['token', 'jwt'].includes(session.get().mode ?? '') ? ` -H "Authorization: Bearer $TOOLBOOTH_TOKEN"` : '';
  const forms = {
    cli: ['CLI command', `toolbooth call ${shellQuote(tool.name)} --args ${shellQuote(json)}`],
    curl: ['curl command', `curl -s ${shellQuote(`${gatewayUrl}/tools/${encodeURIComponent(tool.name)}/call`)}${auth} -H 'Content-Type: application/json' -d ${shellQuote(`{"arguments":${json}}`)}`],
    mcp: ['MCP request', pretty({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool.name, arguments: value } })],
    config: ['MCP client configuration', pretty({ mcpServers: { toolbooth: { url: `${gatewayUrl}/mcp` } } })],
  } satisfies Record<string, [string, string]>;
  return (
    <details className="menu" onBlur={(event) => { if (!event.currentTarget.contains(event.relatedTarget)) event.currentTarget.open = false; }} onKeyDown={(event) => { if (event.key === 'Escape') event.currentTarget.open = false; }}>
      <summary className="button"><Icon name="copy" />Copy as<Icon name="down" size={12} /></summary>
      <div className="menu-list" style={{ left: 0, right: 'auto' }}>
        {Object.entries(forms).map(([id, [label, text]]) => (
          <button key={id} type="button" onClick={(event) => { void copyText(text, `the ${label}`); event.currentTarget.closest('details')?.removeAttribute('open'); }}>{label}</button>
        ))}
      </div>
    </details>
  );
}
