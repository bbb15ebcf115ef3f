// A server asks the person to open a page. The address and its host are shown, and the page opens only after a click.

import { useEffect, useState } from 'react';
import type { QuestionPage } from '../api/queries';
import { visible } from '../lib/hidden';
import { Button, Note } from '../ui/basic';

export type PageAction = 'accept' | 'decline' | 'cancel';

/** The address, if it is one that may become a link. The gateway checks it, too. */
export function safeAddress(url: string): string | null {
  try {
    const parsed = new URL(url);
    const isLocal = ['localhost', '[::1]'].includes(parsed.hostname) || /^127(\.\d{1,3}){3}$/.test(parsed.hostname);
    if (parsed.username || parsed.password) return null;
    return parsed.protocol === 'https:' || (parsed.protocol === 'http:' && isLocal) ? parsed.href : null;
  } catch {
    return null;
  }
}

export function PageQuestion({ page, server, busy, onAnswer }: { page: QuestionPage; server: string | undefined; busy: PageAction | null; onAnswer: (action: PageAction) => void }) {
  const [isOpened, setOpened] = useState(false);
  const address = safeAddress(page.url);
  const isDone = isOpened && page.is_complete;
  useEffect(() => {
    // The server says that the person has finished there, so there is nothing left to confirm.
    if (isDone && busy === null) onAnswer('accept');
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isDone]);
  return (
    <>
      <dl className="kv">
        <dt>Host</dt><dd className="strong wrap-any">{visible(page.host) as string}</dd>
        <dt>Address</dt><dd className="mono small wrap-any">{visible(page.url) as string}</dd>
      </dl>
      <p className="muted small">The page is not part of Toolbooth. Open it only if you trust this host. What you enter there goes to that host{server ? <>, and not through the gateway to <b>{server}</b></> : null}.</p>
      {page.is_complete && <Note tone="ok">The server reports that you have finished on the page.</Note>}
      <div className="row wrap">
        {address && <a className={`button ${isOpened ? '' : 'primary'}`} href={address} target="_blank" rel="noopener noreferrer nofollow" referrerPolicy="no-referrer" onClick={() => setOpened(true)}>Open {visible(page.host) as string}</a>}
        <Button look={isOpened ? 'primary' : undefined} busy={busy === 'accept'} onClick={() => onAnswer('accept')}>I have finished there</Button>
        <Button busy={busy === 'decline'} onClick={() => onAnswer('decline')}>Decline</Button>
        <Button look="quiet" busy={busy === 'cancel'} onClick={() => onAnswer('cancel')}>Dismiss</Button>
      </div>
    </>
  );
}
