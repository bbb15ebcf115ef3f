// Command lines as people type and paste them: split into words as a shell does, and written so that a shell reads the same words.

/** The words of a command line, or why it has none. Quotes and backslashes work as in a shell; variables are not replaced. */
export function splitWords(line: string): { words: string[] } | { wrong: string } {
  const words: string[] = [];
  let word: string | null = null;
  let quote: string | null = null;
  for (let at = 0; at < line.length; at += 1) {
    const letter = line.charAt(at);
    const next = line.charAt(at + 1);
    if (quote === "'") {
      if (letter === "'") quote = null;
      else word += letter;
    } else if (letter === '\\' && next !== '' && (quote === null || '"\\$`'.includes(next))) {
      at += 1;
      // A backslash at the end of a line continues the line.
      if (next !== '\n') word = (word ?? '') + next;
    } else if (quote === '"') {
      if (letter === '"') quote = null;
      else word += letter;
    } else if (letter === '"' || letter === "'") {
      quote = letter;
      word ??= '';
    } else if (/\s/.test(letter)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? '') + letter;
  }
  if (quote !== null) return { wrong: `A quote (${quote}) is not closed.` };
  if (word !== null) words.push(word);
  return { words };
}

/** A word that a shell reads as it is. */
export const quoted = (word: string) => (/^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
