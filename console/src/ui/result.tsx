// The result of a tool call: text, structured content, images and files.

import { type ReactNode, useEffect, useMemo, useState } from 'react';
import { Link } from 'wouter';
import { bytes } from '../lib/format';
import { type Json, isObject, parseJson, pretty } from '../lib/json';
import { Button, CopyButton, Note, Segment, Status } from './basic';
import { PageFrame, RefusedFrame, hintsOf } from './display';
import { JsonView } from './json';
import { FileViewer, type ViewedFile, download, viewerOf } from './viewer';

interface Artifact extends ViewedFile {
  version: number;
  description?: string;
}
interface Block {
  type?: string;
  text?: string;
  data?: string;
  mimeType?: string;
  uri?: string;
  name?: string;
  resource?: { uri?: string; text?: string; mimeType?: string };
}

const ARTIFACTS = 'toolbooth/artifacts';
const DISPLAY = 'toolbooth/display';

export function ResultView({ result }: { result: Json }) {
  const [view, setView] = useState<'shown' | 'json'>('shown');
  const members = isObject(result) ? result : {};
  const meta = isObject(members['_meta']) ? members['_meta'] : {};
  const artifacts = (Array.isArray(meta[ARTIFACTS]) ? meta[ARTIFACTS] : []) as unknown as Artifact[];
  const display = hintsOf(meta[DISPLAY]);
  const blocks = (Array.isArray(members['content']) ? members['content'] : []) as unknown as Block[];
  const structured = members['structuredContent'];
  const files = artifacts.length > 0 && <Artifacts artifacts={artifacts} title={display.title} primary={display.primary_file} hint={display.viewer_hint} isClosed={display.open_canvas === false} />;
  // A result that asks to be displayed shows its files first.
  const isFilesFirst = files !== false && display.open_canvas !== false && (display.open_canvas === true || display.primary_file !== undefined);
  const answer = structured !== undefined && structured !== null ? <JsonView value={structured} /> : blocks.map((block, index) => <BlockView key={index} block={block} />);
  return (
    <div className="stack tight">
      <div className="row wrap">
        {members['isError'] === true && <Status tone="bad">the tool reports an error</Status>}
        <Segment label="Form of the result" value={view} onChange={setView} options={[{ id: 'shown', label: 'Result' }, { id: 'json', label: 'JSON' }]} />
        <span className="end"><CopyButton what="the result" text={pretty(result)} /></span>
      </div>
      {view === 'json' ? (
        <JsonView value={result} />
      ) : (
        <>
          {display.type === 'iframe' && display.url && <PageFrame url={display.url} title={display.title} sandbox={display.sandbox} />}
          {display.refused_host && <RefusedFrame host={display.refused_host} />}
          {isFilesFirst && files}
          <Folded isFolded={isFilesFirst && display.mode === 'replace'}>{answer}</Folded>
          {structured === undefined && blocks.length === 0 && files === false && <p className="muted">The tool returned no content.</p>}
          {!isFilesFirst && files}
        </>
      )}
    </div>
  );
}

/** The answer, folded if a file is shown in its place. */
function Folded({ isFolded, children }: { isFolded: boolean; children: ReactNode }) {
  if (!isFolded) return <>{children}</>;
  return <details><summary className="muted small">Answer of the tool</summary><div className="stack tight" style={{ marginTop: 8 }}>{children}</div></details>;
}

function BlockView({ block }: { block: Block }) {
  if (block.type === 'text') return <TextBlock text={block.text ?? ''} />;
  if ((block.type === 'image' || block.type === 'audio') && block.data) return <DataBlock block={block} />;
  if (block.type === 'resource' && block.resource?.text !== undefined) return <TextBlock text={block.resource.text} />;
  if (block.type === 'resource_link') return <Note>Resource <code>{block.uri}</code> {block.name}</Note>;
  return <JsonView value={block} />;
}

function TextBlock({ text }: { text: string }) {
  const parsed = useMemo(() => {
    if (!/^\s*[[{]/.test(text)) return undefined;
    try {
      return parseJson(text);
    } catch {
      return undefined;
    }
  }, [text]);
  return parsed !== undefined ? <JsonView value={parsed} /> : <pre className="code" tabIndex={0}>{text}</pre>;
}

/** Content that came as base64 becomes a blob, so that it is not in the document. */
function DataBlock({ block }: { block: Block }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    try {
      const content = Uint8Array.from(atob(block.data ?? ''), (char) => char.charCodeAt(0));
      const made = URL.createObjectURL(new Blob([content], { type: block.mimeType ?? '' }));
      setUrl(made);
      return () => URL.revokeObjectURL(made);
    } catch {
      return undefined;
    }
  }, [block]);
  if (!url) return null;
  return <div className="viewer">{block.type === 'audio' ? <audio controls src={url} /> : <img src={url} alt="Image returned by the tool" />}</div>;
}

interface ArtifactsProps {
  artifacts: Artifact[];
  title?: string;
  /** The name of the file that opens first. */
  primary?: string;
  /** The viewer of this file. */
  hint?: string;
  /** No file opens automatically. */
  isClosed: boolean;
}

function Artifacts({ artifacts, title, primary, hint, isClosed }: ArtifactsProps) {
  const named = artifacts.find((file) => file.name === primary);
  const main = named ?? (artifacts.length === 1 ? artifacts[0] : undefined);
  const first = named ?? artifacts.find((file) => viewerOf(file, file === main ? hint : undefined) !== 'none');
  const [open, setOpen] = useState<string | undefined>(isClosed ? undefined : first?.id);
  const shown = artifacts.find((file) => file.id === open);
  return (
    <div className="card">
      <div className="card-head"><h2>{title ?? 'Files'}</h2></div>
      <ul className="items">
        {artifacts.map((file) => (
          <li key={file.id}>
            <div className="text">
              <span className="strong">{file.name}</span> <span className="muted small">version {file.version}, {bytes(file.size_bytes)}</span>
              {file.description && <p className="muted small">{file.description}</p>}
            </div>
            <div className="acts">
              <Button small aria-pressed={file.id === open} onClick={() => setOpen(file.id === open ? undefined : file.id)}>{file.id === open ? 'Hide' : 'Show'}</Button>
              <Link className="button small only-wide" href={`/canvas/${file.id}`}>Open in Canvas</Link>
              <Button small icon="download" aria-label={`Download ${file.name}`} onClick={() => void download(file)} />
            </div>
          </li>
        ))}
      </ul>
      {shown && <div className="card-body"><FileViewer key={shown.id} file={shown} hint={shown.id === main?.id ? hint : undefined} /></div>}
    </div>
  );
}
