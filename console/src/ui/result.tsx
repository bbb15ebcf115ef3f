// The result of a tool call: text, structured content, images and files.

import { useEffect, useMemo, useState } from 'react';
import { bytes } from '../lib/format';
import { type Json, isObject, parseJson, pretty } from '../lib/json';
import { Button, CopyButton, Note, Segment, Status } from './basic';
import { JsonView } from './json';
import { FileViewer, type ViewedFile, download, viewerOf } from './viewer';

interface Artifact extends ViewedFile {
  version: number;
  description?: string;
}
interface DisplayHint {
  open_canvas?: boolean;
  primary_file?: string;
  title?: string;
  type?: string;
  url?: string;
  sandbox?: string;
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
  const display = (isObject(meta[DISPLAY]) ? meta[DISPLAY] : {}) as DisplayHint;
  const blocks = (Array.isArray(members['content']) ? members['content'] : []) as unknown as Block[];
  const structured = members['structuredContent'];
  // A result that asks to be displayed shows its files first.
  const files = artifacts.length > 0 && <Artifacts artifacts={artifacts} primary={display.primary_file} />;
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
          {display.primary_file && files}
          {structured !== undefined && structured !== null ? <JsonView value={structured} /> : blocks.map((block, index) => <BlockView key={index} block={block} />)}
          {structured === undefined && blocks.length === 0 && <p className="muted">The tool returned no content.</p>}
          {!display.primary_file && files}
        </>
      )}
    </div>
  );
}

/** A page of another site that the operator allows (`display.iframe_hosts`). It never gets the rights of this page. */
function PageFrame({ url, title, sandbox }: { url: string; title?: string; sandbox?: string }) {
  if (!/^https:\/\//i.test(url)) return null;
  const allowed = (sandbox ?? 'allow-scripts').split(/\s+/).filter((word) => word !== '' && !/same-origin|top-navigation/i.test(word));
  return (
    <figure className="stack tight">
      <div className="viewer"><iframe title={title ?? url} src={url} sandbox={allowed.join(' ')} referrerPolicy="no-referrer" /></div>
      <figcaption className="muted small wrap-any">{url} · <a href={url} target="_blank" rel="noopener noreferrer nofollow">open in a new tab</a></figcaption>
    </figure>
  );
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

function Artifacts({ artifacts, primary }: { artifacts: Artifact[]; primary?: string }) {
  const first = artifacts.find((file) => file.name === primary) ?? artifacts.find((file) => viewerOf(file) !== 'none');
  const [open, setOpen] = useState<string | undefined>(first?.id);
  const shown = artifacts.find((file) => file.id === open);
  return (
    <div className="card">
      <div className="card-head"><h2>Files</h2></div>
      <ul className="items">
        {artifacts.map((file) => (
          <li key={file.id}>
            <div className="text">
              <span className="strong">{file.name}</span> <span className="muted small">version {file.version}, {bytes(file.size_bytes)}</span>
              {file.description && <p className="muted small">{file.description}</p>}
            </div>
            <div className="acts">
              <Button small aria-pressed={file.id === open} onClick={() => setOpen(file.id === open ? undefined : file.id)}>{file.id === open ? 'Hide' : 'Show'}</Button>
              <Button small icon="download" aria-label={`Download ${file.name}`} onClick={() => void download(file)} />
            </div>
          </li>
        ))}
      </ul>
      {shown && <div className="card-body"><FileViewer key={shown.id} file={shown} /></div>}
    </div>
  );
}
