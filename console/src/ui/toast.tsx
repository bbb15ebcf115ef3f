// Short messages about something the person just did.

import { useSyncExternalStore } from 'react';

interface Toast {
  id: number;
  text: string;
}
const VISIBLE_MS = 5000;
let toasts: Toast[] = [];
let nextId = 1;
const listeners = new Set<() => void>();

function publish(next: Toast[]) {
  toasts = next;
  listeners.forEach((listener) => listener());
}

export function toast(text: string) {
  const id = nextId++;
  publish([...toasts.slice(-2), { id, text }]);
  setTimeout(() => publish(toasts.filter((item) => item.id !== id)), VISIBLE_MS);
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((item) => <div key={item.id} className="toast">{item.text}</div>)}
    </div>
  );
}
