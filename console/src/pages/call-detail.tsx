// One call: who made it, where its time went, what it was given and what it gave.

import { Link, useLocation } from 'wouter';
import { ApiError } from '../api/client';
import { type CallRecord, useApproval, useCall } from '../api/queries';
import { bytes, duration, plural, toolName } from '../lib/format';
import { type Json, isObject, parseJson } from '../lib/json';
import { rememberArguments } from '../lib/tried';
import { Button, CopyButton, Failure, Outcome, Skeleton, Time } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { PastDisplay, hintsOf } from '../ui/display';
import { JsonView } from '../ui/json';
import { ResultView } from '../ui/result';
import { Waterfall } from './waterfall';

export const callName = (call: CallRecord) => toolName(call.server, call.tool, call.name) || 'unknown tool';

export function CallDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const call = useCall(id);
  return (
    <Dialog title={call.data ? callName(call.data) : 'Call'} onClose={onClose} className="wide">
      {call.error ? <Failure error={call.error} /> : !call.data ? <Skeleton /> : <CallDetail call={call.data} onClose={onClose} />}
    </Dialog>
  );
}

function CallDetail({ call, onClose }: { call: CallRecord; onClose: () => void }) {
  const artifacts = call.artifacts as unknown as { id?: string; name?: string }[];
  return (
    <div className="stack">
      <div className="row wrap"><Outcome state={call.outcome} />{call.code && <code>{call.code}</code>}<span className="end"><CopyButton what="the id of the call" label="Copy id" text={call.id} /></span></div>
      <dl className="kv">
        <dt>User</dt><dd>{call.user}{call.persona && <> as persona {call.persona}</>}</dd>
        <dt>Time</dt><dd><Time ms={call.at_ms} />, {duration(call.duration_ms)}</dd>
        {call.name && <><dt>Tool</dt><dd><Link href={`/tools/t/${encodeURIComponent(call.name)}`}>{call.name}</Link></dd></>}
        {call.client && <><dt>Client</dt><dd><Link href={`/activity/calls?client=${encodeURIComponent(call.client)}`}>{call.client}</Link></dd></>}
        {call.session && <><dt>Session</dt><dd><Link href={`/activity/calls?session=${encodeURIComponent(call.session)}`}><code>{call.session}</code></Link></dd></>}
        {call.held_state && <><dt>Decision</dt><dd><Outcome state={call.held_state} /></dd></>}
        {call.run_state && <><dt>Run</dt><dd><Outcome state={call.run_state} /></dd></>}
        {call.replay_of && <><dt>Replay of</dt><dd><Link href={`/activity/calls/${call.replay_of}`}><code>{call.replay_of}</code></Link>{call.replayed_by ? <> by {call.replayed_by}</> : ', automatic'}</dd></>}
        {call.trace && <><dt>Trace</dt><dd className="row wrap"><code>{call.trace}</code><CopyButton what="the id of the trace" text={call.trace} /></dd></>}
        <dt>Audit row</dt><dd><Link href={`/activity/audit/${call.audit_seq}`}>{call.audit_seq}</Link></dd>
      </dl>
      <section className="stack tight"><h3>Where the time went</h3><Waterfall call={call} /></section>
      {call.arguments_preview != null && <section className="stack tight"><h3>Arguments</h3><Arguments text={call.arguments_preview} /></section>}
      <CallResult call={call} />
      {artifacts.length > 0 && (
        <section className="stack tight">
          <h3>Files</h3>
          <ul className="stack tight">{artifacts.map((file, index) => <li key={index}>{file.id ? <Link href={`/canvas/${file.id}`}>{file.name ?? 'file'}</Link> : file.name ?? 'file'}</li>)}</ul>
          {call.artifacts_left_out != null && <p className="muted small">And {plural(call.artifacts_left_out, 'further file')}.</p>}
        </section>
      )}
      {call.display != null && <section className="stack tight"><h3>Display</h3><PastDisplay hints={hintsOf(call.display as unknown as Json)} files={artifacts} /></section>}
      <div className="dialog-acts">
        <Link className="button" href={`/canvas/call/${call.id}`}>Open in Canvas</Link>
        <TryAgain call={call} />
        {call.held && <Link className="button" href={`/inbox/${call.held}`}>Held call</Link>}
        {call.dead_letter && <Link className="button" href={`/activity/dead/${call.dead_letter}`}>Dead letter</Link>}
        <Button onClick={onClose}>Close</Button>
      </div>
    </div>
  );
}

/** The arguments, if the preview has all of them. */
function wholeArguments(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    // The text was cut.
    return undefined;
  }
}

/** Opens the form of the tool with the arguments of this call. Secrets are not in them. */
function TryAgain({ call }: { call: CallRecord }) {
  const [, go] = useLocation();
  const given = wholeArguments(call.arguments_preview ?? '');
  if (!call.name || !isObject(given)) return null;
  const tool = call.name;
  return <Button icon="play" onClick={() => { rememberArguments(tool, given); go(`/tools/t/${encodeURIComponent(tool)}`); }}>Try again</Button>;
}

/** The beginning of the arguments: JSON if it is all of them, else text. */
function Arguments({ text }: { text: string }) {
  const value = wholeArguments(text);
  return value === undefined ? <pre className="code" tabIndex={0}>{text}</pre> : <JsonView value={value} />;
}

/** The result of a held call is kept with the decision; that of another recent call in the memory of the gateway. */
function CallResult({ call }: { call: CallRecord }) {
  if (call.result != null) return <section className="stack tight"><h3>Result</h3><ResultView result={call.result} /></section>;
  if (call.held) return <HeldResult held={call.held} />;
  if (call.result_bytes == null) return null;
  return (
    <section className="stack tight">
      <h3>Result</h3>
      <p className="muted">{bytes(call.result_bytes)}. It is no longer in the memory of the gateway{call.artifacts.length > 0 ? '; its files are stored' : ''}.</p>
    </section>
  );
}

function HeldResult({ held }: { held: string }) {
  const approval = useApproval(held);
  const result = approval.data?.outcome?.result;
  if (approval.error && ApiError.of(approval.error).status !== 404) return <Failure error={approval.error} />;
  if (result == null) return null;
  return <section className="stack tight"><h3>Result</h3><ResultView result={result as unknown as Json} /></section>;
}
