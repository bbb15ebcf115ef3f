// Where a setting comes from, as the gateway writes it: `/home/me/toolbooth.toml:3:8 (user)`.

export interface Place {
  file: string;
  /** 0 if it is not known. */
  line: number;
}

/** The file and line of an origin; `undefined` if it is not a file. */
export function placeOf(origin: string): Place | undefined {
  const match = /^(\/.*?)(?::(\d+))?(?::\d+)? \([^()]*\)/.exec(origin);
  return match?.[1] === undefined ? undefined : { file: match[1], line: Number(match[2] ?? 0) };
}

/** A path in a file, which is relative to the folder of that file. */
export function pathFrom(file: string, path: string): string {
  return path.startsWith('/') || path.startsWith('~') ? path : `${file.replace(/[^/]*$/, '')}${path}`;
}

export interface UnsetVariable {
  name: string;
  /** Where the entry refers to it; absent if that is not a file. */
  place?: Place;
}

/** The variable that an entry refers to and that the gateway does not have; `null` if that is not its error. */
export function unsetVariable({ code, reason }: { code?: string | null; reason?: string | null }): UnsetVariable | null {
  const match = code === 'config.variable' ? /^(?:(\/.*?):(\d+)(?::\d+)?: )?.*the variable `([^`]+)` is not set/.exec(reason ?? '') : null;
  if (match?.[3] === undefined) return null;
  return match[1] === undefined ? { name: match[3] } : { name: match[3], place: { file: match[1], line: Number(match[2]) } };
}

/** Why a server does not run. An unset variable is named without the place, which is shown on its own. */
export function reasonOf(server: { code?: string | null; reason?: string | null }): string | null {
  const variable = unsetVariable(server);
  return variable ? `the variable \`${variable.name}\` is not set` : server.reason ?? null;
}
