// Filters of lists. They are in the URL, so that a view can be shared and the Back key returns to it.

import { useEffect, useState } from 'react';
import { useSearchParams } from 'wouter';

export function useFilter(name: string): [string, (value: string) => void] {
  const [params, setParams] = useSearchParams();
  const set = (value: string) =>
    setParams((before) => {
      const next = new URLSearchParams(before);
      if (value) next.set(name, value);
      else next.delete(name);
      return next;
    }, { replace: true });
  return [params.get(name) ?? '', set];
}

/** Removes several filters at once: each change of the URL starts from the URL of the last render. */
export function useClearFilters(...names: string[]): () => void {
  const [, setParams] = useSearchParams();
  return () => setParams((before) => new URLSearchParams([...before].filter(([name]) => !names.includes(name))), { replace: true });
}

/** Choices of which none or one is set. A second click removes it. */
export function Chips({ label, value, onChange, options }: { label: string; value: string; onChange: (value: string) => void; options: { id: string; label: string; count?: number }[] }) {
  return (
    <div className="chips" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option.id} type="button" className="chip" aria-pressed={option.id === value} onClick={() => onChange(option.id === value ? '' : option.id)}>
          {option.label}{option.count !== undefined && <span className="muted">{option.count}</span>}
        </button>
      ))}
    </div>
  );
}

/** A filter that runs on the gateway: applied with Enter or when the field is left. */
export function FilterInput({ label, value, onApply }: { label: string; value: string; onApply: (value: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <form onSubmit={(event) => { event.preventDefault(); onApply(text.trim()); }}>
      <input className="input" style={{ width: 170 }} type="search" aria-label={label} placeholder={label} value={text} onChange={(event) => { setText(event.target.value); if (event.target.value === '') onApply(''); }} onBlur={() => { if (text.trim() !== value) onApply(text.trim()); }} />
    </form>
  );
}
