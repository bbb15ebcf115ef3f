// The frame around all pages: sign-in, navigation, live data, keyboard.

import { useQueryClient } from '@tanstack/react-query';
import { Suspense, lazy, useEffect, useRef, useSyncExternalStore } from 'react';
import { Link, Redirect, Route, Switch, useLocation } from 'wouter';
import { followEvents } from './api/events';
import { useLiveData, useMe } from './api/queries';
import { session } from './api/session';
import { leaveChat } from './chat/leave';
import { Overview } from './pages/overview';
import { SignIn } from './pages/sign-in';
import { Shell } from './shell';
import { Button, Empty, Failure, Skeleton } from './ui/basic';
import { Boundary } from './ui/boundary';
import { Toasts } from './ui/toast';

const Inbox = lazy(() => import('./pages/inbox'));
const Tools = lazy(() => import('./pages/tools'));
const Servers = lazy(() => import('./pages/servers'));
const SignInCallback = lazy(() => import('./pages/callback'));
const Chat = lazy(() => import('./pages/chat'));
const Activity = lazy(() => import('./pages/activity'));
const Canvas = lazy(() => import('./pages/canvas'));
const CanvasCall = lazy(() => import('./pages/canvas-call'));
const Cost = lazy(() => import('./pages/cost'));
const Jobs = lazy(() => import('./pages/jobs'));
const Settings = lazy(() => import('./pages/settings'));

export function App() {
  const { state, mode, ended, error, persona } = useSyncExternalStore(session.subscribe, session.get);
  useEffect(() => void session.load(), []);
  if (state === 'out' && mode !== 'header') return <SignIn ended={ended} mode={mode} />;
  if (state !== 'open') {
    return (
      <div className="center">
        {state === 'loading' ? <Skeleton lines={2} /> : <div className="stack"><Failure error={error ?? new Error('Your session has ended.')} retry={() => void session.load()} /></div>}
      </div>
    );
  }
  return <Identified persona={persona} />;
}

/** Finds out who the user of the session is. */
function Identified({ persona }: { persona: string | null }) {
  const client = useQueryClient();
  const known = useRef(persona);
  useEffect(() => {
    if (known.current === persona) return;
    // Through a persona other things are visible.
    known.current = persona;
    void client.resetQueries();
  }, [persona, client]);
  // The next user of this browser must not see the data of this one.
  useEffect(() => () => { client.clear(); leaveChat(); }, [client]);
  const me = useMe();
  if (!me.data) {
    return (
      <div className="center">
        {me.error ? <div className="stack"><Failure error={me.error} retry={() => void me.refetch()} />{persona && <Button onClick={() => session.setPersona(null)}>Leave persona {persona}</Button>}</div> : <Skeleton lines={2} />}
      </div>
    );
  }
  return <SignedIn key={`${me.data.user} ${persona ?? ''}`} user={me.data.user} persona={persona} />;
}

function SignedIn({ user, persona }: { user: string; persona: string | null }) {
  useLiveData();
  useEffect(() => followEvents(`${user} ${persona ?? ''}`), [user, persona]);
  return (
    <>
      <Shell>
        <Suspense fallback={<div className="page"><Skeleton lines={4} /></div>}>
          <Pages />
        </Suspense>
      </Shell>
      <Toasts />
    </>
  );
}

/** A name from the URL. The router has already decoded some characters, so a lone percent sign is possible. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function Pages() {
  const [location] = useLocation();
  // Every page starts at its top, also for screen readers.
  const page = location.split('/')[1] ?? '';
  useEffect(() => {
    window.scrollTo(0, 0);
  }, [page]);
  return (
    <Boundary key={page}>
      <Switch>
        <Route path="/"><Overview /></Route>
        <Route path="/inbox/plans/:plan">{({ plan }) => <Inbox selected={plan} kind="plan" />}</Route>
        <Route path="/inbox/:id?">{({ id }) => <Inbox selected={id} kind="call" />}</Route>
        <Route path="/tools/t/:name">{({ name }) => <Tools selected={decoded(name)} />}</Route>
        <Route path="/tools"><Tools /></Route>
        <Route path="/servers/:name/:tab?">{({ name, tab }) => <Servers selected={decoded(name)} tab={tab} />}</Route>
        <Route path="/servers"><Servers /></Route>
        <Route path="/callback/:name">{({ name }) => <SignInCallback server={decoded(name)} />}</Route>
        <Route path="/activity/:tab?/:id?">{({ tab, id }) => <Activity tab={tab} selected={id} />}</Route>
        <Route path="/chat"><Chat /></Route>
        <Route path="/canvas/call/:id">{({ id }) => <CanvasCall key={id} id={id} />}</Route>
        <Route path="/canvas/:id?">{({ id }) => <Canvas selected={id} />}</Route>
        <Route path="/jobs/:tab?/:name?/:run?">{({ tab, name, run }) => <Jobs tab={tab} name={name === undefined ? undefined : decoded(name)} run={run} />}</Route>
        <Route path="/cost"><Cost /></Route>
        <Route path="/settings/:section?">{({ section }) => <Settings section={section} />}</Route>
        <Route path="/approvals/:id?">{({ id }) => <Redirect to={id ? `/inbox/${id}` : '/inbox'} />}</Route>
        <Route>
          <div className="page"><Empty title="This page does not exist"><Link href="/">Go to the overview</Link></Empty></div>
        </Route>
      </Switch>
    </Boundary>
  );
}
