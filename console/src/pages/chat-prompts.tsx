// Chooses a prompt for the chat. Its text goes into the message, so that the person reads it before it is sent.

import { useState } from 'react';
import { Button, Empty, Loaded } from '../ui/basic';
import { Dialog } from '../ui/dialog';
import { type Prompt, PromptForm, type PromptMessage, textOf, usePrompts } from './prompt-form';

/** The messages as one text. A prompt may contain answers of the model as examples; they are marked. */
const joined = (messages: PromptMessage[]) => messages.map((message) => (message.role === 'user' ? textOf(message) : `${message.role}: ${textOf(message)}`)).join('\n\n');

export function PromptPicker({ onChosen, onClose }: { onChosen: (text: string) => void; onClose: () => void }) {
  const prompts = usePrompts();
  const [chosen, setChosen] = useState<Prompt | null>(null);
  const [text, setText] = useState('');
  const words = text.trim().toLowerCase();
  if (chosen) {
    return (
      <Dialog title={chosen.title ?? chosen.name} onClose={onClose}>
        {chosen.description && <p className="muted">{chosen.description}</p>}
        <PromptForm prompt={chosen} action="Insert into the message" onFilled={(messages) => onChosen(joined(messages))} />
        <div className="dialog-acts"><Button onClick={() => setChosen(null)}>Other prompts</Button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Prompts" onClose={onClose}>
      <Loaded query={prompts} lines={4}>
        {({ prompts: list }) => {
          if (list.length === 0) return <Empty title="No prompts"><p>Servers, skills and the setting <code>prompts</code> offer prompts.</p></Empty>;
          const found = list.filter((prompt) => [prompt.name, prompt.title, prompt.description].some((part) => part?.toLowerCase().includes(words)));
          return (
            <>
              <input className="input" type="search" aria-label="Filter prompts" placeholder="Filter prompts" value={text} onChange={(event) => setText(event.target.value)} />
              <ul className="card items">
                {found.map((prompt) => (
                  <li key={prompt.name}>
                    <div className="text"><p className="strong">{prompt.name}</p><p className="muted small clip2">{prompt.description ?? prompt.title ?? 'No description'}</p></div>
                    <div className="acts"><Button small aria-label={`Use the prompt ${prompt.name}`} onClick={() => setChosen(prompt)}>Use</Button></div>
                  </li>
                ))}
                {found.length === 0 && <li className="muted">No prompt matches.</li>}
              </ul>
            </>
          );
        }}
      </Loaded>
    </Dialog>
  );
}
