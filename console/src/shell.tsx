// Navigation, banners, command palette, and signs of waiting calls in the title and icon.

import { type ReactNode, useEffect, useState, useSyncExternalStore } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError } from './api/client';
import { stream } from './api/events';
import { useChanges, useDeadLetters, useHealth, useMe, usePendingApprovals, usePendingSteps, useQuarantine, useRunning, useServers } from './api/queries';
import { session } from './api/session';
import { countUpTo, span } from './lib/format';
import { isMac } from './lib/keyboard';
import { consolePath } from './lib/place';
import { PAGES, usePages } from './navigation';
import { Button, useNow } from './ui/basic';
import { Dialog } from './ui/dialog';
import { Icon } from './ui/icons';
import { Palette, ShortcutHelp, useShortcuts } from './ui/palette';
import { type Theme, setTheme, useTheme } from './ui/theme';
import { toast } from './ui/toast';

const isAt = (location: string, path: string) => (path === '/' ? location === '/' : location === path || location.startsWith(`${path}/`));

interface Waiting {
  count: number;
  /** The lists have further pages, so that the number is a lower bound. */
  hasMore: boolean;
}

/** The number of things that wait for this person's decision. */
function useWaiting(): Waiting {
  const me = useMe();
  const admin = me.data?.admin ?? false;
  const calls = usePendingApprovals();
  const changes = useChanges();
  const quarantine = useQuarantine(admin);
  const steps = usePendingSteps();
  const mine = calls.data?.approvals.filter((call) => call.yours).length ?? 0;
  const running = useRunning();
  const questions = running.data?.calls.filter((call) => call.question).length ?? 0;
  const plans = new Set(steps.data?.approvals.map((step) => step.plan?.id)).size;
  const tools = admin ? (changes.data?.tools.length ?? 0) + (quarantine.data?.tools.length ?? 0) : 0;
  return { count: mine + questions + plans + tools, hasMore: calls.data?.next_before != null || steps.data?.next_before != null };
}

export function Shell({ children }: { children: ReactNode }) {
  const [location, go] = useLocation();
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [more, setMore] = useState(false);
  const { count: waiting, hasMore } = useWaiting();
  const waitingText = countUpTo(waiting, hasMore);
  const pages = usePages();
  const dead = useDeadLetters('pending');
  const servers = useServers();
  const broken = servers.data?.servers.filter((server) => ['error', 'needs_auth', 'needs_trust', 'config_error'].includes(server.state)).length ?? 0;
  const letters = dead.data?.pages[0]?.dead_letters.length ?? 0;
  const lettersText = countUpTo(letters, dead.data?.pages[0]?.next_cursor != null);
  useWaitingSigns(waiting > 0 ? waitingText : null, PAGES.find((page) => page.path !== '/' && isAt(location, page.path))?.label);
  useShortcuts({ openPalette: () => setPalette(true), openHelp: () => setHelp(true), go });
  useEffect(() => setMore(false), [location]);
  const identity = useSyncExternalStore(session.subscribe, session.get);
  const live = useSyncExternalStore(stream.onState, stream.state);
  const hasBanner = identity.persona !== null || live === 'lost';
  const countOf = (path: string) => {
    if (path === '/inbox' && waiting > 0) return <span className="count held" aria-label={`${waitingText} waiting`}>{waitingText}</span>;
    if (path === '/servers' && broken > 0) return <span className="count bad" aria-label={`${broken} broken`}>{broken}</span>;
    if (path === '/activity' && letters > 0) return <span className="count" aria-label={`${lettersText} dead letters`}>{lettersText}</span>;
    return null;
  };
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to content</a>
      <aside className="side">
        <Link href="/" className="brand"><img src={`${consolePath}/favicon.svg`} alt="" />Toolbooth</Link>
        <nav className="nav" aria-label="Pages">
          <button type="button" className="nav-button" onClick={() => setPalette(true)}>
            <Icon name="search" /><span className="muted">Search</span><kbd className="end">{isMac() ? '⌘' : 'Ctrl'} K</kbd>
          </button>
          {pages.map((page) => (
            <Link key={page.path} href={page.path} aria-current={isAt(location, page.path) ? 'page' : undefined}>
              <Icon name={page.icon} />{page.label}{countOf(page.path)}
            </Link>
          ))}
        </nav>
        <div className="side-foot">
          <LiveState />
          <Account />
        </div>
      </aside>
      <div className={`main ${hasBanner ? 'with-banner' : ''}`}>
        <PersonaBanner persona={identity.persona} />
        <LostBanner />
        <main id="main" className="grow" tabIndex={-1} style={{ outline: 'none', display: 'flex', flexDirection: 'column' }}>{children}</main>
      </div>
      <nav className="bottom" aria-label="Pages">
        {pages.filter((page) => page.main).map((page) => (
          <Link key={page.path} href={page.path} aria-current={isAt(location, page.path) ? 'page' : undefined}>
            <Icon name={page.icon} size={20} />{page.label}{countOf(page.path)}
          </Link>
        ))}
        <button type="button" aria-haspopup="dialog" onClick={() => setMore(true)}><Icon name="more" size={20} />More</button>
      </nav>
      {more && (
        <Dialog title="More" onClose={() => setMore(false)}>
          <nav className="nav" aria-label="More pages">
            {pages.filter((page) => !page.main).map((page) => (
              <Link key={page.path} href={page.path}><Icon name={page.icon} />{page.label}{countOf(page.path)}</Link>
            ))}
            <button type="button" className="nav-button" onClick={() => { setMore(false); setPalette(true); }}><Icon name="search" />Search</button>
          </nav>
          <LiveState />
          <Account />
        </Dialog>
      )}
      {palette && <Palette onClose={() => setPalette(false)} />}
      {help && <ShortcutHelp onClose={() => setHelp(false)} />}
    </div>
  );
}

function LiveState() {
  const state = useSyncExternalStore(stream.onState, stream.state);
  const health = useHealth();
  const [tone, word] = { connecting: ['warn', 'Connecting'], live: ['ok', 'Live'], lost: ['bad', 'Not connected'], refused: ['bad', 'No events'] }[state];
  return (
    <div className="live" role="status">
      <span className={`dot ${tone}`} aria-hidden="true" />
      <span>{word}</span>
      <span className="end">{health.data ? `v${health.data.version}` : ''}</span>
    </div>
  );
}

function Account() {
  const me = useMe();
  const theme = useTheme();
  const identity = useSyncExternalStore(session.subscribe, session.get);
  const next: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };
  const label = { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }[theme];
  return (
    <div className="nav" style={{ flex: 'none' }}>
      <button type="button" className="nav-button" onClick={() => setTheme(next[theme])}>
        <Icon name={theme === 'dark' ? 'moon' : 'sun'} />{label}
      </button>
      <div className="row" style={{ padding: '4px 8px' }}>
        <Icon name="user" />
        <span className="clip grow" title={me.data?.user}>{me.data?.user}</span>
        {me.data?.admin && <span className="tag">admin</span>}
      </div>
      {(identity.mode === 'token' || identity.mode === 'jwt') && <button type="button" className="nav-button" onClick={() => void session.signOut().catch((error: unknown) => toast(ApiError.of(error).message))}><Icon name="cross" />Sign out</button>}
    </div>
  );
}

function PersonaBanner({ persona }: { persona: string | null }) {
  if (persona === null) return null;
  return (
    <div className="banner held">
      <Icon name="user" />You see the gateway as persona <b>{persona}</b>.
      <Button small onClick={() => session.setPersona(null)}>Leave persona</Button>
    </div>
  );
}

function LostBanner() {
  const state = useSyncExternalStore(stream.onState, stream.state);
  const now = useNow();
  if (state !== 'lost') return null;
  return (
    <div className="banner bad" role="alert">
      <Icon name="warn" />The connection to the gateway was lost {span(now - stream.since())} ago. What you see is from then. Reconnecting…
    </div>
  );
}

/** Shows waiting calls in the title, the icon and, if the person allowed it, as a desktop notification. */
function useWaitingSigns(waiting: string | null, page: string | undefined) {
  useEffect(() => {
    document.title = `${waiting !== null ? `(${waiting}) ` : ''}${page ? `${page} · ` : ''}Toolbooth`;
    const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    if (icon) icon.href = `${consolePath}/${waiting !== null ? 'favicon-waiting.svg' : 'favicon.svg'}`;
  }, [waiting, page]);
  useEffect(
    () =>
      stream.onEvent((event) => {
        if (event.type !== 'call.held' || !document.hidden) return;
        if (localStorage.getItem('toolbooth-notify') !== 'on' || Notification.permission !== 'granted') return;
        // No arguments: notifications are kept by the operating system.
        new Notification('A call waits for your decision', { body: `${event.server ?? ''} ${event.tool ?? ''}`, tag: event.call });
      }),
    [],
  );
}
