// A question of a server to the user of a call: a form made from the schema of the question, a page to open, or a request to
// a language model.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { send } from '../api/client';
import { type RunningCall, type ServerQuestion, useApproval, useRunning } from '../api/queries';
import { SchemaForm } from '../form/form';
import { type Schema, errorsOf } from '../form/schema';
import { givenOf } from '../lib/given';
import { visible } from '../lib/hidden';
import { type Json, type JsonObject, parseJson } from '../lib/json';
import { Ago, Button, Failure, Note, Prose, Status } from '../ui/basic';
import { resultHints } from '../ui/display';
import { ResultView } from '../ui/result';
import { AppAndResult } from '../ui/tool-app';
import { type PageAction, PageQuestion } from './question-page';
import { SamplingQuestion } from './question-sampling';

/** The answer to a call over REST. */
export type CallOutcome =
  | { kind: 'result'; call: string; result: Json; warnings: string[] }
  | { kind: 'held'; held: string; message: string }
  | { kind: 'question'; call: string; question: ServerQuestion; number: number };

/** Numbers the questions: two in a row may have the same text. */
let questionsSoFar = 0;

export async function outcomeOf(response: Response): Promise<CallOutcome> {
  const answer = parseJson(await response.text()) as JsonObject;
  if (answer['kind'] === 'question') return { kind: 'question', call: String(answer['call']), question: answer['question'] as unknown as ServerQuestion, number: ++questionsSoFar };
  if (response.status === 202) return { kind: 'held', held: String(answer['held']), message: String(answer['message']) };
  return { kind: 'result', call: String(answer['call'] ?? ''), result: answer['result'] ?? null, warnings: (answer['warnings'] as string[] | undefined) ?? [] };
}

interface AskedQuestion {
  call: string;
  question: ServerQuestion;
  onOutcome: (outcome: CallOutcome) => void;
}

/** Sends the answer to a question. */
function useAnswer(call: string, onOutcome: (outcome: CallOutcome) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (body: { action: PageAction; content?: JsonObject }) =>
      outcomeOf(await send('POST', '/calls/{id}/answer', { params: { id: call }, body })),
    onSuccess: onOutcome,
    onSettled: () => void client.invalidateQueries({ queryKey: ['running'] }),
  });
}

/** Asks the question, and passes on what the call answers then: its result, or the next question. */
export function QuestionForm(asked: AskedQuestion) {
  if (asked.question.page || asked.question.sampling) return <OtherQuestion {...asked} />;
  return <FormQuestion {...asked} />;
}

/** A page to open, or a request to a language model. */
function OtherQuestion({ call, question, onOutcome }: AskedQuestion) {
  const answer = useAnswer(call, onOutcome);
  const running = useRunning();
  const busy = answer.isPending ? answer.variables.action : null;
  const { page, sampling, server } = question;
  // The server may report that the page is complete while the question is open.
  const latest = running.data?.calls.find((other) => other.id === call)?.question?.page;
  return (
    <section className="card card-body stack question" aria-label="Question of a server">
      <div className="row wrap"><Status tone="held">question</Status><span><b>{server ?? 'The server'}</b> {sampling ? 'asks for an answer of a language model:' : 'asks:'}</span></div>
      {page && <p className="asked">{visible(question.message) as string}</p>}
      {page && <PageQuestion page={latest?.url === page.url ? latest : page} server={server} busy={busy} onAnswer={(action) => answer.mutate({ action })} />}
      {sampling && <SamplingQuestion call={call} request={sampling} server={server} busy={busy === 'cancel' ? null : busy} onAnswer={(text) => answer.mutate(text === null ? { action: 'decline' } : { action: 'accept', content: { text } })} />}
      {answer.error && <Failure error={answer.error} />}
    </section>
  );
}

function FormQuestion({ call, question, onOutcome }: AskedQuestion) {
  const schema = (question.schema ?? {}) as Schema;
  const [value, setValue] = useState<JsonObject>({});
  const [isChecked, setChecked] = useState(false);
  const errors = useMemo(() => errorsOf(schema, value), [schema, value]);
  const answer = useAnswer(call, onOutcome);
  const submit = () => {
    setChecked(true);
    if (errors.size === 0 && !answer.isPending) answer.mutate({ action: 'accept', content: value });
  };
  return (
    <form className="card card-body stack question" aria-label="Question of a server" onSubmit={(event) => { event.preventDefault(); submit(); }}>
      <div className="row wrap"><Status tone="held">question</Status><span><b>{question.server ?? 'The server'}</b> asks:</span></div>
      <p className="asked">{visible(question.message) as string}</p>
      <SchemaForm schema={schema} value={value} onChange={setValue} errors={isChecked ? errors : new Map()} empty="The server asks for no data, only for your agreement." />
      <p className="muted small">Your answer goes to the server <b>{question.server}</b>. Do not enter a password or a code.</p>
      {answer.error && <Failure error={answer.error} />}
      <div className="row wrap">
        <Button look="primary" type="submit" busy={answer.isPending && answer.variables.action === 'accept'}>Answer</Button>
        <Button busy={answer.isPending && answer.variables.action === 'decline'} onClick={() => answer.mutate({ action: 'decline' })}>Decline</Button>
      </div>
    </form>
  );
}

/** The call whose answer is shown. */
export interface MadeCall {
  tool: string;
  given: JsonObject;
}

/** What a call answered. A question of its server is asked in its place. */
export function OutcomeView({ outcome, made, onOutcome }: { outcome: CallOutcome; made?: MadeCall; onOutcome: (outcome: CallOutcome) => void }) {
  if (outcome.kind === 'question') return <QuestionForm key={outcome.number} call={outcome.call} question={outcome.question} onOutcome={onOutcome} />;
  if (outcome.kind === 'held') return <HeldOutcome held={outcome.held} message={outcome.message} />;
  // The result itself says which host is refused, and how to allow it.
  const isExplained = resultHints(outcome.result).refused_host !== undefined;
  const warnings = outcome.warnings.filter((warning) => !(isExplained && String(warning).includes('display.iframe_hosts')));
  return (
    <>
      {warnings.map((warning, index) => <Note key={index} tone="warn">{typeof warning === 'string' ? warning : JSON.stringify(warning)}</Note>)}
      {made ? <AppAndResult {...made} result={outcome.result} /> : <ResultView result={outcome.result} />}
      {made && outcome.call && <div><CanvasLink call={outcome.call} /></div>}
    </>
  );
}

/** Opens a result on a page of its own, whose address names the call. */
function CanvasLink({ call }: { call: string }) {
  return <Link className="button small" href={`/canvas/call/${call}`}>Open the result in Canvas</Link>;
}

/** What became of a held call: it changes here when a person decides, here or elsewhere. */
function HeldOutcome({ held, message }: { held: string; message: string }) {
  const call = useApproval(held).data;
  const state = call?.state ?? 'pending';
  const result: unknown = call?.outcome?.result;
  const review = <Link className="button small" href={`/inbox/${held}`}>{state === 'pending' ? 'Review' : 'Show'}</Link>;
  if (state === 'pending') return <Note tone="held" action={review}><p className="strong">The call waits for a decision.</p>{!call && <p><Prose text={message} /></p>}</Note>;
  if (state === 'approved') return <Note tone="held" action={review}>The call was approved{call?.waiting_for ? '. It waits for a decision about another tool.' : ', and runs.'}</Note>;
  if (call && result !== undefined && result !== null) return <><Note action={review}>The call was approved, and ran.</Note><AppAndResult tool={call.name} given={givenOf(call)} result={result as never} /></>;
  return <Note tone={state === 'done' ? undefined : 'warn'} action={review}>{ENDS[state] ?? `The call has ended: ${state}.`}</Note>;
}

/** How a held call can end. */
const ENDS: Record<string, string> = {
  done: 'The call was approved, and ran.', failed: 'The call was approved, and failed.', rejected: 'The call was rejected. It was not run.',
  expired: 'No decision was made in time. The call was not run.',
};

/** The question of a running call, in the inbox. */
export function QuestionDetail({ call }: { call: RunningCall | undefined }) {
  // An answered question leaves the list, so what was asked and answered is kept here.
  const [shown, setShown] = useState(call);
  const [outcome, setOutcome] = useState<CallOutcome | null>(null);
  if (call && call.id !== shown?.id) setShown(call);
  if (!shown) return <Note>This question is no longer open. It was answered, or its call has ended.</Note>;
  return (
    <div className="stack">
      <header className="stack tight">
        <h1 className="wrap-any">{shown.tool}</h1>
        <p className="muted">A call of <b>{shown.user}</b>, <Ago ms={shown.at_ms} />. A question stays open for ten minutes.</p>
      </header>
      {outcome ? <OutcomeView outcome={outcome} onOutcome={setOutcome} />
        : shown.question && call ? <QuestionForm call={shown.id} question={shown.question} onOutcome={setOutcome} />
        : <Note>This question is no longer open. It was answered elsewhere, or its call has ended.</Note>}
    </div>
  );
}
