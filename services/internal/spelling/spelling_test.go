package spelling

import (
	"testing"
	"unicode"
)

// TestI13_FoldingCoversEverySimpleCase walks all of Unicode: letters that differ only in case are one name.
func TestI13_FoldingCoversEverySimpleCase(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if folded := Fold("x" + string(r)); Fold(folded) != folded {
			t.Errorf("folding %q again gives %q", folded, Fold(folded))
		}
		if other := unicode.SimpleFold(r); other != r && !Same("x"+string(r), "x"+string(other)) {
			t.Errorf("%q and %q differ only in case", r, other)
		}
	}
	for _, pair := range [][2]string{{"STRASSE", "straße"}, {"A\u0308", "ä"}, {" BM-1 ", "bm-1"}, {"Ꭰꭰ", "ꭰꭰ"}} {
		if !Same(pair[0], pair[1]) {
			t.Errorf("%q and %q are one name", pair[0], pair[1])
		}
	}
	if Same("BM-1", "BM-2") || Same("ä", "a") {
		t.Error("different names are one")
	}
}
