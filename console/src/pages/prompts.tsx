// Prompts of servers, of the operator and of skills: fill in their arguments, and copy the messages into a chat.

import { useState } from 'react';
import { useLocation } from 'wouter';
import { plural } from '../lib/format';
import { Button, CopyButton, Empty, Loaded } from '../ui/basic';
import { Markdown } from '../ui/markdown';
import { type Prompt, PromptForm, type PromptMessage, textOf, usePrompts } from './prompt-form';

export function PromptList({ selected }: { selected?: string }) {
  const [, go] = useLocation();
  const prompts = usePrompts();
  return (
    <Loaded query={prompts} lines={6}>
      {({ prompts: list }) => {
        if (list.length === 0) return <div className="card"><Empty title="No prompts"><p>Servers, skills and the setting <code>prompts</code> offer prompts. Clients show them as commands.</p></Empty></div>;
        return (
          <ul className="card items">
            {list.map((prompt) => (
              <li key={prompt.name}>
                <div className="text">
                  <p className="strong">{prompt.name}</p>
                  <p className="muted small clip2">{prompt.description ?? prompt.title ?? 'No description'}</p>
                  {prompt.name === selected && <UsePrompt prompt={prompt} />}
                </div>
                <div className="acts top">
                  {prompt.arguments?.length ? <span className="muted small nowrap">{plural(prompt.arguments.length, 'argument')}</span> : null}
                  <Button small aria-expanded={prompt.name === selected} onClick={() => go(prompt.name === selected ? '/jobs/prompts' : `/jobs/prompts/${encodeURIComponent(prompt.name)}`)}>{prompt.name === selected ? 'Close' : 'Use'}</Button>
                </div>
              </li>
            ))}
          </ul>
        );
      }}
    </Loaded>
  );
}

function UsePrompt({ prompt }: { prompt: Prompt }) {
  const [messages, setMessages] = useState<PromptMessage[]>([]);
  return (
    <div className="stack tight" style={{ marginTop: 12 }}>
      <PromptForm prompt={prompt} action="Show the messages" onFilled={setMessages} />
      {messages.map((message, index) => (
        <div key={index} className="viewer card-body stack tight">
          <div className="row"><span className="tag">{message.role}</span><span className="end"><CopyButton what="the message" text={textOf(message)} /></span></div>
          <Markdown text={textOf(message)} />
        </div>
      ))}
    </div>
  );
}
