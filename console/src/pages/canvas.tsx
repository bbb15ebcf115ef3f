// Canvas: files that tools made and people uploaded, with a viewer for each type, versions, and their origin.

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { ApiError, api, send } from '../api/client';
import { type StoredFile, useFile, useFiles } from '../api/queries';
import { atLeast, bytes, plural, shortId, toolName } from '../lib/format';
import type { Json } from '../lib/json';
import { Ago, Button, Empty, Failure, Skeleton, Status } from '../ui/basic';
import { Confirm } from '../ui/dialog';
import { hintsOf } from '../ui/display';
import { toast } from '../ui/toast';
import { FileViewer, download, viewerOf } from '../ui/viewer';
import { useFilter } from './filters';
import { FollowBar, mainFileOf, useFollow } from './canvas-follow';

export default function Canvas({ selected }: { selected?: string }) {
  const files = useFiles();
  const [, go] = useLocation();
  const [text, setText] = useState('');
  const [besideId, setBeside] = useFilter('beside');
  const [session] = useFilter('session');
  const keep = session ? `?session=${encodeURIComponent(session)}` : '';
  const all = useMemo(() => files.data?.pages.flatMap((page) => page.files) ?? [], [files.data]);
  const sessions = useMemo(() => [...new Set(all.flatMap((file) => file.session ?? []))], [all]);
  const beside = all.find((file) => file.id === besideId);
  const words = text.toLowerCase();
  const newest = useMemo(
    () => latestVersions(all.filter((file) => file.name.toLowerCase().includes(words) && (!session || file.session === session))),
    [all, words, session],
  );
  const listed = all.find((file) => file.id === selected);
  // A link may lead to a file that is older than the files of the list.
  const linked = useFile(selected ?? '', selected !== undefined && files.data !== undefined && listed === undefined);
  const open = listed ?? linked.data;
  const follow = useFollow({ files: files.data && all.filter((file) => !session || file.session === session), selected, keep });
  // On a wide screen the newest file opens automatically, or the main one of the files of its call.
  const first = newest[0];
  useEffect(() => {
    if (selected || !first || words || !matchMedia('(min-width: 721px)').matches) return undefined;
    let isCurrent = true;
    void (first.call ? mainFileOf(first.call) : Promise.resolve(null)).then((main) => {
      const chosen = newest.find((file) => file.id === main) ?? first;
      if (isCurrent) go(`/canvas/${chosen.id}${keep}`, { replace: true });
    });
    return () => { isCurrent = false; };
  }, [selected, first, newest, words, keep, go]);
  return (
    <div className="page fill">
      <div className="panes" data-open={selected !== undefined}>
        <div className="pane-list">
          <div className="pane-head">
            <div className="row"><h1>Canvas</h1><span className="muted small">{files.data ? atLeast(newest.length, files.hasNextPage, 'file') : ''}</span><span className="end"><Upload /></span></div>
            <div className="row">
              <input className="input grow" type="search" aria-label="Filter files" placeholder="Filter by name" value={text} onChange={(event) => setText(event.target.value)} />
              {(sessions.length > 0 || session !== '') && (
                <select className="select session-filter" aria-label="Session" value={session} onChange={(event) => go(event.target.value ? `/canvas?session=${encodeURIComponent(event.target.value)}` : '/canvas')}>
                  <option value="">All sessions</option>
                  {[...new Set([...sessions, ...(session ? [session] : [])])].map((id) => <option key={id} value={id}>{shortId(id)} ({plural(all.filter((file) => file.session === id).length, 'file')})</option>)}
                </select>
              )}
            </div>
            <FollowBar follow={follow} />
          </div>
          <div className="pane-scroll">
            {files.error && !files.data ? <div className="card-body"><Failure error={files.error} retry={() => void files.refetch()} /></div> : !files.data ? <Skeleton lines={6} /> : newest.length === 0 ? (
              <Empty title={words || session ? 'No file matches' : 'No files yet'}><p>Files that tools return and files that you upload appear here.</p>{!words && !session && <Link className="button" href="/tools/t/files_make_report">Make a demo report</Link>}</Empty>
            ) : newest.map((file) => (
              <Link key={file.id} className="entry" href={`/canvas/${file.id}${keep}`} aria-current={file.id === selected || (open && sameFile(open, file)) ? 'true' : undefined}>
                <span className="line"><span className="title clip">{file.name}</span>{file.version > 1 && <span className="tag">v{file.version}</span>}<span className="end muted small nowrap">{bytes(file.size_bytes)}</span></span>
                <span className="line muted small"><span className="clip">{file.tool ? toolName(file.server, file.tool) : file.origin}</span><span className="end"><Ago ms={file.created_ms} /></span></span>
              </Link>
            ))}
            {files.hasNextPage && <div className="card-body"><Button busy={files.isFetchingNextPage} onClick={() => void files.fetchNextPage()}>More</Button></div>}
          </div>
        </div>
        <div className="pane-detail">
          {selected !== undefined && <Button className="back" look="quiet" icon="back" onClick={() => go(`/canvas${keep}`)}>Canvas</Button>}
          {selected === undefined ? newest.length > 0 && <Empty title="Choose a file" /> : !open && linked.error && ApiError.of(linked.error).status !== 404 ? <Failure error={linked.error} retry={() => void linked.refetch()} /> : !open && !linked.error ? <Skeleton lines={6} /> : !open ? <Empty title="This file does not exist"><p>It may have been deleted, or belong to another user.</p></Empty> : (
            <div className={beside ? 'canvas beside' : 'canvas'}>
              <OpenFile key={open.id} file={open} versions={versionsOf(listed ? all : [...all, open], open)} onVersion={(id) => go(`/canvas/${id}${location.search}`)} onDeleted={() => go(`/canvas${keep}`)}>
                {!beside && <ShowBeside files={all} open={open} onChoose={(id) => setBeside(id)} />}
              </OpenFile>
              {beside && (
                <OpenFile key={beside.id} file={beside} versions={versionsOf(all, beside)} onVersion={(id) => setBeside(id)} onDeleted={() => setBeside('')}>
                  <Button small look="quiet" icon="cross" aria-label={`Close ${beside.name}`} onClick={() => setBeside('')} />
                </OpenFile>
              )}
            </div>
          )}
        </div>
      </div>
    </div>
  );
}

/** Chooses a second file, or another version of the file that is open, to see both. */
function ShowBeside({ files, open, onChoose }: { files: StoredFile[]; open: StoredFile; onChoose: (id: string) => void }) {
  const others = files.filter((file) => file.id !== open.id).slice(0, 100);
  if (others.length === 0) return null;
  return (
    <select className="select small only-wide" aria-label="Show beside" value="" onChange={(event) => onChoose(event.target.value)}>
      <option value="" disabled>Show beside…</option>
      {others.map((file) => <option key={file.id} value={file.id}>{file.name}{file.version > 1 || sameFile(file, open) ? ` v${file.version}` : ''}</option>)}
    </select>
  );
}

/** Sends a file to the gateway, so that tools can be called with its name. */
function Upload() {
  const input = useRef<HTMLInputElement>(null);
  const client = useQueryClient();
  const [, go] = useLocation();
  const upload = useMutation({
    mutationFn: async (file: File) => {
      const response = await send('POST', '/files', { query: { name: file.name }, content: file });
      return (await response.json()) as { id?: string; name?: string };
    },
    onSuccess: async ({ id, name }) => {
      toast(`Uploaded ${name ?? 'the file'}`);
      await client.invalidateQueries({ queryKey: ['files'] });
      if (id) go(`/canvas/${id}`);
    },
    onError: (error) => toast(ApiError.of(error).message),
  });
  return (
    <>
      <input ref={input} type="file" hidden aria-label="File to upload" onChange={(event) => { const file = event.target.files?.[0]; event.target.value = ''; if (file) upload.mutate(file); }} />
      <Button small icon="plus" busy={upload.isPending} onClick={() => input.current?.click()}>Upload</Button>
    </>
  );
}

const sameFile = (left: StoredFile, right: StoredFile) => left.name === right.name && (left.session ?? '') === (right.session ?? '');

function versionsOf(files: StoredFile[], file: StoredFile): StoredFile[] {
  return files.filter((other) => sameFile(other, file)).sort((left, right) => right.version - left.version);
}

function latestVersions(files: StoredFile[]): StoredFile[] {
  const found = new Map<string, StoredFile>();
  for (const file of files) {
    const key = JSON.stringify([file.session ?? '', file.name]);
    const known = found.get(key);
    if (!known || known.version < file.version) found.set(key, file);
  }
  return [...found.values()];
}

interface OpenFileProps {
  file: StoredFile;
  versions: StoredFile[];
  onVersion: (id: string) => void;
  onDeleted: () => void;
  /** Further actions. */
  children?: ReactNode;
}

function OpenFile({ file, versions, onVersion, onDeleted, children }: OpenFileProps) {
  const client = useQueryClient();
  const [asks, setAsks] = useState(false);
  const hints = useHints(file);
  const remove = useMutation({
    mutationFn: () => api.delete('/files/{id}', { params: { id: file.id } }),
    onSuccess: () => { toast(`Deleted ${file.name}`); onDeleted(); },
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => { setAsks(false); void client.invalidateQueries({ queryKey: ['files'] }); },
  });
  const title = hints.title !== undefined && hints.title !== file.name ? hints.title : undefined;
  return (
    <div className="stack grow canvas-file">
      <header className="stack tight">
        <div className="row wrap">
          <h1 className="wrap-any">{file.name}</h1>
          {versions.length > 1 && (
            <select className="select small" aria-label={`Version of ${file.name}`} value={file.id} onChange={(event) => onVersion(event.target.value)}>
              {versions.map((version) => <option key={version.id} value={version.id}>version {version.version}</option>)}
            </select>
          )}
          {viewerOf(file, hints.viewer_hint) === 'html' && <Status tone="off">sandbox without network</Status>}
          <span className="end row">
            {children}
            <Button small icon="download" onClick={() => void download(file).catch((error: unknown) => toast(ApiError.of(error).message))}>Download</Button>
            <Button small look="quiet" icon="trash" aria-label={`Delete ${file.name}`} onClick={() => setAsks(true)} />
          </span>
        </div>
        <p className="muted small">
          {title && <><b>{title}</b> · </>}{file.mime}, {bytes(file.size_bytes)} · {file.tool ? <>made by {file.call ? <Link href={`/activity/calls/${file.call}`}>{toolName(file.server, file.tool)}</Link> : toolName(file.server, file.tool)}</> : file.origin} · <Ago ms={file.created_ms} />
          {file.session && <> · session <Link href={`/canvas?session=${encodeURIComponent(file.session)}`}><code>{shortId(file.session)}</code></Link></>}
        </p>
        {file.description && <p>{file.description}</p>}
      </header>
      <FileViewer file={file} hint={hints.viewer_hint} />
      {asks && <Confirm title={`Delete ${file.name}?`} action="Delete" busy={remove.isPending} onClose={() => setAsks(false)} onConfirm={() => remove.mutate()}><p>This version is removed for good.</p></Confirm>}
    </div>
  );
}

/** What the tool said about this file, if it is the main file of its call. Calls whose record is gone have no hints. */
function useHints(file: StoredFile) {
  const call = useQuery({
    queryKey: ['call', file.call],
    queryFn: ({ signal }) => api.get('/calls/{id}', { params: { id: file.call ?? '' }, signal }),
    enabled: file.call != null,
    staleTime: Infinity,
  });
  return useMemo(() => {
    const hints = hintsOf(call.data?.display as unknown as Json | undefined);
    const isMain = hints.primary_file === file.name || (hints.primary_file === undefined && call.data?.artifacts.length === 1);
    return isMain ? hints : {};
  }, [call.data, file.name]);
}
