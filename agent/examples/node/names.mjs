// folded is the form in which names are compared. JavaScript has no case folding. Lower, upper and lower again gives the same
// classes of equal names (ß and ẞ are ss, ς is σ), but for the dotless ı, which folding keeps apart from i.
export const folded = (text) => text.normalize("NFC").split("ı")
  .map((part) => part.toLowerCase().toUpperCase().toLowerCase()).join("ı").normalize("NFC");

// sameName says whether two spellings name one agent: in any case, and whatever blanks are around them. trim() has other blanks than the
// contract, which takes those of Unicode.
export const sameName = (a, b) => folded(trimmed(a)) === folded(trimmed(b));

const trimmed = (text) => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, "");
