// Characters that a person cannot see but a model reads: format controls, private use, tags.

const HIDDEN = /[\p{Cf}\p{Co}\u{E0000}-\u{E007F}]/gu;

export const hasHidden = (text: string): boolean => text.search(HIDDEN) >= 0;

/** The value with hidden characters written as codes. */
export function visible(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(HIDDEN, (char) => `⟦U+${char.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}⟧`);
  if (Array.isArray(value)) return value.map(visible);
  if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([key, item]) => [visible(key) as string, visible(item)]));
  return value;
}
