// Servers and settings of project files that wait for trust: shows what would run, and trusts exactly what was shown.

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { createPortal } from 'react-dom';
import { ApiError, fetchJson } from '../api/client';
import { useOwner } from '../api/owner';
import { session } from '../api/session';
import { visible } from '../lib/hidden';
import { Button, CodeBox, Failure, Note } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { toast } from '../ui/toast';

interface FieldChange {
  field: string;
  before?: string;
  after?: string;
}
export interface WaitingEntry {
  file: string;
  /** Absent for the settings of the file. */
  server?: string;
  digest: string;
  fields: Record<string, string>;
  changes?: FieldChange[];
}
interface WaitingEntries {
  entries: WaitingEntry[];
}
/** What a dialog is about: a server, or the settings of a file. */
type TrustSubject = { server: string } | { file: string };

const ORDER = ['command', 'args', 'cwd', 'url', 'env'];
const rank = (field: string) => {
  const at = ORDER.indexOf(field.split('.')[0] ?? field);
  return at < 0 ? ORDER.length : at;
};
const shown = (text: string) => visible(text) as string;
const load = (signal?: AbortSignal) => fetchJson<WaitingEntries>('GET', '/trust', signal ? { signal } : {});
const isAbout = (subject: TrustSubject) => (entry: WaitingEntry) =>
  'server' in subject ? entry.server === subject.server : entry.server === undefined && entry.file === subject.file;

/** Files whose settings wait for trust. Only gateways in `local` mode list them. */
export function useUntrustedSettings(isAdmin: boolean): string[] {
  const enabled = isAdmin && session.get().mode === 'local';
  const waiting = useQuery({ queryKey: ['trust'], queryFn: ({ signal }) => load(signal), enabled, retry: false });
  return waiting.data?.entries.filter((entry) => entry.server === undefined).map((entry) => entry.file) ?? [];
}

export function TrustButton({ subject }: { subject: TrustSubject }) {
  // The entry as it was when the dialog opened: a version that arrives meanwhile must not take its place.
  const [opened, setOpened] = useState<{ entry: WaitingEntry | null } | null>(null);
  const client = useQueryClient();
  const look = useMutation({
    mutationFn: () => load(),
    onSuccess: ({ entries }) => {
      const entry = entries.find(isAbout(subject));
      if (entry) return setOpened({ entry });
      // Servers of a client's folder are not in the list of the gateway.
      setOpened({ entry: null });
      void client.invalidateQueries({ queryKey: ['servers'] });
    },
    onError: (error) => {
      if (ApiError.of(error).code === 'trust.local-only') setOpened({ entry: null });
      else toast(ApiError.of(error).message);
    },
  });
  return (
    <>
      <Button look="primary" busy={look.isPending} onClick={() => look.mutate()}>Review</Button>
      {/* Outside the list or table of the button, whose styles are not for a dialog. */}
      {opened && createPortal(<TrustDialog subject={subject} entry={opened.entry} onClose={() => setOpened(null)} />, document.body)}
    </>
  );
}

function TrustDialog({ subject, entry, onClose }: { subject: TrustSubject; entry: WaitingEntry | null; onClose: () => void }) {
  const client = useQueryClient();
  const owner = useOwner();
  const trust = useMutation({
    mutationFn: ({ file, server, digest }: WaitingEntry) => fetchJson('POST', '/trust', { body: { entries: [{ file, server, digest }] } }),
    onSuccess: () => {
      toast('server' in subject ? `Trusted ${subject.server}` : 'Trusted the settings');
      onClose();
    },
    onSettled: () => void client.invalidateQueries(),
  });
  const title = 'server' in subject ? `Trust the server ${shown(subject.server)}?` : 'Trust these settings?';
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="stack">
        {entry ? <Entry entry={entry} /> : <Note>This gateway does not show its command here. Run <code>toolbooth trust</code> in the folder of the project, as the user who runs the gateway.</Note>}
        {trust.error && <Failure error={trust.error} />}
        {!entry && <CodeBox what="command" text="toolbooth trust" />}
        {entry && owner.data === false && <Commands entry={entry} />}
      </div>
      {entry && owner.data && (
        <div className="dialog-acts">
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" busy={trust.isPending} onClick={() => trust.mutate(entry)}>Trust</Button>
        </div>
      )}
    </Dialog>
  );
}

function Entry({ entry }: { entry: WaitingEntry }) {
  const fields = Object.entries(entry.fields).sort(([left], [right]) => rank(left) - rank(right));
  return (
    <>
      <p>{entry.server === undefined ? 'Settings' : 'Server'} of the file <code className="wrap-any">{shown(entry.file)}</code>. {entry.server === undefined ? 'They have no effect until you trust them.' : 'It would run with your permissions, so read the whole command.'}</p>
      {entry.changes && (
        <>
          <Note tone="warn">It has changed since it was trusted.</Note>
          <div className="diff">
            {entry.changes.map((change) => (
              <Fragment key={change.field}>
                {change.before !== undefined && <div className="del">{shown(change.field)}: {shown(change.before)}</div>}
                {change.after !== undefined && <div className="add">{shown(change.field)}: {shown(change.after)}</div>}
              </Fragment>
            ))}
          </div>
        </>
      )}
      <dl className="kv">
        {fields.map(([field, value]) => <Fragment key={field}><dt>{shown(field)}</dt><dd><code>{shown(value)}</code></dd></Fragment>)}
      </dl>
    </>
  );
}

/** What to do in a browser that the gateway does not know as the owner's. */
function Commands({ entry }: { entry: WaitingEntry }) {
  const folder = entry.file.replace(/\/[^/]*$/, '') || '/';
  return (
    <>
      <Note>This browser cannot trust it: a program could have sent the request. Open the console with this command, which shows that you are at the machine:</Note>
      <CodeBox what="command" text="toolbooth console" />
      <p>Or trust it in a terminal, in the folder <code className="wrap-any">{shown(folder)}</code>:</p>
      <CodeBox what="command" text="toolbooth trust" />
    </>
  );
}
