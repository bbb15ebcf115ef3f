// The chat with the configured model: its text, its calls as they happen, decisions and questions inline, and a canvas.
// Text of the model and of tools is shown as Markdown or plain text, never as HTML.

import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { Link } from 'wouter';
import { useChatModels } from '../api/queries';
import { type ChatCall, type ChatItem, type ShownFile } from '../chat/conversation';
import { chat } from '../chat/store';
import { count } from '../lib/format';
import { isObject } from '../lib/json';
import { Button, CodeBox, Empty, Failure, Loaded, Note, PageHead, Status, type Tone } from '../ui/basic';
import { JsonView, short } from '../ui/json';
import { Markdown } from '../ui/markdown';
import { ResultView } from '../ui/result';
import { ToolApp } from '../ui/tool-app';
import { FileViewer, download } from '../ui/viewer';
import { CancelCall } from './cancel-call';
import { PromptPicker } from './chat-prompts';
import { ApprovalDetail } from './inbox-call';
import { QuestionForm } from './question';

const EXAMPLES = ['What can you do for me here?', 'What is the SHA-256 of “hello”?', 'Make a short report about the tides.'];
/** The model that was chosen last, in this browser. */
const CHOICE = 'toolbooth-chat-model';

export default function ChatPage() {
  const models = useChatModels();
  return (
    <Loaded query={models} lines={6}>
      {({ models: names }) => (names.length === 0 ? <NoModel /> : <Conversation models={names} />)}
    </Loaded>
  );
}

function NoModel() {
  return (
    <div className="page">
      <PageHead title="Chat" />
      <div className="card">
        <Empty title="No language model is configured">
          <p>The chat needs <code>llm.base_url</code> and <code>llm.model</code> in <code>toolbooth.toml</code>; any OpenAI-compatible endpoint works.</p>
          <CodeBox what="the setting" text={'[llm]\nbase_url = "https://llm.example/v1"\nmodel = "small-1"'} />
        </Empty>
      </div>
    </div>
  );
}

function Conversation({ models }: { models: string[] }) {
  const { items, isBusy, file } = useSyncExternalStore(chat.subscribe, chat.get);
  const stored = localStorage.getItem(CHOICE);
  const [model, setModel] = useState(stored && models.includes(stored) ? stored : models[0] ?? '');
  const list = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    // What is added or grows moves the view only if the person reads at the end.
    const follow = new ResizeObserver(() => {
      if (isAtEnd.current && list.current) list.current.scrollTop = list.current.scrollHeight;
    });
    if (content.current) follow.observe(content.current);
    return () => follow.disconnect();
  }, []);
  const choose = (name: string) => {
    setModel(name);
    localStorage.setItem(CHOICE, name);
  };
  const say = (text: string) => {
    isAtEnd.current = true;
    void chat.say(text, model);
  };
  return (
    <div className="page fill">
      <div className={`chat ${file ? 'with-canvas' : ''}`}>
        <section className="chat-main" aria-label="Chat">
          <header className="chat-head">
            <h1>Chat</h1>
            <label className="row small end"><span className="muted only-wide">Model</span>
              <select className="select" aria-label="Model" value={model} disabled={isBusy} onChange={(event) => choose(event.target.value)}>
                {models.map((name) => <option key={name} value={name}>{name}</option>)}
              </select>
            </label>
            <Button icon="plus" disabled={items.length === 0} onClick={() => chat.clear()}>New chat</Button>
          </header>
          <div className="chat-list" ref={list} tabIndex={0} role="log" aria-label="Messages" aria-busy={isBusy} onScroll={({ currentTarget: box }) => { isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 60; }}>
            <div className="chat-content" ref={content}>
              {items.length === 0 && (
                <Empty title="Ask for something that your tools can do">
                  <p>The model calls tools as you, under the same rules. A call that needs a decision asks you here.</p>
                  <div className="chat-examples">{EXAMPLES.map((text) => <Button key={text} onClick={() => say(text)}>{text}</Button>)}</div>
                </Empty>
              )}
              {items.map((item) => <ItemView key={item.key} item={item} />)}
            </div>
          </div>
          <Composer isBusy={isBusy} onSay={say} />
        </section>
        {file && <Beside file={file} />}
      </div>
    </div>
  );
}

function Composer({ isBusy, onSay }: { isBusy: boolean; onSay: (text: string) => void }) {
  const [text, setText] = useState('');
  const [isChoosing, setChoosing] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (isBusy || text.trim() === '') return;
    onSay(text.trim());
    setText('');
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };
  return (
    <>
      <form className="chat-form" onSubmit={submit}>
        <Button icon="prompt" aria-label="Insert a prompt" title="Insert a prompt" onClick={() => setChoosing(true)} />
        <textarea ref={field} className="area text" aria-label="Message" placeholder="Message" rows={2} maxLength={50_000} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKeyDown} />
        {isBusy ? <Button look="danger" icon="cross" onClick={() => chat.stop()}>Stop</Button> : <Button look="primary" type="submit" disabled={text.trim() === ''}>Send</Button>}
      </form>
      {isChoosing && <PromptPicker onClose={() => setChoosing(false)} onChosen={(chosen) => { setChoosing(false); setText((before) => (before.trim() ? `${before.trimEnd()}\n\n${chosen}` : chosen).slice(0, 50_000)); field.current?.focus(); }} />}
    </>
  );
}

function ItemView({ item }: { item: ChatItem }) {
  if (item.kind === 'person') return <div className="said person"><span className="visually-hidden">You: </span><p className="asked">{item.text}</p></div>;
  if (item.kind === 'problem') return <Failure error={item.error} />;
  return (
    <div className="said">
      {item.text ? <Markdown text={item.text} /> : item.isOpen && <p className="muted thinking">Thinking…</p>}
      {item.finish === 'length' && <Note tone="warn">The answer was cut off: it reached <code>llm.max_tokens</code>.</Note>}
      {item.calls.map((call) => <CallCard key={call.id} call={call} />)}
      {item.tokens !== undefined && item.calls.length === 0 && <p className="muted small">{count(item.tokens)} tokens</p>}
    </div>
  );
}

const STATES: Record<ChatCall['state'], [Tone, string]> = {
  running: ['warn', 'running'], held: ['held', 'needs a decision'], asks: ['held', 'asks you'], done: ['ok', 'done'], failed: ['bad', 'failed'], stopped: ['off', 'stopped'],
};

function CallCard({ call }: { call: ChatCall }) {
  const [tone, word] = STATES[call.state];
  const { outcome } = call;
  const given = isObject(call.arguments) ? Object.entries(call.arguments) : [];
  const ended = outcome?.kind === 'result' ? outcome : null;
  if (call.isLookup && !call.error && !call.note) {
    return (
      <details className="chat-lookup muted small" aria-label={`Call of ${call.tool}`}>
        <summary>Looks for tools: {given.map(([, value]) => short(value)).join(', ') || 'all'}</summary>
        {ended && <ResultView result={ended.result} />}
      </details>
    );
  }
  return (
    <section className="card chat-call" aria-label={`Call of ${call.tool}`}>
      <div className="chat-call-head">
        <Status tone={tone} plain={call.state === 'done'}>{word}</Status>
        <b className="wrap-any">{call.tool}</b>
        {call.state === 'running' && call.request && <CancelCall key={call.request} request={call.request} />}
      </div>
      {given.length > 0 && (
        <details className="chat-part">
          <summary><span className="clip muted small">{given.map(([name, value]) => `${name}: ${short(value)}`).join(', ')}</span></summary>
          <JsonView value={call.arguments} />
        </details>
      )}
      {call.note && <p className="chat-part muted small wrap-any">{call.note}</p>}
      {call.error && <div className="chat-part"><Failure error={call.error} /></div>}
      {call.state === 'held' && call.held && <div className="chat-part inline-decision"><ApprovalDetail id={call.held} /></div>}
      {call.state === 'asks' && outcome?.kind === 'question' && <div className="chat-part"><QuestionForm key={outcome.number} call={outcome.call} question={outcome.question} onOutcome={(next) => chat.answered(outcome.call, next)} /></div>}
      {ended && <div className="chat-app"><ToolApp tool={call.tool} given={isObject(call.arguments) ? call.arguments : {}} result={ended.result} /></div>}
      {ended && (
        <details className="chat-part">
          <summary className="muted small">Result</summary>
          <ResultView result={ended.result} />
        </details>
      )}
      {ended && <Files result={ended.result} />}
    </section>
  );
}

/** The files of a result: a button opens them beside the chat, or on the page of the canvas if there is no room. */
function Files({ result }: { result: unknown }) {
  const meta = isObject(result) && isObject(result['_meta']) ? result['_meta'] : {};
  const files = (Array.isArray(meta['toolbooth/artifacts']) ? meta['toolbooth/artifacts'] : []) as unknown as ShownFile[];
  if (files.length === 0) return null;
  return (
    <div className="chat-part row wrap">
      {files.slice(0, 50).map((file) => (
        <span key={file.id}>
          <Button small className="only-wide" icon="files" onClick={() => chat.showFile(file)}>{file.name}</Button>
          <Link className="button small only-narrow" href={`/canvas/${file.id}`}>{file.name}</Link>
        </span>
      ))}
    </div>
  );
}

function Beside({ file }: { file: ShownFile }) {
  return (
    <aside className="chat-canvas" aria-label="Canvas">
      <header className="row">
        <h2 className="clip" title={file.name}>{file.name}</h2>
        {file.version > 1 && <span className="tag">v{file.version}</span>}
        <span className="end row">
          <Link className="button small" href={`/canvas/${file.id}`}>Open in Canvas</Link>
          <Button small icon="download" aria-label={`Download ${file.name}`} onClick={() => void download(file)} />
          <Button small icon="cross" aria-label="Close the canvas" onClick={() => chat.showFile(null)} />
        </span>
      </header>
      <FileViewer key={file.id} file={file} hint={file.hint} />
    </aside>
  );
}
