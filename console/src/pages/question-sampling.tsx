// A server asks for an answer of a language model. The person writes it, or lets the gateway's model draft it and edits the
// draft. Nothing is sent before the person sends it.

import { useMutation } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { fetchJson } from '../api/client';
import type { SamplingRequest } from '../api/queries';
import { visible } from '../lib/hidden';
import { Button, Failure } from '../ui/basic';

interface Draft {
  text: string;
  model: string;
}

const ROLES: Record<string, string> = { user: 'User', assistant: 'Assistant' };

/** The wishes of the server in one line. */
function wishes({ max_tokens: tokens, model_hints: hints, priorities, temperature }: SamplingRequest): string {
  const parts: string[] = [];
  if (tokens != null) parts.push(`at most ${tokens} tokens`);
  if (hints && hints.length > 0) parts.push(`preferred models: ${hints.join(', ')}`);
  for (const [name, value] of Object.entries(priorities ?? {})) parts.push(`priority of ${name}: ${value}`);
  if (temperature != null) parts.push(`temperature ${temperature}`);
  return parts.join(' · ');
}

export function SamplingQuestion({ call, request, server, busy, onAnswer }: { call: string; request: SamplingRequest; server: string | undefined; busy: 'accept' | 'decline' | null; onAnswer: (text: string | null) => void }) {
  const [text, setText] = useState('');
  const [model, setModel] = useState<string | null>(null);
  const id = useId();
  const draft = useMutation({
    mutationFn: () => fetchJson<Draft>('POST', '/calls/{id}/draft', { params: { id: call } }),
    onSuccess: (made) => { setText(made.text); setModel(made.model); },
  });
  const limits = wishes(request);
  return (
    <>
      {request.system_prompt && (
        <section className="stack tight"><h3 className="muted small">System prompt</h3><pre className="code wrap-any">{visible(request.system_prompt) as string}</pre></section>
      )}
      {request.messages.map((message, index) => (
        <section key={index} className="stack tight">
          <h3 className="muted small">{ROLES[message.role] ?? message.role}</h3>
          <pre className="code wrap-any">{visible(message.text) as string}</pre>
          {message.other && message.other.length > 0 && <p className="muted small">Not shown: {(visible(message.other) as string[]).join(', ')}</p>}
        </section>
      ))}
      {limits && <p className="muted small">The server wants: {visible(limits) as string}</p>}
      <div className="field">
        <label htmlFor={id}>Answer</label>
        <textarea id={id} className="area text" rows={6} maxLength={100_000} value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      <p className="muted small">
        {model ? <>A draft of <b>{visible(model) as string}</b>. Read it, and change it if you want. </> : null}
        The answer goes to the server{server ? <> <b>{server}</b></> : null} when you send it, and not before.
      </p>
      {draft.error && <Failure error={draft.error} />}
      <div className="row wrap">
        <Button look="primary" disabled={text.trim() === ''} busy={busy === 'accept'} onClick={() => onAnswer(text)}>Send the answer</Button>
        {request.can_draft && <Button busy={draft.isPending} onClick={() => draft.mutate()}>{model ? 'Draft again' : 'Draft with the model'}</Button>}
        <Button busy={busy === 'decline'} onClick={() => onAnswer(null)}>Decline</Button>
      </div>
    </>
  );
}
