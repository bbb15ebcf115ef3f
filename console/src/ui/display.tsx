// The display hints of a result: which file to show, with which viewer, and a page of another site in a frame.

import { useLayoutEffect, useState } from 'react';
import { Link } from 'wouter';
import { type Json, isObject } from '../lib/json';
import { Button, CodeBox, Note } from './basic';

/** What a tool asks for. The gateway has removed what it does not allow. */
export interface DisplayHint {
  /** `true` opens the files of the result, `false` leaves them closed. */
  open_canvas?: boolean;
  primary_file?: string;
  /** `replace` shows the file in place of the answer, or of the file that is open. */
  mode?: string;
  viewer_hint?: string;
  title?: string;
  type?: string;
  url?: string;
  sandbox?: string;
  /** The host of a page that `display.iframe_hosts` does not name. */
  refused_host?: string;
}

const TEXTS = ['primary_file', 'mode', 'viewer_hint', 'title', 'type', 'url', 'sandbox', 'refused_host'] as const;

/** The hints whose values have the right type. Servers choose them. */
export function hintsOf(value: Json | undefined): DisplayHint {
  if (!isObject(value)) return {};
  const hints: DisplayHint = {};
  for (const name of TEXTS) {
    const text = value[name];
    if (typeof text === 'string' && text !== '') hints[name] = text;
  }
  if (typeof value['open_canvas'] === 'boolean') hints.open_canvas = value['open_canvas'];
  return hints;
}

/** The hints of the result of a call. */
export function resultHints(result: Json): DisplayHint {
  const meta = isObject(result) ? result['_meta'] : undefined;
  return hintsOf(isObject(meta) ? meta['toolbooth/display'] : undefined);
}

function hostOf(url: string): string | null {
  try {
    return new URL(url).host;
  } catch {
    return null;
  }
}

/** A page of another site that the operator allows (`display.iframe_hosts`). It never gets the rights of this page. */
export function PageFrame({ url, title, sandbox }: { url: string; title?: string; sandbox?: string }) {
  const host = hostOf(url);
  const [isRefused, setRefused] = useState(false);
  // The host may have been removed from the setting after the call; then the policy of this page stops the frame.
  useLayoutEffect(() => {
    const onViolation = (event: SecurityPolicyViolationEvent) => {
      if (event.effectiveDirective === 'frame-src' && hostOf(event.blockedURI) === host) setRefused(true);
    };
    document.addEventListener('securitypolicyviolation', onViolation);
    return () => document.removeEventListener('securitypolicyviolation', onViolation);
  }, [host]);
  if (host === null || !/^https:\/\//i.test(url)) return null;
  if (isRefused) return <RefusedFrame host={host} />;
  const allowed = (sandbox ?? 'allow-scripts').split(/\s+/).filter((word) => word !== '' && !/same-origin|top-navigation/i.test(word));
  return (
    <figure className="stack tight">
      <div className="viewer"><iframe title={title ?? url} src={url} sandbox={allowed.join(' ')} referrerPolicy="no-referrer" /></div>
      <figcaption className="muted small wrap-any">{url} · <a href={url} target="_blank" rel="noopener noreferrer nofollow">open in a new tab</a></figcaption>
    </figure>
  );
}

/** A page that is not shown, and the lines of the configuration that allow its host. */
export function RefusedFrame({ host }: { host: string }) {
  // The name goes into a file of the operator, so it may contain nothing but a host and a port.
  if (!/^[a-z0-9.-]+(:\d+)?$/i.test(host)) return <Note tone="warn">A page was not shown in a frame: its address is not allowed.</Note>;
  return (
    <div className="stack tight">
      <Note tone="warn">
        The tool asks for a page of <code>{host}</code> in a frame. This host is not allowed. If you trust it, an administrator adds it to <code>display.iframe_hosts</code> in <code>toolbooth.toml</code>:
      </Note>
      <CodeBox what="the setting" text={`[display]\niframe_hosts = ["${host}"]`} />
    </div>
  );
}

/** The hints of a past call. A page of another site is loaded only on request. */
export function PastDisplay({ hints, files }: { hints: DisplayHint; files: { id?: string; name?: string }[] }) {
  const [isOpen, setOpen] = useState(false);
  const primary = files.find((file) => file.name === hints.primary_file);
  return (
    <div className="stack tight">
      <dl className="kv">
        {hints.title && <><dt>Title</dt><dd>{hints.title}</dd></>}
        {hints.primary_file && <><dt>File</dt><dd>{primary?.id ? <Link href={`/canvas/${primary.id}`}>{hints.primary_file}</Link> : hints.primary_file}</dd></>}
        {hints.viewer_hint && <><dt>Viewer</dt><dd>{hints.viewer_hint}</dd></>}
        {hints.open_canvas !== undefined && <><dt>Canvas</dt><dd>{hints.open_canvas ? 'opens automatically' : 'stays closed'}</dd></>}
        {hints.mode && <><dt>Mode</dt><dd>{hints.mode}</dd></>}
        {hints.url && <><dt>Page</dt><dd>{hints.url}</dd></>}
      </dl>
      {hints.refused_host && <RefusedFrame host={hints.refused_host} />}
      {hints.url && (isOpen ? <PageFrame url={hints.url} title={hints.title} sandbox={hints.sandbox} /> : <div><Button small onClick={() => setOpen(true)}>Show the page</Button></div>)}
    </div>
  );
}
