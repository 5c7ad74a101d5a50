package servicebusemulator

import "errors"

// plainJSON blanks comments and trailing commas out of JSON, leaving every other byte where it was.
func plainJSON(data []byte) ([]byte, error) {
	out := append([]byte(nil), data...)
	lastComma := -1 // of a comma that nothing but blanks has followed
	for i := 0; i < len(out); {
		switch c := out[i]; {
		case c == '"':
			lastComma = -1
			i = endOfString(out, i)
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end, err := endOfComment(out, i)
			if err != nil {
				return nil, err
			}
			for ; i < end; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
		case c == ',':
			lastComma = i
			i++
		case c == '}' || c == ']':
			if lastComma >= 0 {
				out[lastComma] = ' '
			}
			lastComma = -1
			i++
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		default:
			lastComma = -1
			i++
		}
	}
	return out, nil
}

func endOfString(b []byte, start int) int {
	for i := start + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func endOfComment(b []byte, start int) (int, error) {
	if b[start+1] == '/' {
		for i := start; i < len(b); i++ {
			if b[i] == '\n' {
				return i, nil
			}
		}
		return len(b), nil
	}
	for i := start + 2; i+1 < len(b); i++ {
		if b[i] == '*' && b[i+1] == '/' {
			return i + 2, nil
		}
	}
	return 0, errors.New("a /* comment has no end")
}
