// Prompts of servers, of the operator and of skills: fill in their arguments, and copy the messages into a chat.

import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useLocation } from 'wouter';
import { fetchJson } from '../api/client';
import { plural } from '../lib/format';
import { Button, CopyButton, Empty, Failure, Loaded } from '../ui/basic';
import { Markdown } from '../ui/markdown';

interface Prompt {
  name: string;
  title?: string;
  description?: string;
  arguments?: { name: string; description?: string; required?: boolean }[];
}
interface Message {
  role: string;
  content: { type?: string; text?: string } | { type?: string; text?: string }[];
}

const textOf = (message: Message) => (Array.isArray(message.content) ? message.content : [message.content]).map((block) => block.text ?? `[${block.type ?? 'content'}]`).join('\n\n');

export function PromptList({ selected }: { selected?: string }) {
  const [, go] = useLocation();
  const prompts = useQuery({ queryKey: ['prompts'], queryFn: ({ signal }) => fetchJson<{ prompts: Prompt[] }>('GET', '/prompts', { signal }) });
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
  const [value, setValue] = useState<Record<string, string>>({});
  const fill = useMutation({
    mutationFn: () => fetchJson<{ prompt: { messages?: Message[] } }>('POST', '/prompts/{name}', { params: { name: prompt.name }, body: { arguments: value } }),
  });
  const messages = fill.data?.prompt.messages ?? [];
  return (
    <form className="form" style={{ marginTop: 12 }} onSubmit={(event: FormEvent) => { event.preventDefault(); fill.mutate(); }}>
      {(prompt.arguments ?? []).map((argument) => (
        <div key={argument.name} className="field">
          <label htmlFor={`prompt-${argument.name}`}>{argument.name}{argument.required && <span className="need">required</span>}</label>
          <input id={`prompt-${argument.name}`} className="input" required={argument.required} autoComplete="off" value={value[argument.name] ?? ''} onChange={(event) => setValue({ ...value, [argument.name]: event.target.value })} />
          {argument.description && <p className="about">{argument.description}</p>}
        </div>
      ))}
      <div><Button type="submit" look="primary" small busy={fill.isPending}>Show the messages</Button></div>
      {fill.error && <Failure error={fill.error} />}
      {messages.map((message, index) => (
        <div key={index} className="viewer card-body stack tight">
          <div className="row"><span className="tag">{message.role}</span><span className="end"><CopyButton what="the message" text={textOf(message)} /></span></div>
          <Markdown text={textOf(message)} />
        </div>
      ))}
    </form>
  );
}
