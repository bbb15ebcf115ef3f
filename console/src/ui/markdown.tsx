// A safe subset of Markdown: headings, lists, code, emphasis, links, tables. HTML in it is shown as text.

import type { ReactNode } from 'react';

const INLINE = /(`+)([^`]+?)\1|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]*)\]\(([^)\s]+)\)/g;

function inline(text: string): ReactNode[] {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(end, match.index));
    const [whole, , code, bold, italic, label, target] = match;
    const key = match.index;
    if (code !== undefined) parts.push(<code key={key}>{code}</code>);
    else if (bold !== undefined) parts.push(<b key={key}>{bold}</b>);
    else if (italic !== undefined) parts.push(<i key={key}>{italic}</i>);
    else if (target && /^https?:\/\//i.test(target)) {
      // The whole target is shown: a label may lie about it.
      parts.push(<a key={key} href={target} target="_blank" rel="noopener noreferrer nofollow">{label}</a>, label === target ? '' : ` (${target})`);
    } else parts.push(whole);
    end = match.index + whole.length;
  }
  parts.push(text.slice(end));
  return parts;
}

export function Markdown({ text }: { text: string }) {
  const blocks: ReactNode[] = [];
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  let index = 0;
  while (index < lines.length) {
    const line = lines[index] ?? '';
    const key = index;
    const fence = /^(```+|~~~+)/.exec(line)?.[1];
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (fence) {
      const body: string[] = [];
      for (index += 1; index < lines.length && !lines[index]?.startsWith(fence); index++) body.push(lines[index] ?? '');
      index += 1;
      blocks.push(<pre key={key} className="code">{body.join('\n')}</pre>);
    } else if (heading) {
      const Tag = (['h2', 'h3', 'h4'] as const)[Math.min(2, (heading[1]?.length ?? 1) - 1)] ?? 'h4';
      blocks.push(<Tag key={key}>{inline(heading[2] ?? '')}</Tag>);
      index += 1;
    } else if (/^\s*([-*+]|\d+[.)])\s+/.test(line)) {
      const isOrdered = /^\s*\d/.test(line);
      const items: ReactNode[] = [];
      for (; index < lines.length; index++) {
        const item = /^\s*(?:[-*+]|\d+[.)])\s+(.*)$/.exec(lines[index] ?? '');
        if (!item) break;
        items.push(<li key={index}>{inline(item[1] ?? '')}</li>);
      }
      blocks.push(isOrdered ? <ol key={key} className="md-list">{items}</ol> : <ul key={key} className="md-list">{items}</ul>);
    } else if (line.startsWith('|') && /^\|?[\s:|-]+\|?$/.test(lines[index + 1] ?? '')) {
      const cells = (row: string) => row.replace(/^\||\|\s*$/g, '').split('|').map((cell) => cell.trim());
      const head = cells(line);
      const rows: string[][] = [];
      for (index += 2; lines[index]?.startsWith('|'); index++) rows.push(cells(lines[index] ?? ''));
      blocks.push(
        <table key={key} className="table">
          <thead><tr>{head.map((cell, column) => <th key={column}>{inline(cell)}</th>)}</tr></thead>
          <tbody>{rows.map((row, position) => <tr key={position}>{row.map((cell, column) => <td key={column}>{inline(cell)}</td>)}</tr>)}</tbody>
        </table>,
      );
    } else if (line.trim() === '') index += 1;
    else {
      const body: string[] = [];
      for (; index < lines.length && (lines[index] ?? '').trim() !== '' && !/^(#{1,6}\s|```|~~~|\s*[-*+]\s|\|)/.test(lines[index] ?? ''); index++) body.push(lines[index] ?? '');
      if (body.length === 0) {
        body.push(line);
        index += 1;
      }
      blocks.push(<p key={key}>{inline(body.join(' '))}</p>);
    }
  }
  return <div className="stack tight wrap-any">{blocks}</div>;
}
