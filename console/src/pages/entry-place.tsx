// Where the entry of a server is: the file and the line.

import { useSettings } from '../api/queries';
import { type Place, placeOf } from '../lib/config-place';

/** The place of a setting or a server's entry; `undefined` until it is known, or if it is in no file. */
export function usePlace(key: string): Place | undefined {
  const settings = useSettings();
  const setting = settings.data?.settings.find((one) => one.key === key);
  return setting && placeOf(setting.origin);
}

/** A file and line. */
export function FilePlace({ place: { file, line } }: { place: Place }) {
  return <><code className="wrap-any">{file}</code>{line > 0 && `, line ${line}`}</>;
}

export function EntryPlace({ name }: { name: string }) {
  const place = usePlace(`servers.${name}`);
  return place ? <>It is in <FilePlace place={place} />.</> : null;
}
