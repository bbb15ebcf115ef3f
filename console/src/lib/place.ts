// Where the console is served. A proxy may add a prefix, so paths are taken from this script's own URL.

const root = import.meta.env.DEV ? '/console/' : new URL('..', import.meta.url).pathname;

/** The path of the console without the last slash, such as `/console`. */
export const consolePath = root.replace(/\/$/, '');
/** The path of the gateway without the last slash; empty at the root of a host. */
export const gatewayPath = consolePath.replace(/\/[^/]*$/, '');
/** The URL of the gateway, for commands and configuration that people copy. */
export const gatewayUrl = `${location.origin}${gatewayPath}`;
