// A list that renders only its visible rows, for lists of ten thousand.

import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useRef } from 'react';

export interface VirtualListProps<T> {
  rows: T[];
  rowHeight: number;
  keyOf: (row: T) => string;
  render: (row: T, index: number) => ReactNode;
  label: string;
  /** Called when the end of the list comes into view. */
  onEnd?: () => void;
  /** The largest height in pixels; without it the list fills its container. */
  maxHeight?: number;
  /** The rows have different heights, so each is measured; `rowHeight` is an estimate. */
  measured?: boolean;
  /** The row to keep visible. */
  showIndex?: number;
  /** Called when a person begins or ends to read the list: it is scrolled, or one of its rows has the focus. */
  onReading?: (isReading: boolean) => void;
}

export function VirtualList<T>({ rows, rowHeight, keyOf, render, label, onEnd, maxHeight, measured, showIndex, onReading }: VirtualListProps<T>) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 8,
    getItemKey: (index) => (rows[index] === undefined ? index : keyOf(rows[index])),
  });
  const hasFocus = useRef(false);
  const report = () => onReading?.(hasFocus.current || (scroller.current?.scrollTop ?? 0) > 0);
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (rows.length > 0 && last >= rows.length - 20) onEnd?.();
  }, [last, rows.length, onEnd]);
  useEffect(() => {
    if (showIndex !== undefined && showIndex >= 0) virtual.scrollToIndex(showIndex);
    // Only when the wanted row changes: scrolling by hand must not jump back.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [showIndex]);
  return (
    <div ref={scroller} className="vlist" style={maxHeight === undefined ? { flex: 1, minHeight: 0 } : { height: Math.min(virtual.getTotalSize(), maxHeight) }} role="list" aria-label={label} tabIndex={-1}
      onScroll={report}
      onFocus={(event) => { hasFocus.current = event.target !== event.currentTarget; report(); }}
      onBlur={(event) => { hasFocus.current = event.currentTarget !== event.relatedTarget && event.currentTarget.contains(event.relatedTarget); report(); }}
    >
      <div className="vlist-space" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index];
          return row === undefined ? null : (
            <div key={item.key} ref={measured ? virtual.measureElement : undefined} data-index={item.index} role="listitem" aria-setsize={rows.length} aria-posinset={item.index + 1} className={`vlist-row ${item.index === rows.length - 1 ? 'last' : ''}`} style={{ transform: `translateY(${item.start}px)`, ...(measured ? {} : { height: item.size }) }}>
              {render(row, item.index)}
            </div>
          );
        })}
      </div>
    </div>
  );
}
