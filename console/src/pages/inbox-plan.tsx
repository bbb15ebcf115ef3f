// Plans: calls that were collected instead of run. Steps run in order; a failure or Stop ends the run.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { ApiError, api } from '../api/client';
import { type Approval, usePlan, usePlans } from '../api/queries';
import { plural } from '../lib/format';
import { isObject } from '../lib/json';
import { Ago, Button, Empty, Failure, Loaded, Note, Outcome, Status } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { JsonView, short } from '../ui/json';
import { ResultView } from '../ui/result';
import { toast } from '../ui/toast';

export function PlanModeSwitch() {
  const plans = usePlans();
  const client = useQueryClient();
  const open = plans.data?.plans.find((plan) => plan.state === 'open' && !plan.persona && !plan.session);
  const change = useMutation({
    mutationFn: async () => (open ? api.delete('/plans', {}) : api.post('/plans', { body: {} })),
    onSuccess: () => toast(open ? 'Plan mode is off. Calls run again.' : 'Plan mode is on. Your calls that change something are collected.'),
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => void client.invalidateQueries({ queryKey: ['plans'] }),
  });
  if (!plans.data) return null;
  return (
    <Button small busy={change.isPending} aria-pressed={open !== undefined} title="In plan mode, calls that change something wait as steps of a plan" onClick={() => change.mutate()}>
      Plan mode: {open ? 'on' : 'off'}
    </Button>
  );
}

export function PlanDetail({ id }: { id: string }) {
  const plan = usePlan(id);
  const client = useQueryClient();
  const steps = plan.data?.steps ?? [];
  const pending = steps.filter((step) => step.state === 'pending');
  const [left, setLeft] = useState<Set<number>>(new Set());
  const [running, setRunning] = useState<number | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isRejecting, setRejecting] = useState(false);
  const stopped = useRef(false);
  const numberOf = (step: Approval) => step.plan?.step ?? 0;
  const chosen = pending.map(numberOf).filter((number) => !left.has(number));
  const toggle = (number: number) =>
    setLeft((before) => {
      const next = new Set(before);
      if (!next.delete(number)) next.add(number);
      return next;
    });
  const run = async () => {
    stopped.current = false;
    setProblem(null);
    // One request per step, so that Stop takes effect before the next one.
    for (const number of chosen) {
      if (stopped.current) break;
      setRunning(number);
      try {
        const { steps: reports } = await api.post('/plans/{id}/approve', { params: { id }, body: { steps: number } });
        const failed = reports.find((report) => report.state === 'failed' || report.problem);
        await client.invalidateQueries({ queryKey: ['plans', id] });
        if (failed) {
          setProblem(`Step ${failed.step} failed${failed.problem ? `: ${failed.problem}` : ''}. The steps after it still wait.`);
          break;
        }
      } catch (error) {
        setProblem(`Step ${number}: ${ApiError.of(error).message}`);
        break;
      }
    }
    setRunning(null);
    if (stopped.current) toast('Stopped. The remaining steps still wait.');
    void client.invalidateQueries({ queryKey: ['plans'] });
    void client.invalidateQueries({ queryKey: ['approvals'] });
  };
  return (
    <Loaded query={plan} lines={8}>
      {(data) => (
        <div className="stack">
          <header className="stack tight">
            <div className="row wrap"><h1>Plan</h1><Status tone={data.state === 'open' ? 'held' : 'off'}>{data.state === 'open' ? 'collecting' : 'closed'}</Status></div>
            <p className="muted">{data.user}{data.persona && ` · persona ${data.persona}`}{data.session && ` · session ${data.session}`} · <Ago ms={data.created_ms} /></p>
          </header>
          {steps.length === 0 ? (
            <Empty title="No steps yet"><p>While plan mode is on, reads run, and every other call becomes a step here.</p></Empty>
          ) : (
            <ol className="steps card card-body">
              {steps.map((step) => (
                <PlanStep key={step.id} step={step} number={numberOf(step)} isChosen={step.state === 'pending' && !left.has(numberOf(step))} isRunning={running === numberOf(step)} isLocked={running !== null} onToggle={() => toggle(numberOf(step))} />
              ))}
            </ol>
          )}
          {problem && <div role="alert"><Note tone="bad">{problem}</Note></div>}
          {pending.length > 0 && (
            <div className="sticky-acts">
              <span className="muted small grow">Steps run in order and stop at the first failure.</span>
              {running === null ? (
                <>
                  <Button look="danger" disabled={chosen.length === 0} onClick={() => setRejecting(true)}>Reject {plural(chosen.length, 'step')}…</Button>
                  <Button look="primary" icon="play" disabled={chosen.length === 0} onClick={() => void run()}>{chosen.length === pending.length ? `Run all ${pending.length}` : `Run ${plural(chosen.length, 'step')}`}</Button>
                </>
              ) : (
                <><span role="status">Step {running} is running…</span><Button look="danger" onClick={() => (stopped.current = true)}>Stop after this step</Button></>
              )}
            </div>
          )}
          {isRejecting && <RejectSteps id={id} steps={chosen} onClose={() => setRejecting(false)} />}
        </div>
      )}
    </Loaded>
  );
}

function PlanStep({ step, number, isChosen, isRunning, isLocked, onToggle }: { step: Approval; number: number; isChosen: boolean; isRunning: boolean; isLocked: boolean; onToggle: () => void }) {
  const sent = (step.edited ?? step.arguments) as unknown;
  const values = isObject(sent) ? Object.entries(sent) : [];
  const result = step.outcome?.result as unknown;
  return (
    <li>
      {step.state === 'pending' ? <input type="checkbox" className="step-check" aria-label={`Include step ${number}, ${step.name}`} checked={isChosen} disabled={isLocked} onChange={onToggle} /> : <span />}
      <span className="step-number">{number}</span>
      <div className="stack tight">
        <p className="strong wrap-any">{step.name}</p>
        {values.length === 0 ? <p className="muted small">no arguments</p> : values.slice(0, 4).map(([name, value]) => <p key={name} className="small wrap-any"><span className="muted">{name}</span> {short(value, 160)}</p>)}
        <details><summary className="small muted">All arguments{result ? ' and result' : ''}</summary><div className="stack tight" style={{ marginTop: 8 }}><JsonView value={sent} />{result !== undefined && result !== null && <ResultView result={result as never} />}</div></details>
        {step.decision_note && <p className="small">Reason: {step.decision_note}</p>}
      </div>
      <span className="step-side">{isRunning ? <Status tone="warn">running</Status> : <Outcome state={step.outcome?.kind ?? step.state} />}</span>
    </li>
  );
}

function RejectSteps({ id, steps, onClose }: { id: string; steps: number[]; onClose: () => void }) {
  const [reason, setReason] = useState('');
  const client = useQueryClient();
  const reject = useMutation({
    mutationFn: async () => {
      for (const number of steps) {
        await api.post('/plans/{id}/reject', { params: { id }, body: { steps: number, ...(reason.trim() ? { reason: reason.trim() } : {}) } });
      }
    },
    onSuccess: () => {
      toast(`Rejected ${plural(steps.length, 'step')}`);
      onClose();
    },
    onSettled: () => void client.invalidateQueries(),
  });
  return (
    <Dialog title={`Reject ${plural(steps.length, 'step')}`} onClose={onClose}>
      <form className="stack" onSubmit={(event) => { event.preventDefault(); reject.mutate(); }}>
        <div className="field"><label htmlFor="plan-reason">Why? <span className="kind">optional</span></label><input id="plan-reason" className="input" autoFocus value={reason} maxLength={500} onChange={(event) => setReason(event.target.value)} /></div>
        {reject.error && <Failure error={reject.error} />}
        <div className="dialog-acts"><Button onClick={onClose}>Cancel</Button><Button look="danger" type="submit" busy={reject.isPending}>Reject</Button></div>
      </form>
    </Dialog>
  );
}
