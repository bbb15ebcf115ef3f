// The result of one call on a page of its own: the app of its tool, its answer and its files. The address names the call, so
// it can be opened again and sent to others who may see the call.

import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api } from '../api/client';
import { type CallRecord, useApproval } from '../api/queries';
import { givenOf } from '../lib/given';
import type { Json, JsonObject } from '../lib/json';
import { type KeptResult, keptResult } from '../lib/kept-results';
import { Ago, Failure, Note, Outcome, PageHead, Skeleton } from '../ui/basic';
import { ResultView } from '../ui/result';
import { AppAndResult } from '../ui/tool-app';
import { callName } from './call-detail';

export default function CanvasCall({ id }: { id: string }) {
  const call = useQuery({ queryKey: ['call', id], queryFn: ({ signal }) => api.get('/calls/{id}', { params: { id }, signal }) });
  const kept = keptResult(id);
  return (
    <div className="page">
      <p><Link href="/canvas">Canvas</Link></p>
      {call.data ? <CallOnCanvas call={call.data} kept={kept} />
        : kept ? <Made kept={kept} />
        : call.error ? <Failure error={call.error} retry={() => void call.refetch()} />
        : <Skeleton lines={8} />}
    </div>
  );
}

/** A call whose record is not written, or not visible, but whose result this tab has. */
function Made({ kept }: { kept: KeptResult }) {
  return <div className="stack"><PageHead title={kept.tool} /><AppAndResult tool={kept.tool} given={kept.given} result={kept.result} /></div>;
}

function CallOnCanvas({ call, kept }: { call: CallRecord; kept: KeptResult | null }) {
  return (
    <div className="stack">
      <PageHead title={callName(call)} lead={<>called by {call.user}, <Ago ms={call.at_ms} /> · <Link href={`/activity/calls/${call.id}`}>the call</Link></>}><Outcome state={call.outcome} /></PageHead>
      {kept ? <AppAndResult tool={kept.tool} given={kept.given} result={kept.result} />
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

/** What the gateway stores of a result: its files and display hints. */
function Stored({ call }: { call: CallRecord }) {
  const meta = { 'toolbooth/artifacts': call.artifacts as unknown as Json, ...(call.display ? { 'toolbooth/display': call.display as unknown as Json } : {}) };
  const result: JsonObject = { content: [], _meta: meta };
  return (
    <>
      <Note>The gateway stores the files of a result, but not its text. To see the text again, repeat the call from <Link href={`/activity/calls/${call.id}`}>its record</Link>.</Note>
      {call.artifacts.length > 0 ? <ResultView result={result} /> : <p className="muted">The call returned no files.</p>}
    </>
  );
}
