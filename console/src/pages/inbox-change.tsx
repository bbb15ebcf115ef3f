// Tools whose definition changed, and tools in quarantine: compare, then accept or release.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { api } from '../api/client';
import { useDiff, useMe, useQuarantine } from '../api/queries';
import { visible } from '../lib/hidden';
import { Button, Empty, Failure, Loaded, Note, Prose, Status, Time } from '../ui/basic';
import { JsonView, UnifiedDiff } from '../ui/json';
import { toast } from '../ui/toast';

export function ChangedDetail({ name }: { name: string }) {
  const me = useMe();
  const diff = useDiff(name);
  const client = useQueryClient();
  const [, go] = useLocation();
  const accept = useMutation({
    // The digest names the version that is shown: a version that arrives meanwhile is not accepted with it.
    mutationFn: () => api.post('/tools/{name}/accept', { params: { name }, body: { digest: diff.data?.now } }),
    onSuccess: () => {
      toast(`Accepted ${name}`);
      go('/inbox');
    },
    onSettled: () => void client.invalidateQueries(),
  });
  return (
    <Loaded query={diff} lines={8}>
      {(data) => (
        <div className="stack">
          <header className="stack tight">
            <div className="row wrap"><h1 className="wrap-any">{name}</h1><Status tone={data.state === 'changed' ? 'warn' : 'off'}>{data.state}</Status></div>
            {data.accepted && <p className="muted">Accepted {data.accepted.by === 'first use' ? 'at its first use' : `by ${data.accepted.by}`}, <Time ms={data.accepted.at_ms} /></p>}
          </header>
          <Note>A model chooses tools by these texts. Read what was added: a server may try to give the model orders.</Note>
          {data.state !== 'changed' ? <Note tone="ok">The definition is the accepted one.</Note> : data.diff ? <UnifiedDiff text={data.diff} /> : <Note tone="warn">The accepted definition was not stored, so there is nothing to compare with.</Note>}
          {(data.changes?.length ?? 0) > 0 && (
            <details>
              <summary>{data.changes?.length} changed places</summary>
              <dl className="kv" style={{ marginTop: 8 }}>
                {data.changes?.flatMap((change) => [<dt key={`${change.pointer} place`}><code>{change.pointer}</code></dt>, <dd key={change.pointer}>{change.before ?? '(not set)'} → <b>{change.after ?? '(removed)'}</b></dd>])}
              </dl>
            </details>
          )}
          {accept.error && <Failure error={accept.error} />}
          {data.state === 'changed' && (me.data?.admin
            ? <div className="sticky-acts"><span className="muted small grow">Until you accept it, the next call of this tool asks for approval.</span><Button look="primary" busy={accept.isPending} onClick={() => accept.mutate()}>Accept this version</Button></div>
            : <Note>Only an administrator can accept it. You can still approve single calls.</Note>)}
        </div>
      )}
    </Loaded>
  );
}

export function QuarantineDetail({ name }: { name: string }) {
  const me = useMe();
  const list = useQuarantine(me.data?.admin ?? false);
  const client = useQueryClient();
  const [, go] = useLocation();
  const release = useMutation({
    mutationFn: (digest: string) => api.post('/tools/{name}/release', { params: { name }, body: { digest } }),
    onSuccess: () => {
      toast(`Released ${name}`);
      go('/inbox');
    },
    onSettled: () => void client.invalidateQueries(),
  });
  return (
    <Loaded query={list} lines={8}>
      {({ tools }) => {
        const tool = tools.find((item) => item.name === name);
        if (!tool?.quarantined) return <Empty title={`${name} is not in quarantine`} />;
        const { digest, reason, pointer, count, kind } = tool.quarantined;
        return (
          <div className="stack">
            <header className="stack tight"><div className="row wrap"><h1 className="wrap-any">{name}</h1><Status tone="bad">quarantine</Status></div><p className="muted">server {tool.server}</p></header>
            <Note tone="bad">
              <p className="strong"><Prose text={reason} /></p>
              <p>{count} × {kind} at <code>{pointer || '/'}</code>. Clients cannot see or call this tool.</p>
            </Note>
            <section className="stack tight"><h2>Definition</h2><JsonView value={visible(tool.definition ?? tool.description ?? {})} /><p className="muted small">Hidden characters are shown as their codes.</p></section>
            {release.error && <Failure error={release.error} />}
            <div className="sticky-acts"><span className="muted small grow">A release covers this version only.</span><Button look="danger" busy={release.isPending} onClick={() => release.mutate(digest)}>Release this version</Button></div>
          </div>
        );
      }}
    </Loaded>
  );
}
