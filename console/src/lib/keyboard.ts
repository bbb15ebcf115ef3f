// The keyboard of this machine.

/** Whether the command key takes the place of the control key. */
export const isMac = () => /Mac|iPhone|iPad/.test(navigator.userAgent);
