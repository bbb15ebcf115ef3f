// The arguments of a prompt as a form. The server of the prompt may know values for an argument; they are offered while a
// person types.

import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import { fetchJson } from '../api/client';
import { Button, Failure, useSettled } from '../ui/basic';

export interface PromptArgument {
  name: string;
  description?: string;
  required?: boolean;
}
export interface Prompt {
  name: string;
  title?: string;
  description?: string;
  arguments?: PromptArgument[];
}
export interface PromptMessage {
  role: string;
  content: { type?: string; text?: string } | { type?: string; text?: string }[];
}

export const textOf = (message: PromptMessage) => (Array.isArray(message.content) ? message.content : [message.content]).map((block) => block.text ?? `[${block.type ?? 'content'}]`).join('\n\n');

export const usePrompts = (enabled = true) =>
  useQuery({ queryKey: ['prompts'], queryFn: ({ signal }) => fetchJson<{ prompts: Prompt[] }>('GET', '/prompts', { signal }), enabled });

interface PromptFormProps {
  prompt: Prompt;
  /** What the button does. */
  action: string;
  onFilled: (messages: PromptMessage[]) => void;
}

export function PromptForm({ prompt, action, onFilled }: PromptFormProps) {
  const [given, setGiven] = useState<Record<string, string>>({});
  const fill = useMutation({
    mutationFn: () => fetchJson<{ prompt: { messages?: PromptMessage[] } }>('POST', '/prompts/{name}', { params: { name: prompt.name }, body: { arguments: given } }),
    onSuccess: (filled) => onFilled(filled.prompt.messages ?? []),
  });
  return (
    <form className="form" onSubmit={(event: FormEvent) => { event.preventDefault(); fill.mutate(); }}>
      {(prompt.arguments ?? []).map((argument) => (
        <ArgumentInput key={argument.name} prompt={prompt.name} argument={argument} given={given} onChange={(value) => setGiven({ ...given, [argument.name]: value })} />
      ))}
      <div><Button type="submit" look="primary" small busy={fill.isPending}>{action}</Button></div>
      {fill.error && <Failure error={fill.error} />}
    </form>
  );
}

interface ArgumentInputProps {
  prompt: string;
  argument: PromptArgument;
  given: Record<string, string>;
  onChange: (value: string) => void;
}

function ArgumentInput({ prompt, argument, given, onChange }: ArgumentInputProps) {
  const id = useId();
  const value = given[argument.name] ?? '';
  const [hasFocus, setFocus] = useState(false);
  const values = useCompletion(prompt, argument.name, given, hasFocus);
  return (
    <div className="field">
      <label htmlFor={id}>{argument.name}{argument.required && <span className="need">required</span>}</label>
      <input id={id} className="input" required={argument.required} autoComplete="off" list={`${id}-values`} value={value} onFocus={() => setFocus(true)} onChange={(event) => onChange(event.target.value)} />
      <datalist id={`${id}-values`}>{values.map((known) => <option key={known} value={known} />)}</datalist>
      {argument.description && <p className="about">{argument.description}</p>}
    </div>
  );
}

/** The values that the server of a prompt offers for an argument. Most servers offer none. */
function useCompletion(prompt: string, argument: string, given: Record<string, string>, enabled: boolean): string[] {
  const value = useSettled(given[argument] ?? '', 200);
  const others = Object.fromEntries(Object.entries(given).filter(([name, text]) => name !== argument && text !== ''));
  const found = useQuery({
    queryKey: ['completion', prompt, argument, value, others],
    queryFn: ({ signal }) => fetchJson<{ completion: { values?: string[] } }>('POST', '/prompts/{name}/complete', { params: { name: prompt }, body: { argument, value, arguments: others }, signal }),
    enabled,
    // A server that completes no arguments answers with an error. The field works without values.
    retry: false,
    staleTime: 60_000,
    placeholderData: (before) => before,
  });
  return (found.data?.completion.values ?? []).filter((known) => typeof known === 'string').slice(0, 100);
}
