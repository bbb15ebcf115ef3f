// What waits for this person, and what is broken, on the overview.

import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { type Server, useChanges, useDeadLetters, useMe, usePendingApprovals, usePendingSteps, useQuarantine, useReady, useRunning, useServers } from '../api/queries';
import { reasonOf, unsetVariable } from '../lib/config-place';
import { argumentLine } from '../lib/argument-line';
import { atLeast, countUpTo } from '../lib/format';
import { sentArguments } from '../lib/given';
import { callerOf, groupByPlan } from '../lib/held';
import { Failure, Prose, Remaining, ServerState, Skeleton, Status } from '../ui/basic';
import { Icon } from '../ui/icons';
import { FilePlace } from './entry-place';
import { InstallHelp, missingProgram } from './install-help';
import { FixButton, ReloadButton } from './server-fix';
import { TrustButton, useUntrustedSettings } from './trust';

function Item({ tone, word, title, text, children }: { tone: 'held' | 'bad' | 'warn'; word: string; title: ReactNode; text?: ReactNode; children?: ReactNode }) {
  return (
    <li>
      <span className="lead-col"><Status tone={tone}>{word}</Status></span>
      <div className="text"><p className="strong">{title}</p>{text && <p className="muted small">{text}</p>}</div>
      <div className="acts">{children}</div>
    </li>
  );
}

export function NeedsYou() {
  const me = useMe();
  const admin = me.data?.admin ?? false;
  const held = usePendingApprovals();
  const steps = usePendingSteps();
  const changes = useChanges();
  const quarantine = useQuarantine(admin);
  const mine = held.data?.approvals.filter((call) => call.yours) ?? [];
  const plans = [...groupByPlan(steps.data?.approvals ?? [])];
  const changed = admin ? changes.data?.tools ?? [] : [];
  const quarantined = quarantine.data?.tools ?? [];
  const running = useRunning();
  const questions = (running.data?.calls ?? []).filter((call) => call.question);
  const total = questions.length + mine.length + plans.length + changed.length + quarantined.length;
  const hasMoreCalls = held.data?.next_before != null;
  const hasMoreSteps = steps.data?.next_before != null;
  const queries = [held, steps, changes, running, ...(admin ? [quarantine] : [])];
  const failed = queries.find((query) => query.error && !query.data);
  return (
    <section className="card" aria-labelledby="needs-you">
      <div className="card-head"><h2 id="needs-you">Needs you</h2>{total > 0 && <span className="count held">{countUpTo(total, hasMoreCalls || hasMoreSteps)}</span>}{total > 0 && <Link href="/inbox">Open the inbox</Link>}</div>
      {failed ? <div className="card-body"><Failure error={failed.error} retry={() => void failed.refetch()} /></div> : null}
      {total === 0 ? failed ? null : queries.some((query) => !query.data) ? <Skeleton lines={2} /> : (
        <div className="card-body row muted"><Icon name="check" />No call, plan or changed tool waits for you.</div>
      ) : (
        <ul className="items">
          {questions.slice(0, 5).map((call) => (
            <Item key={call.id} tone="held" word="question" title={call.tool} text={`${call.question?.server ?? 'The server'} asks: ${call.question?.message ?? ''}`}>
              <Link className="button primary" href={`/inbox/question:${call.id}`}>Answer</Link>
            </Item>
          ))}
          {mine.slice(0, 5).map((call) => (
            <Item key={call.id} tone="held" word="call" title={call.name} text={<>{callerOf(call)}{call.expires_ms ? <> · <Remaining until={call.expires_ms} /></> : null}<span className="preview">{argumentLine(sentArguments(call))}</span></>}>
              <Link className="button primary" href={`/inbox/${call.id}`}>Review</Link>
            </Item>
          ))}
          {mine.length > 5 && <li><Link href="/inbox">{atLeast(mine.length - 5, hasMoreCalls, 'more call')} in the inbox</Link></li>}
          {plans.map(([id, waiting]) => (
            <Item key={id} tone="held" word="plan" title={`A plan with ${atLeast(waiting.length, hasMoreSteps, 'waiting step')}`} text={waiting.map((step) => step.name).slice(0, 4).join(', ')}>
              <Link className="button" href={`/inbox/plans/${id}`}>Review</Link>
            </Item>
          ))}
          {changed.slice(0, 5).map((tool) => (
            <Item key={tool.name} tone="warn" word="changed" title={tool.name} text={`Server ${tool.server} changed this tool after it was accepted.`}>
              <Link className="button" href={`/inbox/changed:${encodeURIComponent(tool.name)}`}>Compare</Link>
            </Item>
          ))}
          {quarantined.slice(0, 5).map((tool) => (
            <Item key={tool.name} tone="bad" word="quarantine" title={tool.name} text={<Prose text={tool.quarantined?.reason ?? ''} />}>
              <Link className="button" href={`/inbox/quarantine:${encodeURIComponent(tool.name)}`}>Inspect</Link>
            </Item>
          ))}
        </ul>
      )}
    </section>
  );
}

const BROKEN = ['error', 'needs_auth', 'needs_trust', 'config_error'];

export function Broken() {
  const servers = useServers();
  const ready = useReady();
  const me = useMe();
  const untrusted = useUntrustedSettings(me.data?.admin ?? false);
  const dead = useDeadLetters('pending');
  const broken = servers.data?.servers.filter((server) => BROKEN.includes(server.state)) ?? [];
  const letters = dead.data?.pages.flatMap((page) => page.dead_letters) ?? [];
  const reload = ready.data?.config?.reload_error;
  const restart = ready.data?.config?.restart_needed ?? [];
  const total = broken.length + untrusted.length + (letters.length > 0 ? 1 : 0) + (reload ? 1 : 0) + (restart.length > 0 ? 1 : 0);
  if (total === 0) return null;
  return (
    <section className="card" aria-labelledby="broken">
      <div className="card-head"><h2 id="broken">Broken</h2><span className="count bad">{total}</span></div>
      <ul className="items">
        {broken.map((server) => <BrokenServer key={server.name} server={server} />)}
        {untrusted.map((file) => (
          <Item key={file} tone="warn" word="not trusted" title="Settings of a project file have no effect" text={<code className="wrap-any">{file}</code>}>
            <TrustButton subject={{ file }} />
          </Item>
        ))}
        {letters.length > 0 && (
          <Item tone="bad" word="failed calls" title={atLeast(letters.length, dead.hasNextPage, 'dead letter')} text="Failed calls, which can be replayed.">
            <Link className="button" href="/activity/dead">Open</Link>
          </Item>
        )}
        {reload && (
          <Item tone="bad" word="configuration" title={<Prose text={reload.message} />} text={<><Prose text={reload.hint ?? ''} /> The last good configuration stays in force.</>}>
            <ReloadButton />
          </Item>
        )}
        {restart.length > 0 && (
          <Item tone="warn" word="restart" title="Some changed settings need a restart" text={restart.join(', ')} />
        )}
      </ul>
    </section>
  );
}

function BrokenServer({ server }: { server: Server }) {
  const variable = unsetVariable(server);
  return (
    <li>
      <span className="lead-col"><ServerState server={server} /></span>
      <div className="text">
        <p className="strong"><Link href={`/servers/${encodeURIComponent(server.name)}`}>{server.name}</Link></p>
        {server.reason && <p className="small"><Prose text={reasonOf(server) ?? ''} /></p>}
        {variable?.place && <p className="muted small">used in <FilePlace place={variable.place} /></p>}
        {!variable && server.hint && !missingProgram(server) && <p className="muted small clip2" title={server.hint}><Prose text={server.hint} /></p>}
        <InstallHelp server={server} />
      </div>
      <div className="acts"><FixButton server={server} /></div>
    </li>
  );
}
