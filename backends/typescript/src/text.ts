/** Texts as the contract counts and orders them: by the bytes of UTF-8. */

/** Compares two texts by their bytes in UTF-8, which JavaScript's `<` does not do beyond the Basic Multilingual Plane. */
export function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at += 1) {
    const x = a.charCodeAt(at);
    const y = b.charCodeAt(at);
    if (x !== y) {
      return codePointOrder(x) - codePointOrder(y);
    }
  }
  return a.length - b.length;
}

/** Surrogates stand for code points after U+FFFF, and so come after U+E000 to U+FFFF. */
function codePointOrder(unit: number): number {
  if (unit >= 0xe000) {
    return unit - 0x800;
  }
  return unit >= 0xd800 ? unit + 0x2000 : unit;
}

/** The text without what goes beyond this many bytes; no character is split. */
export function cut(text: string, most: number): string {
  if (text.length * 3 <= most || Buffer.byteLength(text) <= most) {
    return text;
  }
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(most));
  return text.slice(0, read);
}

/** A text in quotes for a message; a long one is cut. */
export function quoted(text: string): string {
  return JSON.stringify(cut(text, 64));
}

/** The name of a verb as texts have it: `beforeFilter`. */
export function inSentence(verb: string): string {
  return verb.charAt(0).toLowerCase() + verb.slice(1);
}
