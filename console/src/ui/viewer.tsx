// Shows a stored file by its type. Content is shown as text, as an image, or in a frame without rights; HTML never
// becomes part of this page.

import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { send } from '../api/client';
import { bytes, count } from '../lib/format';
import { type Json, parseJson } from '../lib/json';
import { consolePath } from '../lib/place';
import { Button, Failure, Note, Skeleton } from './basic';
import { JsonView } from './json';
import { Markdown } from './markdown';

export interface ViewedFile {
  id: string;
  name: string;
  mime: string;
  size_bytes: number;
  viewer?: string | null;
}

export type ViewerKind = 'image' | 'html' | 'markdown' | 'csv' | 'json' | 'notebook' | 'text' | 'audio' | 'video' | 'pdf' | 'none';

const BY_MIME: [RegExp, ViewerKind][] = [
  [/^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/, 'image'],
  [/^(text\/html|application\/xhtml\+xml)$/, 'html'],
  [/^text\/markdown$/, 'markdown'],
  [/^text\/(csv|tab-separated-values)$/, 'csv'],
  [/^application\/x-ipynb\+json$/, 'notebook'],
  [/^application\/([\w.-]+\+)?json$/, 'json'],
  [/^application\/pdf$/, 'pdf'],
  [/^audio\//, 'audio'],
  [/^video\//, 'video'],
];
const BY_EXTENSION: Record<string, ViewerKind> = {
  png: 'image', jpg: 'image', jpeg: 'image', gif: 'image', webp: 'image', svg: 'image',
  pdf: 'pdf', html: 'html', htm: 'html', md: 'markdown', markdown: 'markdown', csv: 'csv', tsv: 'csv', json: 'json', ipynb: 'notebook',
  txt: 'text', log: 'text', sh: 'text', sql: 'text', py: 'text', js: 'text', ts: 'text', rs: 'text', go: 'text', c: 'text', h: 'text',
  cpp: 'text', java: 'text', rb: 'text', css: 'text', xml: 'text', yaml: 'text', yml: 'text', toml: 'text', ini: 'text', diff: 'text', patch: 'text',
};

/** The words that tools use for viewers. */
const BY_HINT: Record<string, ViewerKind> = {
  image: 'image', picture: 'image', png: 'image', jpeg: 'image', svg: 'image', html: 'html', markdown: 'markdown', md: 'markdown', csv: 'csv', tsv: 'csv', table: 'csv',
  json: 'json', notebook: 'notebook', ipynb: 'notebook', text: 'text', code: 'text', audio: 'audio', video: 'video', pdf: 'pdf',
};
const TEXT_KINDS: ViewerKind[] = ['html', 'markdown', 'csv', 'json', 'notebook', 'text'];

/**
 * The viewer for a file: by its type, then by the end of its name. A hint of the result chooses among viewers of text. The
 * viewer that is stored with the file helps where its type says little.
 */
export function viewerOf(file: ViewedFile, hint?: string): ViewerKind {
  const known = kindOf(file);
  const hinted = BY_HINT[hint?.toLowerCase() ?? ''];
  if (hinted && (known === 'none' || (TEXT_KINDS.includes(known) && TEXT_KINDS.includes(hinted)))) return hinted;
  const stored = BY_HINT[file.viewer?.toLowerCase() ?? ''];
  if (stored && (known === 'none' || (known === 'text' && TEXT_KINDS.includes(stored)))) return stored;
  return known;
}

function kindOf(file: ViewedFile): ViewerKind {
  const mime = file.mime.split(';')[0]?.trim().toLowerCase() ?? '';
  const byMime = BY_MIME.find(([pattern]) => pattern.test(mime))?.[1];
  const byName = BY_EXTENSION[file.name.split('.').pop()?.toLowerCase() ?? ''];
  if (byMime === 'json' && byName === 'notebook') return 'notebook';
  return byMime ?? byName ?? (mime.startsWith('text/') ? 'text' : 'none');
}

const MAX_TEXT = 1_000_000;
const MAX_MEDIA = 50_000_000;
const contentPath = '/files/{id}/content';

export async function download(file: ViewedFile) {
  const response = await send('GET', contentPath, { params: { id: file.id }, headers: { accept: '*/*' } });
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function FileViewer({ file, hint }: { file: ViewedFile; hint?: string }) {
  const kind = viewerOf(file, hint);
  const isMedia = ['image', 'audio', 'video', 'pdf'].includes(kind);
  const isTooLarge = isMedia && file.size_bytes > MAX_MEDIA;
  const content = useQuery({
    queryKey: ['content', file.id],
    queryFn: async ({ signal }) => {
      const headers: Record<string, string> = { accept: '*/*' };
      if (!isMedia && file.size_bytes > MAX_TEXT) headers['range'] = `bytes=0-${MAX_TEXT - 1}`;
      return (await send('GET', contentPath, { params: { id: file.id }, signal, headers })).blob();
    },
    staleTime: Infinity,
    enabled: kind !== 'none' && !isTooLarge,
  });
  if (kind === 'none' || isTooLarge) {
    return (
      <Note action={<Button small icon="download" onClick={() => void download(file)}>Download</Button>}>
        {isTooLarge ? 'This file is too large to show here.' : 'There is no viewer for this type of file.'} <span className="muted">{file.mime}, {bytes(file.size_bytes)}</span>
      </Note>
    );
  }
  if (content.error) return <Failure error={content.error} retry={() => void content.refetch()} />;
  if (!content.data) return <Skeleton lines={5} />;
  const isCut = !isMedia && file.size_bytes > MAX_TEXT;
  return (
    <div className="stack tight">
      {isCut && <Note tone="warn" action={<Button small icon="download" onClick={() => void download(file)}>Download</Button>}>Only the first {bytes(MAX_TEXT)} of {bytes(file.size_bytes)} are shown.</Note>}
      <div className="viewer">
        {kind === 'pdf' ? <PdfFrame blob={content.data} file={file} /> : isMedia ? <Media kind={kind} blob={content.data} file={file} /> : <TextContent kind={kind} blob={content.data} file={file} />}
      </div>
    </div>
  );
}

/**
 * The browser's own PDF viewer, which runs in a process without rights to this page. The type of the blob is fixed, so the
 * browser cannot read it as HTML. A sandboxed frame shows no PDF in Chromium.
 */
function PdfFrame({ blob, file }: { blob: Blob; file: ViewedFile }) {
  const [state, setState] = useState<{ url: string } | 'none' | 'not-pdf'>();
  useEffect(() => {
    let url: string | undefined;
    let isCurrent = true;
    void blob.slice(0, 1024).text().then((start) => {
      if (!isCurrent) return;
      if (!start.includes('%PDF-')) return setState('not-pdf');
      if (!navigator.pdfViewerEnabled) return setState('none');
      url = URL.createObjectURL(new Blob([blob], { type: 'application/pdf' }));
      return setState({ url });
    });
    return () => {
      isCurrent = false;
      if (url) URL.revokeObjectURL(url);
    };
  }, [blob]);
  if (state === undefined) return null;
  if (typeof state === 'string') {
    return (
      <Note action={<Button small icon="download" onClick={() => void download(file)}>Download</Button>}>
        {state === 'none' ? 'This browser shows no PDF files in pages.' : 'This file is named a PDF, but its content is not one.'}
      </Note>
    );
  }
  return <iframe className="pdf-frame" title={file.name} src={`${state.url}#navpanes=0`} referrerPolicy="no-referrer" />;
}

function Media({ kind, blob, file }: { kind: ViewerKind; blob: Blob; file: ViewedFile }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    // The type decides how the browser reads the content, so it is the stored one and not a guess.
    const made = URL.createObjectURL(new Blob([blob], { type: file.mime }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob, file.mime]);
  if (!url) return null;
  if (kind === 'audio') return <audio controls src={url} />;
  if (kind === 'video') return <video controls src={url} />;
  return <img src={url} alt={file.name} />;
}

function TextContent({ kind, blob, file }: { kind: ViewerKind; blob: Blob; file: ViewedFile }) {
  const [text, setText] = useState<string>();
  useEffect(() => {
    let isCurrent = true;
    void blob.text().then((found) => isCurrent && setText(found));
    return () => {
      isCurrent = false;
    };
  }, [blob]);
  if (text === undefined) return null;
  switch (kind) {
    case 'html':
      return <HtmlFrame html={text} title={file.name} />;
    case 'markdown':
      return <div className="card-body"><Markdown text={text} /></div>;
    case 'csv':
      return <CsvTable text={text} separator={/\.tsv$/i.test(file.name) || file.mime.includes('tab') ? '\t' : ','} />;
    case 'json':
      return <ParsedJson text={text}>{(value) => <JsonView value={value} />}</ParsedJson>;
    case 'notebook':
      return <ParsedJson text={text}>{(value) => <Notebook value={value} />}</ParsedJson>;
    default:
      return <pre className="code nowrap" tabIndex={0}>{text}</pre>;
  }
}

function ParsedJson({ text, children }: { text: string; children: (value: Json) => ReactNode }) {
  const parsed = useMemo(() => {
    try {
      return { value: parseJson(text) };
    } catch {
      return null;
    }
  }, [text]);
  return parsed ? children(parsed.value) : <pre className="code" tabIndex={0}>{text}</pre>;
}

/** HTML in a frame of its own origin: scripts run, but have no network, no cookies, and no access to this page. */
export function HtmlFrame({ html, title }: { html: string; title: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    const onMessage = (event: MessageEvent) => {
      const target = frame.current?.contentWindow;
      if (event.data === 'frame-ready' && target && event.source === target) target.postMessage(html, '*');
    };
    addEventListener('message', onMessage);
    return () => removeEventListener('message', onMessage);
  }, [html]);
  // Allowed are scripts and nothing else. `allow-same-origin` would give the content the rights of this page.
  return <iframe key={html} ref={frame} title={title} src={`${consolePath}/frame.html`} sandbox="allow-scripts" referrerPolicy="no-referrer" />;
}

const MAX_ROWS = 1000;

export function parseCsv(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = '';
  let quoted = false;
  for (let index = 0; index < text.length; index++) {
    const char = text[index];
    if (quoted) {
      if (char !== '"') cell += char;
      else if (text[index + 1] === '"') {
        cell += '"';
        index += 1;
      } else quoted = false;
    } else if (char === '"' && cell === '') quoted = true;
    else if (char === separator) {
      row.push(cell);
      cell = '';
    } else if (char === '\n' || char === '\r') {
      if (char === '\r' && text[index + 1] === '\n') index += 1;
      row.push(cell);
      rows.push(row);
      row = [];
      cell = '';
    } else cell += char;
  }
  if (cell !== '' || row.length > 0) rows.push([...row, cell]);
  return rows;
}

function CsvTable({ text, separator }: { text: string; separator: string }) {
  const [head = [], ...rows] = useMemo(() => parseCsv(text, separator), [text, separator]);
  return (
    <>
      <div className="table-wrap" tabIndex={0}>
        <table className="table">
          <thead><tr>{head.map((cell, index) => <th key={index}>{cell}</th>)}</tr></thead>
          <tbody>{rows.slice(0, MAX_ROWS).map((row, index) => <tr key={index}>{row.map((cell, column) => <td key={column}>{cell}</td>)}</tr>)}</tbody>
        </table>
      </div>
      {rows.length > MAX_ROWS && <p className="pane-foot">First {count(MAX_ROWS)} of {count(rows.length)} rows. Download the file for all of them.</p>}
    </>
  );
}

interface Output {
  text?: string | string[];
  data?: Record<string, string | string[]>;
  traceback?: string[];
}
interface Cell {
  cell_type?: string;
  source?: string | string[];
  outputs?: Output[];
}
/** Images in notebooks. SVG is left out: there it is text and not base64. */
const NOTEBOOK_IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
/** Colour codes of terminals, which tracebacks contain. */
const COLOURS = /\u001b\[[0-9;]*m/g;
const joined = (text: string | string[] | undefined) => (Array.isArray(text) ? text.join('') : typeof text === 'string' ? text : '');

function Notebook({ value }: { value: Json }) {
  const cells = ((value as { cells?: Cell[] } | null)?.cells ?? []).slice(0, 500);
  return (
    <div className="stack card-body">
      {cells.map((cell, index) => (
        <div key={index} className="stack tight">
          {cell.cell_type === 'markdown' ? <Markdown text={joined(cell.source)} /> : <pre className="code">{joined(cell.source)}</pre>}
          {(cell.outputs ?? []).slice(0, 100).map((output, position) => <NotebookOutput key={position} output={output} />)}
        </div>
      ))}
    </div>
  );
}

/** An output is shown in its richest form: an image, else its text. */
function NotebookOutput({ output }: { output: Output }) {
  const mime = NOTEBOOK_IMAGES.find((type) => output.data?.[type] !== undefined);
  const text = joined(output.text) || joined(output.data?.['text/plain']) || (Array.isArray(output.traceback) ? output.traceback.join('\n').replace(COLOURS, '') : '');
  if (mime !== undefined) return <Base64Image data={joined(output.data?.[mime])} mime={mime} alt={text || 'Image made by the cell above'} />;
  return text ? <pre className="code muted">{text}</pre> : null;
}

/** An image that came as base64 becomes a blob: the page's policy does not allow `data:` addresses. */
function Base64Image({ data, mime, alt }: { data: string; mime: string; alt: string }) {
  const [url, setUrl] = useState<string>();
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    try {
      const content = Uint8Array.from(atob(data.replace(/\s+/g, '')), (char) => char.charCodeAt(0));
      const made = URL.createObjectURL(new Blob([content], { type: mime }));
      setUrl(made);
      return () => URL.revokeObjectURL(made);
    } catch {
      setBroken(true);
      return undefined;
    }
  }, [data, mime]);
  if (isBroken) return <Note tone="warn">This image cannot be read.</Note>;
  return url ? <img src={url} alt={alt} onError={() => setBroken(true)} /> : null;
}
