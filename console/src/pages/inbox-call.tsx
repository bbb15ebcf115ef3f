// One held call: who asks, what it would do, its arguments to review and change, and the decision.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { api } from '../api/client';
import { type Approval, useApproval, useTool } from '../api/queries';
import { JsonArea, SchemaForm } from '../form/form';
import { type Schema, errorsOf } from '../form/schema';
import { plural } from '../lib/format';
import { givenOf, sentArguments } from '../lib/given';
import { hasHidden, visible } from '../lib/hidden';
import { type JsonObject, isObject, pretty, same } from '../lib/json';
import { isMac } from '../lib/keyboard';
import { Ago, Button, Failure, Loaded, Note, Outcome, Prose, Remaining, Segment, Status, Time, useNow } from '../ui/basic';
import { JsonView, LineDiff, changesBetween, short } from '../ui/json';
import { toast } from '../ui/toast';
import { AppAndResult } from '../ui/tool-app';

/** Clicks right after the content changed were meant for what was there before. */
const SETTLE_MS = 500;

export function ApprovalDetail({ id, next }: { id: string; next?: string }) {
  const approval = useApproval(id);
  return <Loaded query={approval} lines={10}>{(call) => (call.state === 'pending' ? <Pending call={call} next={next} /> : <Decided call={call} next={next} />)}</Loaded>;
}

function Head({ call, children }: { call: Approval; children?: ReactNode }) {
  return (
    <header className="stack tight">
      <div className="row wrap"><h1 className="wrap-any">{call.name}</h1>{children}</div>
      <p className="muted">
        <b>{call.user}</b>{call.client && call.client !== 'unknown' && <> via {call.client}</>} · server <Link href={`/servers/${encodeURIComponent(call.server)}`}>{call.server}</Link>
        {call.persona && <> · persona {call.persona}</>} · <Ago ms={call.created_ms} />
      </p>
    </header>
  );
}

function EffectBadge({ call }: { call: Approval }) {
  if (!call.side_effect) return null;
  return <Status tone={call.side_effect === 'read' ? 'off' : 'warn'}>{call.side_effect.replaceAll('_', ' ')}</Status>;
}

function Pending({ call, next }: { call: Approval; next?: string }) {
  const sent = useMemo(() => sentArguments(call), [call]);
  const tool = useTool(call.name);
  const [value, setValue] = useState<JsonObject>(sent);
  const [view, setView] = useState<'form' | 'json' | 'diff'>('form');
  const [isInvalid, setInvalid] = useState(false);
  const [remember, setRemember] = useState<'once' | 'session' | 'always'>('once');
  const [isRejecting, setRejecting] = useState(false);
  const [reason, setReason] = useState('');
  const client = useQueryClient();
  const [, go] = useLocation();
  const shownAt = useRef(performance.now());
  useEffect(() => {
    shownAt.current = performance.now();
  }, [call.id]);
  const schema = (tool.data?.parameters ?? null) as unknown as Schema | null;
  const isEdited = !same(sent, value);
  const errors = useMemo(() => (schema && isEdited ? errorsOf(schema, value) : new Map<string, string>()), [schema, value, isEdited]);
  const now = useNow();
  const isExpired = call.expires_ms != null && call.expires_ms < now;
  const settle = () => void client.invalidateQueries({ queryKey: ['approvals'] });
  const approve = useMutation({
    mutationFn: () =>
      api.post('/approvals/{id}/approve', {
        params: { id: call.id },
        // Arguments that were not edited are not sent: the stored text of the call is used.
        body: { ...(isEdited ? { arguments: value as never } : {}), ...(remember !== 'once' ? { remember } : {}) },
      }),
    onSuccess: () => toast(`Approved ${call.name}`),
    onSettled: settle,
  });
  const reject = useMutation({
    mutationFn: () => api.post('/approvals/{id}/reject', { params: { id: call.id }, body: reason.trim() ? { reason: reason.trim() } : {} }),
    onSuccess: () => {
      toast(`Rejected ${call.name}`);
      if (next) go(`/inbox/${next}`);
    },
    onSettled: settle,
  });
  const isBusy = approve.isPending || reject.isPending;
  const mayRemember = call.answerer === 'caller_or_approver';
  const isSettled = () => performance.now() - shownAt.current > SETTLE_MS;
  const canApprove = call.yours && !isBusy && !isInvalid && errors.size === 0 && !isExpired;
  const tryApprove = () => canApprove && isSettled() && approve.mutate();
  const changes = changesBetween(sent, value);
  const error = approve.error ?? reject.error;
  return (
    <div
      className="stack"
      onKeyDown={(event) => {
        if ((event.ctrlKey || event.metaKey) && event.key === 'Enter') {
          event.preventDefault();
          tryApprove();
        }
      }}
    >
      <Head call={call}><EffectBadge call={call} />{call.expires_ms != null && <span className="end muted small"><Remaining until={call.expires_ms} /></span>}</Head>
      <Note tone="held"><p><Prose text={call.question} /></p></Note>
      {!call.yours && <Note tone="warn">You may see this call, but not decide on it. {call.answerer === 'approver_only' ? 'An approver other than the caller must decide.' : 'Its caller or an approver decides.'}</Note>}
      {hasHidden(JSON.stringify(sent)) && <><Note tone="warn">The arguments contain characters that you cannot see. Below they are shown as codes.</Note><JsonView value={visible(sent)} /></>}
      {isExpired && <Note tone="warn">The time to decide is over.</Note>}
      <div className="row wrap">
        <Segment label="Arguments as" value={view} onChange={(id) => { if (!isInvalid) setView(id); }} options={[{ id: 'form', label: 'Form' }, { id: 'json', label: 'JSON' }, { id: 'diff', label: changes.length > 0 ? `Changes (${changes.length})` : 'Changes' }]} />
        {isEdited && <Button small look="quiet" onClick={() => setValue(sent)}>Undo my changes</Button>}
      </div>
      {view === 'form' && (schema ? <SchemaForm schema={schema} value={value} onChange={setValue} errors={errors} original={sent} /> : tool.error ? <><Note tone="warn">The definition of this tool is not available, so its arguments are shown as JSON.</Note><JsonView value={value} /></> : <JsonView value={value} />)}
      {view === 'json' && (
        <div className="field">
          <JsonArea id="approval-json" label="Arguments as JSON" value={value} onInvalid={setInvalid} rows={14} onChange={(changed) => setValue(isObject(changed) ? changed : {})} />
          {[...errors].map(([pointer, text]) => <p key={pointer} className="wrong">{pointer || 'Arguments'}: {text}</p>)}
        </div>
      )}
      {view === 'diff' && (isEdited ? <LineDiff before={pretty(sent)} after={pretty(value)} /> : <Note>You have not changed the arguments. The call runs as the model sent it.</Note>)}
      {error && <Failure error={error} />}
      {isRejecting && (
        <form className="card card-body stack tight" onSubmit={(event) => { event.preventDefault(); reject.mutate(); }}>
          <div className="field">
            <label htmlFor="reason">Why? <span className="kind">optional, the caller and its model read it</span></label>
            <input id="reason" className="input" autoFocus value={reason} maxLength={500} placeholder="not on a Friday" onChange={(event) => setReason(event.target.value)} onKeyDown={(event) => { if (event.key === 'Escape') setRejecting(false); }} />
          </div>
          <div className="row"><Button look="danger" type="submit" busy={reject.isPending}>Reject the call</Button><Button look="quiet" onClick={() => setRejecting(false)}>Cancel</Button></div>
        </form>
      )}
      {call.yours && (
        <div className="sticky-acts">
          {mayRemember ? (
            <label className="row small">
              <span className="muted">Remember</span>
              <select className="select" value={remember} onChange={(event) => setRemember(event.target.value as typeof remember)}>
                <option value="once">once</option>
                <option value="session">for this session</option>
                <option value="always">always, for this version of the tool</option>
              </select>
            </label>
          ) : <span className="muted small">This decision is not remembered: the settings ask every time.</span>}
          <Button look="danger" disabled={isBusy} onClick={() => isSettled() && setRejecting(true)}>Reject…</Button>
          <Button look="primary" busy={approve.isPending} disabled={!canApprove} title={`${isMac() ? '⌘' : 'Ctrl'} Enter`} onClick={tryApprove}>
            {isEdited ? `Approve with ${plural(changes.length, 'change')}` : 'Approve'}
          </Button>
        </div>
      )}
    </div>
  );
}

function Decided({ call, next }: { call: Approval; next?: string }) {
  const sent = sentArguments(call);
  const edited = call.edited as unknown;
  const changes = isObject(edited) ? changesBetween(sent, edited) : [];
  const result = call.outcome?.result as unknown;
  return (
    <div className="stack" role="region" aria-label="Decided call">
      <Head call={call}><Outcome state={call.outcome?.kind ?? call.state} /></Head>
      {next && <div><Link className="button primary" href={`/inbox/${next}`}>Next waiting call</Link></div>}
      <dl className="kv">
        {call.decided_by && <><dt>{call.state === 'rejected' ? 'Rejected by' : 'Decided by'}</dt><dd>{call.decided_by}{call.decided_ms ? <>, <Time ms={call.decided_ms} /></> : null}</dd></>}
        {call.decision_note && <><dt>Reason</dt><dd>{call.decision_note}</dd></>}
        {call.remember && call.remember !== 'once' && <><dt>Remembered</dt><dd>{call.remember}</dd></>}
        {call.waiting_for && <><dt>Waits for</dt><dd>{call.waiting_for}</dd></>}
        {call.outcome && <><dt>Ended</dt><dd><Time ms={call.outcome.at_ms} />{call.outcome.code && <> <code>{call.outcome.code}</code></>}</dd></>}
      </dl>
      {call.state === 'approved' && !call.waiting_for && <Note tone="held">Approved. The call is running.</Note>}
      {call.state === 'expired' && <Note tone="warn">No decision was made in time. The caller was told.</Note>}
      {changes.length > 0 && (
        <section className="stack tight">
          <h2>Changed before it ran</h2>
          {changes.map((change) => <p key={change.path} className="wrap-any"><code>{change.path}</code>: {short(change.before)} → <b>{short(change.after)}</b></p>)}
        </section>
      )}
      <section className="stack tight"><h2>Arguments</h2><JsonView value={isObject(edited) ? edited : sent} /></section>
      {result !== undefined && result !== null && <section className="stack tight"><h2>Result</h2><AppAndResult tool={call.name} given={givenOf(call)} result={result as never} /></section>}
    </div>
  );
}

