package annotations

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendString appends s as a JSON string with exactly the escapes that
// encoding/json writes, so that the values equal those of HAMi byte for byte:
// <, > and & and the two Unicode line separators are escaped as well.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done := 0 // s[:done] is written
	for i := 0; i < len(s); i++ {
		c := s[i]
		// The line separators U+2028 and U+2029 start with 0xe2.
		if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' && c != 0xe2 {
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(append(b, s[done:i]...), '\\', c)
		case strings.HasPrefix(s[i:], "\u2028") || strings.HasPrefix(s[i:], "\u2029"):
			b = append(append(b, s[done:i]...), `\u202`...)
			i += len("\u2028") - 1
			b = append(b, hex[s[i]&15])
		case c >= utf8.RuneSelf:
			continue
		default:
			b = append(b, s[done:i]...)
			if at := strings.IndexByte("\b\f\n\r\t", c); at >= 0 {
				b = append(b, '\\', "bfnrt"[at])
			} else {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
		}
		done = i + 1
	}
	return append(append(b, s[done:]...), '"')
}

// checkText refuses a string that JSON cannot carry unchanged.
func checkText(field, s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %s is not valid UTF-8", field, quote(s))
	}
	return nil
}

// appendKey appends `,"name":`, without the comma right after the opening brace.
func appendKey(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendString(b, name), ':')
}

// appendText appends a string member, or nothing when it is empty.
func appendText(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendString(appendKey(b, name), value)
}

// appendNumber appends a number member, or nothing when it is 0.
func appendNumber(b []byte, name string, value int64) []byte {
	if value == 0 {
		return b
	}
	return strconv.AppendInt(appendKey(b, name), value, 10)
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
