// Keyboard: command palette, shortcuts, and their list, all made from the same bindings.

import { useEffect, useMemo, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { useSearch, useServers } from '../api/queries';
import { isMac } from '../lib/keyboard';
import { PAGES, usePages } from '../navigation';
import { skillHref, skillOf } from '../pages/skills-data';
import { useSettled } from './basic';
import { Dialog } from './dialog';
import { Icon } from './icons';
import { type Command, useActions } from './palette-actions';

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [, go] = useLocation();
  const list = useRef<HTMLUListElement>(null);
  const query = text.trim();
  const settled = useSettled(query);
  const search = useSearch(settled);
  const servers = useServers();
  const known = usePages();
  const actions = useActions(query, go);
  const commands = useMemo<Command[]>(() => {
    const words = query.toLowerCase();
    const matches = (label: string) => label.toLowerCase().includes(words);
    const pages = known.map((page): Command => ({ id: page.path, icon: page.icon, label: page.label, kind: 'Page', run: () => go(page.path) }));
    const found = (servers.data?.servers ?? []).map((server): Command => ({
      id: `server ${server.name}`, icon: 'servers', label: server.name, kind: 'Server', run: () => go(`/servers/${encodeURIComponent(server.name)}`),
    }));
    const tools = query === '' ? [] : (search.data?.hits ?? []).slice(0, 12).map((hit): Command => {
      const skill = skillOf(hit);
      if (skill !== null) return { id: hit.id, icon: 'clock', label: hit.name, kind: 'Skill', run: () => go(skillHref(skill)) };
      return { id: hit.id, icon: 'tools', label: hit.name, kind: 'Tool', run: () => go(`/tools/t/${encodeURIComponent(hit.name)}`) };
    });
    const own = [...pages, ...actions, ...found].filter((command) => matches(command.label));
    return [...own, ...tools].slice(0, 30);
  }, [query, search.data, servers.data, known, actions, go]);
  const selected = Math.min(at, commands.length - 1);
  useEffect(() => {
    list.current?.children[selected]?.scrollIntoView({ block: 'nearest' });
  }, [selected]);
  // While the search runs, the list is that of the text before. Enter waits for the list that belongs to the text.
  const isStale = query !== '' && (settled !== query || search.isPlaceholderData || search.isPending);
  const [waits, setWaits] = useState(false);
  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  useEffect(() => {
    if (!waits || isStale) return;
    setWaits(false);
    run(commands[selected]);
  });
  return (
    <Dialog onClose={onClose} className="palette">
      <input
        className="input"
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={commands[selected] ? `palette-${selected}` : undefined}
        aria-label="Find a page, server, tool, skill, call or action"
        placeholder="Find a page, server or tool, or do something"
        value={text}
        onChange={(event) => { setText(event.target.value); setAt(0); setWaits(false); }}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') { event.preventDefault(); setAt((selected + 1) % Math.max(1, commands.length)); }
          if (event.key === 'ArrowUp') { event.preventDefault(); setAt((selected - 1 + commands.length) % Math.max(1, commands.length)); }
          if (event.key === 'Enter') { event.preventDefault(); setWaits(true); }
        }}
      />
      <ul ref={list} role="listbox" id="palette-list" aria-label="Results">
        {commands.map((command, index) => (
          <li key={command.id} id={`palette-${index}`} role="option" aria-selected={index === selected} onPointerMove={() => setAt(index)} onClick={() => run(command)}>
            <Icon name={command.icon} /><span className="clip">{command.label}</span><span className="kind">{command.kind}</span>
          </li>
        ))}
        {commands.length === 0 && <li className="muted">Nothing matches “{query}”.</li>}
      </ul>
    </Dialog>
  );
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));

interface Actions {
  openPalette: () => void;
  openHelp: () => void;
  go: (path: string) => void;
}

/** `j` and `k` move through the entries of the list of the page. */
function moveInList(step: number) {
  const entries = [...document.querySelectorAll<HTMLElement>('main a.entry, main .entry')].filter((entry) => entry.offsetParent !== null);
  const from = entries.indexOf(document.activeElement as HTMLElement);
  const current = from >= 0 ? from : entries.findIndex((entry) => entry.hasAttribute('aria-current'));
  entries[Math.max(0, Math.min(entries.length - 1, current + step))]?.focus();
}

export function useShortcuts({ openPalette, openHelp, go }: Actions) {
  const pending = useRef(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        openPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector('dialog[open]')) return;
      if (pending.current) {
        pending.current = false;
        const page = PAGES.find((candidate) => candidate.letter === event.key);
        if (page) {
          event.preventDefault();
          go(page.path);
        }
        return;
      }
      if (event.key === 'g') {
        pending.current = true;
        setTimeout(() => (pending.current = false), 1200);
      } else if (event.key === '?') openHelp();
      else if (event.key === 'j') moveInList(1);
      else if (event.key === 'k') moveInList(-1);
      else if (event.key === '/') {
        const filter = document.querySelector<HTMLInputElement>('main input[type="search"]');
        if (filter) {
          event.preventDefault();
          filter.focus();
          filter.select();
        }
      }
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [openPalette, openHelp, go]);
}

export function ShortcutHelp({ onClose }: { onClose: () => void }) {
  const pages = usePages();
  const mod = isMac() ? '⌘' : 'Ctrl';
  const rows: [string, string][] = [
    [`${mod} K`, 'Find a page, server, tool, skill or call, or do something'],
    ['/', 'Search or filter on this page'],
    ['j  k', 'Next and previous entry'],
    ['Enter', 'Open the entry'],
    [`${mod} Enter`, 'Call the tool, or approve the call that is open'],
    ['Esc', 'Close a dialog'],
    ...pages.map((page): [string, string] => [`g ${page.letter}`, page.label]),
    ['?', 'This list'],
  ];
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <div className="keys">
        {rows.map(([keys, what]) => [<span key={keys}><kbd>{keys}</kbd></span>, <span key={`${keys} text`}>{what}</span>])}
      </div>
    </Dialog>
  );
}
