// Forgets the chat when its user leaves. The chat itself is loaded with its page, so this file must not import it.

let forget: (() => void) | null = null;

export const onLeave = (act: () => void) => {
  forget = act;
};
export const leaveChat = () => forget?.();
