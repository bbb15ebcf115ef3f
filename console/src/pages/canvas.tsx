// Canvas: files that tools made and people uploaded, with a viewer for each type, versions, and their origin.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { ApiError, api, send } from '../api/client';
import { type StoredFile, useFiles } from '../api/queries';
import { bytes, plural, shortId } from '../lib/format';
import { Ago, Button, Empty, Failure, Skeleton, Status } from '../ui/basic';
import { Confirm } from '../ui/dialog';
import { toast } from '../ui/toast';
import { FileViewer, download, viewerOf } from '../ui/viewer';

export default function Canvas({ selected }: { selected?: string }) {
  const files = useFiles();
  const [, go] = useLocation();
  const [text, setText] = useState('');
  const [params, setParams] = useSearchParams();
  const all = useMemo(() => files.data?.pages.flatMap((page) => page.files) ?? [], [files.data]);
  const beside = all.find((file) => file.id === params.get('beside'));
  const words = text.toLowerCase();
  const newest = useMemo(() => latestVersions(all.filter((file) => file.name.toLowerCase().includes(words))), [all, words]);
  const open = all.find((file) => file.id === selected);
  // On a wide screen the newest file opens automatically.
  const first = newest[0]?.id;
  useEffect(() => {
    if (!selected && first && !words && matchMedia('(min-width: 721px)').matches) go(`/canvas/${first}`, { replace: true });
  }, [selected, first, words, go]);
  return (
    <div className="page fill">
      <div className="panes" data-open={selected !== undefined}>
        <div className="pane-list">
          <div className="pane-head">
            <div className="row"><h1>Canvas</h1><span className="muted small">{files.data ? plural(newest.length, 'file') : ''}</span><span className="end"><Upload /></span></div>
            <input className="input" type="search" aria-label="Filter files" placeholder="Filter by name" value={text} onChange={(event) => setText(event.target.value)} />
          </div>
          <div className="pane-scroll">
            {files.error && !files.data ? <div className="card-body"><Failure error={files.error} retry={() => void files.refetch()} /></div> : !files.data ? <Skeleton lines={6} /> : newest.length === 0 ? (
              <Empty title={words ? 'No file matches' : 'No files yet'}><p>Files that tools return and files that you upload appear here.</p>{!words && <Link className="button" href="/tools/t/files_make_report">Make a demo report</Link>}</Empty>
            ) : newest.map((file) => (
              <Link key={file.id} className="entry" href={`/canvas/${file.id}`} aria-current={file.id === selected ? 'true' : undefined}>
                <span className="line"><span className="title clip">{file.name}</span>{file.version > 1 && <span className="tag">v{file.version}</span>}<span className="end muted small nowrap">{bytes(file.size_bytes)}</span></span>
                <span className="line muted small"><span className="clip">{file.tool ? `${file.server}.${file.tool}` : file.origin}</span><span className="end"><Ago ms={file.created_ms} /></span></span>
              </Link>
            ))}
            {files.hasNextPage && <div className="card-body"><Button busy={files.isFetchingNextPage} onClick={() => void files.fetchNextPage()}>More</Button></div>}
          </div>
        </div>
        <div className="pane-detail">
          {selected !== undefined && <Button className="back" look="quiet" icon="back" onClick={() => go('/canvas')}>Canvas</Button>}
          {selected === undefined ? <Empty title="Choose a file" /> : !files.data ? <Skeleton lines={6} /> : !open ? <Empty title="This file does not exist"><p>It may have been deleted, or belong to another user.</p></Empty> : (
            <div className={beside ? 'beside' : ''}>
              <OpenFile key={open.id} file={open} versions={versionsOf(all, open)} />
              {beside && <OpenFile key={beside.id} file={beside} versions={versionsOf(all, beside)} />}
              <label className="row small muted only-wide" style={{ marginTop: 12 }}>
                Show beside
                <select className="select" value={beside?.id ?? ''} onChange={(event) => setParams(event.target.value ? { beside: event.target.value } : {}, { replace: true })}>
                  <option value="">nothing</option>
                  {all.filter((file) => file.id !== open.id).slice(0, 100).map((file) => <option key={file.id} value={file.id}>{file.name} v{file.version}</option>)}
                </select>
              </label>
            </div>
          )}
        </div>
      </div>
    </div>
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

function OpenFile({ file, versions }: { file: StoredFile; versions: StoredFile[] }) {
  const [, go] = useLocation();
  const client = useQueryClient();
  const [asks, setAsks] = useState(false);
  const remove = useMutation({
    mutationFn: () => api.delete('/files/{id}', { params: { id: file.id } }),
    onSuccess: () => { toast(`Deleted ${file.name}`); go('/canvas'); },
    onError: (error) => toast(ApiError.of(error).message),
    onSettled: () => { setAsks(false); void client.invalidateQueries({ queryKey: ['files'] }); },
  });
  return (
    <div className="stack grow">
      <header className="stack tight">
        <div className="row wrap">
          <h1 className="wrap-any">{file.name}</h1>
          {versions.length > 1 && (
            <select className="select" aria-label="Version" value={file.id} onChange={(event) => go(`/canvas/${event.target.value}`)}>
              {versions.map((version) => <option key={version.id} value={version.id}>version {version.version}</option>)}
            </select>
          )}
          <span className="end row">
            <Button small icon="download" onClick={() => void download(file).catch((error: unknown) => toast(ApiError.of(error).message))}>Download</Button>
            <Button small look="quiet" icon="trash" aria-label={`Delete ${file.name}`} onClick={() => setAsks(true)} />
          </span>
        </div>
        <p className="muted small">
          {file.mime}, {bytes(file.size_bytes)} · {file.tool ? <>made by <Link href={`/tools?q=${encodeURIComponent(file.tool)}`}>{file.server}.{file.tool}</Link></> : file.origin} · <Ago ms={file.created_ms} />
          {file.session && <> · session <code>{shortId(file.session)}</code></>}
        </p>
        {file.description && <p>{file.description}</p>}
        {viewerOf(file) === 'html' && <p><Status tone="off">in a sandbox without network</Status></p>}
      </header>
      <FileViewer file={file} />
      {asks && <Confirm title={`Delete ${file.name}?`} action="Delete" busy={remove.isPending} onClose={() => setAsks(false)} onConfirm={() => remove.mutate()}><p>This version is removed for good.</p></Confirm>}
    </div>
  );
}
