// Follows the calls of this person: a file that a tool asks to show opens on the canvas, as the display hints of its
// result say. Without following, a line says which file is new.

import { useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { ApiError, type Schemas, api } from '../api/client';
import type { StoredFile } from '../api/queries';
import type { Json } from '../lib/json';
import { Button, Note } from '../ui/basic';
import { hintsOf } from '../ui/display';

const FOLLOW = 'toolbooth-canvas-follow';
/** The record of a call may be written shortly after its files. */
const RECORD_DELAYS_MS = [0, 300, 700, 1500];

/** A file that a call asks to show. */
interface NewFile {
  id: string;
  name: string;
  /** Keeps the file that is open, and shows the new one beside it. */
  isBeside: boolean;
}

export interface Follow {
  isOn: boolean;
  set: (isOn: boolean) => void;
  /** The newest file, until it is shown or dismissed. */
  latest: NewFile | null;
  show: (file: NewFile) => void;
  dismiss: () => void;
}

async function recordOf(id: string) {
  for (const delay of RECORD_DELAYS_MS) {
    await new Promise((done) => setTimeout(done, delay));
    try {
      return await api.get('/calls/{id}', { params: { id } });
    } catch (error) {
      if (ApiError.of(error).status !== 404) return null;
    }
  }
  return null;
}

/** The file that the result of a call asks to show, if it asks for one. */
function shownFileOf(record: Schemas['CallRecordView']): NewFile | null {
  const hints = hintsOf((record.display ?? undefined) as unknown as Json | undefined);
  const artifacts = record.artifacts as unknown as { id?: string; name?: string }[];
  const asks = hints.open_canvas !== false && (hints.open_canvas === true || hints.primary_file !== undefined);
  const chosen = asks ? artifacts.find((file) => file.name === hints.primary_file) ?? artifacts[0] : undefined;
  return chosen?.id ? { id: chosen.id, name: chosen.name ?? 'file', isBeside: hints.mode !== undefined && hints.mode !== 'replace' } : null;
}

/** The file of a call that its result asks to show; `null` if it names none. */
export async function mainFileOf(call: string): Promise<string | null> {
  const record = await api.get('/calls/{id}', { params: { id: call } }).catch(() => null);
  return record === null ? null : shownFileOf(record)?.id ?? null;
}

/**
 * Opens the files of new calls, or remembers the newest. The list of files is refreshed at most once a second, so a burst
 * of calls causes one look at the newest of them. `keep` is the part of the address that stays: the session that is shown.
 */
export function useFollow({ files, selected, keep }: { files: StoredFile[] | undefined; selected?: string; keep: string }): Follow {
  const [, go] = useLocation();
  const [isOn, setOn] = useState(localStorage.getItem(FOLLOW) !== 'no');
  const [latest, setLatest] = useState<NewFile | null>(null);
  const show = (file: NewFile) => {
    const beside = new URLSearchParams(keep);
    beside.set('beside', file.id);
    setLatest(null);
    go(file.isBeside && selected !== undefined && selected !== file.id ? `/canvas/${selected}?${beside}` : `/canvas/${file.id}${keep}`);
  };
  const onNew = useRef((_: NewFile) => {});
  onNew.current = (file) => (isOn ? show(file) : setLatest(file));
  const made = files?.find((file) => file.call != null);
  const [newest, madeMs] = [made?.call ?? null, made?.created_ms ?? 0];
  const seen = useRef<{ scope: string; ms: number } | undefined>(undefined);
  const isLoaded = files !== undefined;
  useEffect(() => {
    if (!isLoaded) return undefined;
    // Files that were there before are not news, and neither is an older one after the newest was deleted.
    const before = seen.current?.scope === keep ? seen.current.ms : undefined;
    const isNews = before !== undefined && madeMs > before;
    seen.current = { scope: keep, ms: Math.max(before ?? 0, madeMs) };
    if (!isNews || newest === null) return undefined;
    let isCurrent = true;
    void recordOf(newest).then((record) => {
      const file = record && shownFileOf(record);
      if (file && isCurrent) onNew.current(file);
    });
    return () => { isCurrent = false; };
  }, [newest, madeMs, isLoaded, keep]);
  const set = (next: boolean) => {
    localStorage.setItem(FOLLOW, next ? 'yes' : 'no');
    setOn(next);
  };
  return { isOn, set, latest, show, dismiss: () => setLatest(null) };
}

/** The switch and, if files do not open automatically, the newest one. */
export function FollowBar({ follow }: { follow: Follow }) {
  const { isOn, set, latest, show, dismiss } = follow;
  return (
    <>
      <label className="check small muted"><input type="checkbox" checked={isOn} onChange={(event) => set(event.target.checked)} />Open the files of new calls</label>
      {latest && (
        <div role="status">
          <Note action={<span className="row"><Button small onClick={() => show(latest)}>Show</Button><Button small look="quiet" icon="cross" aria-label="Dismiss" onClick={dismiss} /></span>}>
            New: <b className="wrap-any">{latest.name}</b>
          </Note>
        </div>
      )}
    </>
  );
}
