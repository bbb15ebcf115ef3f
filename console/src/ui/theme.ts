// Light, dark, or as the operating system says.

import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'toolbooth-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();

function chosen(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === 'light' || stored === 'dark' ? stored : 'system';
}

/** The colours that are shown. */
export function shownTheme(): 'light' | 'dark' {
  const theme = chosen();
  return theme === 'dark' || (theme === 'system' && dark.matches) ? 'dark' : 'light';
}

export function applyTheme() {
  document.documentElement.dataset['theme'] = shownTheme();
}
dark.addEventListener('change', () => {
  applyTheme();
  listeners.forEach((listener) => listener());
});

/** Calls the listener when the colours may have changed, until the returned function is called. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function setTheme(theme: Theme) {
  if (theme === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  applyTheme();
  listeners.forEach((listener) => listener());
}

export function useTheme(): Theme {
  return useSyncExternalStore(onTheme, chosen);
}
