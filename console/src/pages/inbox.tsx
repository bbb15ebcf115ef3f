// What waits for a decision: held calls, plans, changed tools, tools in quarantine; and what was decided lately.

import { useEffect, useRef } from 'react';
import { Link, useLocation } from 'wouter';
import { type Approval, useChanges, useMe, usePendingApprovals, usePendingSteps, usePlans, useQuarantine, useRecentApprovals, useRunning } from '../api/queries';
import { atLeast } from '../lib/format';
import { sentArguments } from '../lib/given';
import { callerOf, groupByPlan } from '../lib/held';
import { argumentLine } from '../lib/argument-line';
import { Ago, Button, Empty, Failure, Outcome, Prose, Remaining, Skeleton, Status } from '../ui/basic';
import { ApprovalDetail } from './inbox-call';
import { ChangedDetail, QuarantineDetail } from './inbox-change';
import { PlanDetail, PlanModeSwitch } from './inbox-plan';
import { QuestionDetail } from './question';

const CHANGED = 'changed:';
const QUARANTINE = 'quarantine:';
const QUESTION = 'question:';

export default function Inbox({ selected, kind }: { selected?: string; kind: 'call' | 'plan' }) {
  const me = useMe();
  const admin = me.data?.admin ?? false;
  const held = usePendingApprovals();
  const steps = usePendingSteps();
  const plans = usePlans();
  const recent = useRecentApprovals();
  const changes = useChanges();
  const quarantine = useQuarantine(admin);
  const running = useRunning();
  const [, go] = useLocation();
  const questions = (running.data?.calls ?? []).filter((call) => call.question);
  const waiting = held.data?.approvals ?? [];
  const decided = (recent.data?.approvals ?? []).filter((call) => call.state !== 'pending').slice(0, 20);
  const stepsOf = groupByPlan(steps.data?.approvals ?? []);
  const shownPlans = (plans.data?.plans ?? []).filter((plan) => plan.state === 'open' || stepsOf.has(plan.id) || plan.id === selected);
  const changed = changes.data?.tools ?? [];
  const quarantined = quarantine.data?.tools ?? [];
  const isEmpty = questions.length + waiting.length + shownPlans.length + changed.length + quarantined.length === 0;
  const name = selected && decodeURIComponent(selected);

  // On a wide screen the first waiting call opens automatically, once.
  const opened = useRef(false);
  const first = waiting.find((call) => call.yours);
  useEffect(() => {
    if (opened.current || !held.data) return;
    opened.current = true;
    if (!selected && first && matchMedia('(min-width: 721px)').matches) go(`/inbox/${first.id}`, { replace: true });
  }, [held.data, selected, first, go]);

  return (
    <div className="page fill">
      <div className="panes" data-open={selected !== undefined}>
        <div className="pane-list">
          <div className="pane-head"><div className="row"><h1>Inbox</h1><span className="end"><PlanModeSwitch /></span></div></div>
          <div className="pane-scroll">
            {held.error && !held.data && <div className="card-body"><Failure error={held.error} retry={() => void held.refetch()} /></div>}
            {!held.data && !held.error && <Skeleton lines={5} />}
            {held.data && isEmpty && <Empty title="Nothing waits for you"><p>Calls that need approval appear here at once.</p><NotifyButton /></Empty>}
            {questions.length > 0 && <h2 className="group-label">Questions</h2>}
            {questions.map((call) => (
              <Link key={call.id} className="entry" href={`/inbox/${QUESTION}${call.id}`} aria-current={name === QUESTION + call.id ? 'true' : undefined}>
                <span className="line"><span className="title clip">{call.tool}</span><span className="end"><Status tone="held">question</Status></span></span>
                <span className="line muted small"><span className="clip">{call.question?.message}</span><span className="end"><Ago ms={call.at_ms} /></span></span>
              </Link>
            ))}
            {waiting.length > 0 && <h2 className="group-label">Waiting calls</h2>}
            {waiting.map((call) => <CallEntry key={call.id} call={call} isOpen={call.id === selected} />)}
            {shownPlans.length > 0 && <h2 className="group-label">Plans</h2>}
            {shownPlans.map((plan) => {
              const pending = stepsOf.get(plan.id) ?? [];
              return (
                <Link key={plan.id} className="entry" href={`/inbox/plans/${plan.id}`} aria-current={plan.id === selected ? 'true' : undefined}>
                  <span className="line"><span className="title clip">{plan.persona || plan.session || 'All calls'}</span><span className="end"><Status tone={pending.length > 0 ? 'held' : 'off'}>{pending.length > 0 ? atLeast(pending.length, steps.data?.next_before != null, 'step') : plan.state === 'open' ? 'collecting' : 'closed'}</Status></span></span>
                  <span className="line muted small">{plan.user} · <Ago ms={plan.created_ms} /></span>
                  {pending.slice(0, 2).map((step) => <span key={step.id} className="line small"><span className="clip"><b>{step.name}</b> <span className="muted">{argumentLine(sentArguments(step))}</span></span></span>)}
                  {pending.length > 2 && <span className="line muted small">and {atLeast(pending.length - 2, steps.data?.next_before != null, 'further step')}</span>}
                </Link>
              );
            })}
            {changed.length > 0 && <h2 className="group-label">Changed tools</h2>}
            {changed.map((tool) => (
              <Link key={tool.name} className="entry" href={`/inbox/${CHANGED}${encodeURIComponent(tool.name)}`} aria-current={name === CHANGED + tool.name ? 'true' : undefined}>
                <span className="line"><span className="title clip">{tool.name}</span><span className="end"><Status tone="warn">changed</Status></span></span>
                <span className="line muted small">{tool.server}</span>
              </Link>
            ))}
            {quarantined.length > 0 && <h2 className="group-label">Quarantine</h2>}
            {quarantined.map((tool) => (
              <Link key={tool.name} className="entry" href={`/inbox/${QUARANTINE}${encodeURIComponent(tool.name)}`} aria-current={name === QUARANTINE + tool.name ? 'true' : undefined}>
                <span className="line"><span className="title clip">{tool.name}</span><span className="end"><Status tone="bad">quarantine</Status></span></span>
                <span className="line muted small"><span className="clip"><Prose text={tool.quarantined?.reason ?? ''} /></span></span>
              </Link>
            ))}
            {decided.length > 0 && <h2 className="group-label">Decided</h2>}
            {decided.map((call) => <CallEntry key={call.id} call={call} isOpen={call.id === selected} />)}
          </div>
        </div>
        <div className="pane-detail">
          {selected !== undefined && <Button className="back" look="quiet" icon="back" onClick={() => go('/inbox')}>Inbox</Button>}
          {selected === undefined || name === undefined ? !isEmpty && <Empty title="Choose an entry"><p>You see the arguments, can change them, and decide.</p></Empty>
            : kind === 'plan' ? <PlanDetail key={selected} id={selected} />
            : name.startsWith(QUESTION) ? <QuestionDetail key={name} call={questions.find((call) => QUESTION + call.id === name)} />
            : name.startsWith(CHANGED) ? <ChangedDetail key={name} name={name.slice(CHANGED.length)} />
            : name.startsWith(QUARANTINE) ? <QuarantineDetail key={name} name={name.slice(QUARANTINE.length)} />
            : <ApprovalDetail key={selected} id={selected} next={waiting.find((call) => call.yours && call.id !== selected)?.id} />}
        </div>
      </div>
    </div>
  );
}

function CallEntry({ call, isOpen }: { call: Approval; isOpen: boolean }) {
  return (
    <Link className="entry" href={`/inbox/${call.id}`} aria-current={isOpen ? 'true' : undefined}>
      <span className="line">
        <span className="title clip">{call.name}</span>
        <span className="end small nowrap">{call.state === 'pending' ? (call.expires_ms ? <Remaining until={call.expires_ms} /> : <Status tone="held">waiting</Status>) : <Outcome state={call.state} />}</span>
      </span>
      <span className="line muted small">
        <span className="clip">{callerOf(call)}</span>
        <span className="end nowrap">{call.decided_by ? `by ${call.decided_by}` : <Ago ms={call.created_ms} />}</span>
      </span>
      {call.state === 'pending' && <span className="line small"><span className="clip muted" title={argumentLine(sentArguments(call), 600)}>{argumentLine(sentArguments(call))}</span></span>}
    </Link>
  );
}

function NotifyButton() {
  if (typeof Notification === 'undefined' || Notification.permission === 'denied') return null;
  if (localStorage.getItem('toolbooth-notify') === 'on' && Notification.permission === 'granted') return <p className="small">Desktop notifications are on. <Link href="/settings">Settings</Link></p>;
  return <Link className="button" href="/settings">Notify me</Link>;
}
