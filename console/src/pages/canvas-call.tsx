// The result of one call on a page of its own: the app of its tool, its answer and its files. The address names the call, so
// it can be opened again and sent to others who may see the call.

import { Link } from 'wouter';
import { type CallRecord, useApproval, useCall } from '../api/queries';
import { argumentsOf, givenOf } from '../lib/given';
import type { Json, JsonObject } from '../lib/json';
import { Ago, Loaded, Note, Outcome, PageHead, Skeleton } from '../ui/basic';
import { ResultView } from '../ui/result';
import { AppAndResult } from '../ui/tool-app';
import { callName } from './call-detail';

export default function CanvasCall({ id }: { id: string }) {
  const call = useCall(id);
  return (
    <div className="page">
      <p><Link href="/canvas">Canvas</Link></p>
      <Loaded query={call} lines={8}>{(record) => <CallOnCanvas call={record} />}</Loaded>
    </div>
  );
}

function CallOnCanvas({ call }: { call: CallRecord }) {
  return (
    <div className="stack">
      <PageHead title={callName(call)} lead={<>called by {call.user}, <Ago ms={call.at_ms} /> · <Link href={`/activity/calls/${call.id}`}>the call</Link></>}><Outcome state={call.outcome} /></PageHead>
      {call.result != null ? <AppAndResult tool={callName(call)} given={argumentsOf(call)} result={call.result} />
        : call.held ? <HeldResult held={call.held} call={call} />
        : <Stored call={call} />}
    </div>
  );
}

/** The result of a held call is stored with the decision. */
function HeldResult({ held, call }: { held: string; call: CallRecord }) {
  const approval = useApproval(held);
  const result = approval.data?.outcome?.result;
  if (approval.data && result != null) return <AppAndResult tool={approval.data.name} given={givenOf(approval.data)} result={result as unknown as Json} />;
  if (!approval.data && !approval.error) return <Skeleton lines={6} />;
  return <Stored call={call} />;
}

/** What the gateway stores of every result: its files and display hints. */
function Stored({ call }: { call: CallRecord }) {
  const meta = { 'toolbooth/artifacts': call.artifacts as unknown as Json, ...(call.display ? { 'toolbooth/display': call.display as unknown as Json } : {}) };
  const result: JsonObject = { content: [], _meta: meta };
  return (
    <>
      <Note>The answer of this call is not available. The gateway keeps answers of recent calls in memory, for the user of the call. Files are stored. To see the answer again, repeat the call from <Link href={`/activity/calls/${call.id}`}>its record</Link>.</Note>
      {call.artifacts.length > 0 ? <ResultView result={result} /> : <p className="muted">The call returned no files.</p>}
    </>
  );
}
