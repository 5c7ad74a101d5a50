// folded is the form in which names are compared. JavaScript has no case folding. Lower, upper and lower again gives the same
// classes of equal names (ß and ẞ are ss, ς is σ), but for the dotless ı, which folding keeps apart from i.
export const folded = (text) => text.normalize("NFC").split("ı")
  .map((part) => part.toLowerCase().toUpperCase().toLowerCase()).join("ı").normalize("NFC");
