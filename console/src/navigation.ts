// The pages of the console: their paths, names, icons and shortcuts.

import { useChatModels } from './api/queries';
import type { IconName } from './ui/icons';

export interface Page {
  path: string;
  label: string;
  icon: IconName;
  /** The letter after `g`. */
  letter: string;
  /** In the bottom bar of narrow screens. */
  main: boolean;
}

export const PAGES: Page[] = [
  { path: '/', label: 'Overview', icon: 'overview', letter: 'o', main: true },
  { path: '/inbox', label: 'Inbox', icon: 'inbox', letter: 'i', main: true },
  { path: '/tools', label: 'Tools', icon: 'tools', letter: 't', main: true },
  { path: '/chat', label: 'Chat', icon: 'chat', letter: 'h', main: false },
  { path: '/servers', label: 'Servers', icon: 'servers', letter: 's', main: true },
  { path: '/activity', label: 'Activity', icon: 'activity', letter: 'a', main: false },
  { path: '/canvas', label: 'Canvas', icon: 'files', letter: 'c', main: false },
  { path: '/jobs', label: 'Jobs', icon: 'clock', letter: 'j', main: false },
  { path: '/cost', label: 'Context cost', icon: 'cost', letter: 'x', main: false },
  { path: '/settings', label: 'Settings', icon: 'settings', letter: ',', main: false },
];

/** The pages that this gateway has: the chat needs a language model. */
export function usePages(): Page[] {
  const models = useChatModels();
  const hasChat = (models.data?.models.length ?? 0) > 0;
  return PAGES.filter((page) => page.path !== '/chat' || hasChat);
}
