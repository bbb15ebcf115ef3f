// A list of what happens, newest first. While a person reads it, new rows wait behind a button instead of moving the others.

import { useRef, useState } from 'react';
import { useSteadyRows } from '../lib/steady';
import { Button } from './basic';
import { VirtualList, type VirtualListProps } from './virtual';

interface LiveListProps<T> extends VirtualListProps<T> {
  /** The person has stopped the list. */
  isPaused?: boolean;
}

export function LiveList<T>({ isPaused, ...props }: LiveListProps<T>) {
  const { rows, keyOf, label } = props;
  const [isReading, setReading] = useState(false);
  const { rows: shown, waiting, release } = useSteadyRows(rows, keyOf, isReading || isPaused === true);
  const box = useRef<HTMLDivElement>(null);
  const showNew = () => {
    release();
    const list = box.current?.querySelector<HTMLElement>('[role="list"]');
    if (list) list.scrollTop = 0;
  };
  return (
    <div ref={box} className="live-list">
      {waiting !== null && <div className="live-new"><Button small look="primary" icon="up" aria-label={`${label}: show ${waiting} new`} onClick={showNew}>{waiting} new</Button></div>}
      <VirtualList {...props} rows={shown} onReading={setReading} />
    </div>
  );
}
