package annotations

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// appendString appends s as a JSON string with exactly the escapes that
// encoding/json writes, so that the values equal those of HAMi byte for byte:
// <, > and & and the two Unicode line separators are escaped as well.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b = append(b, '\\', byte(r))
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		case '<', '>', '&', '\u2028', '\u2029':
			b = append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			if r < ' ' {
				b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
				continue
			}
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
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
